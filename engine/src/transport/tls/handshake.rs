//! The handshake of a TLS connection.
use super::stream::{End, Failure, TlsStream, encode, take_in};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustls::Error;
use rustls::unbuffered::ConnectionState;

/// What a handshake needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it is done.
    Done,
    /// Something to read.
    Read,
    /// Room to write.
    Write,
}

impl TlsStream {
    /// Carries the handshake on as far as it goes. Its last words go out together with the first request.
    pub fn handshake(&mut self) -> Result<Step, Failure> {
        loop {
            let status = self.session.process_tls_records(&mut self.partial);
            let discard = status.discard;
            let mut done = false;
            let mut blocked = false;
            match status.state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, &mut self.unsent)?,
                // What is unsent is kept in order here: nothing can overtake it. Requests may follow the last flight of
                // the client; what the server said after its own last one is looked at later.
                Ok(ConnectionState::TransmitTlsData(mut data)) => {
                    done = data.may_encrypt_app_data().is_some();
                    data.done();
                }
                Ok(ConnectionState::WriteTraffic(_)) => done = true,
                Ok(ConnectionState::BlockedHandshake) => blocked = true,
                // A server that speaks first, as one of HTTP/2 does, may do so in the breath that ends the handshake:
                // right after its last words (TLS 1.2), or before it has heard those of the client (TLS 1.3).
                Ok(ConnectionState::ReadTraffic(mut traffic)) => take_in(&mut traffic, &mut self.early),
                // If it has said all that the client needs, that is seen when the stream is read.
                Ok(ConnectionState::PeerClosed) => self.take_leave(),
                Ok(_) => return Err(Failure::Closed),
                Err(error) => {
                    let mut rest = std::mem::take(&mut self.partial).split_off(discard);
                    self.say_why(&error, &mut rest);
                    return Err(error.into());
                }
            }
            self.partial.drain(..discard);
            if done {
                self.untouched = !self.partial.is_empty();
                return Ok(Step::Done);
            }
            if blocked && self.end != End::None {
                return Err(Failure::Closed);
            }
            if blocked && let Some(step) = self.exchange_flights()? {
                return Ok(step);
            }
        }
    }

    /// Sends what there is to be said and reads the answer; gives what it needs for that.
    fn exchange_flights(&mut self) -> Result<Option<Step>, Failure> {
        let mut gone = None;
        match self.flush() {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Ok(Some(Step::Write)),
            // A server that refuses says why and closes, whatever it is still sent: its words are there to be read.
            Err(errno) => {
                self.unsent = Vec::new();
                gone = Some(errno);
            }
        }
        let mut incoming = self.buffers.incoming.borrow_mut();
        match recv(&self.fd, &mut incoming[..], RecvFlags::empty()) {
            Ok((0, _)) => Err(gone.map_or(Failure::Closed, Failure::Socket)),
            Ok((count, _)) => {
                self.partial.extend_from_slice(&incoming[..count]);
                Ok(None)
            }
            Err(Errno::AGAIN) if gone.is_none() => Ok(Some(Step::Read)),
            Err(Errno::INTR) => Ok(None),
            Err(errno) => Err(gone.unwrap_or(errno).into()),
        }
    }

    /// Tells the server that its certificate was refused, if that can be told at once. `rest` is what was not
    /// discarded: the library remembers places in it. It may be asked once only.
    fn say_why(&mut self, error: &Error, rest: &mut [u8]) {
        if !matches!(error, Error::InvalidCertificate(_)) {
            return;
        }
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.session.process_tls_records(rest).state
            && encode(&mut data, &mut self.unsent).is_ok()
        {
            // What does not go out now is lost: the connection is.
            let _ = self.flush();
        }
    }
}
