//! `towtank-engine worker`: who is let in, what is refused, what is left when a connection is torn.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;
mod worker_support;

use load_support::server::Server;
use load_support::{get, job, number, open, read};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use towtank_engine::record::compact::compact;
use towtank_engine::remote::handshake::{Token, Who};
use worker_support::{Orders, TOKEN, Worker};

fn answering() -> Server {
    Server::answering(|peer, _| peer.answer(200, "ok"))
}

/// What a worker says at last, before it closes.
fn last_words(mut orders: Orders) -> String {
    let mut last = Value::Null;
    while let Some(message) = orders.try_next() {
        last = message;
    }
    last["message"].as_str().unwrap_or_default().to_owned()
}

/// Rows of a load of 200/s that was carried out by so many workers, and how many rows each had.
fn shared(server: &Server, of: u64, threads: u64) -> (Vec<(i64, i64, i64)>, Vec<u64>) {
    let workers: Vec<_> = (0..of).map(|_| Worker::start(60)).collect();
    let mut all: Vec<_> = workers.iter().map(|worker| worker.connect().0).collect();
    let mut whole = job(&server.at(), open(200.0, 1_000_000), get());
    whole["threads"] = threads.into();
    for (number, orders) in all.iter_mut().enumerate() {
        orders.job(&whole, number as u64, of);
        assert_eq!(orders.hear("ready")["due"], 200 / of);
    }
    // Both ends are on this machine: there is one clock.
    let at_ns = all[0].now_ns() + 400_000_000;
    for orders in &mut all {
        orders.say(&json!({"do": "start", "at_ns": at_ns}));
    }
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("requests");
    std::fs::create_dir(&logs).unwrap();
    let mut counts = Vec::new();
    for orders in &mut all {
        let done = orders.hear("done");
        counts.push(done["counts"]["rows"].as_u64().unwrap());
        let ended = orders.next();
        assert_eq!((&ended["event"], &ended["code"]), (&json!("ended"), &json!(0)));
        take_logs(orders, &ended, &logs);
        orders.say(&json!({"do": "finish"}));
        orders.hear("bye");
    }
    for worker in workers {
        assert_eq!(worker.ended(), (Some(0), String::new()));
    }
    let out = dir.path().join("requests.parquet");
    assert_eq!(compact(&logs, &out).unwrap().torn_logs, 0);
    let column = |row: &_, name| number(row, name).unwrap();
    let key = |row| (column(row, "scheduled_us"), column(row, "user"), column(row, "worker"));
    (read(&out).iter().map(key).collect(), counts)
}

/// Fetches what was announced, in two parts, and checks it.
fn take_logs(orders: &mut Orders, ended: &Value, folder: &Path) {
    for log in ended["logs"].as_array().unwrap() {
        let name = log["name"].as_str().unwrap();
        let whole = orders.fetch(name, 0);
        assert_eq!(orders.fetch(name, 100), whole[100..]);
        assert_eq!(
            (log["bytes"].as_u64(), log["crc32"].as_u64()),
            (Some(whole.len() as u64), Some(crc32fast::hash(&whole).into()))
        );
        std::fs::write(folder.join(name), whole).unwrap();
    }
}

#[test]
fn four_workers_make_the_load_of_one() {
    let server = answering();
    let (alone, _) = shared(&server, 1, 1);
    let (together, counts) = shared(&server, 4, 2);
    assert_eq!(counts, [50; 4]);
    let due = |rows: &[(i64, i64, i64)]| rows.iter().map(|(due, user, _)| (*due, *user)).collect::<Vec<_>>();
    assert_eq!(due(&alone), due(&together), "the same arrivals at the same instants");
    // Arrival k is made by lane k modulo 8, which is worker k modulo 4.
    assert!(together.iter().all(|(_, user, lane)| user % 8 == *lane));
}

