//! `Expect: 100-continue`: the body waits until the server wants it.
use super::Client;
use super::connection::Connection;
use super::exchange::{How, Limit, Read};
use crate::transport::reactor::{Interest, Wait};
use crate::transport::{Call, Exchange, Outcome, Reply};

/// A server that says nothing gets the body after this: not all of them know the question (RFC 9110, section 10.1.1).
pub(super) const PATIENCE_NS: u64 = 1_000_000_000;

/// What became of a question.
pub(super) enum Consent {
    /// The request was sent; all of it, or as much as the server took.
    Sent(bool),
    /// The server has answered without the body, and the answer is complete.
    Answered,
}

/// What the server said to a head.
enum Word {
    /// It wants the body, or says nothing.
    Go,
    /// It has begun to answer without it.
    Begun,
    /// It has answered without it.
    Complete,
}

impl Client {
    /// Sends the head, waits for consent, and sends the body.
    pub(super) async fn send_with_consent(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        last: bool,
        limit: Limit,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<Consent, Outcome> {
        let mut buffer = self.out.take();
        self.assemble(None, connection, call, How { last, asks: true }, &mut buffer);
        let sent = self.send(connection, &buffer, limit, x).await;
        self.out.replace(buffer);
        if !sent? {
            return Ok(Consent::Sent(false));
        }
        match self.word(connection, call, limit, (&mut *x, reply)).await? {
            Word::Complete => Ok(Consent::Answered),
            Word::Begun => Ok(Consent::Sent(false)),
            Word::Go => {
                // The first byte that counts is that of the answer.
                x.first_byte_ns = None;
                self.send_body(connection, call, limit, x).await.map(Consent::Sent)
            }
        }
    }

    async fn word(
        &self,
        connection: &mut Connection,
        call: &Call<'_>,
        limit: Limit,
        (x, reply): (&mut Exchange, &mut Reply),
    ) -> Result<Word, Outcome> {
        let facts = self.facts(call);
        let patience_ns = self.rt.now() + PATIENCE_NS;
        loop {
            let until_ns = patience_ns.min(limit.at_ns);
            let wait = self.rt.socket(connection.id, Interest::Read, until_ns).await;
            if wait == Wait::Expired && patience_ns < limit.at_ns {
                return Ok(Word::Go);
            }
            limit.check(wait, Outcome::TimeoutFirstByte)?;
            let read = self.read(connection, &facts, (&mut *x, &mut *reply))?;
            if matches!(read, Read::Complete(_)) {
                return Ok(Word::Complete);
            }
            if connection.decoder.status() > 0 {
                return Ok(Word::Begun);
            }
            if connection.decoder.is_continued() {
                return Ok(Word::Go);
            }
        }
    }
}
