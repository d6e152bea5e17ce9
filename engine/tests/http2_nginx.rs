//! HTTP/2 against servers that were not written for these tests: nginx, and nghttpd of nghttp2.
//!
//! A machine without them fails here rather than passing unseen: Debian has them as `nginx-light` and `nghttp2-server`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::ports;
use load_support::tls::Authority;
use load_support::{Outcome, closed, job, number, run, text, times, truth};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ended when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        // nginx has workers, which its master ends when it is asked to.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

fn started(program: &str, arguments: &[&str], port: u16) -> Process {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process(command.spawn().unwrap_or_else(|e| panic!("{program}: {e}")));
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(process.0.try_wait().unwrap().is_none(), "{program} has ended");
        assert!(Instant::now() < end, "{program} does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}

/// nginx with a plain and a TLS port, both of HTTP/2, and one of TLS without it.
struct Nginx {
    ports: [u16; 3],
    authority: Authority,
    dir: tempfile::TempDir,
    _process: Process,
}

impl Nginx {
    fn start(settings: &str) -> Self {
        let authority = Authority::new();
        let (cert, key) = authority.write("server", &authority.issue(&["127.0.0.1"]));
        let (cert, key) = (cert.display(), key.display());
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let ports = ports::free();
        let [plain, tls, old] = ports;
        std::fs::write(dir.path().join("large"), vec![b'x'; 10_000_000]).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "scgi", "uwsgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind};"))
            .concat();
        let quiet = if settings.contains("access_log") { "" } else { "access_log off;" };
        let config = format!(
            "daemon off; pid {at}/pid; error_log {at}/error.log; worker_processes 1; user root; events {{}}
             http {{ {quiet} client_max_body_size 100m; {temporary} {settings}
               server {{ listen 127.0.0.1:{plain} http2; listen 127.0.0.1:{tls} ssl http2; listen 127.0.0.1:{old} ssl;
                 ssl_certificate {cert}; ssl_certificate_key {key}; root {at}; default_type text/plain;
                 location /hello {{ return 200 \"hello\"; }}
                 location /none {{ return 204; }}
                 location /host {{ return 200 \"$scheme $host $http_x_key\"; }} }} }}"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let arguments = ["-e", "/dev/null", "-p", dir.path().to_str().unwrap(), "-c", file.to_str().unwrap()];
        let process = started("nginx", &arguments, old);
        Self { ports, authority, dir, _process: process }
    }

    fn job(&self, tls: bool, load: Value, steps: Value) -> Value {
        let port = self.ports[usize::from(tls)];
        self.job_at(port, tls, load, steps)
    }

    fn job_at(&self, port: u16, tls: bool, load: Value, steps: Value) -> Value {
        let mut job = job(&format!("127.0.0.1:{port}"), load, steps);
        let app = &mut job["targets"]["app"];
        app["protocol"] = "http2".into();
        if tls {
            app["instances"][0]["url"] = format!("https://127.0.0.1:{port}").into();
            app["tls"] = json!({"ca_file": self.authority.ca_file()});
        }
        job
    }
}

fn step(path: &str) -> Value {
    json!({"request": {"name": path, "path": path}})
}

fn all_answered(outcome: &Outcome) {
    let outcomes = outcome.outcomes();
    assert!(!outcomes.is_empty() && outcomes.iter().all(|o| o == "answered"), "{:?}", outcome.event("done"));
}

#[test]
fn nginx_answers_all_kinds_of_requests() {
    let nginx = Nginx::start("");
    let steps = json!([
        {"request": {"name": "hello", "path": "/hello", "expect": {"contains": "hello"}}},
        {"request": {"name": "head", "method": "HEAD", "path": "/large"}},
        step("/none"),
        step("/large"),
        {"request": {"name": "host", "path": "/host", "headers": {"Host": "shop.example", "X-Key": "k{{ iteration }}"},
                     "expect": {"contains": " shop.example k"}}},
    ]);
    for tls in [false, true] {
        let outcome = run(nginx.job(tls, times(2), steps.clone()));
        all_answered(&outcome);
        for (n, row) in outcome.records.iter().enumerate() {
            assert_eq!(text(row, "http_version"), "2");
            assert_eq!((truth(row, "reused"), number(row, "tls_us").is_some()), (n > 0, tls && n == 0));
        }
        assert_eq!(outcome.event("done")["self"]["connections_opened"], 1);
        assert!(outcome.column("bytes_in")[3].unwrap() > 10_000_000);
        assert!(outcome.column("bytes_in")[1].unwrap() < 300);
    }
}

#[test]
fn nginx_takes_a_large_upload() {
    let nginx = Nginx::start("");
    let steps = json!([{"request": {"name": "put", "method": "POST", "path": "/hello", "body": "y".repeat(10_000_000),
                                   "timeout_us": 20_000_000}}]);
    for tls in [false, true] {
        let outcome = run(nginx.job(tls, times(2), steps.clone()));
        all_answered(&outcome);
        // nginx answers at once and lets the rest of the body come or not.
        assert!(outcome.column("bytes_out").iter().all(|n| n.unwrap() > 60_000));
    }
}

#[test]
fn nginx_ends_connections_after_so_many_requests() {
    // The second leaves more requests without an answer each time than a connection takes.
    for (most, users) in [(50, 4), (10, 20)] {
        for tls in [false, true] {
            let nginx = Nginx::start(&format!("keepalive_requests {most};"));
            let mut job = nginx.job(tls, closed(users, 300_000), json!([step("/hello")]));
            job["workloads"][0]["connections"] = json!({"policy": "pool"});
            let outcome = run(job);
            all_answered(&outcome);
            let opened = outcome.event("done")["self"]["connections_opened"].as_u64().unwrap();
            // Nginx says GOAWAY with the last request that it takes: those that it does not are asked again, and answered.
            assert!(
                opened as usize >= outcome.records.len() / most,
                "{opened} for {}",
                outcome.records.len()
            );
            assert!(outcome.records.iter().any(|row| number(row, "attempt") == Some(1)));
        }
    }
}

/// What is sent again has not been served: nginx has seen each request once, though its answers say that it took no more of them.
#[test]
fn nginx_serves_each_request_once() {
    let nginx = Nginx::start("keepalive_requests 10; log_format line '$request_uri'; access_log log line;");
    let mut load = closed(20, 20_000_000);
    load["iterations_per_user"] = 40.into();
    let steps =
        json!([{"request": {"name": "post", "method": "POST", "path": "/hello?{{ user }}.{{ iteration }}"}}]);
    let mut job = nginx.job(false, load, steps);
    job["workloads"][0]["connections"] = json!({"policy": "pool"});
    let outcome = run(job);
    all_answered(&outcome);
    let again: i64 = outcome.column("attempt").iter().flatten().sum();
    let log = std::fs::read_to_string(nginx.dir.path().join("log")).unwrap();
    let served: std::collections::BTreeSet<&str> = log.lines().collect();
    assert_eq!((outcome.records.len(), log.lines().count(), served.len()), (800, 800, 800));
    assert!(again > 0, "none was sent again: the test shows nothing");
}

#[test]
fn what_alpn_gives_is_spoken() {
    // By default nginx ends a connection after a thousand requests.
    let nginx = Nginx::start("keepalive_requests 1000000;");
    for (port, version) in [(nginx.ports[1], "2"), (nginx.ports[2], "1.1")] {
        for policy in ["per-user", "pool"] {
            let mut job = nginx.job_at(port, true, closed(5, 200_000), json!([step("/hello")]));
            job["targets"]["app"]["protocol"] = "auto".into();
            job["workloads"][0]["connections"] = json!({"policy": policy});
            let outcome = run(job);
            all_answered(&outcome);
            assert!(outcome.records.iter().all(|row| text(row, "http_version") == version), "{version}");
            let opened = outcome.event("done")["self"]["connections_opened"].as_u64().unwrap();
            let expected = if version == "2" && policy == "pool" { 1 } else { 5 };
            assert_eq!(opened, expected, "{version} {policy}");
        }
    }
}

#[test]
fn nghttpd_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "hello").unwrap();
    let [port] = ports::free();
    let root: &Path = dir.path();
    // Padding, trailers, and a table of headers that is used.
    let arguments =
        ["--no-tls", "-b", "11", "--trailer", "x-end: yes", "-d", root.to_str().unwrap(), &port.to_string()];
    let _process = started("nghttpd", &arguments, port);
    let mut job = job(
        &format!("127.0.0.1:{port}"),
        closed(30, 300_000),
        json!([
            {"request": {"name": "hello", "path": "/index.html", "expect": {"contains": "hello"}}},
            {"request": {"name": "missing", "path": "/nothing", "expect": {"status": [404]}}},
            {"request": {"name": "post", "method": "POST", "path": "/index.html", "body": "x".repeat(100_000)}},
        ]),
    );
    job["targets"]["app"]["protocol"] = "http2".into();
    job["workloads"][0]["connections"] = json!({"policy": "pool"});
    let outcome = run(job);
    all_answered(&outcome);
    assert_eq!(outcome.event("done")["self"]["connections_opened"], 1);
}
