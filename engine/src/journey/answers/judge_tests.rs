use super::*;
use crate::job::{Job, Step};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// A job with this one step.
fn job(more: &Json) -> Result<Job, Vec<Problem>> {
    let mut step = json!({"name": "s", "path": "/"});
    step.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let protocol = if more["grpc"] == true { "http2" } else { "http1" };
    let job = json!({
        "version": 1, "run_id": "r", "output": "/nowhere",
        "targets": {"app": {"instances": [{"name": "a", "url": "http://127.0.0.1:1"}], "protocol": protocol}},
        "workloads": [{
            "name": "w", "timeout_us": 1,
            "load": {"model": "open", "stages": [{"from_per_s": 1, "to_per_s": 1, "duration_us": 1}]},
            "journey": {"steps": [{"request": step}]},
        }],
    });
    Job::from_json(&job.to_string())
}

fn request(more: &Json) -> Request {
    let mut job = job(more).unwrap_or_else(|p| panic!("{p:?}"));
    match job.workloads.remove(0).journey.steps.remove(0) {
        Step::Request(request) => *request,
        other => panic!("{other:?}"),
    }
}

struct Step1 {
    answers: Answers,
    outcomes: OutcomeNames,
    slots: Vec<String>,
    rng: Rng,
}

impl Step1 {
    fn new(more: &Json) -> Self {
        let request = request(more);
        let mut outcomes = OutcomeNames::default();
        let slots: Vec<String> = request.capture.iter().map(|c| c.name.clone()).collect();
        let slot = |name: &str| slots.iter().position(|known| known == name);
        let answers = Answers::new(&request, &mut outcomes, slot).unwrap_or_else(|p| panic!("{p:?}"));
        Self { answers, outcomes, slots, rng: Rng::from_parts(&[1]) }
    }

