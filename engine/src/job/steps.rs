//! JSON → [`Journey`].
use super::cursor::{Node, Object};
use super::load::pause;
use super::parse::Context;
use super::{Branch, Expect, Journey, Request, StatusSet, Step};

/// A row has 32 bits for µs; half of them are left to wait and lag.
pub const MAX_TIMEOUT_US: u64 = 1_800_000_000;
/// Choices inside choices.
const MAX_DEPTH: usize = 16;
/// Headers that describe the message itself are the engine's own.
const OWN_HEADERS: [&str; 5] = ["content-length", "transfer-encoding", "connection", "upgrade", "expect"];

pub fn journey(mut o: Object<'_>, context: &Context<'_>) -> Option<Journey> {
    let think = o.optional("think").map(|n| pause(&n));
    let steps = o.required("steps").and_then(|n| steps(&n, context, 0));
    o.finish();
    Some(Journey { think: think.flatten(), steps: steps? })
}

fn steps(node: &Node<'_>, context: &Context<'_>, depth: usize) -> Option<Vec<Step>> {
    if depth > MAX_DEPTH {
        node.problem(format!("choices nested more than {MAX_DEPTH} deep"));
        return None;
    }
    let nodes = node.filled_array()?;
    let read = |n: &Node<'_>| n.object().and_then(|o| step(o, context, depth));
    // Every step is read before one that is wrong makes the list worthless.
    let steps: Vec<_> = nodes.iter().map(read).collect();
    steps.into_iter().collect()
}

fn step(mut o: Object<'_>, context: &Context<'_>, depth: usize) -> Option<Step> {
    let request_node = o.optional("request");
    let choose_node = o.optional("choose");
    if request_node.is_some() == choose_node.is_some() {
        o.problem("exactly one of request, choose is expected");
    }
    let request = request_node.and_then(|n| n.object()).and_then(|n| request(n, context));
    let choose = choose_node.and_then(|n| choose(&n, context, depth));
    o.finish();
    request.map(|r| Step::Request(Box::new(r))).or(choose)
}

fn choose(node: &Node<'_>, context: &Context<'_>, depth: usize) -> Option<Step> {
    let nodes = node.filled_array()?;
    let read = |n: &Node<'_>| n.object().and_then(|o| branch(o, context, depth));
    let branches: Vec<_> = nodes.iter().map(read).collect();
    let branches: Vec<_> = branches.into_iter().collect::<Option<_>>()?;
    if branches.iter().all(|b: &Branch| b.weight == 0.0) {
        node.problem("the weights sum to nothing");
    }
    Some(Step::Choose(branches))
}

fn branch(mut o: Object<'_>, context: &Context<'_>, depth: usize) -> Option<Branch> {
    let weight = o.required("weight").and_then(|n| n.number(0.0, 1e9));
    let steps = o.required("steps").and_then(|n| steps(&n, context, depth + 1));
    o.finish();
    Some(Branch { weight: weight?, steps: steps? })
}

fn request(mut o: Object<'_>, context: &Context<'_>) -> Option<Request> {
    let name = o.required("name").and_then(|n| n.name());
    let method = o.optional("method").map_or(Some("GET".to_owned()), |n| method(&n));
    let target = o.optional("target");
    let target = match target {
        Some(node) => find_target(&node, context),
        None if context.targets.len() == 1 => Some(0),
        None => {
            o.problem_at("target", format!("missing; targets: {}", context.targets.join(", ")));
            None
        }
    };
    let path = o.required("path").and_then(|n| path(&n));
    let headers = o.optional("headers").map_or(Some(Vec::new()), |n| headers(&n));
    let body = o.optional("body").map(|n| n.str().map(str::to_owned));
    let timeout = o.optional("timeout_us").map(|n| n.integer(1, MAX_TIMEOUT_US));
    let expect = o.optional("expect").map_or_else(|| Some(default_expect()), |n| n.object().and_then(expect));
    let think = o.optional("think").map(|n| pause(&n));
    let at = o.path.clone();
    o.finish();
    Some(Request {
        name: name?,
        method: method?,
        target: target?,
        path: path?,
        headers: headers?,
        body: body.flatten(),
        timeout_us: timeout.flatten(),
        expect: expect?,
        think: think.flatten(),
        at,
    })
}

fn find_target(node: &Node<'_>, context: &Context<'_>) -> Option<usize> {
    let name = node.str()?;
    let found = context.targets.iter().position(|t| t == name);
    if found.is_none() {
        node.problem(format!("\"{name}\" is no target; targets: {}", context.targets.join(", ")));
    }
    found
}

fn method(node: &Node<'_>) -> Option<String> {
    let text = node.str()?;
    if !is_token(text) || text.len() > 32 || text.eq_ignore_ascii_case("CONNECT") {
        node.problem(format!("\"{text}\" is no method that can be sent"));
        return None;
    }
    Some(text.to_ascii_uppercase())
}

fn path(node: &Node<'_>) -> Option<String> {
    let text = node.str()?;
    // Inside of a template blanks are fine; what it makes is escaped when it is rendered.
    let template = text.contains("{{");
    if !template && !text.starts_with('/') {
        node.problem(format!("the path \"{text}\" does not start with a slash"));
    }
    if !template && text.bytes().any(|b| b <= b' ' || b >= 0x7f) {
        node.problem("a blank, a control character or one outside of ASCII; escape it as %XX");
    }
    Some(text.to_owned())
}

/// Headers in their order; names are checked, values kept on one line.
pub fn headers(node: &Node<'_>) -> Option<Vec<(String, String)>> {
    let entries = node.object()?.entries();
    let mut headers = Vec::with_capacity(entries.len());
    for (name, node) in &entries {
        if !is_token(name) {
            node.problem("no valid header name");
        } else if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            node.problem("this header is set by the engine");
        }
        let value = node.str()?;
        if value.bytes().any(|b| (b < b' ' && b != b'\t') || b == 0x7f) {
            node.problem("a control character in a header value");
        }
        headers.push(((*name).to_owned(), value.to_owned()));
    }
    Some(headers)
}

/// RFC 9110 `token`.
pub fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

fn default_expect() -> Expect {
    let mut status = StatusSet::default();
    (200..400).for_each(|code| status.insert(code));
    Expect { status, contains: None }
}

fn expect(mut o: Object<'_>) -> Option<Expect> {
    let status = o.optional("status").map_or_else(|| Some(default_expect().status), |n| statuses(&n));
    let contains = o.optional("contains").map(|n| n.name());
    o.finish();
    Some(Expect { status: status?, contains: contains.flatten() })
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
