//! JSON → [`Request`].
use super::cursor::{Node, Object};
use super::load::pause;
use super::parse::Context;
use super::steps_answer::{captures, expect};
use super::steps_body::{body, cloud_event};
use super::{Body, Request};

/// A row has 32 bits for µs; half of them are left to wait and lag.
pub const MAX_TIMEOUT_US: u64 = 1_800_000_000;
/// A row has three bits for the redirects that were followed.
const MAX_REDIRECTS: u64 = 7;
/// Headers that describe the message itself are the engine's own.
const OWN_HEADERS: [&str; 5] = ["content-length", "transfer-encoding", "connection", "upgrade", "expect"];

pub fn request(mut o: Object<'_>, context: &Context<'_>) -> Option<Request> {
    let name = o.required("name").and_then(|n| n.name());
    let grpc = o.optional("grpc").map_or(Some(false), |n| n.truth());
    let default_method = if grpc == Some(true) { "POST" } else { "GET" };
    let method = o.optional("method").map_or(Some(default_method.to_owned()), |n| method(&n));
    let target = find_target(&mut o, context);
    let path = o.required("path").and_then(|n| path(&n));
    let query = o.optional("query").map_or(Some(Vec::new()), |n| pairs(&n));
    let headers = o.optional("headers").map_or(Some(Vec::new()), |n| headers(&n));
    let body = o.optional("body").map(|n| body(&n, context));
    let timeout = o.optional("timeout_us").map(|n| n.integer(1, MAX_TIMEOUT_US));
    let redirects = o.optional("redirects").map_or(Some(0), |n| n.integer(0, MAX_REDIRECTS));
    let expect = expect(&mut o, redirects.unwrap_or(0) > 0);
    let capture = o.optional("capture").map_or(Some(Vec::new()), |n| captures(&n));
    let compression = o.optional("compression").map_or(Some(false), |n| n.truth());
    let expect_continue = o.optional("expect_continue").map_or(Some(false), |n| n.truth());
    let cloud_event = o.optional("cloud_event").map(|n| n.object().and_then(cloud_event));
    let traceparent = o.optional("traceparent").map(|n| n.number(0.0, 1.0));
    let think = o.optional("think").map(|n| pause(&n));
    let request = Request {
        name: name?,
        method: method?,
        target: target?,
        path: path?,
        query: query?,
        headers: headers?,
        body: body.flatten(),
        timeout_us: timeout.flatten(),
        expect: expect?,
        capture: capture?,
        redirects: redirects? as u8,
        compression: compression?,
        expect_continue: expect_continue?,
        cloud_event: cloud_event.flatten().map(Box::new),
        traceparent: traceparent.flatten(),
        grpc: grpc?,
        think: think.flatten(),
        at: o.path.clone(),
    };
    check_together(&o, &request);
    o.finish();
    Some(request)
}

/// What is right by itself, but not together.
fn check_together(o: &Object<'_>, request: &Request) {
    if request.grpc {
        if request.method != "POST" {
            o.problem_at("method", format!("{} with grpc; a call is a POST", request.method));
        }
        if !matches!(request.body, Some(Body::Bytes(_))) {
            o.problem_at(
                "body",
                "with grpc the body is one protobuf message: {\"base64\": …} or {\"file\": …}",
            );
        }
        if request.cloud_event.is_some() {
            o.problem_at("cloud_event", "both grpc and cloud_event; only one of them can be asked for");
        }
    }
    let structured = request.cloud_event.as_ref().is_some_and(|event| event.structured);
    if structured && matches!(request.body, Some(Body::Multipart(_) | Body::Generated(..))) {
        o.problem_at(
            "body",
            "a structured event holds text, json, form, file or base64; for multipart or bytes use binary",
        );
    }
    if request.expect_continue && request.body.is_none() {
        o.problem_at("expect_continue", "there is no body that could wait");
    }
}

fn find_target(o: &mut Object<'_>, context: &Context<'_>) -> Option<usize> {
    let all = || context.targets.join(", ");
    let Some(node) = o.optional("target") else {
        if context.default_target.is_some() {
            return context.default_target;
        }
        o.problem_at("target", format!("missing; targets: {}", all()));
        return None;
    };
    let name = node.str()?;
    let found = context.targets.iter().position(|t| t == name);
    if found.is_none() {
        node.problem(format!("\"{name}\" is no target; targets: {}", all()));
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
    if !template && text.contains('#') {
        node.problem("a # in the path: what follows it is never sent; leave it out, or escape it as %23");
    }
    Some(text.to_owned())
}

/// Names and values; a list of values repeats its name.
pub fn pairs(node: &Node<'_>) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut complete = true;
    for (name, node) in node.object()?.entries() {
        let values = if node.value.is_array() { node.array()? } else { vec![node] };
        for value in values {
            let Some(text) = value.scalar() else {
                complete = false;
                continue;
            };
            pairs.push((name.to_owned(), text));
        }
    }
    complete.then_some(pairs)
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
