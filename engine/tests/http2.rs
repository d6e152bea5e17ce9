//! HTTP/2 end to end, against the server of the `h2` crate and against raw frames.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use load_support::tls::Authority;
use load_support::{Outcome, closed, get, job, number, open, run, text, times, truth};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a server does with its connections.
type Builder = fn(&mut server::Builder);
/// A request, and how to answer it.
type Exchange = (Request<RecvStream>, SendResponse<Bytes>);

/// A server of the `h2` crate, until it is dropped.
struct H2 {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The most requests at once on one connection.
    peak: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl H2 {
    /// Calls `answer` for each request, each in a task of its own; it is given the number of the connection too.
    fn start<F>(
        builder: Builder,
        answer: impl Fn(usize, Exchange) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, peak) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (count, most) = (Arc::clone(&connections), Arc::clone(&peak));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let (answer, most) = (answer.clone(), Arc::clone(&most));
                tokio::spawn(async move {
                    let mut settings = server::Builder::new();
                    builder(&mut settings);
                    let Ok(mut connection) = settings.handshake::<_, Bytes>(stream).await else { return };
                    let live = Arc::<AtomicUsize>::default();
                    while let Some(Ok(exchange)) = connection.accept().await {
                        most.fetch_max(live.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        let (done, live) = (answer(number, exchange), Arc::clone(&live));
                        tokio::spawn(async move {
                            done.await;
                            live.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        Self { address, connections, peak, _runtime: runtime }
    }

    /// Answers each request with the number of bytes that it brought, after a while.
    fn echo(builder: Builder, after: Duration) -> Self {
        Self::start(builder, move |_, (request, mut respond)| async move {
            let count = drain(request.into_body()).await;
            tokio::time::sleep(after).await;
            let head = Response::builder().header("x-instance", "pod-1").body(()).unwrap();
            let Ok(mut body) = respond.send_response(head, false) else { return };
            let _ = body.send_data(count.to_string().into(), true);
        })
    }

    fn job(&self, load: Value, steps: Value) -> Value {
        let mut job = job(&self.address.to_string(), load, steps);
        job["targets"]["app"]["protocol"] = "http2".into();
        job
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn drain(mut body: RecvStream) -> usize {
    let mut count = 0;
    while let Some(Ok(chunk)) = body.data().await {
        count += chunk.len();
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    count
}

fn plain(_: &mut server::Builder) {}

fn pooled(mut job: Value) -> Value {
    job["workloads"][0]["connections"] = json!({"policy": "pool"});
    job
}

fn answered(outcome: &Outcome) -> usize {
    outcome.outcomes().iter().filter(|o| *o == "answered").count()
}

#[test]
fn a_user_has_a_connection_of_its_own() {
    let server = H2::echo(plain, Duration::ZERO);
    let mut job = server.job(times(3), get());
    job["instance_header"] = "X-Instance".into();
    let outcome = run(job);
    assert_eq!(outcome.outcomes(), ["answered"; 3]);
    assert_eq!(server.connections(), 1);
    for (n, row) in outcome.records.iter().enumerate() {
        assert_eq!((text(row, "http_version"), number(row, "status")), ("2".into(), Some(200)));
        assert_eq!((number(row, "connect_us").is_some(), truth(row, "reused")), (n == 0, n > 0));
        assert_eq!((text(row, "instance"), number(row, "tls_us")), ("pod-1".into(), None));
        // HEADERS of 9 bytes and the block; HEADERS and DATA of the answer.
        assert!((20..80).contains(&number(row, "bytes_out").unwrap()), "{:?}", number(row, "bytes_out"));
        assert!((9 + 1 + 9 + 1..80).contains(&number(row, "bytes_in").unwrap()));
        assert!(number(row, "ttfb_us").is_some());
    }
}

#[test]
fn a_pool_shares_connections_up_to_their_streams() {
    let server = H2::echo(plain, Duration::from_millis(20));
    let mut job = pooled(server.job(closed(20, 300_000), get()));
    job["targets"]["app"]["max_streams"] = 5.into();
    let outcome = run(job);
    assert_eq!(answered(&outcome), outcome.records.len());
    assert!(outcome.records.len() >= 40);
    assert_eq!((server.connections(), server.peak.load(Ordering::Relaxed)), (4, 5));
    let fresh = outcome.records.iter().filter(|r| !truth(r, "reused"));
    assert_eq!(fresh.filter(|r| number(r, "connect_us").is_some()).count(), 4);
}

#[test]
fn what_the_server_allows_is_kept_to() {
    let server = H2::echo(
        |b| {
            b.max_concurrent_streams(3);
        },
        Duration::from_millis(20),
    );
    let outcome = run(pooled(server.job(closed(9, 200_000), get())));
    assert_eq!(answered(&outcome), outcome.records.len());
    assert_eq!((server.connections(), server.peak.load(Ordering::Relaxed)), (3, 3));
}

#[test]
fn open_load_shares_one_connection() {
    let server = H2::echo(plain, Duration::from_millis(5));
    let outcome = run(server.job(open(500.0, 400_000), get()));
    assert_eq!((answered(&outcome), server.connections()), (200, 1));
}

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

#[test]
fn connections_end_when_they_have_served_enough() {
    for (policy, connections) in [("per-user", 4), ("pool", 4), ("new", 12)] {
        let server = H2::echo(plain, Duration::ZERO);
        let mut job = server.job(times(12), get());
        job["workloads"][0]["connections"] = json!({"policy": policy, "max_requests": 3});
        if policy == "new" {
            job["workloads"][0]["connections"] = json!({"policy": policy});
        }
        let outcome = run(job);
        assert_eq!((answered(&outcome), server.connections()), (12, connections), "{policy}");
    }
}

/// A server that sends these bytes after the preface and a request, and closes after `linger`.
fn raw(answer: Vec<u8>, linger: Duration) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::<AtomicUsize>::default();
    let accepted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            accepted.fetch_add(1, Ordering::Relaxed);
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(&answer);
                // What is not read would make the close a reset.
                stream.set_read_timeout(Some(linger)).unwrap();
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            });
        }
    });
    (address, count)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn get_from(address: SocketAddr) -> Outcome {
    let mut job = job(&address.to_string(), times(1), get());
    job["targets"]["app"]["protocol"] = "http2".into();
    run(job)
}

#[test]
fn servers_that_do_not_speak_it_are_protocol() {
    let settings = frame(4, 0, 0, &[]);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("HTTP/1.1", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec(), "protocol"),
        ("no settings", frame(6, 0, 0, &[0; 8]), "protocol"),
        ("garbage", [settings.clone(), vec![0xff; 100]].concat(), "protocol"),
        ("push", [settings.clone(), frame(5, 4, 1, &[0, 0, 0, 2, 0x82])].concat(), "protocol"),
        ("nothing", Vec::new(), "closed"),
        ("settings alone", settings.clone(), "closed"),
        ("half an answer", [settings.clone(), frame(1, 4, 1, &[0x88])].concat(), "closed"),
        (
            "bomb",
            [settings, frame(1, 0, 1, &[0x88]), frame(9, 0, 1, &[0x88; 16_000]).repeat(10)].concat(),
            "too_large",
        ),
    ];
    for (name, bytes, expected) in cases {
        let (address, _) = raw(bytes, Duration::from_millis(100));
        assert_eq!(get_from(address).outcomes(), [expected], "{name}");
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

#[test]
fn an_old_connection_is_not_used_again() {
    for policy in ["per-user", "pool"] {
        let server = H2::echo(plain, Duration::ZERO);
        let mut job = server.job(times(6), get());
        job["workloads"][0]["journey"]["think"] = json!({"constant_us": 60_000});
        job["workloads"][0]["connections"] = json!({"policy": policy, "max_age_us": 100_000});
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"; 6]);
        // Every 60 ms for 300 ms with at most 100 ms each: two requests a connection, or one on a busy machine.
        assert!((3..=6).contains(&server.connections()), "{policy}: {}", server.connections());
        assert!(outcome.column("attempt").iter().all(|n| *n == Some(0)));
    }
}

#[test]
fn instances_get_their_share() {
    for spread in ["per-request-round-robin", "least-outstanding", "per-connection-random"] {
        for policy in ["per-user", "pool"] {
            let servers: Vec<_> = (0..2).map(|_| H2::echo(plain, Duration::from_millis(2))).collect();
            let mut load = closed(4, 20_000_000);
            load["iterations_per_user"] = 10.into();
            let mut job = servers[0].job(load, get());
            let instance = |(n, server): (usize, &H2)| json!({"name": format!("app-{n}"), "url": format!("http://{}", server.address)});
            job["targets"]["app"]["instances"] = servers.iter().enumerate().map(instance).collect();
            job["spread"] = spread.into();
            job["workloads"][0]["connections"] = json!({"policy": policy});
            let outcome = run(job);
            assert_eq!(outcome.outcomes(), ["answered"; 40], "{spread} {policy}");
            let first = outcome.records.iter().filter(|r| text(r, "instance") == "app-0").count();
            let connections: usize = servers.iter().map(H2::connections).sum();
            match (spread, policy) {
                // A user stays with what was drawn for it; a pool of few requests has one connection.
                ("per-connection-random", "per-user") => assert_eq!((connections, first % 10), (4, 0)),
                ("per-connection-random", _) => assert!(connections == 1 && matches!(first, 0 | 40)),
                ("per-request-round-robin", _) => assert_eq!(first, 20, "{policy}"),
                _ => assert!((10..=30).contains(&first), "{spread} {policy}: {first}"),
            }
        }
    }
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
