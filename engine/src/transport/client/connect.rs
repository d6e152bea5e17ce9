//! Opens connections.
use super::connection::Connection;
use super::endpoints::Look;
use super::exchange::{Limit, micros};
use super::{Client, Shortage};
use crate::transport::http1::Decoder;
use crate::transport::reactor::Interest;
use crate::transport::{Exchange, Outcome};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::net::SocketAddr;
use std::rc::Rc;

impl Client {
    /// Opens a connection to an endpoint; its phases are noted in `x`.
    pub(super) async fn open(
        &self,
        target: usize,
        endpoint: usize,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Box<Connection>, Outcome> {
        if self.tally.open.get() >= self.tally.limit && !self.pool.borrow_mut().evict() {
            return Err(self.short_of(Shortage::Connections));
        }
        let addresses = self.addresses(endpoint, limit, x).await?;
        let began_ns = self.rt.now();
        let mut result = Err(Outcome::Dns);
        for address in addresses {
            result = self.connect(address, target, endpoint, limit).await;
            // Another address of the same name may answer where this one does not.
            if !matches!(result, Err(Outcome::Refused | Outcome::Unreachable)) {
                break;
            }
        }
        x.connect_us = micros(began_ns, self.rt.now());
        result
    }

    async fn addresses(
        &self,
        endpoint: usize,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let began_ns = self.rt.recent();
        let mut asked = false;
        loop {
            let look = self.endpoints.borrow_mut().look(endpoint, self.rt.current(), self.rt.recent());
            if asked {
                x.dns_us = micros(began_ns, self.rt.now());
            }
            match look {
                Look::Known(addresses) => return Ok(addresses),
                Look::Failed => return Err(Outcome::Dns),
                Look::Ask(url) => self.resolver.ask(endpoint, &url.host, url.port, &self.mailbox),
                Look::Wait => {}
            }
            asked = true;
            let arrived = || !self.endpoints.borrow().is_asked(endpoint);
            let wait = self.rt.until(limit.at_ns, arrived).await;
            limit.check(wait, Outcome::TimeoutConnect).inspect_err(|_| {
                x.dns_us = micros(began_ns, self.rt.now());
            })?;
        }
    }

    async fn connect(
        &self,
        address: SocketAddr,
        target: usize,
        endpoint: usize,
        limit: Limit,
    ) -> Result<Box<Connection>, Outcome> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let failed = |errno| self.failed(errno);
        let fd = socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
        sockopt::set_tcp_nodelay(&fd, true).map_err(failed)?;
        match connect(&fd, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(self.failed(errno)),
        }
        // Only now: epoll calls a socket that was never connected hung up.
        let id = self.rt.register(&fd).map_err(|_| self.short_of(Shortage::Descriptors))?;
        let tally = Rc::clone(&self.tally);
        tally.open.set(tally.open.get() + 1);
        tally.opened.set(tally.opened.get() + 1);
        let decoder = Decoder::default();
        let rt = Rc::clone(&self.rt);
        let connection = Connection { fd, id, target, endpoint, served: 0, decoder, rt, tally };
        let wait = self.rt.socket(id, Interest::Write, limit.at_ns).await;
        limit.check(wait, Outcome::TimeoutConnect)?;
        match sockopt::socket_error(&connection.fd) {
            Ok(Ok(())) => Ok(Box::new(connection)),
            Ok(Err(errno)) | Err(errno) => Err(self.failed(errno)),
        }
    }

    /// What a failure to connect means.
    fn failed(&self, errno: Errno) -> Outcome {
        match errno {
            Errno::CONNREFUSED => Outcome::Refused,
            Errno::TIMEDOUT => Outcome::TimeoutConnect,
            Errno::CONNRESET | Errno::CONNABORTED | Errno::PIPE => Outcome::Reset,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::AGAIN => self.short_of(Shortage::Ports),
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                self.short_of(Shortage::Descriptors)
            }
            _ => Outcome::Unreachable,
        }
    }

    fn short_of(&self, what: Shortage) -> Outcome {
        (self.on_shortage)(what);
        Outcome::NotSent
    }
}
