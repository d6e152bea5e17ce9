//! One request and its answer.
use super::Client;
use super::connection::Connection;
use super::consent::Consent;
use super::endpoints::proxy_headers;
use super::pool::{Lane, Wanted};
use super::ready::{INLINE_BODY, Ready};
use crate::transport::http1::{Facts, Fault, Progress, write_fields, write_head, write_lines};
use crate::transport::reactor::{Interest, Wait};
use crate::transport::{Call, Exchange, Outcome, Reply, Trouble};
use rustix::io::Errno;

/// The word of a proxy, never that of a server behind it (RFC 9110, section 15.5.8).
const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;
/// Full buffers read in a row before others get their turn.
const READS_IN_A_ROW: u32 = 4;

/// When a request has to end, and as what.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    /// The earlier of its timeout and the end of its user or of the drain.
    pub at_ns: u64,
    interrupts: bool,
}

impl Limit {
    pub fn new(call: &Call<'_>) -> Self {
        let deadline_ns = call.started_ns.saturating_add(call.step.timeout_ns);
        Self { at_ns: deadline_ns.min(call.cut_ns), interrupts: call.cut_ns < deadline_ns }
    }

    /// `timeout` says in which phase a wait that was in vain has been.
    pub fn check(self, wait: Wait, timeout: Outcome) -> Result<(), Outcome> {
        match wait {
            Wait::Ready => Ok(()),
            Wait::Expired if !self.interrupts => Err(timeout),
            Wait::Expired | Wait::Cut => Err(Outcome::Interrupted),
        }
    }
}

impl Client {
    /// A connection that was closed by the server before it saw the request is the client's risk of reusing it: an
    /// idempotent request is sent once more, over a fresh one, and its row says so.
    pub(super) async fn carry_out(&self, lane: &mut Lane, call: &Call<'_>, reply: &mut Reply) -> Exchange {
        let mut x = Exchange::new(call.started_ns);
        let limit = Limit::new(call);
        let mut retry = None;
        loop {
            let connection = match self.connection(lane, call, retry, limit, &mut x).await {
                Ok(connection) => connection,
                Err(outcome) => return self.ended(x, outcome),
            };
            let endpoint = connection.endpoint;
            match self.talk(connection, lane, call, limit, (&mut x, &mut *reply)).await {
                Ok(()) => {
                    x.outcome = Outcome::Answered;
                    return x;
                }
                Err(Outcome::Reset | Outcome::Closed)
                    if x.reused && x.bytes_in == 0 && call.outgoing.is_idempotent() && retry.is_none() =>
                {
                    retry = Some(endpoint);
                    x.try_again();
                }
                Err(outcome) => return self.ended(x, outcome),
            }
        }
    }

    pub(super) fn ended(&self, mut x: Exchange, outcome: Outcome) -> Exchange {
        x.outcome = outcome;
        x.end_ns = self.rt.now();
        x
    }

