//! Captures: what is taken out of an answer for later requests of the session.
use super::check::Compiling;
use super::cookie::SetCookie;
use super::form::{self, FieldValue};
use super::json::Found;
use super::json_node::Node;
use crate::job::{self, Pick};
use crate::journey::Fields;
use crate::rng::Rng;
use crate::transport::Outcome;
use minijinja::value::Value;
use regex::bytes::Regex;

/// Values that are looked at, of those that one capture finds; what comes after them is left out.
const MAX_VALUES: usize = 100_000;

/// A capture of a step.
pub struct Capture {
    source: Source,
    pick: Pick,
    optional: bool,
    /// Where the session keeps it.
    slot: usize,
    /// If it finds nothing.
    outcome: Outcome,
}

enum Source {
    /// Number of the path among those of the step.
    Json(u16),
    Header(String),
    Cookie(String),
    Regex(Regex),
    Form(String),
    Body,
}

/// A value that was found, as it is written.
#[derive(Clone, Copy)]
enum Candidate<'a> {
    Node(Node<'a>),
    Bytes(&'a [u8]),
    Field(FieldValue<'a>),
}

/// An answer, decoded.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Its header fields.
    pub fields: &'a Fields,
    /// Its body.
    pub body: &'a [u8],
    /// What the paths of the step led to.
    pub found: &'a Found<'a>,
}

impl Capture {
    /// Compiles.
    pub fn new(capture: &job::Capture, slot: usize, with: &mut Compiling<'_>) -> Option<Self> {
        let at = &capture.at;
        let source = match &capture.source {
            job::Source::Json(path) => with.path(path, &format!("{at}.json")).map(Source::Json),
            job::Source::Regex(source) => with.regex(source, &format!("{at}.regex")).map(Source::Regex),
            job::Source::Header(name) => Some(Source::Header(name.clone())),
            job::Source::Cookie(name) => Some(Source::Cookie(name.clone())),
            job::Source::Form(name) => Some(Source::Form(name.clone())),
            job::Source::Body => Some(Source::Body),
        };
        let outcome = with.outcome(&format!("capture:{}", capture.name), at);
        let (pick, optional) = (capture.pick, capture.optional);
        Some(Self { source: source?, pick, optional, slot, outcome: outcome? })
    }

    /// Whether the body matters.
    pub fn wants_body(&self) -> bool {
        !matches!(self.source, Source::Header(_) | Source::Cookie(_))
    }

    /// Whether header fields matter.
    pub fn wants_fields(&self) -> bool {
        !self.wants_body()
    }

    /// Takes what it finds out of an answer and gives it to `keep`, together with its slot. What finds nothing leaves
    /// an empty text if it is optional; else nothing is known any more, and the outcome says so.
    pub fn take(
        &self,
        view: View<'_>,
        rng: &mut Rng,
        keep: &mut impl FnMut(usize, Value),
    ) -> Result<(), Outcome> {
        let mut picked = Picked { pick: self.pick, one: None, all: Vec::new() };
        self.source.each(view, &mut |candidate| picked.take(candidate));
        if let Some(value) = picked.value(rng) {
            keep(self.slot, value);
            return Ok(());
        }
        self.forget(keep);
        if self.optional { Ok(()) } else { Err(self.outcome) }
    }

    /// Where nothing was found: what an earlier answer gave must not pass for what this one has given.
    pub fn forget(&self, keep: &mut impl FnMut(usize, Value)) {
        keep(self.slot, if self.optional { Value::from("") } else { Value::UNDEFINED });
    }

    /// Whether this is the outcome of an answer in which it found nothing.
    pub fn is_missing(&self, outcome: Outcome) -> bool {
        !self.optional && self.outcome == outcome
    }
}

impl Source {
    /// Gives all that it finds to `take`, in its order, until that is false.
    fn each<'a>(&self, view: View<'a>, take: &mut impl FnMut(Candidate<'a>) -> bool) {
        let View { fields, body, found } = view;
        match self {
            Self::Json(path) => found.each(*path, &mut |node| take(Candidate::Node(node))),
            Self::Header(name) => {
                let mut values = fields.named(name);
                values.all(|value| take(Candidate::Bytes(value)));
            }
            Self::Cookie(name) => {
                let cookies = fields.named("set-cookie").filter_map(SetCookie::parse);
                let mut values =
                    cookies.filter(|cookie| cookie.name == name.as_bytes()).map(|cookie| cookie.value);
                values.all(|value| take(Candidate::Bytes(value)));
            }
            Self::Regex(regex) if regex.captures_len() == 1 => {
                regex.find_iter(body).all(|found| take(Candidate::Bytes(found.as_bytes())));
            }
            Self::Regex(regex) => {
                let mut groups = regex.captures_iter(body).filter_map(|groups| groups.get(1));
                groups.all(|group| take(Candidate::Bytes(group.as_bytes())));
            }
            Self::Form(name) => form::fields(body, name, &mut |value| take(Candidate::Field(value))),
            Self::Body => {
                take(Candidate::Bytes(body));
            }
        }
    }
}

impl Candidate<'_> {
    fn value(self) -> Option<Value> {
        match self {
            Self::Node(node) => node.variable(),
            Self::Bytes(bytes) => Some(Value::from(&*String::from_utf8_lossy(bytes))),
            Self::Field(value) => Some(Value::from(&*value.decode())),
        }
    }
}

/// What was found, as far as it may be picked.
struct Picked<'a> {
    pick: Pick,
    one: Option<Candidate<'a>>,
    all: Vec<Candidate<'a>>,
}

impl<'a> Picked<'a> {
    /// Whether more are to be looked at.
    fn take(&mut self, candidate: Candidate<'a>) -> bool {
        match self.pick {
            Pick::First | Pick::Last => self.one = Some(candidate),
            Pick::Random | Pick::All => self.all.push(candidate),
        }
        self.pick != Pick::First && self.all.len() < MAX_VALUES
    }

    fn value(self, rng: &mut Rng) -> Option<Value> {
        match self.pick {
            Pick::First | Pick::Last => self.one?.value(),
            _ if self.all.is_empty() => None,
            Pick::Random => self.all[rng.below(self.all.len() as u64) as usize].value(),
            Pick::All => {
                Some(Value::from(self.all.into_iter().filter_map(Candidate::value).collect::<Vec<_>>()))
            }
        }
    }
}
