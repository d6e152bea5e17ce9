//! The ways to a server: names, families, Unix sockets, source addresses, and how long connections are kept.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::dns::{NameServer, Reply};
use load_support::server::{Peer, Server};
use load_support::tls::{Authority, TlsServer};
use load_support::{closed, get, job, number, open, run, text, times, truth};
use rustls::version::TLS13;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

fn ok(peer: &mut Peer) {
    peer.answer(200, "ok");
}

fn serving() -> Server {
    Server::answering(|peer, _| ok(peer))
}

fn with_url(mut job: Value, url: impl Into<Value>) -> Value {
    job["targets"]["app"]["instances"][0]["url"] = url.into();
    job
}

/// Each request on a connection of its own.
fn fresh(mut job: Value) -> Value {
    job["workloads"][0]["connections"] = json!({"policy": "new"});
    job
}

fn named(server: &Server, names: &NameServer, cache: &str, count: u32) -> Value {
    let mut job = job(&format!("shop.example:{}", server.address.port()), times(count), get());
    job["dns"] = json!({"servers": [names.address.to_string()], "cache": cache, "timeout_us": 2_000_000});
    fresh(job)
}

fn loopback(last: u8) -> IpAddr {
    IpAddr::from([127, 0, 0, last])
}

/// A server on all addresses, and how often each of them was connected to.
fn everywhere() -> (Server, Arc<Mutex<BTreeMap<IpAddr, usize>>>) {
    let met: Arc<Mutex<BTreeMap<IpAddr, usize>>> = Arc::default();
    let log = Arc::clone(&met);
    let server = Server::start_on("0.0.0.0:0", move |mut peer| {
        *log.lock().unwrap().entry(peer.stream.local_addr().unwrap().ip()).or_default() += 1;
        while peer.request().is_some() {
            ok(&mut peer);
        }
    });
    (server, met)
}

#[test]
fn addresses_of_a_name_take_turns() {
    let (server, met) = everywhere();
    let names = NameServer::start(|_, _| Reply::Addresses((1..=3).map(loopback).collect(), 60));
    let outcome = run(named(&server, &names, "ttl", 6));
    assert_eq!(outcome.outcomes(), ["answered"; 6]);
    let met = met.lock().unwrap();
    assert_eq!((met[&loopback(1)], met[&loopback(2)], met[&loopback(3)]), (2, 2, 2));
    assert_eq!(names.asked("shop.example"), 1);
    let dns: Vec<_> = outcome.column("dns_us").iter().map(Option::is_some).collect();
    assert_eq!(dns, [true, false, false, false, false, false]);
}

#[test]
fn answers_hold_as_long_as_they_shall() {
    for (cache, expected) in [("forever", 1), ("never", 5)] {
        let server = serving();
        let names = NameServer::start(|_, _| Reply::Addresses(vec![loopback(1)], 0));
        let outcome = run(named(&server, &names, cache, 5));
        assert_eq!(
            (outcome.outcomes(), names.asked("shop.example")),
            (vec!["answered".to_owned(); 5], expected)
        );
        assert_eq!(outcome.column("dns_us").iter().flatten().count(), expected);
    }
}

#[test]
fn an_answer_that_has_expired_is_asked_for_again() {
    let (server, met) = everywhere();
    let names = NameServer::start(|_, before| Reply::Addresses(vec![loopback(before as u8 + 1)], 1));
    let mut job = named(&server, &names, "ttl", 5);
    job["workloads"][0]["journey"]["think"] = json!({"constant_us": 400_000});
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["answered"; 5]);
    let asked = names.asked("shop.example");
    // 1.6 s with answers of a second; a busy machine may take longer.
    assert!((2..=4).contains(&asked), "{asked}");
    assert_eq!(outcome.column("dns_us").iter().flatten().count(), asked);
    assert_eq!(met.lock().unwrap().len(), asked);
}

#[test]
fn a_name_that_is_not_there_is_dns() {
    let server = serving();
    let names = NameServer::start(|_, _| Reply::NoName);
    let outcome = run(named(&server, &names, "ttl", 3));
    assert_eq!(outcome.outcomes(), ["dns"; 3]);
    assert!(outcome.finding("dns_failed").contains("shop.example"), "{}", outcome.finding("dns_failed"));
    assert_eq!(outcome.column("bytes_out"), [Some(0); 3]);
    // The second and the third know without asking.
    assert_eq!(names.asked("shop.example"), 1);
}