#[test]
fn only_who_has_the_token_is_let_in_and_learns_that_the_worker_has_it() {
    let worker = Worker::start(60);
    for token in ["0123456789abcdef-of-somebody", "another token of them"] {
        let mut orders = Orders(worker.knock());
        orders.hello(token);
        assert_eq!(last_words(orders), "wrong token");
    }
    let mut orders = Orders(worker.knock());
    let nonces = orders.hello(TOKEN);
    let welcome = orders.hear("welcome");
    assert_eq!(welcome["proof"], Token::new(TOKEN.as_bytes()).unwrap().proof(Who::Worker, &nonces));
    assert_eq!((&welcome["stage"], &welcome["ended"]), (&json!("idle"), &Value::Null));
    // What was said once proves nothing in another connection.
    let old = Token::new(TOKEN.as_bytes()).unwrap().proof(Who::Orchestrator, &nonces);
    let mut again = Orders(worker.knock());
    again.next();
    again.say(&json!({"protocol": 1, "nonce": nonces.orchestrator, "proof": old}));
    assert_eq!(last_words(again), "wrong token");
    let (mut second, mut refused) = (Orders(worker.knock()), String::new());
    second.hello(TOKEN);
    refused.push_str(&last_words(second));
    assert_eq!(refused, "another connection gives orders to this worker");
    assert!(orders.now_ns() > 0, "the first one is none the worse for it");
}

#[test]
fn what_is_no_hello_is_refused() {
    let worker = Worker::start(60);
    let huge = [&b"M"[..], &5000_u32.to_le_bytes(), &[b'x'; 100]].concat();
    let old = json!({"protocol": 9, "nonce": "", "proof": ""}).to_string();
    let cases: [(&[u8], &str); 4] = [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of kind 71"),
        (&huge, "a frame of 5000 bytes; at most 4096"),
        (&[&b"M\x02\0\0\0"[..], b"{}"].concat(), "no hello: missing field"),
        (
            &[&b"M"[..], &(old.len() as u32).to_le_bytes(), old.as_bytes()].concat(),
            "protocol 9; this engine speaks 1",
        ),
    ];
    for (bytes, expected) in cases {
        let mut orders = Orders(worker.knock());
        orders.next();
        orders.raw(bytes);
        let said = last_words(orders);
        assert!(said.contains(expected), "{said}: {expected}");
    }
}

