//! What a server sees of journeys: every construct of the job, through whole runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::server::Server;
use load_support::{Outcome, closed, job, open, run_in, text, times};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A request, as it came in.
#[derive(Clone, Debug)]
struct Seen {
    line: String,
    head: String,
    body: Vec<u8>,
}

impl Seen {
    fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Runs a job and keeps what the server saw. `answer` gives status and body for a path.
fn watch(
    load: Value,
    journey: Value,
    files: &[(&str, &str)],
    more: impl FnOnce(&mut Value),
    answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> (Vec<Seen>, Outcome) {
    let all = Arc::<Mutex<Vec<Seen>>>::default();
    let seen = Arc::clone(&all);
    let server = Server::answering(move |peer, request| {
        let line = request.head.lines().next().unwrap().to_owned();
        let request = Seen { line, head: request.head, body: request.body };
        let (status, body) = answer(request.path());
        seen.lock().unwrap().push(request);
        peer.answer(status, &body);
    });
    let mut job = job(&server.at(), load, json!([]));
    job["workloads"][0]["journey"] = journey;
    more(&mut job);
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    let outcome = run_in(job, dir.path());
    drop(server);
    let seen = all.lock().unwrap().clone();
    (seen, outcome)
}

/// As [`watch`], with nothing special.
fn see(load: Value, journey: Value) -> (Vec<Seen>, Outcome) {
    watch(load, journey, &[], |_| {}, |_| (200, "ok".into()))
}

fn get(path: &str) -> Value {
    json!({"request": {"name": path, "path": path}})
}

/// Steps of the same name, told apart by their numbers.
fn numbered(steps: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let number = |(n, mut step): (usize, Value)| {
        let name = step["request"]["name"].as_str().unwrap().to_owned();
        step["request"]["name"] = format!("{name}-{n}").into();
        step
    };
    steps.into_iter().enumerate().map(number).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write it out in place")]
fn send(body: Value) -> Value {
    json!({"request": {"name": "send", "method": "POST", "path": "/", "body": body}})
}

fn paths(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(Seen::path).collect()
}

#[test]
fn steps_come_in_the_order_of_the_journey() {
    let steps = json!([
        {"once": [get("/login")]},
        {"repeat": {"times": 2, "steps": [get("/a"), {"repeat": {"times": 3, "steps": [get("/b")]}}]}},
        {"if": {"condition": "{{ iteration == 1 }}", "steps": [get("/second")], "else": [get("/other")]}},
        {"sequence": [get("/c"), {"pause": {"constant_us": 20_000}}, get("/d")]},
        {"choose": [{"weight": 1, "steps": [get("/e")]}, {"weight": 0, "steps": [get("/never")]}]},
    ]);
    let (seen, outcome) = see(times(3), json!({"steps": steps}));
    let round = ["/a", "/b", "/b", "/b", "/a", "/b", "/b", "/b"];
    let tail = ["/c", "/d", "/e"];
    let expected: Vec<&str> = (0..3)
        .flat_map(|iteration| {
            let login = if iteration == 0 { &["/login"][..] } else { &[] };
            let branch = if iteration == 1 { ["/second"] } else { ["/other"] };
            [login, &round, &branch, &tail].concat()
        })
        .collect();
    assert_eq!(paths(&seen), expected);
    assert!(outcome.outcomes().iter().all(|o| o == "answered"));
    let scheduled = |step: &str| -> Vec<i64> {
        let of = outcome.records.iter().filter(|r| text(r, "step") == step);
        of.map(|r| load_support::number(r, "scheduled_us").unwrap()).collect()
    };
    for (c, d) in scheduled("/c").into_iter().zip(scheduled("/d")) {
        assert!(d - c >= 20_000, "the pause was kept");
    }
}

/// One that fails is tried again in the next iteration, and the iteration is over.
#[test]
fn once_is_repeated_until_it_is_done() {
    let steps = json!([{"once": [get("/first"), get("/login")]}, get("/after")]);
    let count = std::sync::atomic::AtomicUsize::new(0);
    let answer = move |path: &str| {
        let fails = path == "/login" && count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2;
        (if fails { 503 } else { 200 }, String::new())
    };
    let (seen, _) = watch(times(4), json!({"steps": steps}), &[], |_| {}, answer);
    let expected = ["/first", "/login", "/first", "/login", "/first", "/login", "/after", "/after"];
    assert_eq!(paths(&seen), expected);
    let mut load = times(2);
    load["session"] = "iteration".into();
    let (seen, _) = see(load, json!({"steps": steps}));
    assert_eq!(paths(&seen), ["/first", "/login", "/after"].repeat(2), "every iteration is a session");
}

/// Any of its requests may spoil it, also one that a group inside of it follows; a group inside stays done.
#[test]
fn once_is_not_done_if_any_request_failed() {
    let fails_first = |failing: &'static str| {
        let count = std::sync::atomic::AtomicUsize::new(0);
        move |path: &str| {
            let fails = path == failing && count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 1;
            (if fails { 503 } else { 200 }, String::new())
        }
    };
    let steps = json!([{"once": [get("/first"), get("/login")]}, get("/after")]);
    let (seen, _) = watch(times(2), json!({"steps": steps}), &[], |_| {}, fails_first("/first"));
    assert_eq!(paths(&seen), ["/first", "/login", "/first", "/login", "/after"]);
    let steps = json!([{"once": [get("/first"), {"once": [get("/inner")]}, get("/login")]}, get("/after")]);
    let (seen, _) = watch(times(2), json!({"steps": steps}), &[], |_| {}, fails_first("/first"));
    assert_eq!(paths(&seen), ["/first", "/inner", "/login", "/first", "/login", "/after"]);
    // What failed before a group does not spoil it.
    let steps = json!([get("/before"), {"once": [get("/login")]}, get("/after")]);
    let (seen, _) = watch(times(2), json!({"steps": steps}), &[], |_| {}, fails_first("/before"));
    assert_eq!(paths(&seen), ["/before", "/login", "/after", "/before", "/after"]);
}

#[test]
fn paths_queries_and_headers_are_encoded() {
    let request = json!({"name": "a", "path": "/p/{{ what }}", "query": {"q": "{{ what }}", "n": 5, "tag": ["x", "y&z"]},
        "headers": {"x-what": "{{ what }}", "x-user": "u{{ user }}"}});
    let journey = json!({"variables": {"what": "a b\r\nc/é?"}, "steps": [{"request": request}]});
    let (seen, outcome) = see(times(1), journey);
    assert_eq!(
        seen[0].path(),
        "/p/a%20b%0D%0Ac%2F%C3%A9%3F?q=a%20b%0D%0Ac%2F%C3%A9%3F&n=5&tag=x&tag=y%26z",
        "{outcome:?}",
        outcome = outcome.outcomes()
    );
    assert_eq!((seen[0].header("x-what"), seen[0].header("x-user")), (Some("a b  c/é?"), Some("u0")));
    let also = json!({"request": {"name": "a", "path": "/p?x=1", "query": {"y": "{{ user }}"}}});
    assert_eq!(paths(&see(times(1), json!({"steps": [also]})).0), ["/p?x=1&y=0"]);
}

/// A value in a path is a value: it begins no segment, no query and no way up.
#[test]
fn values_cannot_change_the_structure_of_a_path() {
    let (step, what) = (|path: &str| json!({"request": {"name": "a", "path": path}}), "a/../b?c=d&e#f\"<%");
    let steps = numbered([
        step("/{{ what }}/x?y={{ what }}&z=1"),
        step("/{{ what | upper }}/{{ user }}"),
        step("/{% if user == 0 %}{{ what }}{% endif %}/{{ link | safe }}"),
        step("{{ link }}"),
        step("{{ what }}"),
        step("/v1/../x/{{ user }}"),
        step("/x/{{ up }}/y"),
        step("/x/{{ up | lower }}/y"),
    ]);
    let variables = json!({"what": what, "link": "/next/2?page=3&q=a%20b", "up": ".."});
    let (seen, outcome) = see(times(1), json!({"variables": variables, "steps": steps}));
    let value = "a%2F..%2Fb%3Fc%3Dd%26e%23f%22%3C%25";
    let expected = [
        format!("/{value}/x?y={value}&z=1"),
        format!("/{}/0", "A%2F..%2FB%3FC%3DD%26E%23F%22%3C%25"),
        format!("/{value}//next/2?page=3&q=a%20b"),
        "/next/2?page=3&q=a%20b".into(),
        format!("/{value}"),
        "/v1/../x/0".into(),
    ];
    assert_eq!(paths(&seen), expected);
    assert_eq!(outcome.outcomes()[6..], ["template", "template"]);
}

#[test]
fn bodies_are_what_the_job_says() {
    let json_body = json!({"json": {"id": "{{ user }}", "text": "u{{ user }}\"", "list": [1, null, "{{ [1, 2] }}"], "z": {"a": true}}});
    let cases = [
        (send(json!("plain {{ iteration }}")), None, "plain 0"),
        (send(json!({"text": "x"})), None, "x"),
        (
            send(json_body),
            Some("application/json"),
            r#"{"id":0,"text":"u0\"","list":[1,null,[1,2]],"z":{"a":true}}"#,
        ),
        (
            send(json!({"form": {"user": "{{ user }} é", "again": ["a", "b c"], "n": 1}})),
            Some("application/x-www-form-urlencoded"),
            "user=0+%C3%A9&again=a&again=b+c&n=1",
        ),
        (send(json!({"file": "body.txt"})), None, "of a file {{ user }}"),
        (send(json!({"base64": "aGVsbG8="})), None, "hello"),
    ];
    let files = [("body.txt", "of a file {{ user }}")];
    let steps = numbered(cases.iter().map(|(step, ..)| step.clone()));
    let (seen, _) = watch(times(1), json!({"steps": steps}), &files, |_| {}, |_| (200, String::new()));
    assert_eq!(seen.len(), cases.len());
    for (seen, (_, kind, body)) in seen.iter().zip(&cases) {
        assert_eq!((seen.header("content-type"), seen.text()), (*kind, *body));
    }
}

#[test]
fn generated_bodies_have_their_size_and_do_not_compress() {
    let steps = numbered([send(json!({"bytes": 100_000})), send(json!({"bytes": [1000, 3000]}))]);
    let (seen, _) = see(times(20), json!({"steps": steps}));
    let (fixed, drawn): (Vec<_>, Vec<_>) = seen.iter().partition(|s| s.body.len() == 100_000);
    assert_eq!((fixed.len(), drawn.len()), (20, 20));
    assert!(drawn.iter().all(|s| (1000..=3000).contains(&s.body.len())));
    assert!(drawn.iter().any(|s| s.body.len() != drawn[0].body.len()));
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, &fixed[0].body).unwrap();
    assert!(packed.finish().unwrap().len() > 99_000);
}

#[test]
fn forms_in_parts_can_be_taken_apart() {
    let parts = json!([{"name": "a\"b", "value": "{{ user }}\r\n"}, {"name": "f", "file": "up.bin", "content_type": "text/x"},
        {"name": "g", "bytes": [10, 20], "filename": "n{{ user }}.bin"}]);
    let files = [("up.bin", "content")];
    let steps = json!([send(json!({"multipart": parts}))]);
    let (seen, _) = watch(times(1), json!({"steps": steps}), &files, |_| {}, |_| (200, String::new()));
    let boundary =
        seen[0].header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let body = String::from_utf8_lossy(&seen[0].body).into_owned();
    let parts: Vec<_> = body.split(&format!("--{boundary}")).collect();
    assert_eq!((parts.len(), parts[0], parts[4]), (5, "", "--\r\n"));
    assert_eq!(parts[1], "\r\nContent-Disposition: form-data; name=\"a%22b\"\r\n\r\n0\r\n\r\n");
    assert_eq!(
        parts[2],
        "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"up.bin\"\r\nContent-Type: text/x\r\n\r\ncontent\r\n"
    );
    assert!(parts[3].starts_with(
        "\r\nContent-Disposition: form-data; name=\"g\"; filename=\"n0.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n"
    ));
}

#[test]
fn events_go_in_either_mode() {
    let event = |mode: &str, body: Value| {
        let event = json!({"mode": mode, "type": "t \"1\"", "source": "/s/{{ user }}", "subject": "ü", "id": "7",
            "extensions": {"ext1": "é"}});
        json!({"request": {"name": mode, "method": "POST", "path": "/", "cloud_event": event, "body": body}})
    };
    let data = json!({"json": {"n": "{{ user }}"}});
    let steps = numbered([
        event("binary", data.clone()),
        event("structured", data),
        event("structured", json!("a \"b\"")),
        event("structured", json!({"base64": "AAE="})),
        event("structured", json!({"form": {"a": "b c"}})),
    ]);
    let (seen, _) = see(times(1), json!({"steps": steps}));
    let headers =
        ["ce-specversion", "ce-id", "ce-source", "ce-type", "ce-subject", "ce-ext1", "content-type"];
    let found: Vec<_> = headers.iter().map(|name| seen[0].header(name).unwrap_or("none")).collect();
    assert_eq!(found, ["1.0", "7", "/s/0", "t%20%221%22", "%C3%BC", "%C3%A9", "application/json"]);
    assert_eq!(seen[0].text(), "{\"n\":0}");
    let envelope = json!({"specversion": "1.0", "id": "7", "source": "/s/0", "type": "t \"1\"", "subject": "ü", "ext1": "é"});
    let data = [
        ("data", json!({"n": 0}), Some("application/json")),
        ("data", json!("a \"b\""), Some("text/plain")),
        ("data_base64", json!("AAE="), None),
        ("data", json!("a=b+c"), Some("application/x-www-form-urlencoded")),
    ];
    for (seen, (key, value, kind)) in seen[1..].iter().zip(data) {
        let mut expected = envelope.clone();
        expected[key] = value;
        if let Some(kind) = kind {
            expected["datacontenttype"] = kind.into();
        }
        let found: Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!((seen.header("content-type"), found), (Some("application/cloudevents+json"), expected));
    }
}

#[test]
fn a_share_of_the_requests_is_traced() {
    let more = |job: &mut Value| job["traceparent"] = json!(0.25);
    let own = json!({"request": {"name": "own", "path": "/own", "headers": {"traceparent": "00-own"}}});
    let all = json!({"request": {"name": "all", "path": "/all", "traceparent": 1}});
    let none = json!({"request": {"name": "none", "path": "/none", "traceparent": 0}});
    let steps = json!([get("/"), own, all, none]);
    let (seen, _) = watch(times(400), json!({"steps": steps}), &[], more, |_| (200, String::new()));
    let traced = |path: &str| -> Vec<&str> {
        seen.iter().filter(|s| s.path() == path).filter_map(|s| s.header("traceparent")).collect()
    };
    assert_eq!(traced("/own"), ["00-own"; 400]);
    assert_eq!((traced("/all").len(), traced("/none").len()), (400, 0));
    // 400 requests at 1 in 4: 100, with a deviation of 8.7.
    assert!((60..140).contains(&traced("/").len()), "{}", traced("/").len());
    let mut ids = traced("/all");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 400);
}

