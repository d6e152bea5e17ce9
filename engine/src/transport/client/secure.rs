//! TLS on a fresh connection.
use super::Client;
use super::connection::Connection;
use super::exchange::{Limit, micros};
use crate::job::Protocol;
use crate::transport::reactor::{Interest, SocketId};
use crate::transport::stream::Stream;
use crate::transport::tls::{Failure, Step, TlsStream, words};
use crate::transport::{Breach, Exchange, Outcome, Trouble};
use rustix::fd::OwnedFd;
use rustls::{AlertDescription, Error};

impl Client {
    /// Does the handshake if the endpoint wants one; its time is noted in `x`.
    pub(super) async fn secure(
        &self,
        fd: OwnedFd,
        id: SocketId,
        (target, endpoint): (usize, usize),
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Stream, Outcome> {
        let Some(name) = self.endpoints.borrow().server_name(endpoint).cloned() else {
            return Ok(Stream::Plain(fd));
        };
        let Some(config) = &self.tls[target] else { return Ok(Stream::Plain(fd)) };
        let began_ns = self.rt.now();
        let mut stream = match TlsStream::new(fd, config, &name, &self.tls_buffers) {
            Ok(stream) => stream,
            Err(failure) => return Err(self.refused(endpoint, &failure)),
        };
        let result = self.shake_hands(&mut stream, id, endpoint, limit).await;
        x.tls_us = micros(began_ns, self.rt.now());
        result?;
        self.check_protocol(&stream, (target, endpoint))?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    async fn shake_hands(
        &self,
        stream: &mut TlsStream,
        id: SocketId,
        endpoint: usize,
        limit: Limit,
    ) -> Result<(), Outcome> {
        loop {
            let interest = match stream.handshake() {
                Ok(Step::Done) => return Ok(()),
                Ok(Step::Read) => {
                    self.rt.clear_readable(id);
                    Interest::Read
                }
                Ok(Step::Write) => {
                    self.rt.clear_writable(id);
                    Interest::Write
                }
                Err(failure) => return Err(self.refused(endpoint, &failure)),
            };
            let wait = self.rt.socket(id, interest, limit.at_ns).await;
            limit.check(wait, Outcome::TimeoutConnect)?;
        }
    }

    /// HTTP/2 that was asked for has to be agreed on.
    fn check_protocol(&self, stream: &TlsStream, (target, endpoint): (usize, usize)) -> Result<(), Outcome> {
        let wanted = self.plan.job.targets[target].protocol;
        if wanted != Protocol::Http2 || stream.alpn() == Some(b"h2") {
            return Ok(());
        }
        let why = "HTTP/2 was asked for, and the server did not agree to it (ALPN)";
        self.report(Trouble::Protocol, endpoint, &format_args!("{}: {why}", Breach::Version.word()));
        Err(Outcome::Protocol)
    }

    /// What a failed handshake means.
    fn refused(&self, endpoint: usize, failure: &Failure) -> Outcome {
        let error = match failure {
            Failure::Closed => {
                self.report(Trouble::Tls, endpoint, &"the server closed the connection during the handshake");
                return Outcome::Tls;
            }
            Failure::Socket(errno) => return self.failed(*errno),
            Failure::Tls(error) => error,
        };
        let alpn = AlertDescription::NoApplicationProtocol;
        if matches!(error, Error::NoApplicationProtocol) || *error == Error::AlertReceived(alpn) {
            let why = "the server speaks none of the protocols that were asked for (ALPN)";
            self.report(Trouble::Protocol, endpoint, &format_args!("{}: {why}", Breach::Version.word()));
            return Outcome::Protocol;
        }
        if matches!(error, Error::InvalidMessage(_)) {
            let why = format!("{error}; the server does not seem to speak TLS here");
            self.report(Trouble::Tls, endpoint, &why);
        } else {
            self.report(Trouble::Tls, endpoint, &words(error));
        }
        Outcome::Tls
    }

    /// A connection broke the rules of TLS after its handshake, or said only then that it had failed.
    pub(super) fn distrust(&self, connection: &Connection) -> Outcome {
        let why = connection.stream.failure().unwrap_or_default();
        self.report(Trouble::Tls, connection.endpoint, &why);
        Outcome::Tls
    }

    /// Tells what went wrong with an endpoint.
    pub(super) fn report(&self, trouble: Trouble, endpoint: usize, why: &dyn std::fmt::Display) {
        let authority = self.endpoints.borrow().url(endpoint).authority();
        (self.on_trouble)(trouble, &format_args!("{authority}: {why}"));
    }
}