#[test]
fn what_breaks_the_rules_ends_the_connection_and_the_load() {
    let server = answering();
    let too_long = [&b"M"[..], &(2_u32 << 20).to_le_bytes()].concat();
    let nonsense = [&b"M\x10\0\0\0"[..], br#"{"do": "dance"} "#].concat();
    let cases: [(&[u8], &str); 3] = [
        (&too_long, "a frame of 2097152 bytes; at most 1048576"),
        (&nonsense, "no order: unknown variant `dance`"),
        (b"P\x01\0\0\0x", "a piece of a file that nobody asked for"),
    ];
    for (bytes, expected) in cases {
        let worker = Worker::start(60);
        let (mut orders, _) = worker.connect();
        orders.job(&job(&server.at(), open(100.0, 60_000_000), get()), 0, 1);
        orders.hear("ready");
        orders.start();
        orders.raw(bytes);
        let said = last_words(orders);
        assert!(said.contains(expected), "{said}: {expected}");
        await_end(&worker);
    }
}

/// Comes back to a worker until its load has ended, in order: its logs are whole.
fn await_end(worker: &Worker) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let (mut orders, welcome) = worker.connect();
        let ended = if welcome["stage"] == "ended" { welcome["ended"].clone() } else { Value::Null };
        if !ended.is_null() {
            assert_eq!(ended["code"], 0, "{ended}");
            let dir = tempfile::tempdir().unwrap();
            take_logs(&mut orders, &ended, dir.path());
            assert_eq!(compact(dir.path(), &dir.path().join("x.parquet")).unwrap().torn_logs, 0);
            return;
        }
        drop(orders);
        assert!(Instant::now() < until, "the load goes on: {welcome}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_start_that_has_passed_is_refused_and_nothing_is_sent() {
    let (server, worker) = (answering(), Worker::start(60));
    let (mut orders, _) = worker.connect();
    orders.say(&json!({"do": "start", "at_ns": 5}));
    assert_eq!(orders.next()["message"], "there is no load that waits for its start");
    orders.job(&job(&server.at(), open(100.0, 60_000_000), get()), 0, 1);
    orders.hear("ready");
    let late_ns = orders.now_ns() - 1_000_000;
    orders.say(&json!({"do": "start", "at_ns": late_ns}));
    let refused = orders.next();
    assert_eq!(refused["event"], "refused");
    assert!(
        refused["message"].as_str().unwrap().contains("s ago when its order came; nothing is sent"),
        "{refused}"
    );
    let done = orders.hear("done");
    assert_eq!((&done["counts"]["rows"], &done["stopped_by"]), (&json!(0), &json!("eof")));
}

#[test]
fn a_torn_connection_stops_the_load_and_its_records_can_be_fetched() {
    let (server, worker) = (answering(), Worker::start(60));
    let (mut orders, _) = worker.connect();
    orders.job(&job(&server.at(), open(200.0, 60_000_000), get()), 0, 1);
    orders.hear("ready");
    orders.start();
    let sent = orders.hear("progress")["done"].as_u64().unwrap();
    drop(orders);
    await_end(&worker);
    let (mut orders, welcome) = worker.connect();
    let dir = tempfile::tempdir().unwrap();
    take_logs(&mut orders, &welcome["ended"], dir.path());
    let rows = compact(dir.path(), &dir.path().join("x.parquet")).unwrap().rows;
    assert!(rows >= sent && rows < 12_000, "{rows}, {sent} of them in the first second");
    orders.say(&json!({"do": "fetch", "name": "../token", "offset": 0}));
    let refused = orders.next();
    assert!(refused["message"].as_str().unwrap().starts_with("there is no log \"../token\""), "{refused}");
    orders.say(&json!({"do": "finish"}));
    orders.hear("bye");
    let until = Instant::now() + Duration::from_secs(30);
    while !worker.left().is_empty() {
        assert!(Instant::now() < until, "{:?}", worker.left());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(worker.ended().0, Some(0));
}

#[test]
fn a_job_that_is_wrong_is_refused_as_ever() {
    let worker = Worker::start(60);
    let (mut orders, _) = worker.connect();
    orders.job(&job("127.0.0.1:9", json!({"model": "half-open"}), get()), 0, 1);
    let error = orders.next();
    assert_eq!((&error["event"], &error["path"]), (&json!("error"), &json!("$.workloads[0].load.model")));
    let mut last = orders.next();
    while last["event"] == "error" {
        last = orders.next();
    }
    assert_eq!((&last["event"], &last["code"], &last["logs"]), (&json!("ended"), &json!(3), &json!([])));
    orders.job(&job("127.0.0.1:9", open(1.0, 1), get()), 0, 1);
    assert_eq!(last_words(orders), "a second job; a worker carries out one");
}

#[test]
fn the_deadline_ends_everything() {
    let (server, worker) = (answering(), Worker::start(3));
    let (mut orders, _) = worker.connect();
    orders.job(&job(&server.at(), open(100.0, 60_000_000), get()), 0, 1);
    orders.hear("ready");
    orders.start();
    assert_eq!(orders.hear("done")["stopped_by"], "eof");
    let (code, words) = worker.ended();
    assert_eq!((code, words.as_str()), (Some(1), "towtank-engine worker: its deadline is over\n"));
}

#[test]
fn parts_of_a_closed_load_are_its_users_and_their_iterations() {
    let (server, mut users) = (answering(), BTreeSet::new());
    let load = json!({"model": "closed", "iterations": 10, "stages": [{"from_users": 3, "to_users": 3, "duration_us": 30_000_000}]});
    let mut rows = Vec::new();
    for worker in 0..2 {
        let mut part = job(&server.at(), load.clone(), get());
        part["part"] = json!({"worker": worker, "of": 2});
        let dir = tempfile::tempdir().unwrap();
        part["output"] = dir.path().join("requests").to_str().unwrap().into();
        let plan = towtank_engine::job::Job::from_json(&part.to_string())
            .and_then(towtank_engine::journey::Plan::new)
            .unwrap();
        towtank_engine::drive::run(
            plan,
            towtank_engine::drive::Lifeline::None,
            towtank_engine::drive::Events::to(std::io::sink()),
        )
        .unwrap();
        let out = dir.path().join("out.parquet");
        compact(&dir.path().join("requests"), &out).unwrap();
        let kept = read(&out);
        rows.push(kept.len());
        users.extend(kept.iter().map(|row| (number(row, "user").unwrap(), worker)));
    }
    // Users 0 and 2 have four and three iterations, user 1 three.
    assert_eq!(rows, [7, 3]);
    assert_eq!(users.into_iter().collect::<Vec<_>>(), [(0, 0), (1, 1), (2, 0)]);
}