#[test]
fn an_answer_about_one_family_is_used_without_the_other() {
    let answering = |at: &str| {
        Server::start_on(at, |mut peer| {
            while peer.request().is_some() {
                ok(&mut peer);
            }
        })
    };
    for (at, address) in [("127.0.0.1:0", loopback(1)), ("[::1]:0", "::1".parse().unwrap())] {
        let server = answering(at);
        let names = NameServer::start(move |_, _| Reply::Only(address));
        let outcome = run(named(&server, &names, "ttl", 2));
        assert_eq!(outcome.outcomes(), ["answered"; 2], "{address}");
        assert!(outcome.column("dns_us")[0].unwrap() < 600_000, "{:?}", outcome.column("dns_us"));
    }
}

#[test]
fn a_timeout_of_a_request_that_waits_for_a_name_is_its_own() {
    let server = serving();
    let names = NameServer::start(|_, _| Reply::Silence);
    let mut job = named(&server, &names, "ttl", 1);
    job["workloads"][0]["timeout_us"] = 200_000.into();
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["timeout:dns"]);
    assert!(outcome.finding("dns_failed").contains("shop.example: no answer within"));
}

#[test]
fn it_is_said_why_a_name_has_no_address() {
    let server = serving();
    let said = |script: fn(&str, usize) -> Reply| {
        let outcome = run(named(&server, &NameServer::start(script), "ttl", 1));
        assert_eq!(outcome.outcomes(), ["dns"]);
        outcome.finding("dns_failed").to_owned()
    };
    let there_is_none = said(|_, _| Reply::NoName);
    assert!(there_is_none.contains("no such name (NXDOMAIN)"), "{there_is_none}");
    let empty = said(|_, _| Reply::Addresses(Vec::new(), 60));
    assert!(empty.contains("has no address"), "{empty}");
    let circle =
        said(|name, _| Reply::Alias(if name == "shop.example" { "other.example" } else { "shop.example" }));
    assert!(circle.contains("shop.example -> other.example -> shop.example"), "{circle}");
}

/// The name server says nothing; another workload of the same thread goes on.
#[test]
fn a_silent_name_server_holds_nobody_else_up() {
    let server = serving();
    let names = NameServer::start(|_, _| Reply::Silence);
    let mut job = named(&server, &names, "ttl", 1);
    job["dns"]["timeout_us"] = 300_000.into();
    job["targets"]["near"] =
        json!({"instances": [{"name": "near-0", "url": format!("http://{}", server.at())}]});
    job["workloads"][0]["journey"]["steps"][0]["request"]["target"] = "app".into();
    let near = json!([{"request": {"name": "near", "target": "near", "path": "/"}}]);
    job["workloads"].as_array_mut().unwrap().push(
        json!({"name": "near", "timeout_us": 2_000_000, "load": times(200), "journey": {"steps": near}}),
    );
    let outcome = run(job);
    let (far, near): (Vec<_>, Vec<_>) = outcome.records.iter().partition(|r| text(r, "workload") == "w");
    assert_eq!((far.len(), text(far[0], "outcome").as_str()), (1, "dns"));
    let waited = number(far[0], "dns_us").unwrap();
    assert!((300_000..1_500_000).contains(&waited), "{waited}");
    assert!(near.len() == 200 && near.iter().all(|r| text(r, "outcome") == "answered"));
    let last = near.iter().filter_map(|r| number(r, "scheduled_us")).max().unwrap();
    assert!(last < number(far[0], "scheduled_us").unwrap() + waited, "the others were done first: {last}");
    assert!(outcome.finding("dns_failed").contains("no answer"));
}

#[test]
fn a_name_may_have_addresses_of_both_families() {
    let server = Server::start_on("[::1]:0", |mut peer| {
        while peer.request().is_some() {
            ok(&mut peer);
        }
    });
    let both = || Reply::Addresses(vec!["::1".parse().unwrap(), loopback(1)], 60);
    let names = NameServer::start(move |_, _| both());
    assert_eq!(run(named(&server, &names, "ttl", 3)).outcomes(), ["answered"; 3]);
    let names = NameServer::start(|_, _| Reply::Addresses(vec!["::1".parse().unwrap()], 60));
    assert_eq!(run(named(&server, &names, "ttl", 3)).outcomes(), ["answered"; 3]);
    let url = format!("http://[::1]:{}", server.address.port());
    assert_eq!(run(with_url(job("x", times(3), get()), url)).outcomes(), ["answered"; 3]);
}

