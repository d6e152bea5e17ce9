use super::*;
use serde_json::{Value, json};

fn good() -> Value {
    json!({
        "version": 1, "run_id": "r", "seed": 7, "output": "/tmp/x", "threads": 2, "nice": -10, "cpus": [1],
        "spread": "least-outstanding", "instance_header": "x-instance",
        "targets": {"app": {"instances": [{"name": "app-0", "url": "http://127.0.0.1:8101"}], "headers": {"x-key": "k"}}},
        "workloads": [{
            "name": "shop", "warmup_us": 1_000_000, "timeout_us": 5_000_000,
            "load": {"model": "open", "arrivals": "poisson", "max_in_flight": 200, "when_full": "drop",
                "stages": [{"name": "p", "from_per_s": 20.0, "to_per_s": 20, "duration_us": 3_000_000}]},
            "journey": {"think": {"uniform_us": [1, 2]}, "steps": [
                {"request": {"name": "list", "method": "GET", "target": "app", "path": "/items", "headers": {},
                    "body": null, "timeout_us": null, "expect": {"status": ["2xx", 404], "contains": null}, "think": null}},
                {"choose": [{"weight": 3, "steps": [{"request": {"name": "read", "path": "/i/{{ random_int(1, 5) }}"}}]}]},
            ]},
        }],
        "limits": {"max_body_bytes": 1000},
    })
}

/// Sets what a JSON pointer points at.
fn with(pointer: &str, value: Value) -> Value {
    let mut job = good();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = job.pointer_mut(parent).expect("the parent is there");
    match parent {
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = value,
        other => other[key] = value,
    }
    job
}

fn problems(job: &Value) -> Vec<Problem> {
    Job::from_json(&job.to_string()).err().unwrap_or_default()
}

#[test]
fn a_complete_job_is_understood() {
    let job = Job::from_json(&good().to_string()).unwrap_or_else(|p| panic!("{p:?}"));
    assert_eq!((job.threads, job.nice, job.spread), (2, Some(-10), Spread::LeastOutstanding));
    assert_eq!((job.limits.max_body_bytes, job.limits.max_header_bytes), (1000, 65536));
    let workload = &job.workloads[0];
    assert_eq!(workload.load.duration_us(), 3_000_000);
    let Load::Open(open) = &workload.load else { panic!("open") };
    assert!(matches!(&open.timing, Timing::Rate(Arrivals::Poisson, stages) if stages.len() == 1));
    assert_eq!((open.when_full, open.max_in_flight), (WhenFull::Drop, Some(200)));
    let pool = Connections { policy: ConnectionPolicy::Pool, max_age_us: None, max_requests: None };
    assert_eq!((workload.connections, workload.rotate.len(), workload.cold.is_none()), (pool, 0, true));
    let Step::Request(request) = &workload.journey.steps[0] else { panic!("a request") };
    assert_eq!((request.think, request.timeout_us, request.method.as_str()), (None, None, "GET"));
    let status = request.expect.status;
    assert!(status.contains(200) && status.contains(299) && status.contains(404));
    assert!(!status.contains(300) && !status.contains(0) && !status.contains(u16::MAX));
}

#[test]
fn defaults_are_those_of_the_document() {
    let job = json!({
        "version": 1, "run_id": "r", "output": "o",
        "targets": {"a": {"instances": [{"name": "a", "url": "http://h"}]}},
        "workloads": [{"name": "w", "timeout_us": 1,
            "load": {"model": "closed", "stages": [{"from_users": 1, "to_users": 1, "duration_us": 1}]},
            "journey": {"steps": [{"request": {"name": "s", "path": "/"}}]}}],
    });
    let job = Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}"));
    assert_eq!((job.seed, job.threads, job.nice, job.spread), (0, 1, None, Spread::PerConnectionRandom));
    let Load::Closed(closed) = &job.workloads[0].load else { panic!("closed") };
    assert_eq!((closed.graceful_us, closed.session), (30_000_000, SessionSpan::User));
    assert_eq!((closed.start_spread_us, closed.catch_up), (0, false));
    assert_eq!(job.workloads[0].connections.policy, ConnectionPolicy::PerUser);
    let Step::Request(request) = &job.workloads[0].journey.steps[0] else { panic!("a request") };
    let status = request.expect.status;
    assert!(status.contains(200) && status.contains(399) && !status.contains(400) && !status.contains(199));
}

