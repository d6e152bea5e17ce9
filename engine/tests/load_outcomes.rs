//! What a server does wrong is told exactly, to the request.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::patience::{bounded, in_time};
use load_support::server::{Peer, Server};
use load_support::{Outcome, get, job, number, run, text, times, truth};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// Runs `count` GETs in a row against a script.
fn gets(count: u32, script: impl Fn(Peer) + Send + Sync + 'static) -> Outcome {
    run(job(&Server::start(script).at(), times(count), get()))
}

/// As [`gets`], with a timeout.
fn gets_within(timeout_us: u64, script: impl Fn(Peer) + Send + Sync + 'static) -> Outcome {
    let server = Server::start(script);
    let mut job = job(&server.at(), times(1), get());
    job["workloads"][0]["timeout_us"] = timeout_us.into();
    run(job)
}

/// Sends one request to a server that answers it with these bytes and closes.
fn answered_with(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Outcome {
    gets(1, move |mut peer| {
        peer.request();
        peer.send(&bytes);
    })
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn a_good_answer_has_all_its_phases() {
    let server = Server::answering(|peer, _| {
        pause(20);
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-instance: pod-7\r\n\r\nhe");
        pause(30);
        peer.send("llo");
    });
    let mut job = job(&server.at(), times(3), get());
    job["instance_header"] = "X-Instance".into();
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["answered"; 3]);
    assert_eq!(server.connections(), 1);
    for (n, row) in outcome.records.iter().enumerate() {
        let ttfb = number(row, "ttfb_us").unwrap();
        assert!((20_000..1_000_000).contains(&ttfb), "{ttfb}");
        // A busy machine may let the engine see the first byte late, but never the last one early.
        assert!(ttfb + number(row, "after_ttfb_us").unwrap() >= 50_000);
        assert_eq!((number(row, "connect_us").is_some(), truth(row, "reused")), (n == 0, n > 0));
        assert_eq!((number(row, "dns_us"), number(row, "tls_us")), (None, None));
        assert_eq!((number(row, "status"), text(row, "instance")), (Some(200), "pod-7".into()));
        let sent = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", server.at());
        assert_eq!((number(row, "bytes_out"), number(row, "bytes_in")), (Some(sent.len() as i64), Some(62)));
        assert_eq!((number(row, "iteration"), number(row, "attempt")), (Some(n as i64), Some(0)));
    }
}

#[test]
fn ends_before_the_end_are_closed_or_reset() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello";
    for bytes in ["", &answer[..20], answer] {
        let closed = gets(1, move |mut peer| {
            peer.request();
            peer.send(bytes);
        });
        assert_eq!(closed.outcomes(), ["closed"], "after {} bytes", bytes.len());
        in_time(|| {
            let reset = gets(1, move |mut peer| {
                peer.request();
                peer.send(bytes);
                pause(30);
                peer.reset();
            });
            assert_eq!(reset.outcomes(), ["reset"], "after {} bytes", bytes.len());
            // A reset throws away what the engine has not read within the pause.
            let read = reset.column("bytes_in")[0].unwrap();
            if read == bytes.len() as i64 { Ok(()) } else { Err(format!("{read} of {} bytes", bytes.len())) }
        });
    }
}

#[test]
fn each_phase_has_its_timeout() {
    in_time(|| {
        let first_byte = gets_within(100_000, |mut peer| {
            peer.request();
            peer.linger();
        });
        assert_eq!(first_byte.outcomes(), ["timeout:first_byte"]);
        assert_eq!(first_byte.column("ttfb_us"), [None]);
        let body = gets_within(100_000, |mut peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
            peer.linger();
        });
        // One that began so late that nothing had come within its time has not met the phase in question.
        if body.outcomes() != ["timeout:body"] {
            assert_eq!(body.outcomes(), ["timeout:first_byte"]);
            return Err("the first byte of a body came late".into());
        }
        assert_eq!(body.column("status"), [Some(200)]);
        for outcome in [first_byte, body] {
            let row = &outcome.records[0];
            let total = number(row, "ttfb_us").unwrap_or(0) + number(row, "after_ttfb_us").unwrap();
            assert!(total >= 100_000, "{total}");
            bounded("µs until a timeout of 100,000", total as u64, 400_000)?;
        }
        Ok(())
    });
}

