//! The life of a worker: it waits for whoever has the token, works for one at a time, and ends.
//!
//! It ends when all was fetched, when its deadline is over, on a signal, or when nobody comes back after a connection was lost.
use super::carrier::{Carrier, Stage};
use super::output::Output;
use super::session::{End, Session};
use crate::build_info;
use crate::remote::door::{Door, spawn};
use crate::remote::frame;
use crate::remote::handshake::{self, Token};
use crate::remote::pipe::Pipe;
use crate::transport::reactor::monotonic_ns;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whoever gives orders asks for the time more often than this; longer silence means that it has gone.
const SILENCE: Duration = Duration::from_secs(30);
/// After a connection was lost its records can be fetched for so long.
const LINGER: Duration = Duration::from_secs(30);
/// A load that was ended has this long to write what it has.
const FLUSH_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a worker is given besides its way to be reached.
pub struct Terms {
    /// It ends after this, whatever happens.
    pub deadline: Duration,
    /// Its own folder is made in this one.
    pub parent: PathBuf,
}

struct Server {
    carrier: Arc<Carrier>,
    output: Arc<Output>,
    /// When something was heard last from whoever gives orders.
    heard_ns: AtomicU64,
    /// Somebody gives orders.
    taken: AtomicBool,
    /// Its connection, to be cut when nothing is heard.
    connection: Mutex<Option<TcpStream>>,
    ends: Mutex<Sender<End>>,
}

/// Works for whoever connects to this address and has the token. `listening` is told the address that it got.
pub fn over_tcp(
    address: &str,
    token: Token,
    terms: &Terms,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), String> {
    let (door, bound) = Door::open(address, token)?;
    let (server, ends) = Server::new(terms)?;
    listening(bound);
    let talking = Arc::clone(&server);
    door.serve(move |stream, proof| talking.receive(stream, proof))?;
    server.watch(&ends, terms.deadline, Some(LINGER))
}

/// Works for whoever started it, over stdin and stdout: that connection needs no token, and there is no other.
pub fn over_stdio(terms: &Terms) -> Result<(), String> {
    let (server, ends) = Server::new(terms)?;
    let talking = Arc::clone(&server);
    spawn("session", move || {
        let mut pipe = Pipe::of_process();
        let end = match handshake::greet(&mut pipe, None) {
            Ok(proof) => talking.work(&mut io::stdin(), Box::new(io::stdout()), &proof),
            Err(refused) => End::Lost(refused.to_string()),
        };
        talking.tell(end);
    })?;
    server.watch(&ends, terms.deadline, None)
}

impl Server {
    fn new(terms: &Terms) -> Result<(Arc<Self>, Receiver<End>), String> {
        let (ends, inbox) = channel();
        let output = Arc::<Output>::default();
        let carrier = Carrier::new(make_folder(&terms.parent)?, Arc::clone(&output));
        let server = Self {
            carrier: Arc::new(carrier),
            output,
            heard_ns: AtomicU64::new(monotonic_ns()),
            taken: AtomicBool::new(false),
            connection: Mutex::default(),
            ends: Mutex::new(ends),
        };
        Ok((Arc::new(server), inbox))
    }

    /// The life of a connection that was let in.
    fn receive(&self, mut stream: TcpStream, proof: &str) {
        if self.taken.swap(true, Ordering::AcqRel) {
            let busy =
                json!({"event": "refused", "message": "another connection gives orders to this worker"});
            let _ = frame::say(&mut stream, &busy);
            return;
        }
        let clones =
            stream.set_read_timeout(None).and_then(|()| Ok((stream.try_clone()?, stream.try_clone()?)));
        let end = match clones {
            Ok((writer, kept)) => {
                *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
                self.work(&mut stream, Box::new(writer), proof)
            }
            Err(error) => End::Lost(error.to_string()),
        };
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = stream.shutdown(Shutdown::Both);
        self.taken.store(false, Ordering::Release);
        self.tell(end);
    }