#[test]
fn a_unix_socket_is_spoken_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut request) {
                    let good = request[..count].starts_with(b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n");
                    let status = if good { 200 } else { 400 };
                    write!(stream, "HTTP/1.1 {status} S\r\ncontent-length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    let steps = json!([{"request": {"name": "get", "path": "/x"}}]);
    let url = format!("unix:{}:/v1", path.display());
    let outcome = run(with_url(job("x", times(4), steps.clone()), url.clone()));
    assert_eq!(outcome.outcomes(), ["answered"; 4]);
    let (connects, dns) = (outcome.column("connect_us"), outcome.column("dns_us"));
    assert_eq!(connects.iter().flatten().count(), 1);
    assert!(dns.iter().all(Option::is_none));
    let nobody = format!("unix:{}", dir.path().join("none").display());
    assert_eq!(run(with_url(job("x", times(2), steps.clone()), nobody)).outcomes(), ["refused"; 2]);
    // More at once than the queue of a listener holds.
    let mut load = closed(300, 20_000_000);
    load["iterations_per_user"] = 2.into();
    assert_eq!(run(fresh(with_url(job("x", load, steps), url))).outcomes(), vec!["answered"; 600]);
}

#[test]
fn source_addresses_take_turns() {
    let met: Arc<Mutex<BTreeMap<IpAddr, usize>>> = Arc::default();
    let log = Arc::clone(&met);
    let server = Server::start(move |mut peer| {
        *log.lock().unwrap().entry(peer.stream.peer_addr().unwrap().ip()).or_default() += 1;
        while peer.request().is_some() {
            ok(&mut peer);
        }
    });
    let mut job = fresh(job(&server.at(), times(6), get()));
    job["targets"]["app"]["source_addresses"] = json!(["127.0.0.2", "::1", "127.0.0.3"]);
    assert_eq!(run(job.clone()).outcomes(), ["answered"; 6]);
    let met = met.lock().unwrap().clone();
    assert_eq!(met, BTreeMap::from([(loopback(2), 3), (loopback(3), 3)]));
    job["targets"]["app"]["source_addresses"] = json!(["192.0.2.1"]);
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["not_sent"; 6]);
    assert!(outcome.finding("source_address_failed").contains("192.0.2.1"));
}

/// Nobody is asked from another address than those that were named: of a name, only what they can reach is tried.
#[test]
fn source_addresses_decide_which_addresses_are_tried() {
    let server = Server::start_on("[::1]:0", |mut peer| {
        while peer.request().is_some() {
            ok(&mut peer);
        }
    });
    let six = || "::1".parse().unwrap();
    let both = NameServer::start(move |_, _| Reply::Addresses(vec![loopback(1), six()], 60));
    let mut job = named(&server, &both, "ttl", 2);
    job["targets"]["app"]["source_addresses"] = json!(["::1"]);
    assert_eq!(run(job).outcomes(), ["answered"; 2]);
    let names = NameServer::start(move |_, _| Reply::Addresses(vec![six()], 60));
    let mut job = named(&server, &names, "ttl", 2);
    job["targets"]["app"]["source_addresses"] = json!(["127.0.0.2"]);
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["not_sent"; 2]);
    let said = outcome.finding("source_address_failed");
    assert!(said.contains("shop.example") && said.contains("IPv6"), "{said}");
    assert_eq!(server.connections(), 2);
}

fn with_policy(mut job: Value, connections: Value) -> Value {
    job["workloads"][0]["connections"] = connections;
    job
}

#[test]
fn connections_belong_to_whom_the_policy_says() {
    let users = |each: u32| {
        let mut load = closed(4, 20_000_000);
        load["iterations_per_user"] = each.into();
        load
    };
    let count = |load: Value, connections: Value| {
        let server = serving();
        let outcome = run(with_policy(job(&server.at(), load, get()), connections));
        assert!(outcome.outcomes().iter().all(|o| o == "answered"));
        let fresh = outcome.records.iter().filter(|r| !truth(r, "reused")).count();
        assert_eq!(fresh, server.connections());
        (outcome.records.len(), fresh)
    };
    assert_eq!(count(users(10), Value::Null), (40, 4));
    assert_eq!(count(users(10), json!({"policy": "new"})), (40, 40));
    assert_eq!(count(users(10), json!({"policy": "per-user", "max_requests": 5})), (40, 8));
    assert_eq!(count(users(10), json!({"policy": "pool", "max_requests": 5})), (40, 8));
    // One after another, they need only one.
    assert_eq!(count(times(12), json!({"policy": "pool"})), (12, 1));
    let mut slow = open(20.0, 500_000);
    slow["max_arrivals"] = 10.into();
    assert_eq!(count(slow.clone(), json!({"policy": "new"})), (10, 10));
    assert_eq!(count(slow.clone(), json!({"policy": "per-user"})), (10, 10));
    let (rows, pooled) = count(slow, Value::Null);
    assert!(rows == 10 && pooled < 5, "{pooled}");
}

