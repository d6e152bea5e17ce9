//! What requests of HTTP/2 bring and ask for: bodies of any size, leave to send them, gRPC.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use bytes::Bytes;
use http::Response;
use load_support::h2::{Builder, H2, drain, frame, plain, pooled};
use load_support::{Outcome, closed, get, job, run, times};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

#[test]
fn large_bodies_go_through_small_windows() {
    let steps = json!([{"request": {"name": "put", "method": "POST", "path": "/", "body": "x".repeat(300_000),
                                   "expect": {"contains": "300000"}}}]);
    for window in [1000, 65_535, 1 << 20] {
        let builder: Builder = match window {
            1000 => |b| {
                b.initial_window_size(1000);
            },
            65_535 => plain,
            _ => |b| {
                b.initial_window_size(1 << 20).initial_connection_window_size(1 << 20);
            },
        };
        let server = H2::echo(builder, Duration::ZERO);
        let mut job = pooled(server.job(closed(3, 1), steps.clone()));
        job["workloads"][0]["timeout_us"] = 20_000_000.into();
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"; 3], "window {window}");
        assert!(outcome.column("bytes_out").iter().all(|n| n.unwrap() > 300_000));
    }
}

#[test]
fn large_answers_come_whole() {
    let server = H2::start(plain, |_, (_, mut respond)| async move {
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        let mut left = 10_000_000;
        while left > 0 {
            body.reserve_capacity(left);
            let room = poll_fn(|cx| body.poll_capacity(cx)).await.unwrap().unwrap();
            body.send_data(vec![b'x'; room].into(), false).unwrap();
            left -= room;
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-end", "yes".parse().unwrap());
        body.send_trailers(trailers).unwrap();
    });
    let mut job = server.job(times(2), get());
    job["workloads"][0]["timeout_us"] = 20_000_000.into();
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["answered"; 2]);
    assert!(outcome.column("bytes_in").iter().all(|n| n.unwrap() > 10_000_000));
}

/// A gRPC server: the call's name says how it ends.
fn calls() -> H2 {
    H2::start(plain, |_, (request, mut respond)| async move {
        let (head, body) = request.into_parts();
        let good = head.headers["content-type"] == "application/grpc" && head.headers["te"] == "trailers";
        // The prefix of a message: not compressed, and its length.
        let framed = drain(body).await == 5 + 3 && head.method == "POST" && good;
        let answer = Response::builder().header("content-type", "application/grpc");
        let status = if framed { "0" } else { "3" };
        match head.uri.path() {
            "/pkg.Service/Good" => {
                let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                stream.send_data(Bytes::from_static(b"\0\0\0\0\x02\x08\x01"), false).unwrap();
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", status.parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            }
            // What the trailers say counts, whatever the head had promised.
            "/pkg.Service/Late" => {
                let answer = answer.header("grpc-status", "0");
                let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", "13".parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            }
            "/pkg.Service/Only" => {
                let answer = answer.header("grpc-status", "5").header("grpc-message", "none");
                respond.send_response(answer.body(()).unwrap(), true).unwrap();
            }
            "/pkg.Service/Fine" => {
                let answer = answer.header("grpc-status", "0");
                respond.send_response(answer.body(()).unwrap(), true).unwrap();
            }
            _ => drop(respond.send_response(answer.body(()).unwrap(), true).unwrap()),
        }
    })
}

#[test]
fn calls_end_as_their_status_says() {
    let server = calls();
    let call = |name: &str| {
        json!({"request": {"name": name, "path": format!("/pkg.Service/{name}"), "grpc": true,
                           "body": {"base64": "CAEQ"}}})
    };
    let calls: Vec<Value> = ["Good", "Fine", "Late", "Only", "Nothing"].map(call).to_vec();
    let outcome = run(server.job(times(1), calls.into()));
    let bad = "check:grpc";
    assert_eq!(outcome.outcomes(), ["answered", "answered", bad, bad, bad]);
    assert_eq!(outcome.column("status"), [Some(200); 5]);
}

/// What a server says to the head of a request, one after the other, and how many bytes it was sent before each word
/// and after the last one. It reads for 100 ms each time.
fn leave(words: &'static [&'static [u8]]) -> (Outcome, Vec<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let read = |stream: &mut std::net::TcpStream| {
            let (mut all, mut buffer) = (0, [0; 8192]);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                all += count;
            }
            all
        };
        stream.write_all(&frame(4, 0, 0, &[])).unwrap();
        let mut counts = vec![read(&mut stream)];
        for word in words {
            let flags = if word == words.last().unwrap() { 5 } else { 4 };
            stream.write_all(&frame(1, flags, 1, word)).unwrap();
            counts.push(read(&mut stream));
        }
        counts
    });
    let steps = json!([{"request": {"name": "put", "method": "POST", "path": "/", "body": "z".repeat(3000),
                                   "expect_continue": true, "expect": {"status": [200, 413]}}}]);
    let mut job = job(&address.to_string(), times(1), steps);
    job["targets"]["app"]["protocol"] = "http2".into();
    (run(job), server.join().unwrap())
}

#[test]
fn a_body_waits_for_leave_to_be_sent() {
    // :status 103, 100 and 413 by their literals; 200 from the table.
    let (outcome, sent) = leave(&[b"\x08\x03103", b"\x08\x03100", &[0x88]]);
    assert_eq!(outcome.outcomes(), ["answered"]);
    assert!(sent[0] < 300 && sent[1] < 300 && (3009..3300).contains(&sent[2]), "{sent:?}");
    assert_eq!(outcome.column("status"), [Some(200)]);
    assert!(outcome.column("bytes_out")[0].unwrap() > 3009);
    // The last of the silences came after leave was given; the first byte is that of the answer.
    assert!(outcome.column("ttfb_us")[0].unwrap() > 250_000, "{:?}", outcome.column("ttfb_us"));

    let (outcome, sent) = leave(&[b"\x08\x03413"]);
    assert_eq!(
        (outcome.outcomes(), outcome.column("status")),
        (vec!["answered".to_owned()], vec![Some(413)])
    );
    assert!(sent.iter().all(|count| *count < 300), "an answer instead of leave: {sent:?}");

    // The answer has begun, and ends later: the body is not sent in between.
    let (outcome, sent) = leave(&[b"\x08\x03413", b"\x00\x01x\x01y"]);
    assert_eq!(
        (outcome.outcomes(), outcome.column("status")),
        (vec!["answered".to_owned()], vec![Some(413)])
    );
    assert!(sent.iter().all(|count| *count < 300), "an answer that has begun: {sent:?}");
}