const PEOPLE: &str = "name,n\nAda,1\nBo,2\nCy,3\n";

#[test]
fn feeds_hand_out_rows_in_their_order() {
    let rows = |order: &str, load: Value| {
        let feeds = json!({"people": {"file": "people.csv", "order": order}});
        let steps = json!([get("/{{ people.name }}/{{ user }}"), get("/{{ people.n }}")]);
        let (seen, _) = watch(
            load,
            json!({"steps": steps}),
            &[("people.csv", PEOPLE)],
            |job| job["feeds"] = feeds,
            |_| (200, String::new()),
        );
        paths(&seen).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rows("sequential", times(4)), ["/Ada/0", "/1", "/Bo/0", "/2", "/Cy/0", "/3", "/Ada/0", "/1"]);
    let mut opened: Vec<_> =
        rows("sequential", open(50.0, 100_000)).into_iter().filter(|p| p.len() > 3).collect();
    opened.sort_unstable_by_key(|path| path.rsplit('/').next().unwrap().to_owned());
    assert_eq!(opened, ["/Ada/0", "/Bo/1", "/Cy/2", "/Ada/3", "/Bo/4"]);
    let mut load = closed(3, 20_000_000);
    load["iterations_per_user"] = 2.into();
    let mut unique: Vec<_> = rows("unique-per-user", load).into_iter().filter(|p| p.len() > 3).collect();
    unique.sort_unstable();
    assert_eq!(unique, ["/Ada/0", "/Ada/0", "/Bo/1", "/Bo/1", "/Cy/2", "/Cy/2"]);
    let random = rows("random", times(60));
    let counts: Vec<_> =
        ["/Ada/0", "/Bo/0", "/Cy/0"].map(|p| random.iter().filter(|r| *r == p).count()).into();
    assert!(counts.iter().sum::<usize>() == 60 && counts.iter().all(|n| (8..35).contains(n)), "{counts:?}");
    assert_eq!(random, rows("random", times(60)), "drawn by seed");
}

