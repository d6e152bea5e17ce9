//! Whether the client of a held request is still there.
//!
//! What a client has sent of a body belongs to the instance: it may not be read while the request is held. The kernel tells of
//! a closed connection without that, but only to who watches its descriptor, which pingora lends as a number. Making a
//! descriptor of a number has no safe way, which is why there is `unsafe` here. A request whose body is whole needs none of
//! this: pingora itself waits for what comes next on its connection.
#![allow(unsafe_code, reason = "see above")]

use pingora_proxy::Session;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Waits until the client of a request has closed its side.
pub async fn left(session: &mut Session) {
    if session.as_downstream_mut().is_body_done() {
        // The next request, if it comes already, is kept by pingora; then it waits on.
        if session.as_downstream_mut().read_body_or_idle(true).await.is_err() {
            return;
        }
    } else if let Some(watched) = duplicate(session) {
        return closed(&watched).await;
    }
    // Descriptors have run out: that it left is noticed when it is answered.
    std::future::pending::<()>().await;
}

/// Its connection once more, to be watched and never read from.
fn duplicate(session: &Session) -> Option<TcpStream> {
    let number = session.as_downstream().as_http1()?.stream().id();
    // A stream that is no socket has none.
    if number < 0 {
        return None;
    }
    // SAFETY: the session owns the stream and is borrowed for as long as the number is used; what is kept is a duplicate.
    let own = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().ok()?;
    TcpStream::from_std(own.into()).ok()
}

async fn closed(stream: &TcpStream) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await {
        if ready.is_read_closed() {
            return;
        }
        // There is something to read, which is not for us; the next change wakes us again.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
    }
}
