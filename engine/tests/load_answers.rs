//! What is made of answers, from end to end: cookies, captures, checks, redirects, compression.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use flate2::Compression;
use flate2::write::GzEncoder;
use load_support::patience::{bounded, in_time};
use load_support::server::{Peer, Request, Server};
use load_support::{Outcome, job, run, text, times, truth};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};

/// A server that answers by the path of the request, and what it was asked.
struct Shop {
    server: Server,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Status, header lines, body.
type Answer = (u16, String, Vec<u8>);

impl Shop {
    fn new(answer: impl Fn(&str, &Request) -> Answer + Send + Sync + 'static) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        let server = Server::answering(move |peer: &mut Peer, request| {
            let line = request.head.lines().next().unwrap_or_default();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            log.lock().unwrap().push(format!("{}{}", request.head, String::from_utf8_lossy(&request.body)));
            let (status, headers, body) = answer(&path, &request);
            let length = body.len();
            let head = format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {length}\r\n\r\n");
            peer.send([head.as_bytes(), &body].concat());
        });
        Self { server, asked }
    }

    /// One user, so many iterations.
    fn run(&self, iterations: u32, steps: Value) -> Outcome {
        run(job(&self.server.at(), times(iterations), steps))
    }

    /// The heads of all requests, each with its body.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The value of a header in each request; "-" where it is not sent.
    fn header(&self, name: &str) -> Vec<String> {
        let of = |request: &String| {
            let values: Vec<_> =
                request.lines().filter_map(|l| l.strip_prefix(&format!("{name}: "))).collect();
            assert!(values.len() <= 1, "{request}");
            values.first().map_or("-".to_owned(), |value| (*value).to_owned())
        };
        self.asked().iter().map(of).collect()
    }

    fn lines(&self) -> Vec<String> {
        let line = |request: &String| request.lines().next().unwrap_or_default().replace(" HTTP/1.1", "");
        self.asked().iter().map(line).collect()
    }
}

fn answer(status: u16, headers: &[&str], body: &str) -> Answer {
    let lines: String = headers.iter().flat_map(|line| [*line, "\r\n"]).collect();
    (status, lines, body.as_bytes().to_vec())
}

#[expect(clippy::needless_pass_by_value, reason = "callers write it out in place")]
fn get(name: &str, path: &str, more: Value) -> Value {
    let mut request = json!({"name": name, "path": path});
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"request": request})
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn cookies_go_back_to_where_they_came_from() {
    let shop = Shop::new(|path, _| match path {
        "/" => answer(200, &["Set-Cookie: sid=s1; Path=/; HttpOnly", "set-cookie: cart=c; Path=/cart"], ""),
        "/cart" => answer(200, &["set-cookie: sid=s2; Path=/"], ""),
        "/out" => answer(500, &["set-cookie: sid=; Path=/; Max-Age=0", "set-cookie: s=1; Secure"], ""),
        _ => answer(200, &[], ""),
    });
    let steps = json!([
        get("home", "/", json!({})),
        get("cart", "/cart", json!({})),
        get("own", "/cart?x", json!({"headers": {"cookie": "own=1", "x-a": "b"}})),
        get("made", "/cart/{{ iteration }}", json!({"headers": {"cookie": "own={{ user }}"}})),
        get("out", "/out", json!({})),
        get("end", "/end", json!({"headers": {"cookie": "own=1"}})),
    ]);
    let outcome = shop.run(2, steps);
    let expected =
        ["-", "cart=c; sid=s1", "own=1; cart=c; sid=s2", "own=0; cart=c; sid=s2", "sid=s2", "own=1"];
    let header = |request: &String| {
        let of = |line: &str| {
            Some(line.split_once(": ")?.1.to_owned()).filter(|_| line.to_lowercase().starts_with("cookie: "))
        };
        request.lines().find_map(of).unwrap_or("-".into())
    };
    let sent: Vec<_> = shop.asked().iter().map(header).collect();
    assert_eq!(sent, [expected, expected].concat());
    assert_eq!(outcome.outcomes()[4], "check:status");
}