#[expect(clippy::too_many_lines, reason = "a table")]
/// What is wrong is told where it stands, and with what is allowed.
#[test]
fn each_mistake_is_told_with_its_path() {
    let w = "/workloads/0";
    let cases = [
        ("/version", json!(2), "$.version", "reads 1"),
        ("/run_id", json!(""), "$.run_id", "empty"),
        ("/seed", json!(-1), "$.seed", "whole number"),
        ("/threads", json!(0), "$.threads", "1 to 128"),
        ("/nice", json!(-21), "$.nice", "-20 to 19"),
        ("/cpus", json!([1, "x"]), "$.cpus[1]", "whole number"),
        ("/spread", json!("random"), "$.spread", "per-connection-random"),
        ("/instance_header", json!("a b"), "$.instance_header", "header name"),
        ("/colour", json!("red"), "$.colour", "unknown key; allowed: cpus"),
        ("/limits/max_open", json!(1), "$.limits.max_open", "unknown key"),
        ("/targets/app/instances", json!([]), "$.targets.app.instances", "empty list"),
        ("/targets/app/instances/0/url", json!("ftp://x"), "$.targets.app.instances[0].url", "allowed: http"),
        ("/targets/app/protocol", json!("auto"), "$.targets.app.protocol", "needs https"),
        ("/targets/app/host", json!("a/b"), "$.targets.app.host", "no host"),
        ("/targets/app/tls", json!({}), "$.targets.app.tls", "no instance has an https URL"),
        ("/targets/app/tls", json!({"cert_file": "a"}), "$.targets.app.tls", "go together"),
        ("/targets/app/tls", json!({"server_name": "a b"}), "$.targets.app.tls.server_name", "neither"),
        (
            "/targets/app/tls",
            json!({"min_version": "1.3", "max_version": "1.2"}),
            "$.targets.app.tls",
            "above max_version",
        ),
        ("/targets/app/proxy", json!({"url": "ftp://p"}), "$.targets.app.proxy.url", "http://host:port"),
        ("/targets/app/proxy", json!({"url": "http://u:p@h"}), "$.targets.app.proxy.url", "credentials"),
        (
            "/targets/app/proxy",
            json!({"url": "socks5://h", "headers": {"a": "b"}}),
            "$.targets.app.proxy.headers",
            "no headers",
        ),
        ("/targets/app/source_addresses", json!(["x"]), "$.targets.app.source_addresses[0]", "IP address"),
        (
            "/targets/app/source_addresses",
            json!(["::1"]),
            "$.targets.app.source_addresses",
            "none is of IPv4",
        ),
        ("/targets/app/max_streams", json!(0), "$.targets.app.max_streams", "whole number from 1"),
        ("/dns", json!({"servers": ["ns.example"]}), "$.dns.servers[0]", "IP or IP:port"),
        ("/dns", json!({"cache": "long"}), "$.dns.cache", "ttl, forever, never"),
        ("/targets/app/headers/x-key", json!("a\r\nb"), "$.targets.app.headers.x-key", "control character"),
        (
            "/targets/app/headers/content-length",
            json!("1"),
            "$.targets.app.headers.content-length",
            "by the engine",
        ),
        (&format!("{w}/name"), json!(null), "$.workloads[0].name", "missing"),
        (&format!("{w}/timeout_us"), json!(0), "$.workloads[0].timeout_us", "whole number from 1"),
        (
            &format!("{w}/warmup_us"),
            json!(3_000_000),
            "$.workloads[0].warmup_us",
            "nothing would be measured",
        ),
        (&format!("{w}/load/model"), json!("opn"), "$.workloads[0].load.model", "allowed: closed, open"),
        (&format!("{w}/load/max_in_flight"), json!(1), "$.workloads[0].load.max_in_flight", "2 threads"),
        (
            &format!("{w}/load/max_in_flight"),
            json!(20000),
            "$.workloads[0].load.max_in_flight",
            "max_connections",
        ),
        (&format!("{w}/load/graceful_us"), json!(1), "$.workloads[0].load.graceful_us", "unknown key"),
        (
            &format!("{w}/load/stages/0/from_per_s"),
            json!(-1),
            "$.workloads[0].load.stages[0].from_per_s",
            "number from 0",
        ),
        (
            &format!("{w}/load/stages/0/from_per_s"),
            json!("1"),
            "$.workloads[0].load.stages[0].from_per_s",
            "\"1\" where",
        ),
        (&format!("{w}/load/stages/0/duration_us"), json!(0), "$.workloads[0].load.stages", "0 µs in all"),
        (&format!("{w}/journey/think"), json!({}), "$.workloads[0].journey.think", "exactly one"),
        (
            &format!("{w}/journey/think"),
            json!({"uniform_us": [2, 1]}),
            "$.workloads[0].journey.think.uniform_us",
            "above",
        ),
        (
            &format!("{w}/journey/steps/0"),
            json!({}),
            "$.workloads[0].journey.steps[0]",
            "exactly one of request, choose, sequence, once",
        ),
        (
            &format!("{w}/journey/steps/1/choose/0/weight"),
            json!(0),
            "$.workloads[0].journey.steps[1].choose",
            "nothing",
        ),
        (
            &format!("{w}/journey/steps/0/request/target"),
            json!("ap"),
            "$.workloads[0].journey.steps[0].request.target",
            "targets: app",
        ),
        (
            &format!("{w}/journey/steps/0/request/method"),
            json!("G T"),
            "$.workloads[0].journey.steps[0].request.method",
            "no method",
        ),
        (
            &format!("{w}/journey/steps/0/request/path"),
            json!("x"),
            "$.workloads[0].journey.steps[0].request.path",
            "slash",
        ),
        (
            &format!("{w}/journey/steps/0/request/path"),
            json!("/a b"),
            "$.workloads[0].journey.steps[0].request.path",
            "%XX",
        ),
        (
            &format!("{w}/journey/steps/0/request/body"),
            json!("{{ usr }}"),
            "$.workloads[0].journey.steps[0].request.body",
            "unknown: usr",
        ),
        (
            &format!("{w}/journey/steps/0/request/expect/status"),
            json!(["6xx"]),
            "$.workloads[0].journey.steps[0].request.expect.status[0]",
            "class",
        ),
    ];
    for (pointer, value, path, message) in cases {
        let found = problems(&with(pointer, value));
        let told = found.iter().any(|p| p.path == path && p.message.contains(message));
        assert!(told, "{pointer}: expected {path}: …{message}…, found {found:?}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let mut job = with("/version", json!(9));
    job["workloads"][0]["timeout_us"] = json!("soon");
    job["workloads"][0]["journey"]["steps"][1]["choose"][0]["steps"][0]["request"]["bdy"] = json!(1);
    let paths: Vec<_> = problems(&job).into_iter().map(|p| p.path).collect();
    let expected = [
        "$.version",
        "$.workloads[0].timeout_us",
        "$.workloads[0].journey.steps[1].choose[0].steps[0].request.bdy",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn hostile_documents_are_refused_quickly() {
    assert!(
        Job::from_json("").is_err()
            && Job::from_json("[]").is_err()
            && Job::from_json("{\"version\": 1").is_err()
    );
    assert!(Job::from_json(&"[".repeat(100_000)).is_err());
    let mut deep = json!({"request": {"name": "x", "path": "/"}});
    for _ in 0..20 {
        deep = json!({"choose": [{"weight": 1, "steps": [deep]}]});
    }
    let found = problems(&with("/workloads/0/journey/steps/0", deep));
    assert!(found.iter().any(|p| p.message.contains("deep")), "{found:?}");
    let many = problems(&with("/workloads/0/load/stages/0/to_per_s", json!(1e7)));
    assert!(many.is_empty(), "{many:?}");
    let mut too_many = with("/workloads/0/load/stages/0/to_per_s", json!(1e7));
    too_many["workloads"][0]["load"]["stages"][0]["duration_us"] = json!(3_600_000_000_u64);
    assert!(problems(&too_many)[0].message.contains("arrivals"));
    let users = json!({"model": "closed", "stages": [{"from_users": 20_000, "to_users": 1, "duration_us": 2_000_000}]});
    assert!(problems(&with("/workloads/0/load", users))[0].message.contains("max_connections"));
}

/// The example with another load, and with keys of its workload set.
fn with_load(load: Value, keys: &[(&str, Value)]) -> Value {
    let mut job = with("/workloads/0/load", load);
    for (key, value) in keys {
        job["workloads"][0][key] = value.clone();
    }
    job
}

fn users(keys: &[(&str, Value)]) -> Value {
    let mut load =
        json!({"model": "closed", "stages": [{"from_users": 1, "to_users": 1, "duration_us": 3_000_000}]});
    for (key, value) in keys {
        load[key] = value.clone();
    }
    load
}

fn wave(keys: &[(&str, Value)]) -> Value {
    let mut stage =
        json!({"mean_per_s": 10, "amplitude_per_s": 5, "period_us": 1_000_000, "duration_us": 3_000_000});
    for (key, value) in keys {
        stage[key] = value.clone();
    }
    json!({"model": "open", "stages": [stage]})
}

#[test]
fn every_part_of_a_load_is_understood() {
    let keys = [
        ("start_spread_us", json!(500)),
        ("catch_up", json!(true)),
        ("pacing_us", json!({"constant_us": 9})),
    ];
    let job = with_load(
        users(&keys),
        &[("connections", json!({"policy": "pool", "max_age_us": 5, "max_requests": 6}))],
    );
    let job = Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}"));
    let Load::Closed(closed) = &job.workloads[0].load else { panic!("closed") };
    assert_eq!(
        (closed.start_spread_us, closed.catch_up, closed.pacing),
        (500, true, Some(Pause::Constant(9)))
    );
    let asked = Connections { policy: ConnectionPolicy::Pool, max_age_us: Some(5), max_requests: Some(6) };
    assert_eq!(job.workloads[0].connections, asked);
    let cold = json!({"header": {"name": "x-cold", "equals": "true"}, "json": {"path": "$.cold", "equals": true}, "above_us": 7});
    let mut job =
        with_load(wave(&[("phase", json!(-0.25))]), &[("rotate", json!(["b", "app"])), ("cold", cold)]);
    job["targets"]["b"] = json!({"instances": [{"name": "b-0", "url": "http://127.0.0.1:1"}]});
    // With rotating targets a step need not name one.
    job["workloads"][0]["journey"]["steps"] = json!([{"request": {"name": "probe", "path": "/"}}]);
    let job = Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}"));
    let workload = &job.workloads[0];
    assert_eq!(workload.rotate, [1, 0]);
    let cold = workload.cold.as_ref().expect("cold");
    assert_eq!((cold.header.as_ref().map(|h| h.0.as_str()), cold.above_us), (Some("x-cold"), Some(7)));
    let Load::Open(open) = &workload.load else { panic!("open") };
    let sine = Sine { mean: 10.0, amplitude: 5.0, period_us: 1_000_000, phase: -0.25 };
    assert!(matches!(&open.timing, Timing::Rate(Arrivals::Uniform, s) if s[0].shape == Shape::Sine(sine)));
}

#[test]
fn each_mistake_in_a_load_is_told_with_its_path() {
    let load = "$.workloads[0].load";
    let open = |arrivals: &str| json!({"model": "open", "arrivals": arrivals, "stages": [{"from_per_s": 1, "to_per_s": 1, "duration_us": 3_000_000}]});
    let cases = [
        (open("even"), format!("{load}.arrivals"), "uniform, poisson, scattered"),
        (
            wave(&[("amplitude_per_s", json!(11))]),
            format!("{load}.stages[0].amplitude_per_s"),
            "above the mean",
        ),
        (wave(&[("period_us", json!(0))]), format!("{load}.stages[0].period_us"), "whole number from 1"),
        (wave(&[("phase", json!("a"))]), format!("{load}.stages[0].phase"), "a number from"),
        (wave(&[("from_per_s", json!(1))]), format!("{load}.stages[0].from_per_s"), "unknown key"),
        (json!({"model": "open"}), load.to_owned(), "exactly one of stages, times"),
        (
            users(&[("start_spread_us", json!(3_000_000))]),
            format!("{load}.start_spread_us"),
            "not below the duration",
        ),
        (users(&[("catch_up", json!(true))]), format!("{load}.catch_up"), "nothing to catch up"),
        (users(&[("catch_up", json!(1))]), format!("{load}.catch_up"), "true or false"),
    ];
    for (load, path, message) in cases {
        let found = problems(&with_load(load, &[]));
        let told = found.iter().any(|p| p.path == path && p.message.contains(message));
        assert!(told, "expected {path}: …{message}…, found {found:?}");
    }
    let cases = [
        (
            "connections",
            json!({"policy": "new", "max_requests": 2}),
            "connections.max_requests",
            "serves one",
        ),
        ("connections", json!({"policy": "own"}), "connections.policy", "per-user, pool, new"),
        ("rotate", json!([]), "rotate", "empty list"),
        ("rotate", json!(["app", "b"]), "rotate[1]", "\"b\" is no target; targets: app"),
        ("cold", json!({}), "cold", "at least one of"),
        ("cold", json!({"json": {"path": "cold", "equals": 1}}), "cold.json.path", "no JSONPath"),
        ("cold", json!({"header": {"name": "a b", "equals": "1"}}), "cold.header.name", "header name"),
        ("cold", json!({"header": {"name": "a"}}), "cold.header.equals", "missing"),
    ];
    for (key, value, path, message) in cases {
        let found = problems(&with_load(open("uniform"), &[(key, value)]));
        let told =
            found.iter().any(|p| p.path == format!("$.workloads[0].{path}") && p.message.contains(message));
        assert!(told, "expected {path}: …{message}…, found {found:?}");
    }
}

/// A relative file is looked for beside the job, and is read before anything else happens.
#[test]
fn times_come_from_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let load = |unit: &str| json!({"model": "open", "times": {"file": "times.txt", "unit": unit}});
    let job_file = dir.path().join("job.json");
    let read = |load: Value| {
        std::fs::write(&job_file, with_load(load, &[("warmup_us", json!(0))]).to_string()).expect("written");
        Job::from_file(&job_file)
    };
    let told = |load: Value, message: &str| {
        let found = read(load).err().unwrap_or_default();
        let path = "$.workloads[0].load.times.file";
        assert!(found.iter().any(|p| p.path == path && p.message.contains(message)), "{message}: {found:?}");
    };
    told(load("s"), "cannot read");
    std::fs::write(dir.path().join("times.txt"), "0\n0.25\n# a remark\n4\n").expect("written");
    let job = read(load("s")).unwrap_or_else(|p| panic!("{p:?}"));
    let Load::Open(open) = &job.workloads[0].load else { panic!("open") };
    let Timing::Times(times) = &open.timing else { panic!("times") };
    assert_eq!(
        (times.offsets_ns.as_slice(), job.duration_us()),
        (&[0, 250_000_000, 4_000_000_000][..], 4_000_001)
    );
    let mut both = load("s");
    both["arrivals"] = "poisson".into();
    let found = read(both).err().unwrap_or_default();
    assert!(found[0].message.contains("belongs to stages"), "{found:?}");
    std::fs::write(dir.path().join("times.txt"), "0\n3\n2\n").expect("written");
    told(load("s"), "times.txt:3: 2 is before");
}