/// A listener whose queue is full drops what comes: a connect hangs.
#[test]
fn a_connect_that_hangs_times_out() {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let address: SocketAddr = rustix::net::getsockname(&socket).unwrap().try_into().unwrap();
    let fill = |_| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let client = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        let _ = rustix::net::connect(&client, &address);
        client
    };
    let waiting: Vec<_> = (0..4).map(fill).collect();
    pause(20);
    let mut job = job(&address.to_string(), times(1), get());
    job["workloads"][0]["timeout_us"] = 150_000.into();
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["timeout:connect"]);
    assert!(outcome.column("connect_us")[0].unwrap() >= 149_000);
    assert_eq!(outcome.column("bytes_out"), [Some(0)]);
    drop(waiting);
}

#[test]
fn nobody_there_is_refused() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = run(job(&free.to_string(), times(3), get()));
    assert_eq!(outcome.outcomes(), ["refused"; 3]);
    assert_eq!((outcome.count("due"), outcome.count("rows"), outcome.count("sent")), (3, 3, 3));
}

#[test]
fn what_is_not_http_is_protocol() {
    let garbage =
        ["\u{0}\u{1}\u{2}garbage\r\n\r\n", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"];
    for bytes in garbage {
        assert_eq!(answered_with(bytes).outcomes(), ["protocol"], "{bytes}");
    }
}

#[test]
fn nothing_is_read_without_end() {
    let endless = |start: &'static str| {
        let server = Server::start(move |mut peer| {
            peer.request();
            peer.send(start);
            while peer.send([b'x'; 16384]) {}
        });
        let mut job = job(&server.at(), times(1), get());
        job["limits"] = json!({"max_body_bytes": 1_000_000, "max_header_bytes": 10_000});
        run(job)
    };
    let bodies = [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffff\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;",
        "HTTP/1.1 200 OK\r\nx-endless: ",
    ];
    for start in bodies {
        assert_eq!(endless(start).outcomes(), ["too_large"], "{start}");
    }
}

/// Data is always there to be read, but time goes on.
#[test]
fn an_endless_body_does_not_outlive_its_timeout() {
    let server = Server::start(|mut peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        while peer.send([b'x'; 16384]) {}
    });
    let mut job = job(&server.at(), times(1), get());
    job["limits"] = json!({"max_body_bytes": 4_000_000_000_u64});
    job["workloads"][0]["timeout_us"] = 150_000.into();
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["timeout:body"]);
    assert!(outcome.column("after_ttfb_us")[0].unwrap() < 1_000_000);
}

#[test]
fn every_framing_is_understood() {
    let answers = [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n",
        "HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\n\r\nhello",
    ];
    for answer in answers {
        let server = Server::start(move |mut peer| {
            peer.request();
            peer.send(answer);
        });
        let steps = json!([{"request": {"name": "get", "path": "/", "expect": {"contains": "hello"}}}]);
        let outcome = run(job(&server.at(), times(1), steps));
        assert_eq!(outcome.outcomes(), ["answered"], "{answer}");
        assert_eq!(outcome.column("bytes_in"), [Some(answer.len() as i64)], "{answer}");
    }
}

#[test]
fn answers_without_a_body_leave_the_connection_usable() {
    let server = Server::answering(|peer, request| {
        let status = if request.head.starts_with("HEAD") { "200 OK" } else { "204 None" };
        peer.send(format!("HTTP/1.1 {status}\r\ncontent-length: 99\r\n\r\n"));
    });
    let steps = json!([
        {"request": {"name": "head", "method": "HEAD", "path": "/"}},
        {"request": {"name": "delete", "method": "delete", "path": "/"}},
    ]);
    let outcome = run(job(&server.at(), times(3), steps));
    assert_eq!(outcome.outcomes(), ["answered"; 6]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_connection_that_cannot_be_trusted_is_not_used_again() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let server = Server::start(move |mut peer| {
            peer.request();
            peer.send(answer);
            peer.linger();
        });
        let outcome = run(job(&server.at(), times(3), get()));
        assert_eq!(
            (outcome.outcomes(), server.connections()),
            (vec!["answered".to_owned(); 3], 3),
            "{answer}"
        );
        assert!(outcome.records.iter().all(|row| !truth(row, "reused")));
    }
}

