//! One request and its answer on a connection that may be shared.
use super::Client;
use super::connection::Connection;
use super::consent::PATIENCE_NS;
use super::exchange::Limit;
use super::link::Link;
use super::links::{Found, Need, Opening, OwnLink};
use super::pool::{Lane, Wanted};
use super::prepared::{Known, Prepared};
use crate::job::{BaseUrl, ConnectionPolicy, Protocol};
use crate::journey::{Outgoing, Plan};
use crate::transport::http2::{Key, Opened, Stream, hpack, write_head};
use crate::transport::reactor::Wait;
use crate::transport::{Call, Exchange, Outcome, Reply, Trouble};
use std::rc::Rc;

/// How often a request is sent again that the server says it has not processed.
const MOST_AGAIN: u8 = 5;

/// Header blocks that are the same every time, for all targets that may be spoken to in HTTP/2.
pub(super) fn blocks(plan: &Plan) -> Prepared<Box<[u8]>> {
    let block = |known: Known<'_>| {
        let Known { step, outgoing, target, url } = known;
        let mut out = Vec::new();
        write_block(outgoing, url, &target.authority(url), step.expect_continue, &mut out);
        out.into_boxed_slice()
    };
    Prepared::new(plan, |protocol| protocol != Protocol::Http1, block)
}

fn write_block(outgoing: &Outgoing, url: &BaseUrl, authority: &str, expects: bool, out: &mut Vec<u8>) {
    write_head(outgoing, if url.tls { "https" } else { "http" }, &url.prefix, authority, out);
    if expects {
        hpack::encode_field(b"expect", b"100-continue", out);
    }
}

/// What a request goes over.
enum Carrier {
    Shared(Rc<Link>),
    /// The server has chosen HTTP/1.1.
    Alone(Box<Connection>),
}

/// How a request failed.
struct Failure {
    outcome: Outcome,
    /// The server says that it has not processed it.
    unprocessed: bool,
    /// Its connection has ended.
    broken: bool,
    /// How the server broke the protocol.
    why: Option<String>,
}

impl Failure {
    fn new(outcome: Outcome, broken: bool) -> Self {
        Self { outcome, unprocessed: false, broken, why: None }
    }
}

impl Client {
    /// As [`Client::carry_out`], for targets that may speak HTTP/2. A request that the server says it has not processed
    /// is sent again over another connection, up to [`MOST_AGAIN`] times (RFC 9113, 8.7); an idempotent one that was lost
    /// with a connection that had served others, once.
    pub(super) async fn carry_over(&self, lane: &mut Lane, call: &Call<'_>, reply: &mut Reply) -> Exchange {
        let mut x = Exchange::new(call.started_ns);
        let limit = Limit::new(call);
        let (mut lost, mut was_lost) = (None, false);
        loop {
            let carrier = match self.carrier(lane, call, lost.as_ref(), limit, &mut x).await {
                Ok(carrier) => carrier,
                Err(outcome) => return self.ended(x, outcome),
            };
            let (link, result) = match carrier {
                Carrier::Shared(link) => {
                    let result = self.ask(&link, lane, call, limit, (&mut x, &mut *reply)).await;
                    (Some(link), result)
                }
                Carrier::Alone(connection) => {
                    let result = self.talk(connection, lane, call, limit, (&mut x, &mut *reply)).await;
                    (None, result.map_err(|outcome| Failure::new(outcome, true)))
                }
            };
            let Err(failure) = result else {
                x.outcome = Outcome::Answered;
                return x;
            };
            let is_lost = matches!(failure.outcome, Outcome::Reset | Outcome::Closed);
            let unseen = failure.broken && x.reused && x.bytes_in == 0 && call.outgoing.is_idempotent();
            let again = failure.unprocessed || (unseen && !std::mem::replace(&mut was_lost, true));
            if !is_lost || !again || x.attempt >= MOST_AGAIN {
                return self.ended(x, failure.outcome);
            }
            if failure.unprocessed {
                link.as_deref().inspect(|link| self.links.borrow_mut().note_end(link));
            }
            x.try_again();
            lost = link;
        }
    }