/// The bound is met to the connection: what users keep was counted, what the pool keeps makes room.
#[test]
fn the_bound_on_connections_is_enough_for_what_was_counted() {
    let servers = [serving(), serving()];
    let step = |name: &str, target: &str| json!({"request": {"name": name, "path": "/", "target": target}});
    let targets = json!({
        "one": {"instances": [{"name": "one", "url": format!("http://{}", servers[0].at())}]},
        "two": {"instances": [{"name": "two", "url": format!("http://{}", servers[1].at())}]},
    });
    for (policy, most) in [("per-user", 8), ("pool", 4), ("new", 4)] {
        let mut load = closed(4, 20_000_000);
        load["iterations_per_user"] = 5.into();
        let mut job = with_policy(
            job("x", load, json!([step("a", "one"), step("b", "two")])),
            json!({"policy": policy}),
        );
        job["targets"] = targets.clone();
        job["limits"] = json!({"max_connections": most});
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), vec!["answered"; 40], "{policy}");
        assert!(!outcome.findings().contains(&"out_of_connections"), "{policy}");
    }
}

#[test]
fn a_connection_of_a_single_request_says_so() {
    let server = Server::answering(|peer, request| {
        let says = request.head.contains("\r\nconnection: close\r\n");
        peer.answer(if says { 200 } else { 400 }, "");
    });
    let steps = json!([
        {"request": {"name": "static", "path": "/"}},
        {"request": {"name": "drawn", "path": "/{{ user }}"}},
        {"request": {"name": "post", "method": "POST", "path": "/", "body": "x=1"}},
    ]);
    assert_eq!(run(fresh(job(&server.at(), times(2), steps))).outcomes(), ["answered"; 6]);
    // The last of three says so, and the two before do not.
    let server = Server::answering(|peer, request| {
        let last = request.head.starts_with("GET /2 ") == request.head.contains("connection: close");
        peer.answer(if last { 200 } else { 400 }, "");
    });
    let steps = json!([{"request": {"name": "get", "path": "/{{ iteration % 3 }}"}}]);
    let job =
        with_policy(job(&server.at(), times(9), steps), json!({"policy": "per-user", "max_requests": 3}));
    assert_eq!((run(job).outcomes(), server.connections()), (vec!["answered".to_owned(); 9], 3));
}

#[test]
fn an_old_connection_is_not_used_again() {
    for policy in ["per-user", "pool"] {
        let server = serving();
        let mut job = job(&server.at(), times(6), get());
        job["workloads"][0]["journey"]["think"] = json!({"constant_us": 60_000});
        let job = with_policy(job, json!({"policy": policy, "max_age_us": 100_000}));
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"; 6]);
        // Every 60 ms for 300 ms with at most 100 ms each: two requests a connection, or one on a busy machine.
        assert!((3..=6).contains(&server.connections()), "{policy}: {}", server.connections());
        assert!(outcome.column("attempt").iter().all(|n| *n == Some(0)));
    }
}

#[test]
fn the_host_can_be_another_than_the_address() {
    let server = Server::answering(|peer, request| {
        let host = request.head.lines().find_map(|l| l.strip_prefix("Host: ")).unwrap_or_default().to_owned();
        peer.answer(if host == "shop.example:8080" { 200 } else { 400 }, "");
    });
    for path in ["/", "/{{ user }}"] {
        let steps = json!([{"request": {"name": "get", "path": path}}]);
        let mut job = job(&server.at(), times(2), steps);
        job["targets"]["app"]["host"] = "shop.example:8080".into();
        assert_eq!(run(job.clone()).outcomes(), ["answered"; 2]);
        job["workloads"][0]["journey"]["steps"][0]["request"]["headers"] = json!({"host": "other"});
        assert_eq!(run(job).outcomes(), ["check:status"; 2]);
    }
}

/// The spreads see connections through proxies and over TLS as any other.
#[test]
fn spreads_hold_over_tls() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    for spread in ["per-request-round-robin", "least-outstanding", "per-connection-random"] {
        let servers: Vec<_> =
            (0..2).map(|_| TlsServer::start(authority.config(&identity, &[&TLS13], false))).collect();
        let mut job = job("x", times(20), get());
        let instance = |(n, server): (usize, &TlsServer)| json!({"name": format!("app-{n}"), "url": format!("https://{}", server.server.at())});
        job["targets"]["app"]["instances"] = servers.iter().enumerate().map(instance).collect();
        job["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
        job["spread"] = spread.into();
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"; 20]);
        let first = outcome.records.iter().filter(|r| text(r, "instance") == "app-0").count();
        let connections: usize = servers.iter().map(|s| s.server.connections()).sum();
        if spread == "per-connection-random" {
            assert!(connections == 1 && (first == 0 || first == 20));
        } else {
            assert_eq!((connections, first), (2, 10), "{spread}");
        }
    }
}
