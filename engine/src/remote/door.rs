//! Lets in whoever has the token, over TCP: a thread for each connection, and few that have not shown it yet.
use super::handshake::{self, Token};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Whoever connects says who it is within this.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// Connections that have not said so yet.
const MOST_STRANGERS: usize = 16;
/// What is not taken within this finds nobody.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// After an error, such as of a machine that is out of descriptors: not at full speed.
const AFTER_ERROR: Duration = Duration::from_millis(200);

/// A port, and who may pass.
pub struct Door {
    listener: TcpListener,
    token: Token,
    strangers: AtomicUsize,
}

impl Door {
    /// Listens; the address that it got comes with it.
    pub fn open(address: &str, token: Token) -> Result<(Self, SocketAddr), String> {
        let failed = |error: io::Error| format!("cannot listen on {address}: {error}");
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok((Self { listener, token, strangers: AtomicUsize::new(0) }, bound))
    }

    /// From now on, in a thread of its own, until the process ends: hands over each connection that is let in, in its own
    /// thread, with the proof that we have the token, too.
    pub fn serve(self, admitted: impl Fn(TcpStream, &str) + Send + Sync + 'static) -> Result<(), String> {
        let (door, admitted) = (Arc::new(self), Arc::new(admitted));
        spawn("accept", move || {
            for stream in door.listener.incoming() {
                let Ok(stream) = stream else {
                    std::thread::sleep(AFTER_ERROR);
                    continue;
                };
                if door.strangers.fetch_add(1, Ordering::Relaxed) >= MOST_STRANGERS {
                    door.strangers.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                let (at, talk) = (Arc::clone(&door), Arc::clone(&admitted));
                // Where no thread can be had, the connection is closed with what was to use it.
                let spawned = spawn("connection", move || at.receive(stream, &*talk));
                if spawned.is_err() {
                    door.strangers.fetch_sub(1, Ordering::Relaxed);
                }
            }
        })
    }

    fn receive(&self, mut stream: TcpStream, admitted: &(impl Fn(TcpStream, &str) + ?Sized)) {
        let ready = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(HELLO_WITHIN)))
            .and_then(|()| stream.set_write_timeout(Some(WRITE_WITHIN)));
        let greeted = ready.is_ok().then(|| handshake::greet(&mut stream, Some(&self.token)));
        self.strangers.fetch_sub(1, Ordering::Relaxed);
        if let Some(Ok(proof)) = greeted {
            admitted(stream, &proof);
        }
    }
}

/// Bounds how many of those who were let in are talked to at once: one more is closed.
pub fn at_most(
    most: usize,
    admitted: impl Fn(TcpStream, &str) + Send + Sync + 'static,
) -> impl Fn(TcpStream, &str) + Send + Sync + 'static {
    let connections = AtomicUsize::new(0);
    move |stream, proof| {
        if connections.fetch_add(1, Ordering::AcqRel) < most {
            admitted(stream, proof);
        }
        connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts a thread that nobody waits for.
pub fn spawn(name: &str, life: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(life);
    thread.map(drop).map_err(|e| format!("cannot start a thread: {e}"))
}