#[test]
fn unexpected_answers_are_checks() {
    let server = Server::answering(|peer, request| {
        let status = if request.head.starts_with("GET /bad") { 503 } else { 200 };
        peer.answer(status, "all is well");
    });
    let request =
        |path: &str, expect: Value| json!({"request": {"name": path, "path": path, "expect": expect}});
    let steps = json!([
        request("/good", json!({"status": ["2xx"], "contains": "is well"})),
        request("/bad", json!({})),
        request("/bad/allowed", json!({"status": [503]})),
        request("/good/text", json!({"contains": "is ill"})),
        request("/bad/both", json!({"contains": "is ill"})),
    ]);
    let outcome = run(job(&server.at(), times(1), steps));
    assert_eq!(
        outcome.outcomes(),
        ["answered", "check:status", "answered", "check:contains", "check:status"]
    );
    assert_eq!(server.connections(), 1);
}

/// The server answers the first request of each connection and closes when it sees the second.
fn forgetful() -> Server {
    Server::start(|mut peer| {
        peer.request();
        peer.answer(200, "ok");
        peer.request();
    })
}

#[test]
fn a_request_that_met_a_closing_connection_is_sent_again() {
    let server = forgetful();
    let outcome = run(job(&server.at(), times(3), get()));
    assert_eq!(outcome.outcomes(), ["answered"; 3]);
    assert_eq!(outcome.column("attempt"), [Some(0), Some(1), Some(1)]);
    assert!(outcome.column("connect_us").iter().all(Option::is_some));
}

#[test]
fn what_may_not_be_repeated_is_not_repeated() {
    let server = forgetful();
    let steps = json!([{"request": {"name": "post", "method": "POST", "path": "/", "body": "x=1"}}]);
    let outcome = run(job(&server.at(), times(3), steps));
    assert_eq!(outcome.outcomes(), ["answered", "closed", "answered"]);
    assert_eq!(outcome.column("attempt"), [Some(0); 3]);
}

#[test]
fn a_server_that_closes_idle_connections_costs_no_attempt() {
    let server = Server::start(|mut peer| {
        peer.request();
        peer.answer(200, "ok");
    });
    let mut job = job(&server.at(), times(3), get());
    job["workloads"][0]["journey"]["think"] = json!({"constant_us": 30_000});
    in_time(|| {
        let before = server.connections();
        let outcome = run(job.clone());
        assert_eq!((outcome.outcomes(), server.connections() - before), (vec!["answered".to_owned(); 3], 3));
        // A server that has not closed within the pause costs one after all.
        bounded("attempts", outcome.column("attempt").iter().map(|n| n.unwrap() as u64).max().unwrap(), 1)
    });
}

#[test]
fn requests_are_sent_as_written() {
    let server = Server::answering(|peer, request| {
        let good = request.head.starts_with("POST /base/a%20b?u=0&i=0 HTTP/1.1\r\n")
            && request.head.contains("x-key: step\r\n")
            && request.head.contains("x-run: test\r\n")
            && request.head.contains("Host: 127.0.0.1")
            && request.body == "body of 0".as_bytes();
        peer.answer(if good { 200 } else { 500 }, "");
    });
    let steps = json!([{"request": {
        "name": "post", "method": "POST", "path": "/a b?u={{ user }}&i={{ iteration }}",
        "headers": {"X-Key": "step", "x-run": "{{ run_id }}"}, "body": "body of {{ user }}",
    }}]);
    let mut job = job(&server.at(), times(1), steps);
    job["targets"]["app"]["headers"] = json!({"x-key": "target"});
    job["targets"]["app"]["instances"][0]["url"] = format!("http://{}/base/", server.at()).into();
    job["workloads"][0]["journey"]["steps"][0]["request"]["headers"] =
        json!({"x-key": "step", "x-run": "{{ run_id }}"});
    assert_eq!(run(job).outcomes(), ["answered"]);
}

