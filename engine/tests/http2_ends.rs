//! How requests of HTTP/2 end when they do not end well, and which of them are sent again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use h2::Reason;
use http::Response;
use load_support::h2::{H2, frame, plain, pooled, raw};
use load_support::tls::Authority;
use load_support::{Outcome, closed, get, job, number, run, times, truth};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_stream_that_is_reset_is_one_request() {
    let server = H2::start(plain, |_, (request, mut respond)| async move {
        if request.uri().path() == "/reset" {
            respond.send_reset(Reason::INTERNAL_ERROR);
        } else {
            respond.send_response(Response::new(()), true).unwrap();
        }
    });
    let steps = json!([{"request": {"name": "a", "path": "/"}}, {"request": {"name": "b", "path": "/reset"}},
                       {"request": {"name": "c", "path": "/"}}]);
    let outcome = run(server.job(times(2), steps));
    assert_eq!(outcome.outcomes(), ["answered", "reset", "answered", "answered", "reset", "answered"]);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_refused_stream_is_tried_again_elsewhere_a_few_times() {
    for (method, refusals, expected) in
        [("GET", 1, "answered"), ("POST", 1, "answered"), ("GET", 5, "answered"), ("GET", 6, "reset")]
    {
        let server = H2::start(plain, move |number, (_, mut respond)| async move {
            if number < refusals {
                respond.send_reset(Reason::REFUSED_STREAM);
            } else {
                respond.send_response(Response::new(()), true).unwrap();
            }
        });
        let steps = json!([{"request": {"name": "r", "method": method, "path": "/"}}]);
        let outcome = run(pooled(server.job(times(1), steps)));
        assert_eq!(outcome.outcomes(), [expected], "{method} {refusals}");
        let attempts = refusals.min(5) as i64;
        assert_eq!(outcome.column("attempt"), [Some(attempts)]);
        assert_eq!(server.connections() as i64, 1 + attempts);
    }
}

/// A row is of the attempt that it ends with: one that went over a connection that was there has no time to connect.
#[test]
fn a_row_that_ends_on_another_connection_says_what_that_one_was() {
    // The second connection, open because the first is busy, refuses when the first is free again.
    let server = H2::start(plain, |number, (_, mut respond)| async move {
        tokio::time::sleep(Duration::from_millis(if number == 0 { 50 } else { 250 })).await;
        if number == 0 {
            respond.send_response(Response::new(()), true).unwrap();
        } else {
            respond.send_reset(Reason::REFUSED_STREAM);
        }
    });
    let mut load = closed(2, 20_000_000);
    load["iterations_per_user"] = 1.into();
    let mut job = pooled(server.job(load, get()));
    job["targets"]["app"]["max_streams"] = 1.into();
    let outcome = run(job);
    assert_eq!((outcome.outcomes(), server.connections()), (vec!["answered".to_owned(); 2], 2));
    let again = outcome.records.iter().find(|row| number(row, "attempt") == Some(1)).unwrap();
    assert_eq!((truth(again, "reused"), number(again, "connect_us")), (true, None));
    assert!(number(again, "ttfb_us").unwrap() > 290_000, "time counts from the first start");
    let first = outcome.records.iter().find(|row| number(row, "attempt") == Some(0)).unwrap();
    assert_eq!((truth(first, "reused"), number(first, "connect_us").is_some()), (false, true));
}

#[test]
fn a_timeout_cancels_the_stream_and_keeps_the_connection() {
    let server = H2::start(plain, |_, (request, mut respond)| async move {
        if request.uri().path() == "/slow" {
            tokio::time::sleep(Duration::from_secs(5)).await;
        } else if request.uri().path() == "/body" {
            let _body = respond.send_response(Response::new(()), false);
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let _ = respond.send_response(Response::new(()), true);
    });
    let slow = |path: &str| json!({"request": {"name": path, "path": path, "timeout_us": 100_000}});
    let steps = json!([slow("/slow"), slow("/body"), {"request": {"name": "fast", "path": "/"}}]);
    let outcome = run(server.job(times(1), steps));
    assert_eq!(outcome.outcomes(), ["timeout:first_byte", "timeout:body", "answered"]);
    assert_eq!(server.connections(), 1);
    assert!(truth(&outcome.records[2], "reused"));
}

fn get_from(address: SocketAddr) -> Outcome {
    let mut job = job(&address.to_string(), times(1), get());
    job["targets"]["app"]["protocol"] = "http2".into();
    run(job)
}

#[test]
fn servers_that_do_not_speak_it_are_protocol() {
    let settings = frame(4, 0, 0, &[]);
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        (
            "HTTP/1.1",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec(),
            "protocol",
            "version",
        ),
        ("no settings", frame(6, 0, 0, &[0; 8]), "protocol", "frame"),
        ("garbage", [settings.clone(), vec![0xff; 100]].concat(), "protocol", "size"),
        ("push", [settings.clone(), frame(5, 4, 1, &[0, 0, 0, 2, 0x82])].concat(), "protocol", "frame"),
        ("status", [settings.clone(), frame(1, 5, 1, &[0x82])].concat(), "protocol", "status"),
        ("length", [settings.clone(), frame(1, 5, 1, b"\x88\x5c\x019")].concat(), "protocol", "length"),
        (
            "HTTP_1_1_REQUIRED",
            [settings.clone(), frame(3, 0, 1, &[0, 0, 0, 13])].concat(),
            "protocol",
            "version",
        ),
        ("nothing", Vec::new(), "closed", ""),
        ("settings alone", settings.clone(), "closed", ""),
        ("half an answer", [settings.clone(), frame(1, 4, 1, &[0x88])].concat(), "closed", ""),
        (
            "bomb",
            [settings, frame(1, 0, 1, &[0x88]), frame(9, 0, 1, &[0x88; 16_000]).repeat(10)].concat(),
            "too_large",
            "",
        ),
    ];
    for (name, bytes, expected, word) in cases {
        let (address, _) = raw(bytes, Duration::from_millis(100));
        let outcome = get_from(address);
        assert_eq!(outcome.outcomes(), [expected], "{name}");
        if expected == "protocol" {
            let said = outcome.finding("protocol_failed");
            assert!(said.starts_with(&format!("{address}: {word}: ")), "{name}: {said}");
        } else {
            assert!(!outcome.findings().contains(&"protocol_failed"), "{name}");
        }
    }
}

#[test]
fn goaway_moves_what_was_not_seen() {
    // The first connection says that it has seen nothing; the second answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let answer = if number == 0 { frame(7, 0, 0, &[0; 8]) } else { frame(1, 5, 1, &[0x88]) };
            let _ = stream.write_all(&[frame(4, 0, 0, &[]), answer].concat());
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let outcome = get_from(address);
    assert_eq!(outcome.outcomes(), ["answered"]);
    assert_eq!((outcome.column("attempt"), outcome.column("status")), (vec![Some(1)], vec![Some(200)]));
}

#[test]
fn nobody_there_is_refused_for_all_who_wait() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut job = job(&free.to_string(), closed(20, 1), get());
    job["targets"]["app"]["protocol"] = "http2".into();
    let outcome = run(pooled(job));
    assert_eq!(outcome.outcomes(), ["refused"; 20]);
}