    /// An idle connection if there is one, else a fresh one.
    async fn connection(
        &self,
        lane: &mut Lane,
        call: &Call<'_>,
        retry: Option<usize>,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Box<Connection>, Outcome> {
        let target = call.target;
        let endpoint = retry.or_else(|| self.endpoints.borrow_mut().choose(target));
        let now_ns = self.rt.recent();
        let mut take = || self.pool.borrow_mut().take(lane, Wanted { target, endpoint }, now_ns);
        if let Some(connection) = if retry.is_none() { take() } else { None } {
            x.reused = true;
            x.instance = Some(connection.endpoint as u16);
            return Ok(connection);
        }
        x.reused = false;
        let draw = || self.endpoints.borrow().draw(target, &mut self.rng.borrow_mut());
        let endpoint = endpoint.unwrap_or_else(draw);
        x.instance = Some(endpoint as u16);
        // What opening needs is held only as long as it takes: most of the time a user has a connection.
        Box::pin(self.open(target, endpoint, limit, x)).await
    }

    /// Sends, receives, and keeps the connection if it can serve again.
    pub(super) async fn talk(
        &self,
        mut connection: Box<Connection>,
        lane: &mut Lane,
        call: &Call<'_>,
        limit: Limit,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<(), Outcome> {
        connection.decoder.reset();
        reply.clear();
        let endpoint = connection.endpoint;
        self.endpoints.borrow_mut().begin(endpoint);
        let last = lane.is_last(connection.served);
        let result = self.send_and_receive(&mut connection, call, last, limit, (&mut *x, reply)).await;
        self.endpoints.borrow_mut().end(endpoint);
        x.status = connection.decoder.status();
        if !connection.decoder.instance().is_empty() {
            let named = self.instances.borrow_mut().intern(connection.decoder.instance());
            x.instance = named.or(x.instance);
        }
        if result? {
            connection.served += 1;
            self.pool.borrow_mut().put(lane, connection, x.end_ns);
        }
        if x.status == PROXY_AUTHENTICATION_REQUIRED && self.endpoints.borrow().is_forwarded(endpoint) {
            return Err(self.unwelcome(endpoint));
        }
        Ok(())
    }

    /// True if the connection can serve again.
    async fn send_and_receive(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        last: bool,
        limit: Limit,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<bool, Outcome> {
        let sent = if call.step.expect_continue && !call.outgoing.body.is_empty() {
            match self.send_with_consent(connection, call, last, limit, (&mut *x, &mut *reply)).await? {
                Consent::Answered => return Ok(false),
                Consent::Sent(all) => all,
            }
        } else {
            self.send_request(connection, call, last, limit, x).await?
        };
        let reusable = self.receive(connection, call, limit, (x, reply)).await?;
        Ok(reusable && sent && !last)
    }

    /// False if the server answered or closed before it had taken all of the request.
    async fn send_request(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        last: bool,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<bool, Outcome> {
        let place = self.endpoints.borrow().local(connection.target, connection.endpoint);
        let ready = self.ready.get(call, place);
        let body = &call.outgoing.body;
        let inline = body.len() <= INLINE_BODY;
        let sent = match ready {
            Some(ready) if call.extra.is_empty() && !last => {
                self.send(connection, &ready.bytes, limit, x).await?
            }
            _ => {
                let mut buffer = self.out.take();
                let how = How { last, asks: false };
                self.assemble(ready, connection, call, how, &mut buffer);
                let sent = self.send(connection, &buffer, limit, x).await;
                self.out.replace(buffer);
                sent?
            }
        };
        if !sent || inline {
            return Ok(sent);
        }
        self.send_body(connection, call, limit, x).await
    }

    pub(super) async fn send_body(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<bool, Outcome> {
        for chunk in call.outgoing.body.chunks() {
            if !self.send(connection, chunk, limit, x).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts a request together that is not ready as a whole.
    pub(super) fn assemble(
        &self,
        ready: Option<&Ready>,
        connection: &Connection,
        call: &Call<'_>,
        how: How,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        if let Some(ready) = ready {
            out.extend_from_slice(&ready.bytes[..ready.head]);
        } else {
            let endpoints = self.endpoints.borrow();
            let endpoint = connection.endpoint;
            write_head(call.outgoing, endpoints.prefix(endpoint), endpoints.authority(endpoint), out);
            let target = &self.plan.job.targets[connection.target];
            write_lines(proxy_headers(target, endpoints.url(endpoint)), out);
        }
        write_fields(call.extra, out);
        if how.asks {
            out.extend_from_slice(b"expect: 100-continue\r\n");
        }
        if how.last {
            out.extend_from_slice(b"connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
        if !how.asks && call.outgoing.body.len() <= INLINE_BODY {
            call.outgoing.body.chunks().for_each(|chunk| out.extend_from_slice(chunk));
        }
    }

    /// Sends bytes; false if the server answered or closed before it had taken all of them.
    pub(super) async fn send(
        &self,
        connection: &mut Connection,
        bytes: &[u8],
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<bool, Outcome> {
        let id = connection.id;
        let mut rest = bytes;
        while !rest.is_empty() {
            match connection.stream.send(rest) {
                Ok(count) => {
                    x.bytes_out += count as u64;
                    rest = &rest[count..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.rt.clear_writable(id);
                    let wait = self.rt.socket(id, Interest::Any, limit.at_ns).await;
                    limit.check(wait, Outcome::TimeoutFirstByte)?;
                    if self.rt.is_readable(id) && !connection.is_usable() {
                        return Ok(false);
                    }
                }
                // What the server said before it closed may still be there to be read.
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn receive(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        limit: Limit,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<bool, Outcome> {
        let facts = self.facts(call);
        let id = connection.id;
        let mut row = 0;
        loop {
            let phase =
                if x.first_byte_ns.is_some() { Outcome::TimeoutBody } else { Outcome::TimeoutFirstByte };
            let wait = self.rt.socket(id, Interest::Read, limit.at_ns).await;
            limit.check(wait, phase)?;
            match self.read(connection, &facts, (x, reply))? {
                Read::Complete(surplus) => return Ok(self.is_reusable(connection, surplus)),
                Read::Drained => row = 0,
                Read::Full => row += 1,
            }
            if row >= READS_IN_A_ROW {
                // A body without an end must neither keep others waiting nor outlive its timeout.
                row = 0;
                self.rt.yield_now().await;
                if self.rt.now() >= limit.at_ns {
                    limit.check(Wait::Expired, Outcome::TimeoutBody)?;
                }
            }
        }
    }

    pub(super) fn read(
        &self,
        connection: &mut Connection,
        facts: &Facts<'_>,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<Read, Outcome> {
        let mut scratch = self.scratch.borrow_mut();
        let count = match connection.stream.recv(&mut scratch[..]) {
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                self.rt.clear_readable(connection.id);
                return Ok(Read::Drained);
            }
            Err(Errno::INTR) => return Ok(Read::Full),
            Err(Errno::PROTO) => return Err(self.distrust(connection)),
            Err(_) => return Err(Outcome::Reset),
        };
        let now_ns = self.rt.now();
        x.end_ns = now_ns;
        if count == 0 {
            return match connection.decoder.end() {
                // Only the end of the connection says that the body is complete, and anyone on the way can cut it.
                Ok(()) if connection.stream.is_cut_off() => Err(Outcome::Truncated),
                Ok(()) => Ok(Read::Complete(false)),
                Err(fault) => Err(self.faulty(connection, fault)),
            };
        }
        x.first_byte_ns.get_or_insert(now_ns);
        let drained = connection.stream.is_drained(count, scratch.len());
        if drained {
            // Nothing more is there: no need to try and be told so.
            self.rt.clear_readable(connection.id);
        }
        match connection.decoder.feed(&scratch[..count], facts, reply) {
            Ok(Progress::Done(used)) => {
                x.bytes_in += used as u64;
                Ok(Read::Complete(used < count || !drained))
            }
            Ok(Progress::More) => {
                x.bytes_in += count as u64;
                Ok(if drained { Read::Drained } else { Read::Full })
            }
            Err(fault) => {
                x.bytes_in += count as u64;
                Err(self.faulty(connection, fault))
            }
        }
    }

    /// What a fault of an answer means; how it breaks the protocol is told.
    fn faulty(&self, connection: &Connection, fault: Fault) -> Outcome {
        match fault {
            Fault::Protocol(breach) => {
                self.report(Trouble::Protocol, connection.endpoint, &breach);
                Outcome::Protocol
            }
            Fault::TooLarge => Outcome::TooLarge,
            Fault::Closed => Outcome::Closed,
        }
    }

    pub(super) fn facts<'a>(&'a self, call: &Call<'a>) -> Facts<'a> {
        let job = &self.plan.job;
        Facts {
            head: call.outgoing.method == "HEAD",
            instance_header: job.instance_header.as_deref(),
            want: call.step.want,
            max_header_bytes: job.limits.max_header_bytes,
            max_body_bytes: job.limits.max_body_bytes,
        }
    }

    fn is_reusable(&self, connection: &Connection, surplus: bool) -> bool {
        // Bytes that nobody asked for cannot be told from the next answer.
        connection.decoder.keep_alive() && !surplus && !self.rt.is_hung_up(connection.id)
    }
}

/// How a request is put together.
#[derive(Clone, Copy)]
pub(super) struct How {
    /// It is the last one on its connection, and says so.
    pub last: bool,
    /// It asks whether its body is wanted.
    pub asks: bool,
}

/// What a read gave.
pub(super) enum Read {
    /// The answer is complete; whether there was more than the answer.
    Complete(bool),
    /// There is nothing more to read for now.
    Drained,
    /// There may be more to read.
    Full,
}

/// Whole µs between two points; what is too long for a row is cut to the longest that fits.
pub(super) fn micros(from_ns: u64, to_ns: u64) -> u32 {
    u32::try_from(to_ns.saturating_sub(from_ns) / 1000).unwrap_or(u32::MAX - 1).min(u32::MAX - 1)
}