    /// From the welcome to the end of the orders.
    fn work(&self, from: &mut impl Read, to: Box<dyn Write + Send>, proof: &str) -> End {
        self.heard_ns.store(monotonic_ns(), Ordering::Relaxed);
        self.taken.store(true, Ordering::Release);
        self.output.attach(to, || self.welcome(proof));
        let session = Session { carrier: &self.carrier, output: &self.output, heard_ns: &self.heard_ns };
        let end = session.run(from);
        self.output.detach();
        end
    }

    fn welcome(&self, proof: &str) -> Value {
        let (stage, ended) = match self.carrier.stage() {
            Stage::Idle => ("idle", Value::Null),
            Stage::Reading => ("reading", Value::Null),
            Stage::Ready => ("ready", Value::Null),
            Stage::Started => ("started", Value::Null),
            Stage::Ended { said, .. } => ("ended", said),
        };
        json!({
            "proof": proof,
            "engine": build_info::VERSION,
            "build": build_info::json(),
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "pid": std::process::id(),
            "cpus": std::thread::available_parallelism().map_or(1, usize::from),
            "stage": stage,
            "ended": ended,
        })
    }

    fn tell(&self, end: End) {
        // Nobody hears it when the worker is ending already.
        let _ = self.ends.lock().unwrap_or_else(PoisonError::into_inner).send(end);
    }

    /// Until there is a reason to end; then leaves nothing behind. `linger`: how long to wait for a lost connection.
    fn watch(
        &self,
        ends: &Receiver<End>,
        deadline: Duration,
        linger: Option<Duration>,
    ) -> Result<(), String> {
        let signalled = signals()?;
        let ended = self.look(ends, Instant::now() + deadline, linger, &signalled);
        self.carrier.stop();
        let until = Instant::now() + FLUSH_WITHIN;
        while !matches!(self.carrier.stage(), Stage::Idle | Stage::Ended { .. }) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY / 10);
        }
        self.carrier.kill();
        let _ = std::fs::remove_dir_all(self.carrier.folder());
        ended
    }

    fn look(
        &self,
        ends: &Receiver<End>,
        deadline: Instant,
        linger: Option<Duration>,
        signalled: &AtomicBool,
    ) -> Result<(), String> {
        let mut lost: Option<(Instant, String)> = None;
        loop {
            match ends.recv_timeout(LOOK_EVERY) {
                Ok(End::Finished) => return Ok(()),
                Ok(End::Lost(why)) => {
                    self.carrier.stop();
                    let why = format!("the connection was lost: {why}");
                    let Some(linger) = linger else { return Err(why) };
                    lost = Some((Instant::now() + linger, why));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("its threads have ended".into()),
            }
            if signalled.load(Ordering::Relaxed) {
                return Err("ended by a signal".into());
            }
            if Instant::now() >= deadline {
                return Err("its deadline is over".into());
            }
            if self.taken.load(Ordering::Acquire) {
                lost = None;
                self.cut_if_silent(linger.is_some())?;
            } else if let Some((until, why)) = &lost
                && Instant::now() >= *until
            {
                return Err(format!("{why}; nobody came back"));
            }
        }
    }

    /// Ends a connection over which nothing comes; one that cannot be ended is the end of the worker.
    fn cut_if_silent(&self, can_cut: bool) -> Result<(), String> {
        let silent_ns = monotonic_ns().saturating_sub(self.heard_ns.load(Ordering::Relaxed));
        if u128::from(silent_ns) < SILENCE.as_nanos() {
            return Ok(());
        }
        if !can_cut {
            return Err(format!("nothing was heard for {} s", SILENCE.as_secs()));
        }
        if let Some(stream) = &*self.connection.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        Ok(())
    }
}

/// Set by a signal that asks for the end.
fn signals() -> Result<Arc<AtomicBool>, String> {
    let signalled = Arc::<AtomicBool>::default();
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&signalled))
            .map_err(|e| format!("cannot watch signals: {e}"))?;
    }
    Ok(signalled)
}

fn make_folder(parent: &Path) -> Result<PathBuf, String> {
    let folder = parent.join(format!("towtank-worker-{}-{}", std::process::id(), monotonic_ns()));
    let made = DirBuilder::new().mode(0o700).create(&folder);
    made.map(|()| folder.clone()).map_err(|e| format!("cannot make {}: {e}", folder.display()))
}
