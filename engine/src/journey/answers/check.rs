//! Checks of an answer: what must hold of it, besides its status.
use super::json::{Found, JsonPaths};
use crate::job::{Expect, HeaderCheck, HeaderRule, JsonRule, Problem};
use crate::journey::Fields;
use crate::transport::{Outcome, OutcomeNames};
use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

/// Bytes that a compiled regular expression may take.
const MAX_REGEX_BYTES: usize = 8 << 20;

/// All checks of a step, in the order in which they are made.
#[derive(Default)]
pub struct Checks {
    contains: Option<Finder<'static>>,
    matches: Option<(Regex, Outcome)>,
    json: Vec<JsonCheck>,
    header: Vec<(HeaderCheck, Outcome)>,
    size: Option<((u64, u64), Outcome)>,
}

struct JsonCheck {
    /// Number of its path among those of the step.
    path: u16,
    rule: Rule,
    outcome: Outcome,
}

enum Rule {
    Equals(Value),
    Exists(bool),
    Matches(Regex),
}

/// What compiling adds to.
pub struct Compiling<'a> {
    /// The paths of the step.
    pub paths: &'a mut JsonPaths,
    /// The outcomes of the job.
    pub outcomes: &'a mut OutcomeNames,
    /// What is wrong.
    pub problems: &'a mut Vec<Problem>,
}

impl Compiling<'_> {
    /// Notes what went wrong.
    pub fn problem<T>(&mut self, path: impl Into<String>, message: impl Into<String>) -> Option<T> {
        self.problems.push(Problem { path: path.into(), message: message.into() });
        None
    }

    /// The outcome of this name.
    pub fn outcome(&mut self, name: &str, at: &str) -> Option<Outcome> {
        let outcome = self.outcomes.intern(name);
        let most = crate::transport::MAX_NAMED;
        outcome.or_else(|| {
            let message = format!(
                "no room for the outcome \"{name}\": at most {most} names of checks and captures are possible"
            );
            self.problem(at, message)
        })
    }

    /// A compiled regular expression.
    pub fn regex(&mut self, source: &str, at: &str) -> Option<Regex> {
        let built = RegexBuilder::new(source).size_limit(MAX_REGEX_BYTES).build();
        built
            .map_err(|e| e.to_string())
            .or_else(|error| {
                // The message draws the expression and a pointer to the place; the last line says what is wrong.
                let what = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.problem(at, format!("no regular expression: {source}: {what}")).ok_or(())
            })
            .ok()
    }

    /// The number of a path.
    pub fn path(&mut self, source: &str, at: &str) -> Option<u16> {
        self.paths.add(source).or_else(|message| self.problem(at, message).ok_or(())).ok()
    }
}

impl Checks {
    /// Compiles; `at` is where the request stands in the job.
    pub fn new(expect: &Expect, at: &str, with: &mut Compiling<'_>) -> Self {
        let contains = expect.contains.as_ref().map(|text| Finder::new(text.as_bytes()).into_owned());
        let matches = expect.matches.as_ref().and_then(|source| {
            let at = format!("{at}.expect.matches");
            Some((with.regex(source, &at)?, with.outcome("check:matches", &at)?))
        });
        let json = expect.json.iter().filter_map(|check| {
            let path = with.path(&check.path, &format!("{}.path", check.at));
            let rule = match &check.rule {
                JsonRule::Equals(value) => Some(Rule::Equals(value.clone())),
                JsonRule::Exists(exists) => Some(Rule::Exists(*exists)),
                JsonRule::Matches(source) => {
                    with.regex(source, &format!("{}.matches", check.at)).map(Rule::Matches)
                }
            };
            let name = format!("check:{}", check.name.as_deref().unwrap_or("json"));
            let outcome = with.outcome(&name, &check.at);
            Some(JsonCheck { path: path?, rule: rule?, outcome: outcome? })
        });
        let json = json.collect();
        let header = expect.header.iter().filter_map(|check| {
            Some((check.clone(), with.outcome("check:header", &format!("{at}.expect.header"))?))
        });
        let header = header.collect();
        let size = expect.size_bytes.and_then(|bounds| {
            Some((bounds, with.outcome("check:size", &format!("{at}.expect.size_bytes"))?))
        });
        Self { contains, matches, json, header, size }
    }

    /// Whether the body matters.
    pub fn want_body(&self) -> bool {
        self.contains.is_some() || self.matches.is_some() || !self.json.is_empty() || self.size.is_some()
    }

    /// Whether header fields matter.
    pub fn want_fields(&self) -> bool {
        !self.header.is_empty()
    }

    /// The outcome of the first check that fails.
    pub fn judge(&self, fields: &Fields, body: &[u8], found: &Found<'_>) -> Result<(), Outcome> {
        let hold = |holds: bool, outcome: Outcome| if holds { Ok(()) } else { Err(outcome) };
        if let Some(text) = &self.contains {
            hold(text.find(body).is_some(), Outcome::CheckContains)?;
        }
        if let Some((regex, outcome)) = &self.matches {
            hold(regex.is_match(body), *outcome)?;
        }
        for check in &self.json {
            hold(check.holds(found), check.outcome)?;
        }
        for (check, outcome) in &self.header {
            hold(header_holds(check, fields), *outcome)?;
        }
        if let Some(((least, most), outcome)) = self.size {
            hold((least..=most).contains(&(body.len() as u64)), outcome)?;
        }
        Ok(())
    }
}

impl JsonCheck {
    fn holds(&self, found: &Found<'_>) -> bool {
        // Of what is not JSON nothing is known, not even that something is missing from it.
        if matches!(found, Found::Nothing) {
            return false;
        }
        let node = found.first(self.path);
        match &self.rule {
            Rule::Exists(exists) => node.is_some() == *exists,
            Rule::Equals(value) => node.is_some_and(|node| node.equals(value)),
            Rule::Matches(regex) => node.is_some_and(|node| regex.is_match(node.text().as_bytes())),
        }
    }
}

fn header_holds(check: &HeaderCheck, fields: &Fields) -> bool {
    let mut values = fields.all(check.name.as_bytes());
    match &check.rule {
        HeaderRule::Exists(exists) => values.next().is_some() == *exists,
        HeaderRule::Equals(text) => values.any(|value| value == text.as_bytes()),
        HeaderRule::Contains(text) => {
            values.any(|value| memchr::memmem::find(value, text.as_bytes()).is_some())
        }
    }
}
