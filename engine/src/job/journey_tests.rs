//! What is wrong with a journey is told where it stands; whatever the document, there is a job or there are problems.
use super::*;
use crate::journey::Plan;
use crate::rng::Rng;
use serde_json::{Value, json};

/// A job that has everything a journey can have.
fn rich() -> Value {
    let order = json!({
        "name": "order", "method": "POST", "target": "app", "path": "/orders/{{ people.name }}", "query": {"dry": "1", "u": "{{ user }}"},
        "headers": {"x-a": "b {{ token }}"}, "body": {"json": {"id": "{{ user }}", "n": [1, "{{ page }}"]}}, "timeout_us": 5000,
        "think": {"lognormal_us": [10, 50]}, "cloud_event": {"mode": "structured", "type": "t", "source": "s", "subject": null,
            "id": "{{ random_uuid() }}", "extensions": {"a1": "x"}}, "traceparent": 0.5,
    });
    let upload = json!({"name": "upload", "method": "PUT", "path": "/up", "body": {"multipart": [
        {"name": "a", "value": "{{ user }}"}, {"name": "b", "file": "body.bin"}, {"name": "c", "bytes": [1, 9], "filename": "c.bin"}]}});
    let form = json!({"name": "form", "method": "POST", "path": "/form", "body": {"form": {"a": "{{ devices.id }}", "b": [1, true]}}});
    let small = |name: &str, body: Value| json!({"request": {"name": name, "method": "POST", "path": "/s", "body": body}});
    json!({
        "version": 1, "run_id": "r", "seed": 7, "output": "/tmp/x", "traceparent": 0.01,
        "feeds": {"people": {"file": "people.csv", "order": "unique-per-user", "delimiter": ","},
            "devices": {"file": "devices.jsonl", "format": "jsonl", "order": "random"}},
        "targets": {"app": {"instances": [{"name": "app-0", "url": "http://127.0.0.1:8101"}]}},
        "workloads": [{
            "name": "shop", "timeout_us": 5_000_000,
            "load": {"model": "closed", "stages": [{"from_users": 2, "to_users": 2, "duration_us": 3_000_000}]},
            "journey": {"think": {"uniform_us": [1, 2]}, "variables": {"page": 20, "token": "t"}, "cookies": true, "steps": [
                {"once": [{"request": order}]},
                {"choose": [{"weight": 3, "steps": [{"request": upload}]}, {"weight": 1, "steps": [{"request": form}]}]},
                {"repeat": {"times": [0, 3], "steps": [small("text", json!("text {{ iteration }}")), small("file", json!({"file": "body.bin"}))]}},
                {"if": {"condition": "{{ iteration > 0 }}", "steps": [small("bytes", json!({"bytes": 10}))], "else": [small("base64", json!({"base64": "AAE="}))]}},
                {"sequence": [small("last", json!({"text": "x"}))]},
                {"pause": {"exponential_us": 5}},
            ]},
        }],
    })
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let files = [
        ("people.csv", "name,age\nAda,36\nBo,20\n"),
        ("devices.jsonl", "{\"id\": 1}\n{\"id\": 2}\n"),
        ("body.bin", "bytes"),
        ("ragged.csv", "a,b\n1,2\n1\n"),
        ("empty.csv", ""),
    ];
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).expect("written");
    }
    dir
}

/// Sets what a JSON pointer points at.
fn with(mut job: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match job.pointer_mut(parent).expect("the parent is there") {
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
        other => other[key] = value,
    }
    job
}

#[test]
fn a_job_with_everything_is_understood() {
    let dir = folder();
    let job = Job::from_json_in(&rich().to_string(), dir.path()).unwrap_or_else(|p| panic!("{p:?}"));
    assert_eq!(job.feeds.iter().map(|f| f.table.rows()).collect::<Vec<_>>(), [2, 2]);
    let plan = Plan::new(job).unwrap_or_else(|p| panic!("{p:?}"));
    assert_eq!(plan.workloads[0].steps.len(), 8);
}

