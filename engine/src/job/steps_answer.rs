//! JSON → [`Expect`] and [`Capture`]s.
use super::cursor::{Node, Object};
use super::steps_request::is_token;
use super::{Capture, Expect, HeaderCheck, HeaderRule, JsonCheck, JsonRule, Pick, Source, StatusSet};

/// Letters of the name of a check or a capture.
const MAX_NAME: usize = 64;

/// Reads `expect` of a request; where redirects are followed one that is left over is not what was expected.
pub fn expect(request: &mut Object<'_>, follows: bool) -> Option<Expect> {
    let last = if follows { 300 } else { 400 };
    let mut status = StatusSet::default();
    (200..last).for_each(|code| status.insert(code));
    let Some(node) = request.optional("expect") else {
        return Some(Expect { status, ..Expect::default() });
    };
    let mut o = node.object()?;
    let status = o.optional("status").map_or(Some(status), |n| statuses(&n));
    let contains = o.optional("contains").map(|n| n.name());
    let matches = o.optional("matches").map(|n| n.name());
    let json = o.optional("json").map_or(Some(Vec::new()), |n| all(&n, json_check));
    let header = o.optional("header").map_or(Some(Vec::new()), |n| all(&n, header_check));
    let size = o.optional("size_bytes").map(|n| n.range(0, u64::from(u32::MAX)));
    o.finish();
    Some(Expect {
        status: status?,
        contains: contains.flatten(),
        matches: matches.flatten(),
        json: json?,
        header: header?,
        size_bytes: size.flatten(),
    })
}

/// Every element is read before one that is wrong makes the list worthless.
fn all<T>(node: &Node<'_>, read: impl Fn(Object<'_>) -> Option<T>) -> Option<Vec<T>> {
    let read: Vec<_> = node.filled_array()?.iter().map(|n| n.object().and_then(&read)).collect();
    read.into_iter().collect()
}

fn json_check(mut o: Object<'_>) -> Option<JsonCheck> {
    let path = o.required("path").and_then(|n| n.name());
    let equals = o.optional("equals").map(|n| Some(JsonRule::Equals(n.value.clone())));
    let exists = o.optional("exists").map(|n| n.truth().map(JsonRule::Exists));
    let matches = o.optional("matches").map(|n| n.name().map(JsonRule::Matches));
    let rule = one_of(&o, "equals, exists, matches", [equals, exists, matches]);
    let name = o.optional("name").map(|n| outcome_name(&n));
    let at = o.path.clone();
    o.finish();
    Some(JsonCheck { path: path?, rule: rule?, name: name.flatten(), at })
}

fn header_check(mut o: Object<'_>) -> Option<HeaderCheck> {
    let name = o.required("name").and_then(|n| header_name(&n));
    let equals = o.optional("equals").map(|n| n.str().map(|text| HeaderRule::Equals(text.to_owned())));
    let contains = o.optional("contains").map(|n| n.name().map(HeaderRule::Contains));
    let exists = o.optional("exists").map(|n| n.truth().map(HeaderRule::Exists));
    let rule = one_of(&o, "equals, contains, exists", [equals, contains, exists]);
    o.finish();
    Some(HeaderCheck { name: name?, rule: rule? })
}

/// Exactly one of several; each is none if it is absent, and holds none if it is wrong.
#[expect(clippy::option_option, reason = "absent, wrong and right are three cases")]
fn one_of<T, const N: usize>(o: &Object<'_>, names: &str, found: [Option<Option<T>>; N]) -> Option<T> {
    let mut given: Vec<_> = found.into_iter().flatten().collect();
    if given.len() != 1 {
        o.problem(format!("exactly one of {names} is expected"));
    }
    given.pop().flatten()
}

/// The name of an outcome is read by people, and stands in every record file.
fn outcome_name(node: &Node<'_>) -> Option<String> {
    let name = node.name()?;
    if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        node.problem(format!("a name has at most {MAX_NAME} characters, none of them a control character"));
    }
    Some(name)
}

fn header_name(node: &Node<'_>) -> Option<String> {
    let name = node.name()?;
    if !is_token(&name) {
        node.problem("no valid header name");
    }
    Some(name)
}

fn statuses(node: &Node<'_>) -> Option<StatusSet> {
    let mut set = StatusSet::default();
    for node in node.filled_array()? {
        let text = node.value.as_u64().map(|n| n.to_string());
        let text = text.as_deref().or_else(|| node.value.as_str()).unwrap_or_default();
        let class =
            text.strip_suffix("xx").and_then(|c| c.parse::<u16>().ok()).filter(|c| (1..=5).contains(c));
        let code = text.parse::<u16>().ok().filter(|c| (100..=599).contains(c));
        match (class, code) {
            (Some(class), _) => (class * 100..class * 100 + 100).for_each(|code| set.insert(code)),
            (None, Some(code)) => set.insert(code),
            (None, None) => node.problem("a code from 100 to 599 or a class such as \"2xx\" is expected"),
        }
    }
    Some(set)
}

/// Reads `capture` of a request.
pub fn captures(node: &Node<'_>) -> Option<Vec<Capture>> {
    let entries = node.object()?.entries();
    let read: Vec<_> = entries.iter().map(|(name, node)| capture(name, node)).collect();
    read.into_iter().collect()
}

fn capture(name: &str, node: &Node<'_>) -> Option<Capture> {
    let mut o = node.object()?;
    let named = |node: Option<Node<'_>>, make: fn(String) -> Source| node.map(|n| n.name().map(make));
    let json = named(o.optional("json"), Source::Json);
    let header = o.optional("header").map(|n| header_name(&n).map(Source::Header));
    let cookie = named(o.optional("cookie"), Source::Cookie);
    let regex = named(o.optional("regex"), Source::Regex);
    let form = named(o.optional("form"), Source::Form);
    let body = o.optional("body").map(|n| {
        if n.value != &serde_json::Value::Bool(true) {
            n.problem("only true is possible");
        }
        Some(Source::Body)
    });
    let allowed = "json, header, cookie, regex, form, body";
    let source = one_of(&o, allowed, [json, header, cookie, regex, form, body]);
    let picks = [("first", Pick::First), ("last", Pick::Last), ("random", Pick::Random), ("all", Pick::All)];
    let pick = o.optional("pick").map_or(Some(Pick::First), |n| n.choice(&picks));
    let optional = o.optional("optional").map_or(Some(false), |n| n.truth());
    if name.len() > MAX_NAME {
        o.problem(format!("a name has at most {MAX_NAME} characters"));
    }
    let at = o.path.clone();
    o.finish();
    Some(Capture { name: name.to_owned(), source: source?, pick: pick?, optional: optional?, at })
}