#[test]
fn a_large_body_is_sent_whole_to_a_slow_reader() {
    let server = Server::answering(|peer, request| {
        pause(20);
        peer.answer(if request.body.len() == 8_000_000 { 200 } else { 500 }, "");
    });
    let body = "x".repeat(8_000_000);
    let steps = json!([{"request": {"name": "put", "method": "PUT", "path": "/", "body": body}}]);
    let outcome = run(job(&server.at(), times(2), steps));
    assert_eq!((outcome.outcomes(), server.connections()), (vec!["answered".to_owned(); 2], 1));
    assert!(outcome.column("bytes_out").iter().all(|n| n.unwrap() > 8_000_000));
}

#[test]
fn an_early_answer_to_a_large_body_is_read() {
    let server = Server::start(|mut peer| {
        peer.answer(413, "too much");
        peer.linger();
    });
    let body = "x".repeat(8_000_000);
    let steps = json!([{"request": {"name": "put", "method": "PUT", "path": "/", "body": body}}]);
    let outcome = run(job(&server.at(), times(1), steps));
    assert_eq!(
        (outcome.outcomes(), outcome.column("status")),
        (vec!["check:status".into()], vec![Some(413)])
    );
}

#[test]
fn names_are_resolved_and_the_time_is_kept() {
    let server = Server::answering(|peer, _| peer.answer(200, "ok"));
    let address = format!("localhost:{}", server.address.port());
    let outcome = run(job(&address, times(2), get()));
    assert_eq!(outcome.outcomes(), ["answered"; 2]);
    assert!(outcome.column("dns_us")[0].is_some() && outcome.column("dns_us")[1].is_none());
}

#[test]
fn a_slow_accept_is_not_a_slow_connect() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = std::thread::spawn(move || {
        // A connection is there, and waits to be accepted.
        rustix::event::poll(&mut [PollFd::new(&listener, PollFlags::IN)], None).unwrap();
        pause(100);
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1000];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let outcome = run(job(&address, times(1), get()));
    serve.join().unwrap();
    assert_eq!(outcome.outcomes(), ["answered"]);
    assert!(outcome.column("ttfb_us")[0].unwrap() >= 80_000);
}

/// A script of outcomes over many connections is found again in the rows, to the request.
#[test]
fn a_mixed_script_matches_to_the_request() {
    let server = Server::start(|mut peer| {
        while let Some(request) = peer.request() {
            let number: u32 = request.head.split(['/', ' ']).find_map(|p| p.parse().ok()).unwrap();
            match number % 5 {
                0 => peer.answer(200, "ok"),
                1 => peer.answer(500, "no"),
                2 => {
                    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhel");
                    return;
                }
                3 => {
                    peer.send("nonsense\r\n\r\n");
                    return;
                }
                _ => {
                    peer.send("HTTP/1.1 200 OK\r\ncontent-le");
                    pause(5);
                    return peer.reset();
                }
            }
        }
    });
    let mut load = load_support::closed(8, 20_000_000);
    load["iterations_per_user"] = 50.into();
    let steps = json!([{"request": {"name": "get", "path": "/{{ user * 1000 + iteration }}"}}]);
    let outcome = run(job(&server.at(), load, steps));
    assert_eq!(outcome.records.len(), 400);
    let expected = ["answered", "check:status", "closed", "protocol", "reset"];
    for row in &outcome.records {
        let number = number(row, "user").unwrap() * 1000 + number(row, "iteration").unwrap();
        assert_eq!(text(row, "outcome"), expected[(number % 5) as usize], "{number}");
    }
}