/// A server whose SETTINGS come in the same breath as its last words of the handshake; in TLS 1.3 that is before it has
/// heard those of the client.
fn speaks_first(authority: &Authority, version: &'static rustls::SupportedProtocolVersion) -> SocketAddr {
    let mut config = authority.config(&authority.issue(&["127.0.0.1"]), &[version], false);
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.send_half_rtt_data = true;
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut tls = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            // It is kept until it may be said, and then goes out with the flight that allows it.
            tls.writer().write_all(&frame(4, 0, 0, &[])).unwrap();
            let mut asked = Vec::new();
            while asked.is_empty() {
                if tls.read_tls(&mut stream).unwrap() == 0 {
                    break;
                }
                tls.process_new_packets().unwrap();
                let _ = tls.reader().read_to_end(&mut asked);
                if !asked.is_empty() {
                    tls.writer().write_all(&frame(1, 5, 1, &[0x88])).unwrap();
                }
                let mut flight = Vec::new();
                while tls.wants_write() {
                    tls.write_tls(&mut flight).unwrap();
                }
                stream.write_all(&flight).unwrap();
            }
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    address
}

#[test]
fn a_server_may_speak_first_over_tls() {
    let authority = Authority::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let address = speaks_first(&authority, version);
        let mut job = job(&address.to_string(), times(1), get());
        let app = &mut job["targets"]["app"];
        app["protocol"] = "http2".into();
        app["instances"][0]["url"] = format!("https://{address}").into();
        app["tls"] = json!({"ca_file": authority.ca_file()});
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"], "{version:?}: {:?}", outcome.findings());
        assert_eq!(outcome.column("status"), [Some(200)]);
    }
}
