//! Ways through proxies: what they are asked, and what becomes of what they refuse.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::proxy::Proxy;
use load_support::server::Server;
use load_support::tls::{Authority, TlsServer};
use load_support::{get, job, run, times};
use rustls::version::TLS13;
use serde_json::{Value, json};
use std::io::Read;

fn with_url(mut job: Value, url: impl Into<Value>) -> Value {
    job["targets"]["app"]["instances"][0]["url"] = url.into();
    job
}

#[test]
fn an_http_proxy_is_given_whole_urls_and_its_own_headers() {
    let server = Server::answering(|peer, request| {
        let good = request.head.starts_with("GET http://shop.example:81/v1/x HTTP/1.1\r\n")
            && request.head.contains("Host: shop.example:81\r\n")
            && request.head.contains("proxy-authorization: Basic eA==\r\n");
        peer.answer(if good { 200 } else { 400 }, "");
    });
    let proxy = Proxy::http(server.at());
    for path in ["/x", "/{{ 'x' }}"] {
        let steps = json!([{"request": {"name": "get", "path": path}}]);
        let mut job = with_url(job("x", times(3), steps), "http://shop.example:81/v1");
        job["targets"]["app"]["proxy"] = json!({
            "url": format!("http://{}", proxy.server.at()), "headers": {"proxy-authorization": "Basic eA=="},
        });
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"; 3]);
        // A literal address of the proxy: the name of the target is the proxy's business.
        assert!(outcome.column("dns_us").iter().all(Option::is_none));
    }
    assert_eq!(proxy.server.connections(), 2);
}

#[test]
fn tls_goes_through_a_tunnel() {
    let authority = Authority::new();
    let config = authority.config(&authority.issue(&["shop.example"]), &[&TLS13], false);
    let server = TlsServer::start(config);
    let (http, socks) = (Proxy::http(server.server.at()), Proxy::socks(server.server.at()));
    for (kind, proxy) in [("http", &http), ("socks5", &socks)] {
        let mut job = with_url(job("x", times(3), get()), "https://shop.example");
        job["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
        job["targets"]["app"]["proxy"] = json!({"url": format!("{kind}://{}", proxy.server.at())});
        if kind == "http" {
            job["targets"]["app"]["proxy"]["headers"] = json!({"x-key": "secret"});
        }
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["answered"; 3], "{kind}");
        assert_eq!(outcome.column("tls_us").iter().flatten().count(), 1);
    }
    let asked = &http.asked()[0];
    assert!(
        asked.starts_with("CONNECT shop.example:443 HTTP/1.1\r\n") && asked.contains("x-key: secret\r\n")
    );
    assert_eq!(socks.asked(), ["shop.example:443"]);
}

#[test]
fn socks_takes_names_and_addresses() {
    let server = Server::answering(|peer, _| peer.answer(200, "ok"));
    let proxy = Proxy::socks(server.at());
    for host in ["shop.example:81", "10.9.8.7:82", "[fd00::1]:83"] {
        let mut job = with_url(job("x", times(2), get()), format!("http://{host}"));
        job["targets"]["app"]["proxy"] = json!({"url": format!("socks5://{}", proxy.server.at())});
        assert_eq!(run(job).outcomes(), ["answered"; 2], "{host}");
    }
    assert_eq!(proxy.asked(), ["shop.example:81", "10.9.8.7:82", "v6:83"]);
}

#[test]
fn what_a_proxy_refuses_is_proxy() {
    let answers: [(&str, &[u8], &str); 6] = [
        ("http", b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", "407"),
        ("http", b"nonsense\r\n\r\n", "does not speak HTTP"),
        ("http", b"", "without an answer"),
        ("socks5", b"\x05\xff", "user name"),
        ("socks5", b"\x05\x00\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00", "connection refused"),
        ("socks5", b"HTTP/1.1 400 Bad\r\n\r\n", "does not speak SOCKS"),
    ];
    for (kind, answer, reason) in answers {
        let server = Server::start(move |mut peer| {
            // All that was said, or closing would be a reset.
            let mut some = [0; 4096];
            assert!(peer.stream.read(&mut some).unwrap() > 0);
            peer.send(answer);
            if !answer.is_empty() {
                let mut rest = [0; 1000];
                while peer.stream.read(&mut rest).is_ok_and(|n| n > 0) {}
            }
        });
        let mut job = with_url(job("x", times(2), get()), "https://shop.example");
        job["targets"]["app"]["proxy"] = json!({"url": format!("{kind}://{}", server.at())});
        job["targets"]["app"]["tls"] = json!({"insecure": true});
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["proxy"; 2], "{reason}");
        assert!(outcome.finding("proxy_failed").contains(reason), "{}", outcome.finding("proxy_failed"));
    }
    // Nobody there is what it always is.
    let mut job = with_url(job("x", times(1), get()), "https://shop.example");
    job["targets"]["app"]["tls"] = json!({"insecure": true});
    job["targets"]["app"]["proxy"] = json!({"url": "http://127.0.0.1:1"});
    assert_eq!(run(job).outcomes(), ["refused"]);
}

/// A proxy that is given whole requests answers in its own name too, on a connection that stays good.
#[test]
fn a_proxy_that_wants_to_know_who_asks_is_proxy() {
    let proxy = Server::answering(|peer, request| {
        peer.answer(if request.head.contains("proxy-authorization: ") { 200 } else { 407 }, "");
    });
    let mut job = with_url(job("x", times(3), get()), "http://shop.example");
    job["targets"]["app"]["proxy"] = json!({"url": format!("http://{}", proxy.at())});
    // Whatever the step expects: no server behind a proxy says this.
    job["workloads"][0]["journey"]["steps"][0]["request"]["expect"] = json!({"status": [407]});
    let outcome = run(job.clone());
    assert_eq!(outcome.outcomes(), ["proxy"; 3]);
    assert_eq!(outcome.column("status"), [Some(407); 3]);
    assert_eq!(proxy.connections(), 1);
    let said = outcome.finding("proxy_failed");
    assert!(
        said.contains("shop.example") && said.contains("407") && said.contains("proxy.headers"),
        "{said}"
    );
    job["workloads"][0]["journey"]["steps"][0]["request"]["expect"] = Value::Null;
    job["targets"]["app"]["proxy"]["headers"] = json!({"proxy-authorization": "Basic eA=="});
    assert_eq!(run(job).outcomes(), ["answered"; 3]);
}

/// From a server that is asked without a proxy, it is a status like any other.
#[test]
fn a_server_may_answer_407_itself() {
    let server = Server::answering(|peer, _| peer.answer(407, ""));
    let outcome = run(job(&server.at(), times(2), get()));
    assert_eq!(outcome.outcomes(), ["check:status"; 2]);
    assert!(!outcome.findings().contains(&"proxy_failed"));
}

#[test]
fn interim_answers_before_a_tunnel_are_skipped() {
    let authority = Authority::new();
    let config = authority.config(&authority.issue(&["shop.example"]), &[&TLS13], false);
    let server = TlsServer::start(config);
    let proxy = Proxy::patient(server.server.at());
    let mut job = with_url(job("x", times(2), get()), "https://shop.example");
    job["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
    job["targets"]["app"]["proxy"] = json!({"url": format!("http://{}", proxy.server.at())});
    assert_eq!(run(job).outcomes(), ["answered"; 2]);
}