    /// A connection with room if there is one, else a fresh one.
    async fn carrier(
        &self,
        lane: &mut Lane,
        call: &Call<'_>,
        lost: Option<&Rc<Link>>,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Carrier, Outcome> {
        let target = call.target;
        let endpoint = self.endpoints.borrow_mut().choose(target);
        x.reused = true;
        let idle = self.pool.borrow_mut().take(lane, Wanted { target, endpoint }, self.rt.recent());
        if let Some(connection) = idle {
            x.instance = Some(connection.endpoint as u16);
            return Ok(Carrier::Alone(connection));
        }
        let opening = match lane.rule.policy {
            ConnectionPolicy::New => None,
            ConnectionPolicy::PerUser => {
                let is_lost = |own: &OwnLink| lost.is_some_and(|lost| Rc::ptr_eq(lost, &own.0));
                lane.links.retain(|own| own.0.is_usable(&lane.rule) && !is_lost(own));
                let fits = |own: &&OwnLink| {
                    own.0.target == target && endpoint.is_none_or(|endpoint| endpoint == own.0.endpoint)
                };
                if let Some(own) = lane.links.iter().find(fits) {
                    x.instance = Some(own.0.endpoint as u16);
                    return Ok(Carrier::Shared(Rc::clone(&own.0)));
                }
                None
            }
            ConnectionPolicy::Pool => match self.shared(lane, call, (endpoint, lost), limit).await? {
                Found::Link(link) => {
                    x.instance = Some(link.endpoint as u16);
                    return Ok(Carrier::Shared(link));
                }
                Found::Open(opening) | Found::Wait(opening) => Some(opening),
            },
        };
        self.open_link(lane, (target, endpoint), opening, limit, x).await
    }

    /// A shared connection with room, waiting for one that is being opened; or the order to open one.
    async fn shared(
        &self,
        lane: &Lane,
        call: &Call<'_>,
        (endpoint, avoid): (Option<usize>, Option<&Rc<Link>>),
        limit: Limit,
    ) -> Result<Found, Outcome> {
        let max_streams = self.plan.job.targets[call.target].max_streams as usize;
        let need = Need { target: call.target, endpoint, max_streams, rule: &lane.rule, avoid };
        loop {
            let found = self.links.borrow_mut().find(&need, self.rt.current());
            let Found::Wait(opening) = found else { return Ok(found) };
            let wait = self.rt.until(limit.at_ns, || opening.is_over()).await;
            limit.check(wait, Outcome::TimeoutConnect)?;
            if let Some(outcome) = opening.failure() {
                return Err(outcome);
            }
        }
    }

    /// Opens a connection, for others too where they wait for it.
    async fn open_link(
        &self,
        lane: &mut Lane,
        (target, endpoint): (usize, Option<usize>),
        opening: Option<Rc<Opening>>,
        limit: Limit,
        x: &mut Exchange,
    ) -> Result<Carrier, Outcome> {
        x.reused = false;
        let draw = || self.endpoints.borrow().draw(target, &mut self.rng.borrow_mut());
        let endpoint = endpoint.unwrap_or_else(draw);
        x.instance = Some(endpoint as u16);
        let connection = match Box::pin(self.open(target, endpoint, limit, x)).await {
            Ok(connection) => connection,
            Err(outcome) => {
                // What only this request ran out of is none of the others' business.
                let own = matches!(outcome, Outcome::Interrupted | Outcome::TimeoutConnect);
                opening.inspect(|opening| opening.fail((!own).then_some(outcome), &self.rt));
                return Err(outcome);
            }
        };
        let protocol = self.plan.job.targets[target].protocol;
        if protocol == Protocol::Auto && connection.stream.alpn() != Some(b"h2") {
            self.links.borrow_mut().note_http1(target, endpoint);
            opening.inspect(|opening| opening.fail(None, &self.rt));
            return Ok(Carrier::Alone(connection));
        }
        let link = Link::start(&self.rt, connection, &self.terms, &self.scratch, opening.clone());
        opening.inspect(|opening| opening.opened(&link));
        if lane.rule.policy == ConnectionPolicy::PerUser {
            lane.links.push(OwnLink(Rc::clone(&link)));
        }
        Ok(Carrier::Shared(link))
    }

    /// Sends a request over a connection and waits for the end of its answer.
    async fn ask(
        &self,
        link: &Rc<Link>,
        lane: &Lane,
        call: &Call<'_>,
        limit: Limit,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<(), Failure> {
        reply.clear();
        self.endpoints.borrow_mut().begin(link.endpoint);
        link.begin();
        let key = self.begin(link, call, reply);
        let result = self.answer(link, key, call, limit).await;
        self.endpoints.borrow_mut().end(link.endpoint);
        let outcome = settle(link, key, result, (x, reply));
        if let Some(why) = link.distrust.borrow().as_ref() {
            self.report(Trouble::Tls, link.endpoint, why);
        }
        if let Err(Failure { why: Some(why), .. }) = &outcome {
            self.report(Trouble::Protocol, link.endpoint, why);
        }
        self.give_back(link, lane, call);
        outcome
    }

    /// Writes the head of a request, which goes out with those of others.
    fn begin(&self, link: &Link, call: &Call<'_>, reply: &mut Reply) -> Key {
        let place = self.endpoints.borrow().local(link.target, link.endpoint);
        let ready = self.blocks.get(call, place);
        let mut buffer = self.out.take();
        buffer.clear();
        if ready.is_none() {
            let endpoints = self.endpoints.borrow();
            let url = endpoints.url(link.endpoint);
            let authority = self.plan.job.targets[link.target].authority(url);
            write_block(call.outgoing, url, &authority, call.step.expect_continue, &mut buffer);
        }
        for (name, value) in call.extra.iter() {
            hpack::encode_field(name, value, &mut buffer);
        }
        let opened = Opened {
            task: self.rt.current(),
            head: call.outgoing.method == "HEAD",
            want: call.step.want,
            reply: std::mem::take(reply),
            expects: call.step.expect_continue,
        };
        let parts = [ready.map_or(&[][..], |block| block), &buffer];
        let key = link.session.borrow_mut().open(opened, parts, call.outgoing.body.is_empty());
        self.out.replace(buffer);
        key
    }

    /// Sends the body and waits for the answer.
    async fn answer(&self, link: &Link, key: Key, call: &Call<'_>, limit: Limit) -> Result<(), Outcome> {
        if call.step.expect_continue && !self.consent(link, key, limit).await? {
            return self.wait(link, key, limit, |_| false).await;
        }
        let mut left = call.outgoing.body.len();
        for mut chunk in call.outgoing.body.chunks() {
            while !chunk.is_empty() {
                let last = left == chunk.len() as u64;
                let pushed = link.session.borrow_mut().push(key, chunk, last);
                left -= pushed as u64;
                chunk = &chunk[pushed..];
                if !chunk.is_empty() {
                    self.wait(link, key, limit, |stream| !stream.blocked).await?;
                }
            }
        }
        self.wait(link, key, limit, |_| false).await
    }

    /// Waits until the server wants the body; false if it has begun to answer without it, or will not answer.
    async fn consent(&self, link: &Link, key: Key, limit: Limit) -> Result<bool, Outcome> {
        let soon_ns = limit.at_ns.min(self.rt.now() + PATIENCE_NS);
        let wait = self.watch(link, key, soon_ns, |stream| stream.continued).await;
        // A server that does not know what it was asked is sent the body all the same.
        if wait != Wait::Expired || soon_ns == limit.at_ns {
            limit.check(wait, Outcome::TimeoutFirstByte)?;
        }
        let mut session = link.session.borrow_mut();
        let waits = |stream: &&mut Stream| stream.status == 0 && stream.outcome.is_none();
        let Some(stream) = session.stream_mut(key).filter(waits) else { return Ok(false) };
        // The first byte that counts is that of the answer.
        stream.first_byte_ns = None;
        Ok(true)
    }

    /// Waits until the answer is complete, or until `enough` says so.
    async fn wait(
        &self,
        link: &Link,
        key: Key,
        limit: Limit,
        enough: impl Fn(&Stream) -> bool,
    ) -> Result<(), Outcome> {
        let wait = self.watch(link, key, limit.at_ns, enough).await;
        let begun = link.session.borrow().stream(key).is_some_and(|s| s.first_byte_ns.is_some());
        limit.check(wait, if begun { Outcome::TimeoutBody } else { Outcome::TimeoutFirstByte })
    }

    async fn watch(&self, link: &Link, key: Key, at_ns: u64, enough: impl Fn(&Stream) -> bool) -> Wait {
        link.poke();
        let look = || {
            let session = link.session.borrow();
            session.stream(key).is_none_or(|stream| stream.outcome.is_some() || enough(stream))
        };
        self.rt.until(at_ns, look).await
    }

    /// There may be room on the connection again, or nobody may need it any more.
    fn give_back(&self, link: &Rc<Link>, lane: &Lane, call: &Call<'_>) {
        match lane.rule.policy {
            ConnectionPolicy::New => link.shut(),
            ConnectionPolicy::PerUser => {
                link.is_usable(&lane.rule);
            }
            ConnectionPolicy::Pool => {
                let max_streams = self.plan.job.targets[call.target].max_streams as usize;
                let rule = &lane.rule;
                let need = Need { target: call.target, endpoint: None, max_streams, rule, avoid: None };
                self.links.borrow_mut().ended(link, &need);
            }
        }
    }
}

/// Takes a request off its connection and notes what became of it.
fn settle(
    link: &Link,
    key: Key,
    result: Result<(), Outcome>,
    (x, reply): (&mut Exchange, &mut Reply),
) -> Result<(), Failure> {
    let mut session = link.session.borrow_mut();
    x.http2 = true;
    let broken = session.failure().is_some();
    let mut failure = result.err().map(|outcome| Failure::new(outcome, broken));
    if let Some(stream) = session.stream_mut(key) {
        *reply = std::mem::take(&mut stream.opened.reply);
        x.status = stream.status;
        x.first_byte_ns = stream.first_byte_ns;
        x.end_ns = stream.end_ns;
        x.bytes_in += stream.bytes_in;
        x.bytes_out += stream.bytes_out;
        x.instance = stream.instance.or(x.instance);
        // What had come before a cut or a timeout was seen is the answer all the same.
        match stream.outcome {
            Some(Outcome::Answered) => failure = None,
            Some(outcome) => {
                let unprocessed = stream.unprocessed;
                failure = Some(Failure {
                    unprocessed,
                    why: stream.breach.map(|b| b.to_string()),
                    ..Failure::new(outcome, broken)
                });
            }
            None => {}
        }
    }
    if let (Some(Failure { outcome: Outcome::Protocol, why: why @ None, .. }), Some(error)) =
        (&mut failure, session.failure())
    {
        *why = error.why();
    }
    session.close(key);
    let pending = !session.outgoing().is_empty();
    drop(session);
    if pending {
        link.poke();
    }
    failure.map_or(Ok(()), Err)
}
