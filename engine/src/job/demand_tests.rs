use super::*;
use serde_json::{Value, json};

/// Two targets, the second with three instances; a journey that goes to both.
fn job(load: &Value, keys: &[(&str, Value)]) -> Value {
    let instance = |name: &str| json!({"name": name, "url": "http://127.0.0.1:1"});
    let step = |name: &str, target: &str| json!({"request": {"name": name, "path": "/", "target": target}});
    let mut job = json!({
        "version": 1, "run_id": "r", "output": "o",
        "targets": {"one": {"instances": [instance("a")]},
                    "three": {"instances": [instance("b"), instance("c"), instance("d")]},
                    "other": {"instances": [instance("e")]}},
        "workloads": [{"name": "w", "timeout_us": 1, "load": load,
                       "journey": {"steps": [step("x", "one"), step("y", "three"), step("z", "one")]}}],
    });
    for (pointer, value) in keys {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        job.pointer_mut(parent).expect("the parent is there")[key] = value.clone();
    }
    job
}

fn users(count: u64) -> Value {
    json!({"model": "closed", "stages": [{"from_users": count, "to_users": count, "duration_us": 1}]})
}

fn arrivals(max_in_flight: Option<u64>) -> Value {
    json!({"model": "open", "max_in_flight": max_in_flight,
           "stages": [{"from_per_s": 1, "to_per_s": 1, "duration_us": 1_000_000}]})
}

/// The least bound on connections with which a job is taken.
fn least(mut job: Value) -> u64 {
    let mut taken = |limit: u64| {
        job["limits"] = json!({"max_connections": limit});
        match Job::from_json(&job.to_string()) {
            Ok(_) => true,
            Err(problems) => {
                assert!(problems.iter().all(|p| p.message.contains("max_connections")), "{problems:?}");
                false
            }
        }
    };
    (1..200).find(|limit| taken(*limit)).expect("a limit")
}

fn w(key: &str) -> String {
    format!("/workloads/0/{key}")
}

#[test]
fn a_user_that_keeps_its_connections_has_one_to_each_target() {
    let spread = |name: &str| ("/spread", json!(name));
    let policy = |name: &str| ("/workloads/0/connections", json!({"policy": name}));
    let each = json!("iteration");
    let rotate = json!(["three", "one", "three"]);
    let redirects = ("/workloads/0/journey/steps/0/request/redirects", json!(1));
    let cases = [
        (users(10), vec![], 20),
        (users(10), vec![spread("per-request-round-robin")], 40),
        (users(10), vec![spread("least-outstanding")], 40),
        (users(10), vec![redirects.clone()], 30),
        (users(10), vec![redirects, spread("least-outstanding")], 50),
        (users(10), vec![policy("pool")], 10),
        (users(10), vec![policy("new"), spread("least-outstanding")], 10),
        (users(10), vec![("/workloads/0/rotate", rotate.clone())], 20),
        (users(10), vec![("/workloads/0/rotate", rotate.clone()), ("/workloads/0/load/session", each)], 10),
        (arrivals(Some(10)), vec![], 10),
        (arrivals(Some(10)), vec![policy("per-user")], 20),
        (arrivals(Some(10)), vec![policy("per-user"), ("/workloads/0/rotate", rotate)], 10),
        (arrivals(None), vec![policy("per-user")], 2),
    ];
    for (load, keys, expected) in cases {
        assert_eq!(least(job(&load, &keys)), expected, "{load} {keys:?}");
    }
}

/// Every thread has its share of the bound, and has to do with it.
#[test]
fn each_thread_has_room_for_its_users() {
    // Of 4 users on 3 threads the first has two, with two connections each.
    assert_eq!(least(job(&users(4), &[("/threads", json!(3))])), 10);
    assert_eq!(
        least(job(&users(5), &[("/threads", json!(3)), (&w("connections"), json!({"policy": "new"}))])),
        5
    );
    let shares: Vec<_> = (0..3).map(|thread| share(5, thread, 3)).collect();
    assert_eq!(shares, [2, 2, 1]);
}

#[test]
fn what_is_missing_is_told_by_workload() {
    let mut job = job(&users(10), &[("/limits", json!({"max_connections": 19}))]);
    let problems = Job::from_json(&job.to_string()).expect_err("too few");
    assert_eq!(problems.len(), 1);
    assert_eq!(
        problems[0].to_string(),
        "$.workloads: up to 20 connections at once (\"w\": 10 users with 2 each); limits.max_connections allows 19"
    );
    job["limits"]["max_connections"] = 20.into();
    assert!(Job::from_json(&job.to_string()).is_ok());
}

/// Sessions without a bound of their own are held to what users and the others leave.
#[test]
fn open_load_has_what_is_left() {
    let mut job = job(&users(10), &[("/limits", json!({"max_connections": 100})), ("/threads", json!(2))]);
    let mut add = |name: &str, load: Value| {
        let mut workload = job["workloads"][0].clone();
        workload["name"] = name.into();
        workload["load"] = load;
        for step in workload["journey"]["steps"].as_array_mut().expect("a list") {
            step["request"]["name"] = format!("{name}-{}", step["request"]["name"]).into();
        }
        job["workloads"].as_array_mut().expect("a list").push(workload);
    };
    add("bounded", arrivals(Some(31)));
    add("free", arrivals(None));
    let job = Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}"));
    // 50 connections a thread: 5 users with two, 16 or 15 arrivals in flight.
    let bounds = |workload| [job.session_bound(workload, 0), job.session_bound(workload, 1)];
    assert_eq!((bounds(1), bounds(2)), ([16, 15], [24, 25]));
    assert_eq!([job.connection_bound(0), job.connection_bound(1)], [50, 50]);
}