fn step(name: &str) -> Value {
    json!({"request": {"name": name, "path": "/"}})
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn each_mistake_in_a_journey_is_told_with_its_path() {
    let j = "/workloads/0/journey";
    let at = "$.workloads[0].journey";
    let request = "steps[0].once[0].request";
    let cases = [
        ("/traceparent", json!(2), "$.traceparent", "number from 0 to 1"),
        ("/feeds/people/file", json!("none.csv"), "$.feeds.people.file", "cannot read"),
        (
            "/feeds/people/file",
            json!("ragged.csv"),
            "$.feeds.people.file",
            "ragged.csv:3:2: 1 cells in a table of 2",
        ),
        ("/feeds/people/file", json!("empty.csv"), "$.feeds.people.file", "empty.csv:1:1: an empty file"),
        ("/feeds/people/file", json!("."), "$.feeds.people.file", "no regular file"),
        ("/feeds/people/order", json!("any"), "$.feeds.people.order", "unique-per-user"),
        ("/feeds/people/delimiter", json!("||"), "$.feeds.people.delimiter", "one ASCII character"),
        ("/feeds/people/sep", json!(";"), "$.feeds.people.sep", "unknown key"),
        ("/workloads/0/load/session", json!("iteration"), at, "session: user"),
        ("/workloads/0/load/stages/0/to_users", json!(3), at, "has 2 rows; 3 users need as many"),
        (&format!("{j}/variables/people"), json!(1), &format!("{at}.variables.people"), "already a feed"),
        (&format!("{j}/variables/user"), json!(1), &format!("{at}.variables.user"), "every template"),
        (&format!("{j}/variables/now_ms"), json!(1), &format!("{at}.variables.now_ms"), "a function"),
        (&format!("{j}/cookies"), json!("yes"), &format!("{at}.cookies"), "true or false"),
        (&format!("{j}/steps"), json!([{"pause": {"constant_us": 1}}]), &format!("{at}.steps"), "no request"),
        (
            &format!("{j}/steps"),
            json!([step("x"), step("y"), {"repeat": {"times": 2, "steps": [step("x")]}}]),
            &format!("{at}.steps[2].repeat.steps[0].request.name"),
            "a second step named \"x\"; the first is $.workloads[0].journey.steps[0].request: each step",
        ),
        (
            &format!("{j}/steps/5/pause"),
            json!({"lognormal_us": [5, 1]}),
            &format!("{at}.steps[5].pause.lognormal_us"),
            "5 is above 1",
        ),
        (
            &format!("{j}/steps/2/repeat/times"),
            json!(0),
            &format!("{at}.steps[2].repeat.times"),
            "leave them out",
        ),
        (
            &format!("{j}/steps/2/repeat/times"),
            json!([3, 1]),
            &format!("{at}.steps[2].repeat.times"),
            "3 is above 1",
        ),
        (
            &format!("{j}/steps/2/repeat/steps"),
            json!([{"if": {"condition": "{{ 1 }}", "steps": []}}]),
            &format!("{at}.steps[2].repeat.steps"),
            "neither a request nor a pause",
        ),
        (
            &format!("{j}/steps/3/if/condition"),
            json!("true"),
            &format!("{at}.steps[3].if.condition"),
            "no {{ }}",
        ),
        (
            &format!("{j}/steps/3/if/condition"),
            json!("{{ none_such }}"),
            &format!("{at}.steps[3].if.condition"),
            "unknown: none_such",
        ),
        (
            &format!("{j}/steps/3/if/otherwise"),
            json!([]),
            &format!("{at}.steps[3].if.otherwise"),
            "unknown key",
        ),
        (
            &format!("{j}/steps/4"),
            json!({"sequence": [], "pause": {}}),
            &format!("{at}.steps[4]"),
            "exactly one of",
        ),
        (
            &format!("{j}/steps/0/once/0/request/path"),
            json!("/{{ people.nme }}"),
            &format!("{at}.{request}.path"),
            "columns of people: name, age",
        ),
        (&format!("{j}/steps/0/once/0/request/path"), json!("/a#b"), &format!("{at}.{request}.path"), "%23"),
        (
            &format!("{j}/steps/0/once/0/request/query/dry"),
            json!({}),
            &format!("{at}.{request}.query.dry"),
            "a text, a number",
        ),
        (
            &format!("{j}/steps/0/once/0/request/query/dry"),
            json!("{{ x }}"),
            &format!("{at}.{request}.query.dry"),
            "unknown: x",
        ),
        (
            &format!("{j}/steps/0/once/0/request/body/json/id"),
            json!("{{ x }}"),
            &format!("{at}.{request}.body.json.id"),
            "unknown: x",
        ),
        (
            &format!("{j}/steps/0/once/0/request/body"),
            json!({"json": 1, "text": "x"}),
            &format!("{at}.{request}.body"),
            "exactly one of text",
        ),
        (
            &format!("{j}/steps/0/once/0/request/body"),
            json!({"file": "gone.bin"}),
            &format!("{at}.{request}.body.file"),
            "cannot read",
        ),
        (
            &format!("{j}/steps/0/once/0/request/body"),
            json!({"base64": "a"}),
            &format!("{at}.{request}.body.base64"),
            "no base64",
        ),
        (
            &format!("{j}/steps/0/once/0/request/body"),
            json!({"bytes": 5}),
            &format!("{at}.{request}.body"),
            "use binary",
        ),
        (
            &format!("{j}/steps/0/once/0/request/cloud_event/mode"),
            json!("batch"),
            &format!("{at}.{request}.cloud_event.mode"),
            "binary, structured",
        ),
        (
            &format!("{j}/steps/0/once/0/request/cloud_event/type"),
            json!(null),
            &format!("{at}.{request}.cloud_event.type"),
            "missing",
        ),
        (
            &format!("{j}/steps/0/once/0/request/cloud_event/extensions"),
            json!({"Big": 1}),
            &format!("{at}.{request}.cloud_event.extensions.Big"),
            "lower-case",
        ),
        (
            &format!("{j}/steps/0/once/0/request/cloud_event/extensions"),
            json!({"id": 1}),
            &format!("{at}.{request}.cloud_event.extensions.id"),
            "no extension",
        ),
        (
            &format!("{j}/steps/0/once/0/request/redirects"),
            json!(8),
            &format!("{at}.{request}.redirects"),
            "0 to 7",
        ),
        (
            &format!("{j}/steps/0/once/0/request/capture"),
            json!({"a-b": {"json": "$.x"}}),
            &format!("{at}.{request}.capture.a-b"),
            "no name for a variable",
        ),
        (
            &format!("{j}/steps/0/once/0/request/capture"),
            json!({"people": {"json": "$.x"}}),
            &format!("{at}.{request}.capture.people"),
            "already a feed",
        ),
        (
            &format!("{j}/steps/0/once/0/request/capture"),
            json!({"page": {"json": "$.x"}}),
            &format!("{at}.{request}.capture.page"),
            "a variable of the journey",
        ),
        (
            &format!("{j}/steps/0/once/0/request/capture"),
            json!({"x": {"json": "$.x", "regex": "y"}}),
            &format!("{at}.{request}.capture.x"),
            "exactly one of json",
        ),
        (
            &format!("{j}/steps/0/once/0/request/capture"),
            json!({"x": {"json": "$.x", "pick": "some"}}),
            &format!("{at}.{request}.capture.x.pick"),
            "first, last",
        ),
        (
            &format!("{j}/steps/0/once/0/request/expect"),
            json!({"json": [{"path": "$.x"}]}),
            &format!("{at}.{request}.expect.json[0]"),
            "exactly one of equals",
        ),
        (
            &format!("{j}/steps/0/once/0/request/expect"),
            json!({"header": [{"name": "a b", "exists": true}]}),
            &format!("{at}.{request}.expect.header[0].name"),
            "no valid header",
        ),
        (
            &format!("{j}/steps/0/once/0/request/expect"),
            json!({"size_bytes": [5, 1]}),
            &format!("{at}.{request}.expect.size_bytes"),
            "5 is above 1",
        ),
        (
            &format!("{j}/steps/1/choose/0/steps/0/request/body/multipart/0"),
            json!({"name": "a"}),
            &format!("{at}.steps[1].choose[0].steps[0].request.body.multipart[0]"),
            "exactly one of value",
        ),
        (
            &format!("{j}/steps/1/choose/0/steps/0/request/grpc"),
            json!(true),
            &format!("{at}.steps[1].choose[0].steps[0].request.method"),
            "a call is a POST",
        ),
        (
            &format!("{j}/steps/4"),
            json!({"request": {"name": "c", "path": "/", "grpc": true, "body": {"base64": "AAE="}}}),
            &format!("{at}.steps[4].request.grpc"),
            "protocol http2",
        ),
    ];
    let dir = folder();
    for (pointer, value, path, message) in cases {
        // A condition's own mistakes come before those that need all steps.
        let found = Job::from_json_in(&with(rich(), pointer, value.clone()).to_string(), dir.path());
        let found = found.err().unwrap_or_default();
        let told = found.iter().any(|p| p.path == path && p.message.contains(message));
        assert!(told, "{pointer} = {value}: expected {path}: …{message}…, found {found:?}");
    }
}

#[test]
fn too_deep_and_too_many_is_refused() {
    let dir = folder();
    let problems = |job: &Value| Job::from_json_in(&job.to_string(), dir.path()).err().unwrap_or_default();
    for kind in ["sequence", "once"] {
        let mut deep = json!({"request": {"name": "x", "path": "/"}});
        for _ in 0..20 {
            deep = json!({kind: [deep]});
        }
        let found = problems(&with(rich(), "/workloads/0/journey/steps/4", deep));
        assert!(found.iter().any(|p| p.message.contains("16 deep")), "{found:?}");
    }
    let once = json!({"once": [{"request": {"name": "x", "path": "/"}}]});
    let found = problems(&with(rich(), "/workloads/0/journey/steps", vec![once; 65].into()));
    assert!(found.iter().any(|p| p.message.contains("65 once steps; at most 64")), "{found:?}");
}

/// Changes one place of a document.
fn mutate(value: &mut Value, rng: &mut Rng) {
    let odd = [
        json!(null),
        json!(-1),
        json!(0),
        json!(1.5e300),
        json!(u64::MAX),
        json!(""),
        json!("{{"),
        json!("{{ user }}"),
        json!("{{ people }}"),
        json!("\u{0}\r\n"),
        json!([]),
        json!({}),
        json!([1, 2]),
        json!(true),
        json!("{% for %}{{ x }}"),
        json!({"json": "$..*"}),
        json!("people.csv"),
        json!("/dev/zero"),
    ];
    match value {
        Value::Object(map) if !map.is_empty() && rng.below(8) > 0 => {
            let key = map.keys().nth(rng.below(map.len() as u64) as usize).cloned().unwrap_or_default();
            match rng.below(12) {
                0 => drop(map.shift_remove(&key)),
                1 => drop(map.insert("odd".into(), odd[rng.below(odd.len() as u64) as usize].clone())),
                _ => mutate(&mut map[&key], rng),
            }
        }
        Value::Array(items) if !items.is_empty() && rng.below(8) > 0 => {
            let at = rng.below(items.len() as u64) as usize;
            match rng.below(12) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => mutate(&mut items[at], rng),
            }
        }
        other => *other = odd[rng.below(odd.len() as u64) as usize].clone(),
    }
}

#[test]
fn any_document_is_a_plan_or_has_problems() {
    let dir = folder();
    let mut rng = Rng::from_parts(&[0x6a6f_6273]);
    let start = std::time::Instant::now();
    let (mut good, mut bad) = (0, 0);
    while start.elapsed() < std::time::Duration::from_secs(3) {
        let mut job = rich();
        for _ in 0..=rng.below(3) {
            mutate(&mut job, &mut rng);
        }
        match Job::from_json_in(&job.to_string(), dir.path()) {
            Ok(job) => {
                good += 1;
                assert!(Plan::new(job).is_ok(), "what was checked can be compiled");
            }
            Err(problems) => {
                bad += 1;
                assert!(!problems.is_empty() && problems.iter().all(|p| !p.message.is_empty()));
            }
        }
    }
    assert!(good > 10 && bad > 100, "{good} good, {bad} bad");
}
