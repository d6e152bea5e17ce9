//! `towtank-engine agent`: who is let in, what is handed out, what is refused.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod worker_support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use worker_support::{Orders, Worker};

/// Items after a number, once there is one of them for which `wanted` holds.
fn take_until(orders: &mut Orders, after: u64, wanted: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        orders.say(&json!({"do": "take", "after": after}));
        let taken = orders.hear("taken");
        if taken["items"].as_array().unwrap().iter().any(&wanted) {
            return taken;
        }
        assert!(Instant::now() < until, "{taken}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn readings_are_handed_out_from_a_number_on_to_everybody_who_has_the_token() {
    let agent = Worker::start_agent(20);
    let (mut orders, welcome) = agent.connect();
    assert_eq!(welcome["interval_ms"], 20);
    let has_rates = |item: &Value| item["values"][""]["cpu_cores"].is_f64();
    let taken = take_until(&mut orders, 0, has_rates);
    assert_eq!(taken["first"], 1);
    let items = taken["items"].as_array().unwrap();
    assert!(items[0]["values"][""]["cpu_cores"].is_null(), "a first reading has no rates");
    assert!(items[0]["values"][""]["memory_bytes"].as_f64().unwrap() > 0.0);
    let times: Vec<u64> = items.iter().map(|item| item["t_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
    drop(orders);

    // Another connection goes on where the first one was.
    let (mut orders, again) = agent.connect();
    assert_eq!(again["life"], welcome["life"]);
    let after = items.len() as u64;
    let taken = take_until(&mut orders, after, |_| true);
    assert_eq!(taken["first"], after + 1);
    assert!(taken["items"][0]["t_ns"].as_u64().unwrap() > *times.last().unwrap());

    orders.say(&json!({"do": "clock", "sent_ns": 7}));
    let clock = orders.hear("clock");
    assert_eq!(clock["sent_ns"], 7);
    assert!(clock["received_ns"].as_u64() <= clock["answered_ns"].as_u64());
    orders.say(&json!({"do": "finish"}));
    orders.hear("bye");
}

#[test]
fn whoever_does_not_have_the_token_or_asks_for_something_else_is_refused() {
    let agent = Worker::start_agent(1000);
    let mut stranger = Orders(agent.knock());
    stranger.hello("fedcba9876543210-of-somebody");
    assert_eq!(stranger.next()["message"], "wrong token");
    for question in
        [json!({"do": "job"}), json!({"do": "take"}), json!({"do": "take", "after": -1}), json!([])]
    {
        let (mut orders, _) = agent.connect();
        orders.say(&question);
        let said = orders.next();
        assert_eq!(said["event"], "refused");
        assert!(said["message"].as_str().unwrap().starts_with("no question"), "{said}");
        assert!(orders.try_next().is_none());
    }
}

#[test]
fn a_signal_ends_it() {
    let agent = Worker::start_agent(1000);
    let pid = rustix::process::Pid::from_child(&agent.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(agent.ended(), (Some(0), String::new()));
}
