//! Carries a request to the instance that takes it, and the answer back.
//!
//! pingora does the HTTP. What is decided here: a request that was sent is never sent again; who made an answer can be told
//! from its headers; and every request is counted exactly once, however it ends.

use super::admission::{Admission, Denied, Slot};
use super::probe;
use crate::outcome::{Made, Outcome, Refusal};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use pingora_core::modules::http::HttpModules;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any instance of ours needs to accept on loopback.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Who answered, when it was the ingress.
const INGRESS: &str = "ingress";

/// Headers that are added to answers; `None` = not added.
#[derive(Clone, Debug, Default)]
pub struct AddedHeaders {
    /// Who answered: the instance, or `ingress`.
    pub instance: Option<HeaderName>,
    /// How long the request was held, in µs.
    pub held: Option<HeaderName>,
    /// Whether it had to wait for its instance to start.
    pub cold: Option<HeaderName>,
}

/// The proxy.
#[derive(Debug)]
pub struct Proxy {
    admission: Arc<Admission>,
    headers: AddedHeaders,
    upstream_idle: Duration,
}

/// What is known of a request while it is under way.
#[derive(Debug, Default)]
pub struct Passage {
    slot: Option<Slot>,
    /// Of the instance's answer.
    status: Option<u16>,
    /// The ingress answered instead.
    made: Option<Made>,
    /// A piece of its body was sent.
    has_sent_body: bool,
}

impl Proxy {
    /// In front of the instances of `admission`; connections to them are kept for `upstream_idle`.
    pub fn new(admission: Arc<Admission>, headers: AddedHeaders, upstream_idle: Duration) -> Self {
        Self { admission, headers, upstream_idle }
    }

    /// Says in the answer's headers who made it.
    fn sign(&self, answer: &mut ResponseHeader, slot: Option<&Slot>, is_own: bool) -> Result<()> {
        let grant = slot.map(|slot| &slot.grant);
        if let Some(name) = &self.headers.instance {
            let who = grant.filter(|_| !is_own).map_or(INGRESS, |grant| &grant.instance);
            answer.insert_header(name.clone(), who)?;
        }
        if let Some(name) = &self.headers.held {
            answer.insert_header(name.clone(), grant.map_or(0, |grant| grant.held_ns / 1000).to_string())?;
        }
        if let Some(name) = &self.headers.cold {
            let cold = grant.is_some_and(|grant| grant.cold);
            answer.insert_header(name.clone(), if cold { "true" } else { "false" })?;
        }
        Ok(())
    }

    /// Answers in place of an instance.
    async fn answer(&self, session: &mut Session, refusal: &Refusal, slot: Option<&Slot>) -> Result<()> {
        let body = body_of(refusal);
        let mut answer =
            ResponseHeader::build(StatusCode::from_u16(refusal.made.status()).unwrap_or_default(), None)?;
        answer.insert_header(CONTENT_TYPE, HeaderValue::from_static(content_type(refusal.made)))?;
        answer.insert_header(CONTENT_LENGTH, body.len())?;
        self.sign(&mut answer, slot, true)?;
        let has_body = session.req_header().method != Method::HEAD;
        session.write_response_header(Box::new(answer), !has_body).await?;
        if has_body {
            session.write_response_body(Some(body), true).await?;
        }
        Ok(())
    }
}

