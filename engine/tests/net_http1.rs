//! HTTP/1.1 in its details: consent to a body, early answers, and nginx as a server that was not made for tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::nginx::Nginx;
use load_support::server::Server;
use load_support::tls::{Authority, TlsServer};
use load_support::{get, job, number, run, times, truth};
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

fn put(body: &str, asks: bool) -> Value {
    json!([{"request": {"name": "put", "method": "PUT", "path": "/", "body": body, "expect_continue": asks}}])
}

#[test]
fn a_body_waits_for_consent() {
    let server = Server::start(|mut peer| {
        while let Some(head) = peer.head() {
            assert!(head.contains("\r\nexpect: 100-continue\r\n"));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!peer.has_more(), "the body did not wait");
            peer.send("HTTP/1.1 100 Continue\r\n\r\n");
            let body = peer.body(&head);
            std::thread::sleep(Duration::from_millis(30));
            peer.answer(if body.len() == 20_000 { 200 } else { 500 }, "");
        }
    });
    let outcome = run(job(&server.at(), times(3), put(&"x".repeat(20_000), true)));
    assert_eq!((outcome.outcomes(), server.connections()), (vec!["answered".to_owned(); 3], 1));
    for row in &outcome.records {
        // The first byte is the answer's, not that of the interim one.
        assert!(number(row, "ttfb_us").unwrap() >= 58_000);
        assert!(number(row, "bytes_out").unwrap() > 20_000);
    }
}

#[test]
fn a_body_that_is_not_wanted_is_not_sent() {
    let server = Server::start(|mut peer| {
        peer.head();
        peer.answer(417, "no");
        peer.linger();
    });
    let outcome = run(job(&server.at(), times(3), put("some body", true)));
    assert_eq!(outcome.outcomes(), ["check:status"; 3]);
    assert_eq!(outcome.column("status"), [Some(417); 3]);
    // Nobody could tell a body from the next request: each has a connection of its own.
    assert_eq!(server.connections(), 3);
    assert!(outcome.column("bytes_out").iter().all(|n| n.unwrap() < 120));
}

#[test]
fn a_server_that_does_not_know_the_question_gets_the_body() {
    let server =
        Server::answering(|peer, request| peer.answer(if request.body == b"body" { 200 } else { 500 }, ""));
    let began = Instant::now();
    let outcome = run(job(&server.at(), times(1), put("body", true)));
    assert_eq!(outcome.outcomes(), ["answered"]);
    assert!(began.elapsed() >= Duration::from_secs(1));
    let silent = Server::start(|mut peer| peer.linger());
    let mut job = job(&silent.at(), times(1), put("body", true));
    job["workloads"][0]["timeout_us"] = 200_000.into();
    assert_eq!(run(job).outcomes(), ["timeout:first_byte"]);
}

/// Tickets of the server arrive while the body is sent, and are no answer; the answer is one.
#[test]
fn an_early_answer_over_tls_is_read() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let server = TlsServer::start_early(authority.config(&identity, versions, false));
        let mut job = job(&server.server.at(), times(2), put(&"x".repeat(8_000_000), false));
        job["targets"]["app"]["instances"][0]["url"] = format!("https://{}", server.server.at()).into();
        job["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
        let outcome = run(job);
        assert_eq!(outcome.column("status"), [Some(413); 2]);
        assert!(outcome.column("bytes_out").iter().all(|n| n.unwrap() < 8_000_000));
    }
}

