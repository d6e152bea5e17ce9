//! What looking at an answer costs: cookies, forms, JSON, decoding, each in ns.
//!
//! `cargo run --release --example answers_bench -- [ROUNDS]`
//!
//! The median of several rounds is printed. The last line is the shop journey: four requests, of which the first sets a
//! cookie, one has a form in a page of 4 to 10 KiB and one a JSON answer.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;
use towtank_engine::job::{Job, Request, Step};
use towtank_engine::journey::answers::{Answers, Jar, Place, Site, Workspace};
use towtank_engine::journey::{Fields, Value};
use towtank_engine::rng::Rng;
use towtank_engine::transport::{Outcome, OutcomeNames, Reply};

const CALLS: u32 = 2_000;

/// The median over rounds of the ns that a call takes.
fn measure(rounds: usize, name: &str, mut call: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..rounds)
        .map(|_| {
            let began = Instant::now();
            (0..CALLS).for_each(|_| call());
            began.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    let median = all[all.len() / 2];
    println!("{name:55} {median:9.0} ns   (least {:.0})", all[0]);
    median
}

fn request(more: &str) -> Request {
    let job = format!(
        r#"{{"version": 1, "run_id": "r", "output": "/nowhere",
        "targets": {{"app": {{"instances": [{{"name": "a", "url": "http://127.0.0.1:1"}}]}}}},
        "workloads": [{{"name": "w", "timeout_us": 1,
            "load": {{"model": "open", "stages": [{{"from_per_s": 1, "to_per_s": 1, "duration_us": 1}}]}},
            "journey": {{"steps": [{{"request": {{"name": "s", "path": "/", {more}}}}}]}}}}]}}"#
    );
    let mut job = Job::from_json(&job).unwrap_or_else(|p| panic!("{p:?}"));
    match job.workloads.remove(0).journey.steps.remove(0) {
        Step::Request(request) => *request,
        other => panic!("{other:?}"),
    }
}

/// A shop's page of about so many bytes: navigation, a grid of products, a form with a hidden token in its middle.
fn page(bytes: usize) -> Vec<u8> {
    let product = "<div class=\"card mb-3\"><a href=\"/product/L9ECAV7KIM\"><img class='thumb' alt=\"Loafers\" src=\"/img/loafers.jpg\"/></a>\
                   <div class=\"body\"><h5>Loafers</h5><p class=\"price\">$89.99</p></div></div>\n";
    let form = "<form method=\"POST\" action=\"/cart\"><input type=\"hidden\" name=\"csrf_token\" value=\"d41d8cd98f00b204\"/>\
                <select name=\"quantity\"><option>1</option><option>2</option></select><button>Add</button></form>\n";
    let script = "<script>if (a < b && c > d) { document.write('<p>'); }</script><style>p > a { color: red }</style>\n";
    let half = product.repeat(bytes / 2 / product.len());
    format!("<!DOCTYPE html><html><head><title>Shop</title>{script}</head><body>\n{half}{form}{half}</body></html>").into_bytes()
}

fn list(items: usize) -> Vec<u8> {
    let item = |id: usize| {
        format!(
            r#"{{"id": {id}, "name": "device {id}", "price": {{"units": 19, "nanos": 990000000}}, "tags": ["a", "b"]}}"#
        )
    };
    let items: Vec<_> = (0..items).map(item).collect();
    format!(r#"{{"items": [{}], "total": {}}}"#, items.join(", "), items.len()).into_bytes()
}

/// A step and an answer to it.
struct Case {
    answers: Answers,
    reply: Reply,
    work: Workspace,
    rng: Rng,
}

impl Case {
    fn new(more: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let answers = Answers::new(&request(more), &mut OutcomeNames::default(), |_| Some(0));
        let mut fields = Fields::default();
        for (name, value) in headers {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let reply = Reply { fields, body: body.to_vec() };
        let answers = answers.unwrap_or_else(|p| panic!("{p:?}"));
        Self { answers, reply, work: Workspace::default(), rng: Rng::from_parts(&[1]) }
    }

    fn look(&mut self) {
        let keep = |slot: usize, value: Value| {
            black_box((slot, value));
        };
        let reply = (200, black_box(&self.reply));
        let outcome = self.answers.judge(reply, 1 << 20, &mut self.work, &mut self.rng, keep);
        assert_eq!(outcome, Outcome::Answered);
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(25, |n| n.parse().unwrap());
    let headers = [
        ("content-type", "text/html; charset=utf-8"),
        ("date", "Sat, 21 Nov 2026 06:43:45 GMT"),
        ("server", "shop"),
        ("vary", "accept-encoding"),
    ];
    let case = |name: &str, more: &str, headers: &[(&str, &str)], body: &[u8]| {
        let mut case = Case::new(more, headers, body);
        measure(rounds, &format!("{name} ({} B)", body.len()), || case.look())
    };
    let csrf = r#""capture": {"csrf": {"form": "csrf_token"}}"#;
    let last = r#""capture": {"csrf": {"form": "csrf_token", "pick": "last"}}"#;
    let form4 = case("form field", csrf, &headers, &page(4096));
    let form10 = case("form field", csrf, &headers, &page(10_240));
    case("form field, the last: all of the page", last, &headers, &page(10_240));
    let first = r#""capture": {"id": {"json": "$.items[0].id"}}"#;
    let json = case("json, a plain path", first, &headers, &list(12));
    case("json, a plain path", first, &headers, &list(1));
    case("json, a path that needs all of it", r#""capture": {"id": {"json": "$..id"}}"#, &headers, &list(12));
    case(
        "json, one of 500",
        r#""capture": {"id": {"json": "$.items[*].id", "pick": "random"}}"#,
        &headers,
        &list(500),
    );
    case(
        "json, all of 500",
        r#""capture": {"id": {"json": "$.items[*].id", "pick": "all"}}"#,
        &headers,
        &list(500),
    );
    case("contains", r#""expect": {"contains": "</html>"}"#, &headers, &page(10_240));
    case("regex", r#""capture": {"x": {"regex": "csrf_token\" value=\"(\\w+)"}}"#, &headers, &page(10_240));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&list(12)).unwrap();
    case("gzip and json", first, &[("content-encoding", "gzip")], &encoder.finish().unwrap());
    let plain = case("status alone", r#""expect": {"status": [200]}"#, &headers, b"");

    let site = Site::new("127.0.0.1", false);
    let place = Place::new(&site, "", "/product/L9ECAV7KIM?x=1");
    let mut fields = Fields::default();
    fields.push(
        b"set-cookie",
        b"shop_session-id=0f8fad5b-d9cb-469f-a165-70867728950e; Max-Age=172800; Path=/; HttpOnly",
    );
    let set = measure(rounds, "a cookie is set in a new jar", || {
        let mut jar = Jar::default();
        jar.take_in(black_box(&fields), place, 1, || 0);
        black_box(jar);
    });
    let mut jar = Jar::default();
    jar.take_in(&fields, place, 1, || 0);
    let mut extra = Fields::default();
    let send = measure(rounds, "a cookie is sent", || {
        extra.clear();
        let place = Place::new(&site, "", black_box("/product/L9ECAV7KIM?x=1"));
        extra.push_with(b"cookie", |bytes| jar.write(place, 2, bytes));
        black_box(&extra);
    });
    let none = measure(rounds, "an answer without cookies", || {
        jar.take_in(black_box(&Fields::default()), place, 1, || 0);
    });
    let shop = (set + 3.0 * (send + none) + f64::midpoint(form4, form10) + json + 2.0 * plain) / 4.0;
    println!("{:55} {shop:9.0} ns a request", "shop journey");
}