/// What an iteration does depends on seed, workload, user and iteration alone.
#[test]
fn seeds_reproduce_whole_journeys_on_any_number_of_threads() {
    let steps = json!([
        {"repeat": {"times": [0, 3], "steps": [get("/{{ user }}/{{ iteration }}/r/{{ random_int(1, 1000000) }}")]}},
        {"choose": [{"weight": 1, "steps": [get("/{{ user }}/{{ iteration }}/a/{{ random_hex(6) }}")]},
                    {"weight": 2, "steps": [get("/{{ user }}/{{ iteration }}/b/{{ people.name }}")]}]},
        {"if": {"condition": "{{ random_int(0, 1) }}", "steps": [get("/{{ user }}/{{ iteration }}/if")]}},
        {"pause": {"lognormal_us": [100, 1000]}},
    ]);
    let all = |threads: u32, load: &Value, seed: u32| {
        let more = |job: &mut Value| {
            job["threads"] = threads.into();
            job["seed"] = seed.into();
            job["feeds"] = json!({"people": {"file": "people.csv", "order": "random"}});
        };
        let files = [("people.csv", PEOPLE)];
        let (seen, _) = watch(load.clone(), json!({"steps": steps}), &files, more, |_| (200, String::new()));
        let mut paths: Vec<_> = seen.iter().map(|s| s.path().to_owned()).collect();
        paths.sort_unstable();
        paths
    };
    let mut users = closed(6, 20_000_000);
    users["iterations_per_user"] = 5.into();
    for load in [users, open(200.0, 200_000)] {
        let one = all(1, &load, 3);
        assert!(one.len() > 40);
        assert_eq!((&all(2, &load, 3), &all(3, &load, 3)), (&one, &one));
        assert_ne!(all(1, &load, 4), one);
    }
}