/// A row has only the outcome for it; the finding says in which way, in one word and more.
#[test]
fn what_breaks_the_protocol_is_told() {
    let cases = [
        ("start", "SSH-2.0-OpenSSH\r\n"),
        ("header", "HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n"),
        ("upgrade", "HTTP/1.1 101 Switching\r\n\r\n"),
        ("length", "HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\n"),
        ("coding", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n"),
        ("chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
    ];
    for (word, answer) in cases {
        let server = Server::answering(move |peer, _| assert!(peer.send(answer)));
        let outcome = run(job(&server.at(), times(2), get()));
        assert_eq!(outcome.outcomes(), ["protocol"; 2], "{word}");
        let said = outcome.finding("protocol_failed");
        assert!(said.starts_with(&format!("{}: {word}: ", server.at())), "{said}");
    }
    // Framed as it should be, and not what it says it is.
    let coded = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello";
    let server = Server::answering(move |peer, _| assert!(peer.send(coded)));
    let steps = json!([{"request": {"name": "get", "path": "/", "expect": {"contains": "hello"}}}]);
    let outcome = run(job(&server.at(), times(2), steps));
    assert_eq!(outcome.outcomes(), ["protocol"; 2]);
    let said = outcome.finding("protocol_failed");
    assert!(said.contains("\"get\"") && said.contains("content: "), "{said}");
}

/// An answer whose every byte comes by itself.
#[test]
fn an_answer_may_come_byte_by_byte() {
    let server = Server::answering(|peer, _| {
        peer.stream.set_nodelay(true).unwrap();
        for byte in b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" {
            peer.stream.write_all(&[*byte]).unwrap();
        }
    });
    let steps = json!([{"request": {"name": "get", "path": "/", "expect": {"contains": "hello"}}}]);
    let outcome = run(job(&server.at(), times(5), steps));
    assert_eq!((outcome.outcomes(), server.connections()), (vec!["answered".to_owned(); 5], 1));
}

#[test]
fn nginx_is_understood_over_tcp_tls_and_a_unix_socket() {
    let authority = Authority::new();
    let nginx = Nginx::start(&authority);
    let request = |path: &str, more: Value| {
        let mut request = json!({"request": {"name": path, "path": path}});
        request["request"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let steps = json!([
        request("/", json!({"expect": {"contains": "ok"}})),
        request("/big", json!({})),
        request("/chunked", json!({"headers": {"accept-encoding": "gzip"}})),
        request("/big", json!({"method": "HEAD", "name": "head"})),
        request("/none", json!({"expect": {"status": [404]}})),
        request("/put", json!({"method": "PUT", "body": "x".repeat(100_000), "expect_continue": true})),
        request("/put", json!({"method": "PUT", "name": "plain put", "body": "x".repeat(100_000)})),
    ]);
    let urls = [
        format!("http://127.0.0.1:{}", nginx.plain),
        format!("https://127.0.0.1:{}", nginx.tls),
        format!("unix:{}", nginx.socket().display()),
    ];
    for url in urls {
        let mut job = job("x", times(2), steps.clone());
        job["targets"]["app"]["instances"][0]["url"] = url.clone().into();
        if url.starts_with("https") {
            job["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
        }
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), vec!["answered"; 14], "{url}");
        let fresh = outcome.records.iter().filter(|row| !truth(row, "reused")).count();
        assert_eq!(fresh, 1, "{url}: all on one connection");
        assert_eq!(outcome.column("tls_us").iter().flatten().count(), usize::from(url.starts_with("https")));
        let big = outcome.records.iter().find(|r| load_support::text(r, "step") == "/big").unwrap();
        assert!(number(big, "bytes_in").unwrap() > 5_000_000);
        let chunked = outcome.records.iter().find(|r| load_support::text(r, "step") == "/chunked").unwrap();
        assert!(number(chunked, "bytes_in").unwrap() < 100_000, "it was compressed");
    }
    // TLS that is asked for in plain, and the reverse.
    let mut plain = job(&format!("127.0.0.1:{}", nginx.tls), times(1), get());
    assert_eq!(run(plain.clone()).column("status"), [Some(400)]);
    plain["targets"]["app"]["instances"][0]["url"] = format!("https://127.0.0.1:{}", nginx.plain).into();
    plain["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
    let outcome = run(plain);
    assert_eq!(outcome.outcomes(), ["tls"]);
    assert!(outcome.finding("tls_failed").contains("does not seem to speak TLS"));
}
