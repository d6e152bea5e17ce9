//! Opens connections.
use super::connection::{Connection, Slot};
use super::endpoints::{Ask, Route};
use super::exchange::{Limit, micros};
use super::names::{Look, Place};
use super::{Client, Shortage};
use crate::transport::http1::Decoder;
use crate::transport::reactor::{Interest, Wait};
use crate::transport::{Exchange, Outcome, Trouble};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt,
};
use std::net::{IpAddr, SocketAddr};

/// Turns that tasks have to close connections that are over, before the bound is said to be reached.
const CLOSING_TURNS: u32 = 3;
/// A Unix socket whose queue is full is tried again after this: there is no event for it.
const UNIX_RETRY_NS: u64 = 500_000;

impl Client {
    /// Opens a connection to an endpoint; its phases are noted in `x`.
    pub(super) async fn open(
        &self,
        target: usize,
        endpoint: usize,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Box<Connection>, Outcome> {
        let route = self.endpoints.borrow().route(endpoint);
        let (fd, slot) = match route {
            Route::Unix(address) => {
                let began_ns = self.rt.now();
                let result = self.connect_unix(&address, limit).await;
                x.connect_us = micros(began_ns, self.rt.now());
                result?
            }
            Route::Direct(place) => self.reach(place, Ask::Nothing, (target, endpoint), limit, x).await?,
            Route::Proxy(place, ask) => self.reach(place, ask, (target, endpoint), limit, x).await?,
        };
        let id = slot.id;
        let stream = self.secure(fd, id, (target, endpoint), limit, x).await?;
        let (decoder, opened_ns) = (Decoder::default(), self.rt.recent());
        Ok(Box::new(Connection { slot, stream, id, target, endpoint, served: 0, opened_ns, decoder }))
    }

    /// Makes sure that one more connection is within the bound; there is no wait between this and the connection. What others keep
    /// for themselves was counted with the job; what is in the pool is nobody's and goes first.
    async fn make_room(&self) -> Result<(), Outcome> {
        for _ in 0..CLOSING_TURNS {
            if self.tally.open.get() < self.tally.limit || self.evict() {
                return Ok(());
            }
            // One that serves no more requests may be about to be closed by its task.
            self.rt.yield_now().await;
        }
        let room = self.tally.open.get() < self.tally.limit;
        if room { Ok(()) } else { Err(self.short_of(Shortage::Connections)) }
    }

    /// Closes an idle connection.
    fn evict(&self) -> bool {
        self.pool.borrow_mut().evict() || self.links.borrow_mut().evict()
    }

    /// Connects to a host, and asks for the endpoint if the host is a proxy.
    async fn reach(
        &self,
        place: Place,
        ask: Ask,
        (target, endpoint): (usize, usize),
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<(OwnedFd, Slot), Outcome> {
        let addresses = self.in_reach(target, endpoint, self.addresses(place, limit, x).await?)?;
        let began_ns = self.rt.now();
        let mut result = Err(Outcome::Dns);
        for address in addresses {
            result = self.connect(&address, target, limit).await;
            // Another address of the same name may answer where this one does not.
            if !matches!(result, Err(Outcome::Refused | Outcome::Unreachable)) {
                break;
            }
        }
        if let Ok((fd, slot)) = &result
            && ask != Ask::Nothing
            && let Err(outcome) = self.tunnel(fd, slot.id, ask, (target, endpoint), limit).await
        {
            result = Err(outcome);
        }
        x.connect_us = micros(began_ns, self.rt.now());
        result
    }

    /// Addresses of a host, in the order in which they are to be tried.
    async fn addresses(
        &self,
        place: Place,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let look = self.names.borrow_mut().look(place, self.rt.current(), self.rt.recent());
        let question = match look {
            Look::Known(addresses) => return Ok(self.names.borrow_mut().order(place, &addresses)),
            Look::Failed => return Err(Outcome::Dns),
            Look::Wait(question) => question,
            Look::Ask(number, question) => {
                let names = self.names.borrow();
                let (host, port) = names.host(place);
                self.resolver.ask(number, host, port, &self.mailbox);
                question
            }
        };
        let began_ns = self.rt.now();
        let wait = self.rt.until(limit.at_ns, || question.answer().is_some()).await;
        x.dns_us = micros(began_ns, self.rt.now());
        if let Err(outcome) = limit.check(wait, Outcome::TimeoutDns) {
            if outcome == Outcome::TimeoutDns {
                let names = self.names.borrow();
                let why = format_args!("{}: no answer within the timeout of a request", names.host(place).0);
                (self.on_trouble)(Trouble::Dns, &why);
            }
            return Err(outcome);
        }
        let addresses = question.answer().filter(|found| !found.is_empty()).ok_or(Outcome::Dns)?;
        Ok(self.names.borrow_mut().order(place, &addresses))
    }

    /// Those of the addresses that can be reached from the source addresses of the target.
    fn in_reach(
        &self,
        target: usize,
        endpoint: usize,
        mut addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Outcome> {
        let sources = &self.plan.job.targets[target].source_addresses;
        if sources.is_empty() {
            return Ok(addresses);
        }
        let first = addresses.first().copied();
        addresses.retain(|to| sources.iter().any(|from| from.is_ipv4() == to.is_ipv4()));
        if let (true, Some(to)) = (addresses.is_empty(), first) {
            let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
            let why = format_args!("none of the source addresses is of {family}, as {} is", to.ip());
            self.report(Trouble::Source, endpoint, &why);
            return Err(Outcome::NotSent);
        }
        Ok(addresses)
    }

    async fn connect(
        &self,
        address: &SocketAddr,
        target: usize,
        limit: Limit,
    ) -> Result<(OwnedFd, Slot), Outcome> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        self.make_room().await?;
        let fd = self.socket(family)?;
        sockopt::set_tcp_nodelay(&fd, true).map_err(|errno| self.failed(errno))?;
        if let Some(source) = self.source(target, address.ip()) {
            self.bind(&fd, source)?;
        }
        match connect(&fd, address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(self.failed(errno)),
        }
        // Only now: epoll calls a socket that was never connected hung up.
        let slot = self.slot(&fd)?;
        let wait = self.rt.socket(slot.id, Interest::Write, limit.at_ns).await;
        limit.check(wait, Outcome::TimeoutConnect)?;
        match sockopt::socket_error(&fd) {
            Ok(Ok(())) => Ok((fd, slot)),
            Ok(Err(errno)) | Err(errno) => Err(self.failed(errno)),
        }
    }

    async fn connect_unix(&self, address: &SocketAddrUnix, limit: Limit) -> Result<(OwnedFd, Slot), Outcome> {
        loop {
            self.make_room().await?;
            let fd = self.socket(AddressFamily::UNIX)?;
            match connect(&fd, address) {
                Ok(()) => {
                    let slot = self.slot(&fd)?;
                    return Ok((fd, slot));
                }
                Err(Errno::AGAIN) => {
                    let again_ns = self.rt.now() + UNIX_RETRY_NS;
                    if self.rt.sleep_until(again_ns.min(limit.at_ns)).await == Wait::Cut
                        || self.rt.recent() >= limit.at_ns
                    {
                        let wait = if self.rt.is_cut() { Wait::Cut } else { Wait::Expired };
                        limit.check(wait, Outcome::TimeoutConnect)?;
                    }
                }
                Err(Errno::INTR) => {}
                // A socket that is not there, or is not one: nobody listens.
                Err(Errno::NOENT | Errno::NOTSOCK) => return Err(Outcome::Refused),
                Err(errno) => return Err(self.failed(errno)),
            }
        }
    }

    fn socket(&self, family: AddressFamily) -> Result<OwnedFd, Outcome> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socket_with(family, SocketType::STREAM, flags, None).map_err(|errno| self.failed(errno))
    }

    fn slot(&self, fd: &OwnedFd) -> Result<Slot, Outcome> {
        let id = self.rt.register(fd).map_err(|_| self.short_of(Shortage::Descriptors))?;
        Ok(Slot::new(id, &self.rt, &self.tally))
    }

    /// The local address for the next connection: those of the right family take turns.
    fn source(&self, target: usize, to: IpAddr) -> Option<IpAddr> {
        let all = &self.plan.job.targets[target].source_addresses;
        if all.is_empty() {
            return None;
        }
        let fitting = || all.iter().filter(|source| source.is_ipv4() == to.is_ipv4());
        let turn = self.source_turn.get();
        self.source_turn.set(turn.wrapping_add(1));
        fitting().nth(turn % fitting().count().max(1)).copied()
    }

    fn bind(&self, fd: &OwnedFd, source: IpAddr) -> Result<(), Outcome> {
        match bind(fd, &SocketAddr::new(source, 0)) {
            Ok(()) => Ok(()),
            Err(Errno::ADDRNOTAVAIL) => {
                (self.on_trouble)(Trouble::Source, &format_args!("{source} is no address of this machine"));
                Err(Outcome::NotSent)
            }
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// What a failure to connect means.
    pub(super) fn failed(&self, errno: Errno) -> Outcome {
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
        (self.on_trouble)(Trouble::Short(what), &"");
        Outcome::NotSent
    }

    /// Takes in what the resolver found.
    pub(super) fn take_answers(&self) {
        for mut answer in self.mailbox.take() {
            if let Some(why) = answer.failure.take() {
                (self.on_trouble)(Trouble::Dns, &why);
            }
            let waiters = self.names.borrow_mut().resolved(answer, self.rt.now());
            for task in waiters {
                self.rt.wake(task);
            }
        }
    }
}