#[test]
fn what_cannot_be_rendered_is_not_sent_and_told_once() {
    let feeds = |job: &mut Value| job["feeds"] = json!({"f": {"file": "f.jsonl"}});
    let steps = json!([get("/{{ 10 // f.n }}"), get("/after")]);
    let files = [("f.jsonl", "{\"n\": 1}\n{\"n\": 0}\n{\"n\": \"secret\"}\n")];
    let (seen, outcome) = watch(times(6), json!({"steps": steps}), &files, feeds, |_| (200, String::new()));
    assert_eq!(paths(&seen), ["/10", "/after", "/after", "/after", "/10", "/after", "/after", "/after"]);
    let expected = ["answered", "answered", "template", "answered", "template", "answered"].repeat(2);
    assert_eq!(outcome.outcomes(), expected);
    assert_eq!(outcome.findings().iter().filter(|f| **f == "template_failed").count(), 1);
    let finding = outcome.event("finding");
    assert!(
        outcome.events.iter().any(|e| e["message"].as_str().is_some_and(|m| m.starts_with("step \"/{{ 10"))),
        "{finding}"
    );
    assert!(!outcome.events.iter().any(|e| e.to_string().contains("secret")));
}

/// A user whose iterations send nothing, or only what cannot be rendered, does not spin.
#[test]
fn iterations_without_a_request_take_their_time() {
    let never = json!([{"if": {"condition": "{{ iteration < 0 }}", "steps": [get("/")]}}]);
    let started = std::time::Instant::now();
    let (seen, outcome) = see(closed(1, 500_000), json!({"steps": never}));
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
    assert!(seen.is_empty() && outcome.records.is_empty());
    assert!((2..=51).contains(&outcome.count("due")), "{}", outcome.count("due"));
    let once = json!([{"once": [get("/")]}]);
    let (seen, outcome) = see(closed(1, 300_000), json!({"steps": once}));
    assert_eq!((seen.len(), outcome.records.len()), (1, 1));
}