#[test]
fn a_journey_without_cookies_sends_none_and_each_session_has_its_own() {
    static FIRST: Mutex<u32> = Mutex::new(0);
    static SECOND: Mutex<u32> = Mutex::new(0);
    let set_number = |shop_number: &'static Mutex<u32>| {
        Shop::new(move |path, _| {
            let mut number = shop_number.lock().unwrap();
            *number += u32::from(path == "/");
            answer(200, &[&format!("set-cookie: n={number}")], "")
        })
    };
    let steps = json!([get("a", "/", json!({})), get("b", "/b", json!({}))]);
    let shop = set_number(&FIRST);
    let mut without = job(&shop.server.at(), times(2), steps.clone());
    without["workloads"][0]["journey"]["cookies"] = false.into();
    run(without);
    assert_eq!(shop.header("cookie"), ["-"; 4]);
    let shop = set_number(&SECOND);
    let mut sessions = times(3);
    sessions["session"] = "iteration".into();
    run(job(&shop.server.at(), sessions, steps));
    assert_eq!(shop.header("cookie"), ["-", "n=1", "-", "n=2", "-", "n=3"]);
}

#[test]
fn a_form_is_sent_with_its_token() {
    let shop = Shop::new(|path, request| match path {
        "/form" => answer(
            200,
            &[],
            "<!-- name=csrf value=no --><form><input type=hidden value='t&amp;1' name=csrf></form>",
        ),
        "/order" => {
            let good = request.body == b"csrf=t%261&item=7";
            answer(if good { 201 } else { 403 }, &[], "")
        }
        _ => answer(404, &[], ""),
    });
    let outcome = shop.run(
        3,
        json!([
            get("form", "/form", json!({"capture": {"csrf": {"form": "csrf"}}})),
            get(
                "order",
                "/order",
                json!({"method": "POST", "body": {"form": {"csrf": "{{ csrf }}", "item": "7"}}})
            ),
        ]),
    );
    assert_eq!(outcome.outcomes(), ["answered"; 6]);
    assert!(outcome.column("status").iter().skip(1).step_by(2).all(|status| *status == Some(201)));
}