/// OpenWhisk's clients look for its JSON; everybody else reads a line.
fn content_type(made: Made) -> &'static str {
    match made {
        Made::Rate | Made::Concurrent => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

fn body_of(refusal: &Refusal) -> Bytes {
    match refusal.made {
        Made::Rate | Made::Concurrent => serde_json::json!({"error": refusal.text}).to_string().into(),
        made => format!("ingress: {}: {}\n", made.name(), refusal.text).into(),
    }
}

/// What an error that ended a request before its answer makes of it; `None` when its client is gone.
fn made_of(error: &Error) -> Option<Made> {
    match error.esource() {
        ErrorSource::Upstream => Some(Made::Broke),
        ErrorSource::Downstream => match error.etype() {
            ErrorType::ReadError | ErrorType::WriteError | ErrorType::ConnectionClosed => None,
            _ => Some(Made::Malformed),
        },
        ErrorSource::Internal | ErrorSource::Unset => Some(Made::Internal),
    }
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = Passage;

    fn new_ctx(&self) -> Passage {
        Passage::default()
    }

    /// None: answers are passed on as they are.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn request_filter(&self, session: &mut Session, passage: &mut Passage) -> Result<bool> {
        match self.admission.admit(session).await {
            Ok(slot) => {
                passage.slot = Some(slot);
                Ok(false)
            }
            Err(Denied::Refused(refusal)) => {
                passage.made = Some(refusal.made);
                self.answer(session, &refusal, None).await?;
                Ok(true)
            }
            Err(Denied::Left) => {
                session.set_keepalive(None);
                Ok(true)
            }
        }
    }

    async fn upstream_peer(&self, _session: &mut Session, passage: &mut Passage) -> Result<Box<HttpPeer>> {
        let Some(slot) = &passage.slot else { return Err(Error::new(ErrorType::InternalError)) };
        let mut peer = HttpPeer::new(slot.grant.address, false, String::new());
        // An address may be used again; a connection is not.
        peer.group_key = slot.grant.id;
        peer.options.connection_timeout = Some(CONNECT_TIMEOUT);
        peer.options.idle_timeout = Some(self.upstream_idle);
        Ok(Box::new(peer))
    }

    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        passage: &mut Passage,
        mut error: Box<Error>,
    ) -> Box<Error> {
        error.set_retry(false);
        passage.made = Some(Made::Refused);
        if let Some(task) =
            passage.slot.as_ref().and_then(|slot| slot.refused(error.etype().as_str().to_owned()))
        {
            tokio::spawn(probe::run(self.admission.clone(), task));
        }
        error
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        _end_of_stream: bool,
        passage: &mut Passage,
    ) -> Result<()> {
        passage.has_sent_body |= body.is_some();
        Ok(())
    }

    /// Sends a request again only if it was not sent: the instance had closed the kept connection before.
    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        mut error: Box<Error>,
        passage: &mut Passage,
        was_kept: bool,
    ) -> Box<Error> {
        let was_not_sent = *error.etype() == ErrorType::WriteError && !passage.has_sent_body;
        error.set_retry(was_kept && was_not_sent && session.req_header().method.is_idempotent());
        error
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        answer: &mut ResponseHeader,
        passage: &mut Passage,
    ) -> Result<()> {
        if !answer.status.is_informational() || answer.status == StatusCode::SWITCHING_PROTOCOLS {
            passage.status = Some(answer.status.as_u16());
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        _session: &mut Session,
        answer: &mut ResponseHeader,
        passage: &mut Passage,
    ) -> Result<()> {
        self.sign(answer, passage.slot.as_ref(), false)
    }

    async fn fail_to_proxy(
        &self,
        session: &mut Session,
        error: &Error,
        passage: &mut Passage,
    ) -> FailToProxy {
        let is_answered = session.response_written().is_some();
        let made = if is_answered { None } else { passage.made.or_else(|| made_of(error)) };
        let mut status = 0;
        if let Some(made) = made {
            passage.made = Some(made);
            status = made.status();
            session.set_keepalive(None);
            let refusal = Refusal { made, text: error.etype().as_str().to_owned() };
            // The client may be gone; then there is nobody to tell.
            let _ = self.answer(session, &refusal, passage.slot.as_ref()).await;
        }
        FailToProxy { error_code: status, can_reuse_downstream: false }
    }

    async fn logging(&self, _session: &mut Session, error: Option<&Error>, passage: &mut Passage) {
        let Some(slot) = passage.slot.take() else { return };
        slot.end(match (passage.made, error, passage.status) {
            (Some(made), ..) => Outcome::Made(made),
            (None, None, Some(status)) => Outcome::Answered(status),
            (None, Some(error), Some(_)) if *error.esource() == ErrorSource::Upstream => Outcome::Cut,
            (None, Some(_), _) => Outcome::Left,
            (None, None, None) => Outcome::Made(Made::Internal),
        });
    }

    /// Counted and told; nobody reads a log of it.
    fn suppress_error_log(&self, _session: &Session, _passage: &Passage, _error: &Error) -> bool {
        true
    }
}