    /// Name of the outcome, and what was kept.
    fn look(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (String, BTreeMap<String, String>) {
        let mut reply = Reply::default();
        for (name, value) in headers {
            reply.fields.push(name.as_bytes(), value.as_bytes());
        }
        reply.body.extend_from_slice(body);
        let mut kept = BTreeMap::new();
        let keep = |slot: usize, value: Value| {
            let shown = if value.is_undefined() { "unset".to_owned() } else { value.to_string() };
            kept.insert(self.slots[slot].clone(), shown);
        };
        let mut work = Workspace::default();
        let outcome = self.answers.judge((status, &reply), 1_000_000, &mut work, &mut self.rng, keep);
        let name = self.outcomes.all().find(|(o, _)| *o == outcome).map(|(_, name)| name.to_owned());
        (name.expect("a known outcome"), kept)
    }

    fn outcome(&mut self, body: &str) -> String {
        self.look(
            200,
            &[("Content-Type", "application/json; charset=utf-8"), ("x-a", "1"), ("X-A", "2")],
            body.as_bytes(),
        )
        .0
    }

    fn kept(&mut self, headers: &[(&str, &str)], body: &str) -> BTreeMap<String, String> {
        self.look(200, headers, body.as_bytes()).1
    }
}

fn expecting(expect: &Json) -> Step1 {
    Step1::new(&json!({"expect": expect}))
}

#[test]
fn checks_hold_or_have_their_outcomes() {
    let body = r#"{"ok": true, "total": 12, "name": "näme", "items": []}"#;
    for (expect, outcome) in [
        (json!({"contains": "ok\""}), "answered"),
        (json!({"contains": "no"}), "check:contains"),
        (json!({"matches": r#""total": \d+,"#}), "answered"),
        (json!({"matches": "^total"}), "check:matches"),
        (json!({"matches": "n.me"}), "answered"),
        (
            json!({"json": [{"path": "$.ok", "equals": true}, {"path": "$.total", "equals": 12.0}]}),
            "answered",
        ),
        (
            json!({"json": [{"path": "$.ok", "equals": true}, {"path": "$.total", "equals": "12"}]}),
            "check:json",
        ),
        (
            json!({"json": [{"path": "$.no", "exists": false}, {"path": "$.items", "exists": true}]}),
            "answered",
        ),
        (json!({"json": [{"path": "$.items[0]", "exists": true, "name": "filled"}]}), "check:filled"),
        (
            json!({"json": [{"path": "$.name", "matches": "^n.me$"}, {"path": "$.total", "matches": "^12$"}]}),
            "answered",
        ),
        (json!({"json": [{"path": "$.total", "matches": "^2"}]}), "check:json"),
        (
            json!({"header": [{"name": "content-type", "contains": "json"}, {"name": "x-a", "equals": "2"}]}),
            "answered",
        ),
        (json!({"header": [{"name": "x-a", "equals": "3"}]}), "check:header"),
        (json!({"header": [{"name": "x-b", "exists": false}, {"name": "x-a", "exists": true}]}), "answered"),
        (json!({"header": [{"name": "x-a", "exists": false}]}), "check:header"),
        (json!({"size_bytes": body.len()}), "answered"),
        (json!({"size_bytes": [1, body.len() - 1]}), "check:size"),
        (json!({"status": [404], "contains": "no"}), "check:status"),
        (json!({"contains": "no", "matches": "no", "size_bytes": 1}), "check:contains"),
        (
            json!({"json": [{"path": "$.no", "exists": true}], "header": [{"name": "no", "exists": true}]}),
            "check:json",
        ),
        (json!({"header": [{"name": "no", "exists": true}], "size_bytes": 1}), "check:header"),
    ] {
        assert_eq!(expecting(&expect).outcome(body), outcome, "{expect}");
    }
    let not_json = expecting(&json!({"json": [{"path": "$.no", "exists": false}]})).outcome("<html>");
    assert_eq!(not_json, "check:json", "a page of HTML is not an answer without errors");
    assert_eq!(expecting(&json!({"json": [{"path": "$", "exists": true}]})).outcome("<html>"), "check:json");
}

#[test]
fn a_call_ended_well_if_the_last_status_is_zero() {
    let mut step = Step1::new(&json!({"grpc": true, "body": {"base64": "CAEQ"}}));
    for (fields, outcome) in [
        (&[][..], "check:grpc"),
        (&[("grpc-status", "0")], "answered"),
        (&[("grpc-status", "14"), ("grpc-message", "later")], "check:grpc"),
        // Trailers come after the head.
        (&[("grpc-status", "0"), ("grpc-status", "13")], "check:grpc"),
        (&[("grpc-status", "13"), ("grpc-status", "0")], "answered"),
    ] {
        assert_eq!(step.look(200, fields, b"").0, outcome, "{fields:?}");
    }
    assert_eq!(step.look(500, &[("grpc-status", "0")], b"").0, "check:status");
}

#[test]
fn only_what_is_looked_at_is_kept() {
    let want = |more: &Json| Step1::new(more).answers.want(false);
    assert!(!want(&json!({})).any());
    assert_eq!(Step1::new(&json!({})).answers.want(true), Want { fields: false, cookies: true, body: false });
    assert_eq!(want(&json!({"redirects": 1})), Want { fields: true, cookies: false, body: false });
    let header = json!({"capture": {"a": {"header": "x"}, "b": {"cookie": "x"}}});
    assert_eq!(want(&header), Want { fields: true, cookies: false, body: false });
    for more in [
        json!({"expect": {"contains": "x"}}),
        json!({"expect": {"size_bytes": 3}}),
        json!({"expect": {"json": [{"path": "$", "exists": true}]}}),
        json!({"capture": {"a": {"body": true}}}),
        json!({"capture": {"a": {"form": "x"}}}),
    ] {
        assert_eq!(want(&more), Want { fields: true, cookies: false, body: true }, "{more}");
    }
}

#[test]
fn captures_take_what_they_name() {
    let mut step = Step1::new(&json!({"capture": {
        "id": {"json": "$.id"},
        "tag": {"header": "ETag"},
        "sid": {"cookie": "sid"},
        "total": {"regex": "\"n\": (\\d+)"},
        "whole": {"regex": "\"n\": \\d+"},
        "all": {"body": true},
    }}));
    let headers =
        [("etag", "\"v1\""), ("Set-Cookie", "other=1"), ("set-cookie", "sid=abc; Path=/; HttpOnly")];
    let body = r#"{"id": "x7", "n": 12}"#;
    let kept = step.kept(&headers, body);
    let expected = [
        ("id", "x7"),
        ("tag", "\"v1\""),
        ("sid", "abc"),
        ("total", "12"),
        ("whole", "\"n\": 12"),
        ("all", body),
    ];
    assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let mut form = Step1::new(&json!({"capture": {"csrf": {"form": "csrf_token"}}}));
    let page = "<form><input type=hidden name='csrf_token' value='a&amp;b'></form>";
    assert_eq!(form.kept(&[], page)["csrf"], "a&b");
}

#[test]
fn one_or_all_are_picked() {
    let body = r#"{"items": [{"id": 1}, {"id": 2}, {"id": 3}], "text": "a1 a2 a3"}"#;
    let headers = [("x", "1"), ("X", "2"), ("x", "3")];
    for (source, prefix) in [
        (json!({"json": "$.items[*].id"}), ""),
        (json!({"regex": "a(\\d)"}), "'"),
        (json!({"header": "x"}), "'"),
    ] {
        let pick = |pick: &str| {
            let mut capture = source.clone();
            capture["pick"] = pick.into();
            Step1::new(&json!({"capture": {"v": capture}})).kept(&headers, body)["v"].clone()
        };
        assert_eq!((pick("first"), pick("last")), ("1".to_owned(), "3".to_owned()), "{source}");
        assert_eq!(pick("all").replace(prefix, ""), "[1, 2, 3]".to_owned(), "{source}");
        let mut capture = source.clone();
        capture["pick"] = "random".into();
        let mut step = Step1::new(&json!({"capture": {"v": capture}}));
        let mut seen = BTreeMap::<String, u32>::new();
        for _ in 0..3000 {
            *seen.entry(step.kept(&headers, body)["v"].clone()).or_default() += 1;
        }
        let chi2: f64 = seen.values().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(seen.len() == 3 && chi2 < 13.8, "{seen:?}");
    }
}

#[test]
fn a_capture_that_finds_nothing_says_so_and_forgets() {
    let mut step = Step1::new(&json!({"capture": {
        "a": {"json": "$.a"}, "b": {"json": "$.b"}, "c": {"header": "c", "optional": true}, "d": {"regex": "x(y)?", "pick": "all"},
    }}));
    let (outcome, kept) = step.look(200, &[], br#"{"b": 2, "x": "x"}"#);
    assert_eq!(outcome, "capture:a");
    let expected = [("a", "unset"), ("b", "2"), ("c", ""), ("d", "unset")];
    assert_eq!(kept, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[test]
fn nothing_is_captured_from_an_answer_that_is_not_as_expected() {
    let more = json!({"expect": {"contains": "good"}, "capture": {"a": {"body": true}}});
    let mut step = Step1::new(&more);
    assert_eq!(step.look(200, &[], b"bad"), ("check:contains".into(), BTreeMap::new()));
    assert_eq!(step.look(500, &[], b"good"), ("check:status".into(), BTreeMap::new()));
    assert_eq!(step.look(200, &[], b"good").1["a"], "good");
}

#[test]
fn bodies_are_looked_at_as_they_were_before_compression() {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(br#"{"id": "found"}"#).expect("memory");
    let body = encoder.finish().expect("memory");
    let headers = [("content-encoding", "gzip")];
    let mut step = Step1::new(&json!({"expect": {"size_bytes": 15}, "capture": {"id": {"json": "$.id"}}}));
    assert_eq!(step.look(200, &headers, &body).1["id"], "found");
    assert_eq!(step.look(200, &headers, &body[..10]).0, "protocol");
    assert_eq!(step.look(200, &[("content-encoding", "zstd")], &body).0, "protocol");
    assert_eq!(step.look(404, &headers, &body[..10]).0, "check:status");
    let bomb = vec![0; 2_000_000];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&bomb).expect("memory");
    assert_eq!(step.look(200, &headers, &encoder.finish().expect("memory")).0, "too_large");
}

#[test]
fn what_cannot_be_compiled_is_refused_with_its_place() {
    let problems = job(&json!({
        "expect": {"matches": "(", "json": [{"path": "$.", "exists": true}, {"path": "$.a", "matches": "[z-a]"}]},
        "capture": {"a": {"json": "a"}, "b": {"regex": "a{1000}{1000}{1000}"}},
    })).expect_err("refused");
    let at = "$.workloads[0].journey.steps[0].request";
    let paths: Vec<_> = problems.iter().map(|p| p.path.strip_prefix(at).expect("in the request")).collect();
    assert_eq!(
        paths,
        [
            ".expect.matches",
            ".expect.json[0].path",
            ".expect.json[1].matches",
            ".capture.a.json",
            ".capture.b.regex"
        ]
    );
    assert!(problems.iter().all(|p| !p.message.contains('\n')), "{problems:?}");
    assert!(problems[0].message.contains("unclosed group"), "{}", problems[0]);
}

#[test]
fn there_are_not_more_outcomes_than_fit() {
    let captures: serde_json::Map<String, Json> =
        (0..300).map(|n| (format!("c{n}"), json!({"header": "x"}))).collect();
    let problems = job(&json!({"capture": captures})).expect_err("refused");
    assert_eq!(problems.len(), 300 - crate::transport::MAX_NAMED);
    assert!(problems[0].message.contains("at most 223"), "{}", problems[0]);
}
