//! One request and its answer.
use super::Client;
use super::connection::Connection;
use super::pool::{Lane, Wanted};
use crate::journey::Message;
use crate::transport::http1::{Facts, Fault, Progress};
use crate::transport::reactor::{Interest, Wait};
use crate::transport::{Call, Exchange, Outcome};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

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
    fn new(call: &Call<'_>) -> Self {
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

/// An answer was read to its end.
struct Complete {
    outcome: Outcome,
    reusable: bool,
}

impl Client {
    /// A connection that was closed by the server before it saw the request is the client's risk of reusing it: an
    /// idempotent request is sent once more, over a fresh one, and its row says so.
    pub(super) async fn carry_out(&self, lane: &mut Lane, call: &Call<'_>) -> Exchange {
        let mut x = Exchange::new(call.started_ns);
        let limit = Limit::new(call);
        let mut retry = None;
        loop {
            let connection = match self.connection(lane, call, retry, limit, &mut x).await {
                Ok(connection) => connection,
                Err(outcome) => return self.ended(x, outcome),
            };
            let endpoint = connection.endpoint;
            match self.talk(connection, lane, call, limit, &mut x).await {
                Ok(outcome) => {
                    x.outcome = outcome;
                    return x;
                }
                Err(Outcome::Reset | Outcome::Closed)
                    if x.reused && x.bytes_in == 0 && call.step.idempotent && retry.is_none() =>
                {
                    retry = Some(endpoint);
                    x.attempt = 1;
                }
                Err(outcome) => return self.ended(x, outcome),
            }
        }
    }

    fn ended(&self, mut x: Exchange, outcome: Outcome) -> Exchange {
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
        let target = call.step.target;
        let endpoint = retry.or_else(|| self.endpoints.borrow_mut().choose(target));
        let mut take = || self.pool.borrow_mut().take(lane, Wanted { target, endpoint });
        if let Some(connection) = if retry.is_none() { take() } else { None } {
            x.reused = true;
            x.instance = Some(connection.endpoint as u16);
            return Ok(connection);
        }
        x.reused = false;
        let draw = || self.endpoints.borrow().draw(target, &mut self.rng.borrow_mut());
        let endpoint = endpoint.unwrap_or_else(draw);
        x.instance = Some(endpoint as u16);
        self.open(target, endpoint, limit, x).await
    }

    /// Sends, receives, and keeps the connection if it can serve again.
    async fn talk(
        &self,
        mut connection: Box<Connection>,
        lane: &mut Lane,
        call: &Call<'_>,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Outcome, Outcome> {
        connection.decoder.reset();
        let endpoint = connection.endpoint;
        self.endpoints.borrow_mut().begin(endpoint);
        let result = self.send_and_receive(&mut connection, call, limit, x).await;
        self.endpoints.borrow_mut().end(endpoint);
        x.status = connection.decoder.status();
        if !connection.decoder.instance().is_empty() {
            let named = self.instances.borrow_mut().intern(connection.decoder.instance());
            x.instance = named.or(x.instance);
        }
        let complete = result?;
        if complete.reusable {
            connection.served += 1;
            self.pool.borrow_mut().put(lane, connection);
        }
        Ok(complete.outcome)
    }

    async fn send_and_receive(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Complete, Outcome> {
        let at = self.endpoints.borrow().local(connection.target, connection.endpoint);
        let sent = match (&call.step.message, call.rendered) {
            (Message::Template(draft), Some(rendered)) => {
                let mut buffer = self.out.take();
                draft.assemble(rendered, at, &mut buffer);
                let sent = self.send(connection, &buffer, limit, x).await;
                self.out.replace(buffer);
                sent?
            }
            (Message::Static(ready), _) => self.send(connection, &ready[at], limit, x).await?,
            // A template that was not rendered: the driver has made a row of that and does not come here.
            (Message::Template(_), None) => return Err(Outcome::NotSent),
        };
        let mut complete = self.receive(connection, call, limit, x).await?;
        complete.reusable &= sent;
        Ok(complete)
    }

    /// Sends the whole request; false if the server answered or closed before it had taken all of it.
    async fn send(
        &self,
        connection: &Connection,
        bytes: &[u8],
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<bool, Outcome> {
        let (fd, id) = (&connection.fd, connection.id);
        let mut rest = bytes;
        while !rest.is_empty() {
            match send(fd, rest, SendFlags::NOSIGNAL) {
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
        x: &mut Exchange,
    ) -> Result<Complete, Outcome> {
        let facts = self.facts(call);
        let id = connection.id;
        let mut row = 0;
        loop {
            let phase =
                if x.first_byte_ns.is_some() { Outcome::TimeoutBody } else { Outcome::TimeoutFirstByte };
            let wait = self.rt.socket(id, Interest::Read, limit.at_ns).await;
            limit.check(wait, phase)?;
            match self.read(connection, &facts, x)? {
                Read::Complete(surplus) => return Ok(self.judge(connection, call, surplus)),
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

    fn read(
        &self,
        connection: &mut Connection,
        facts: &Facts<'_>,
        x: &mut Exchange,
    ) -> Result<Read, Outcome> {
        let mut scratch = self.scratch.borrow_mut();
        let count = match recv(&connection.fd, &mut scratch[..], RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => {
                self.rt.clear_readable(connection.id);
                return Ok(Read::Drained);
            }
            Err(Errno::INTR) => return Ok(Read::Full),
            Err(_) => return Err(Outcome::Reset),
        };
        let now_ns = self.rt.now();
        x.end_ns = now_ns;
        if count == 0 {
            return connection.decoder.end().map(|()| Read::Complete(false)).map_err(Outcome::from);
        }
        x.first_byte_ns.get_or_insert(now_ns);
        let drained = count < scratch.len();
        if drained {
            // Nothing more is there: no need to try and be told so.
            self.rt.clear_readable(connection.id);
        }
        match connection.decoder.feed(&scratch[..count], facts) {
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
                Err(fault.into())
            }
        }
    }

    fn facts<'a>(&'a self, call: &Call<'a>) -> Facts<'a> {
        let job = &self.plan.job;
        Facts {
            head: call.step.head,
            instance_header: job.instance_header.as_deref(),
            contains: call.step.contains.as_ref(),
            max_header_bytes: job.limits.max_header_bytes,
            max_body_bytes: job.limits.max_body_bytes,
        }
    }

    fn judge(&self, connection: &Connection, call: &Call<'_>, surplus: bool) -> Complete {
        let decoder = &connection.decoder;
        let outcome = if !call.step.status.contains(decoder.status()) {
            Outcome::CheckStatus
        } else if call.step.contains.is_some() && !decoder.found() {
            Outcome::CheckContains
        } else {
            Outcome::Answered
        };
        // Bytes that nobody asked for cannot be told from the next answer.
        let reusable = decoder.keep_alive() && !surplus && !self.rt.is_hung_up(connection.id);
        Complete { outcome, reusable }
    }
}

/// What a read gave.
enum Read {
    /// The answer is complete; whether there was more than the answer.
    Complete(bool),
    /// There is nothing more to read for now.
    Drained,
    /// There may be more to read.
    Full,
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Protocol => Self::Protocol,
            Fault::TooLarge => Self::TooLarge,
            Fault::Closed => Self::Closed,
        }
    }
}

/// Whole µs between two points; what is too long for a row is cut to the longest that fits.
pub(super) fn micros(from_ns: u64, to_ns: u64) -> u32 {
    u32::try_from(to_ns.saturating_sub(from_ns) / 1000).unwrap_or(u32::MAX - 1).min(u32::MAX - 1)
}