#[test]
fn a_token_is_kept_and_a_device_picked_from_a_list() {
    let shop = Shop::new(|path, _| match path {
        "/login" => answer(200, &[], r#"{"token": "abc.def"}"#),
        "/devices" => {
            let list: Vec<_> = (0..500).map(|id| json!({"id": id, "name": format!("device {id}")})).collect();
            answer(200, &["content-type: application/json"], &json!({"items": list}).to_string())
        }
        _ => answer(200, &[], "{}"),
    });
    let outcome = shop.run(30, json!([
        {"once": [get("login", "/login", json!({"method": "POST", "body": {"json": {"user": "u"}}, "capture": {"token": {"json": "$.token"}}}))]},
        get("list", "/devices", json!({
            "headers": {"authorization": "Bearer {{ token }}"},
            "expect": {"json": [{"path": "$.items[499].id", "equals": 499, "name": "all"}], "header": [{"name": "content-type", "contains": "json"}]},
            "capture": {"device": {"json": "$.items[*].id", "pick": "random"}},
        })),
        get("one", "/devices/{{ device }}", json!({"headers": {"authorization": "Bearer {{ token }}"}})),
    ]));
    assert_eq!(outcome.outcomes(), ["answered"; 61]);
    assert_eq!(shop.header("authorization")[1..], ["Bearer abc.def"; 60]);
    let picked: std::collections::BTreeSet<String> =
        shop.lines().into_iter().filter(|line| line.starts_with("GET /devices/")).collect();
    assert!(picked.len() > 20, "30 draws of 500 are hardly ever the same: {picked:?}");
    assert!(
        picked.iter().all(|line| line.strip_prefix("GET /devices/").unwrap().parse::<u32>().unwrap() < 500)
    );
}

#[test]
fn what_is_not_found_has_an_outcome_and_what_needs_it_is_not_sent() {
    let shop = Shop::new(|path, _| match path {
        "/a" => answer(200, &[], r#"{"b": 1}"#),
        _ => answer(200, &[], ""),
    });
    let outcome = shop.run(1, json!([
        get("a", "/a", json!({"capture": {"token": {"json": "$.token"}, "maybe": {"json": "$.maybe", "optional": true}, "b": {"json": "$.b"}}})),
        get("b", "/b/{{ token }}", json!({})),
        get("c", "/c/x{{ maybe }}/{{ b }}", json!({})),
    ]));
    assert_eq!(outcome.outcomes(), ["capture:token", "capture_missing", "answered"]);
    assert_eq!(shop.lines(), ["GET /a", "GET /c/x/1"]);
    assert!(!outcome.findings().contains(&"template_failed"), "the system's failure, not the engine's");
    assert!(outcome.finding("capture_missing").contains("step \"b\": token: no capture has set it"));
    assert_eq!(outcome.count("sent"), 2);
}

/// Answers the first request with a token, and fails the next ones.
fn failing_after_one() -> Shop {
    let tokens = Mutex::new(0);
    Shop::new(move |path, _| {
        let mut tokens = tokens.lock().unwrap();
        *tokens += u32::from(path == "/token");
        let status = if path == "/token" && *tokens > 1 { 503 } else { 200 };
        answer(status, &[], r#"{"token": "t", "maybe": "m", "n": "x"}"#)
    })
}

#[test]
fn a_failed_answer_forgets_what_an_earlier_one_gave_in_every_load() {
    let captured =
        json!({"capture": {"token": {"json": "$.token"}, "maybe": {"json": "$.maybe", "optional": true}}});
    let steps = json!([
        get("token", "/token", captured),
        get("plain", "/use/{{ token }}", json!({"capture": {"next": {"json": "$.n"}}})),
        get("filtered", "/use/{{ token | upper }}", json!({})),
        get("chained", "/next/{{ next }}", json!({})),
        get("optional", "/maybe/x{{ maybe }}", json!({})),
    ]);
    let mut sessions = times(2);
    sessions["session"] = "iteration".into();
    let arrivals =
        json!({"model": "open", "stages": [{"from_per_s": 10, "to_per_s": 10, "duration_us": 200_000}]});
    for load in [times(2), sessions, arrivals] {
        let shop = failing_after_one();
        let outcome = run(job(&shop.server.at(), load.clone(), steps.clone()));
        let failed = ["check:status", "capture_missing", "capture_missing", "capture_missing", "answered"];
        assert_eq!(outcome.outcomes(), [&["answered"; 5][..], &failed].concat(), "{load}");
        let expected = ["/token", "/use/t", "/use/T", "/next/x", "/maybe/xm", "/token", "/maybe/x"];
        assert_eq!(shop.lines(), expected.map(|path| format!("GET {path}")), "{load}");
        let findings = outcome.findings();
        assert!(
            !findings.contains(&"template_failed") && findings.contains(&"capture_missing"),
            "{findings:?}"
        );
    }
}

#[test]
fn a_condition_that_lacks_a_capture_is_no_fault_of_the_journey() {
    let condition = json!({"condition": "{{ token | length > 0 }}", "steps": [get("use", "/use", json!({"capture": {"seen": {"json": "$.n"}}}))]});
    let steps = json!([
        get("token", "/token", json!({"capture": {"token": {"json": "$.token"}}})),
        {"if": condition},
        get("after", "/after/{{ seen }}", json!({})),
    ]);
    let mut load = times(2);
    load["session"] = "iteration".into();
    let outcome = run(job(&failing_after_one().server.at(), load, steps));
    assert_eq!(outcome.outcomes(), ["answered", "answered", "answered", "check:status", "capture_missing"]);
    assert!(outcome.finding("capture_missing").starts_with("a condition: "));
    assert!(!outcome.findings().contains(&"template_failed"));
}

#[test]
fn a_template_that_is_wrong_in_itself_stays_one() {
    let captured = json!({"capture": {"token": {"json": "$.token"}, "n": {"json": "$.n"}}});
    let use_first = json!([get("use", "/use/{{ token }}", json!({})), get("ok", "/ok", captured.clone())]);
    let arithmetic = json!([get("ok", "/ok", captured), get("sum", "/{{ n - 1 }}", json!({}))]);
    // That another capture has come to nothing does not excuse it.
    let none = json!({"capture": {"lost": {"json": "$.lost"}, "n": {"json": "$.n"}}});
    let beside = json!([get("ok", "/ok", none), get("sum", "/{{ n - 1 }}", json!({}))]);
    for (steps, expected) in [
        (use_first, ["template", "answered"]),
        (arithmetic, ["answered", "template"]),
        (beside, ["capture:lost", "template"]),
    ] {
        let outcome = failing_after_one().run(1, steps);
        assert_eq!(outcome.outcomes(), expected);
        assert!(outcome.findings().contains(&"template_failed"));
        assert!(!outcome.findings().contains(&"capture_missing"));
    }
}

#[test]
fn checks_have_their_outcomes_in_the_records() {
    let shop = Shop::new(|_, _| answer(200, &["x-a: 1"], r#"{"ok": false, "n": 3}"#));
    let step = |name: &str, expect: Value| get(name, "/", json!({"expect": expect}));
    let outcome = shop.run(1, json!([
        step("a", json!({"json": [{"path": "$.n", "equals": 3}], "matches": "\"n\": \\d", "size_bytes": [1, 100]})),
        step("b", json!({"json": [{"path": "$.ok", "equals": true, "name": "order-ok"}]})),
        step("c", json!({"json": [{"path": "$.no", "exists": true}]})),
        step("d", json!({"header": [{"name": "X-A", "equals": "2"}]})),
        step("e", json!({"size_bytes": 5})),
        step("f", json!({"matches": "^n"})),
        step("g", json!({"contains": "yes"})),
        step("h", json!({"status": [201]})),
    ]));
    let expected = [
        "answered",
        "check:order-ok",
        "check:json",
        "check:header",
        "check:size",
        "check:matches",
        "check:contains",
        "check:status",
    ];
    assert_eq!(outcome.outcomes(), expected);
    let by_outcome = &outcome.event("done")["counts"];
    assert_eq!(by_outcome["rows"], 8);
}

#[test]
fn compressed_bodies_are_decoded_where_somebody_looks() {
    let shop = Shop::new(|path, _| match path {
        "/bad" => (200, "content-encoding: gzip\r\n".into(), b"no gzip".to_vec()),
        "/bomb" => (200, "content-encoding: gzip\r\n".into(), gzip(&vec![b' '; 3_000_000])),
        _ => (200, "content-encoding: gzip\r\n".into(), gzip(br#"{"items": [{"id": 4}]}"#)),
    });
    let look = json!({"compression": true, "expect": {"json": [{"path": "$.items[0].id", "equals": 4}]}, "capture": {"id": {"json": "$.items[0].id"}}});
    let mut bad = look.clone();
    bad.as_object_mut().unwrap().remove("capture");
    let steps = json!([
        get("good", "/good", look),
        get("bad", "/bad", bad),
        get("blind", "/bad", json!({"compression": true})),
        get("bomb", "/bomb", json!({"compression": true, "expect": {"contains": "x"}})),
        get("use", "/{{ id }}", json!({"headers": {"accept-encoding": "br"}, "compression": true})),
    ]);
    let mut job = job(&shop.server.at(), times(1), steps);
    job["limits"] = json!({"max_body_bytes": 1_000_000});
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["answered", "protocol", "answered", "too_large", "answered"]);
    assert_eq!(shop.header("accept-encoding"), ["gzip, br", "gzip, br", "gzip, br", "gzip, br", "br"]);
    assert!(outcome.column("bytes_in")[3].unwrap() < 10_000, "what was on the wire");
    assert_eq!(shop.lines()[4], "GET /4");
}

#[test]
fn redirects_are_followed_and_cookies_of_every_hop_kept() {
    let shop = Shop::new(|path, _| match path {
        "/login" => answer(302, &["Location: next?a=b", "set-cookie: a=1; Path=/"], "redirected"),
        "/next?a=b" => answer(307, &["location: /deep/home", "set-cookie: b=2; Path=/"], ""),
        "/made?0" => answer(302, &["location: /home"], ""),
        "/keep" => answer(308, &["location: ./kept"], ""),
        "/loop" => answer(301, &["location: /loop"], ""),
        "/away" => answer(302, &["location: http://example.invalid/"], ""),
        "/nowhere" => answer(302, &[], ""),
        _ => answer(200, &[], "home"),
    });
    let post = |name: &str, path: &str, redirects: u32| {
        get(
            name,
            path,
            json!({"method": "POST", "body": {"json": {"a": 1}}, "redirects": redirects, "headers": {"authorization": "x"}}),
        )
    };
    let steps = json!([
        post("login", "/login", 5),
        post("keep", "/keep", 1),
        get("loop", "/loop", json!({"redirects": 3})),
        get("away", "/away", json!({"redirects": 3})),
        get("nowhere", "/nowhere", json!({"redirects": 3})),
        get("still", "/loop", json!({})),
        get("made", "/made?{{ iteration }}", json!({"redirects": 1})),
    ]);
    let outcome = shop.run(1, steps);
    assert_eq!(
        outcome.outcomes(),
        ["answered", "answered", "redirect", "redirect", "check:status", "answered", "answered"]
    );
    assert_eq!(
        shop.lines(),
        [
            "POST /login",
            "GET /next?a=b",
            "GET /deep/home",
            "POST /keep",
            "POST /kept",
            "GET /loop",
            "GET /loop",
            "GET /loop",
            "GET /loop",
            "GET /away",
            "GET /nowhere",
            "GET /loop",
            "GET /made?0",
            "GET /home",
        ]
    );
    assert_eq!(shop.header("cookie")[..4], ["-", "a=1", "a=1; b=2", "a=1; b=2"]);
    assert_eq!(shop.header("authorization")[..5], ["x"; 5], "the same host is trusted");
    let asked = shop.asked();
    assert!(!asked[1].contains("content-") && !asked[1].contains("{\"a\""), "{}", asked[1]);
    assert!(
        asked[4].contains("content-type: application/json") && asked[4].ends_with("{\"a\":1}"),
        "{}",
        asked[4]
    );
    assert_eq!(outcome.column("redirects"), [2, 1, 3, 0, 0, 0, 1].map(Some));
    let status = outcome.column("status");
    assert_eq!(status[..3], [Some(200), Some(200), Some(301)]);
    let sent: i64 = asked[..3].iter().map(|request| request.len() as i64).sum();
    assert_eq!(outcome.column("bytes_out")[0], Some(sent));
    assert!(
        !truth(&outcome.records[0], "reused") && outcome.column("connect_us")[0].is_some(),
        "phases of the first"
    );
    assert_eq!(outcome.records.len(), 7);
}

#[test]
fn another_target_gets_its_own_headers_and_no_credentials() {
    let second = Shop::new(|path, _| match path {
        "/b/x" => answer(200, &["set-cookie: other=1"], "there"),
        _ => answer(404, &[], ""),
    });
    let to = format!("location: http://{}/b/x", second.server.at());
    let first = Shop::new(move |path, _| match path {
        "/v1/go" => answer(307, &[&to, "set-cookie: c=1; Path=/b"], ""),
        "/v1/up" => answer(302, &["location: /outside"], ""),
        "/outside" => answer(200, &[], ""),
        _ => answer(404, &[], ""),
    });
    let steps = json!([
        get(
            "go",
            "/go",
            json!({"target": "app", "redirects": 1, "headers": {"authorization": "secret", "x-mine": "m"}, "expect": {"contains": "there"}})
        ),
        get("up", "/up", json!({"target": "app", "redirects": 1})),
    ]);
    let mut job = job(&format!("{}/v1", first.server.at()), times(1), steps);
    job["targets"]["app"]["headers"] = json!({"x-key": "private"});
    job["targets"]["other"] = json!({
        "instances": [{"name": "b", "url": format!("http://{}/b", second.server.at())}],
        "headers": {"x-other": "o-{{ user }}"},
    });
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["answered", "answered"]);
    assert_eq!(first.lines(), ["GET /v1/go", "GET /v1/up", "GET /outside"]);
    assert_eq!(
        (first.header("x-key"), first.header("authorization")[0].as_str()),
        (vec!["private".into(); 3], "secret")
    );
    let asked = &second.asked()[0];
    assert!(
        asked.starts_with("GET /b/x HTTP/1.1\r\n")
            && asked.contains(&format!("Host: {}\r\n", second.server.at())),
        "{asked}"
    );
    assert_eq!(
        (second.header("x-key"), second.header("authorization")),
        (vec!["-".to_owned()], vec!["-".to_owned()])
    );
    assert_eq!(
        (second.header("x-other"), second.header("x-mine")),
        (vec!["o-0".to_owned()], vec!["m".to_owned()])
    );
    assert_eq!(second.header("cookie"), ["c=1"], "the same host, for which ports do not matter");
    assert_eq!(text(&outcome.records[0], "instance"), "b", "the one that gave the answer");
    assert_eq!(text(&outcome.records[0], "target"), "app", "where the step sends it");
}

#[test]
fn the_time_of_all_hops_is_bounded_by_one_timeout() {
    let shop = Shop::new(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        answer(302, &["location: /again"], "")
    });
    in_time(|| {
        let outcome = shop.run(1, json!([get("a", "/", json!({"redirects": 7, "timeout_us": 150_000}))]));
        assert_eq!(outcome.outcomes(), ["timeout:first_byte"]);
        // Where the first hop took all of it, there is no first byte.
        let ttfb = outcome.column("ttfb_us")[0].unwrap_or(0);
        let total = ttfb + outcome.column("after_ttfb_us")[0].unwrap();
        assert!(total >= 150_000, "{total}");
        bounded("µs of all hops", total as u64, 400_000)
    });
}

#[test]
fn answers_tell_whether_they_are_cold() {
    let shop = Shop::new(|path, _| match path {
        "/0" => answer(200, &["x-cold: yes"], "{}"),
        "/1" => answer(200, &[], r#"{"cold": false}"#),
        _ => answer(200, &[], ""),
    });
    let mut job = job(&shop.server.at(), times(3), json!([get("a", "/{{ iteration }}", json!({}))]));
    job["workloads"][0]["cold"] =
        json!({"header": {"name": "X-Cold", "equals": "yes"}, "json": {"path": "$.cold", "equals": true}});
    let outcome = run(job);
    let cold: Vec<_> = outcome.records.iter().map(|r| r["cold"].to_string()).collect();
    assert_eq!(cold, ["true", "false", "null"]);
}

/// Whatever a server says, the engine goes on and every request has its row.
#[test]
fn hostile_answers_do_no_harm() {
    let shop = Shop::new(|path, _| {
        let n: usize = path[1..].parse().unwrap_or(0);
        let cookie =
            format!("set-cookie: {}={}; Path=/{}", "n".repeat(n), "v".repeat(n * 40), "p/".repeat(n));
        let date =
            "set-cookie: d=1; Expires=Www, 99 Zzz 9999999 99:99:99; Max-Age=99999999999999999999; Domain=.";
        let headers =
            [cookie.as_str(), date, "location: http://[::1/\\..//%zz", "content-encoding: identity,,"];
        let body = match n % 4 {
            0 => "[".repeat(n * 500),
            1 => format!("<select name=a><option{}", " a='".repeat(n * 100)),
            2 => format!("{{\"a\": \"{}", "\\u".repeat(n * 100)),
            _ => "<!--<input name=a>".repeat(n * 10),
        };
        answer(if n.is_multiple_of(5) { 302 } else { 200 }, &headers, &body)
    });
    let capture = json!({
        "a": {"json": "$.a[*]", "pick": "all", "optional": true}, "b": {"json": "$..a", "optional": true},
        "c": {"form": "a", "pick": "last", "optional": true}, "d": {"cookie": "d", "optional": true},
        "e": {"regex": "(a|b)*c", "pick": "random", "optional": true},
    });
    let outcome =
        shop.run(40, json!([get("a", "/{{ iteration }}", json!({"redirects": 2, "capture": capture}))]));
    let outcomes = outcome.outcomes();
    assert_eq!(outcomes.len(), 40);
    assert!(outcomes.iter().all(|o| o == "answered" || o == "redirect"), "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|o| *o == "redirect").count(), 8);
}
