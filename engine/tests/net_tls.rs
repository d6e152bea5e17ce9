//! TLS as the engine speaks it, against a server of the same library and against nginx.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::server::Server;
use load_support::tls::{Authority, Identity, TlsServer, mute};
use load_support::{closed, get, job, run, times, truth};
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// A job over TLS that trusts the authority.
fn tls_job(authority: &Authority, address: &str, load: Value, steps: Value) -> Value {
    let mut job = job(address, load, steps);
    job["targets"]["app"]["instances"][0]["url"] = format!("https://{address}").into();
    job["targets"]["app"]["tls"] = json!({"ca_file": authority.ca_file()});
    job
}

fn started(authority: &Authority, identity: &Identity) -> TlsServer {
    TlsServer::start(authority.config(identity, BOTH, false))
}

fn with_tls(mut job: Value, key: &str, value: impl Into<Value>) -> Value {
    job["targets"]["app"]["tls"][key] = value.into();
    job
}

#[test]
fn requests_share_a_connection_and_the_handshake_has_its_time() {
    let authority = Authority::new();
    let server = started(&authority, &authority.issue(&["127.0.0.1"]));
    let outcome = run(tls_job(&authority, &server.server.at(), times(5), get()));
    assert_eq!(outcome.outcomes(), ["answered"; 5]);
    assert_eq!(server.server.connections(), 1);
    for (n, row) in outcome.records.iter().enumerate() {
        let tls = load_support::number(row, "tls_us");
        assert_eq!((tls.is_some(), truth(row, "reused")), (n == 0, n > 0));
        assert!(tls.is_none_or(|us| us > 0 && us < load_support::number(row, "ttfb_us").unwrap()));
    }
    let seen = &server.seen()[0];
    assert_eq!((seen.alpn.as_deref(), seen.version.as_str()), (Some(&b"http/1.1"[..]), "TLSv1_3"));
}

#[test]
fn bodies_of_any_size_go_both_ways() {
    let authority = Authority::new();
    let server = started(&authority, &authority.issue(&["127.0.0.1"]));
    let put = |n: usize| json!({"request": {"name": format!("put{n}"), "method": "PUT", "path": "/", "body": "y".repeat(n)}});
    let get = |n: usize| json!({"request": {"name": format!("get{n}"), "path": format!("/{n}")}});
    let sizes = [1, 16_384, 16_385, 65_536, 100_000, 5_000_000];
    let steps: Vec<Value> = sizes.iter().flat_map(|n| [put(*n), get(*n)]).collect();
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let server = TlsServer::start(authority.config(&authority.issue(&["127.0.0.1"]), versions, false));
        let outcome = run(tls_job(&authority, &server.server.at(), times(2), json!(steps)));
        assert_eq!(outcome.outcomes(), vec!["answered"; 4 * sizes.len()]);
        assert_eq!(server.server.connections(), 1);
        for (row, n) in outcome.column("bytes_in").chunks(2).zip(sizes.iter().cycle()) {
            for bytes in row {
                let head = "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n".len() + n.to_string().len();
                assert_eq!(*bytes, Some((head + n) as i64));
            }
        }
    }
    drop(server);
}

#[test]
fn versions_are_those_that_were_asked_for() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let server = started(&authority, &identity);
    let base = tls_job(&authority, &server.server.at(), times(1), get());
    assert_eq!(run(with_tls(base.clone(), "max_version", "1.2")).outcomes(), ["answered"]);
    assert_eq!(run(with_tls(base, "min_version", "1.3")).outcomes(), ["answered"]);
    let versions: Vec<_> = server.seen().into_iter().map(|s| s.version).collect();
    assert_eq!(versions, ["TLSv1_2", "TLSv1_3"]);
    let old = TlsServer::start(authority.config(&identity, &[&TLS12], false));
    let base = tls_job(&authority, &old.server.at(), times(1), get());
    let refused = run(with_tls(base, "min_version", "1.3"));
    assert_eq!(refused.outcomes(), ["tls"]);
    assert!(refused.finding("tls_failed").contains("rotocol"), "{}", refused.finding("tls_failed"));
}

#[test]
fn a_certificate_that_does_not_match_is_refused_and_the_reason_is_told() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let wrong = authority.issue(&["shop.example"]);
    let expired = authority.issue_with(&["127.0.0.1"], |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let foreign = stranger.issue(&["127.0.0.1"]);
    for (identity, reason) in [(wrong, "name"), (expired, "expired"), (foreign, "UnknownIssuer")] {
        let server = started(&authority, &identity);
        let base = tls_job(&authority, &server.server.at(), times(2), get());
        let outcome = run(base.clone());
        assert_eq!(outcome.outcomes(), ["tls"; 2], "{reason}");
        let message = outcome.finding("tls_failed");
        assert!(message.contains(reason) && message.contains(&server.server.at()), "{message}");
        assert_eq!(outcome.findings().iter().filter(|f| **f == "tls_failed").count(), 1);
        assert!(outcome.column("tls_us").iter().all(Option::is_some));
        assert_eq!(outcome.column("bytes_out"), [Some(0); 2]);
        assert_eq!(run(with_tls(base, "insecure", true)).outcomes(), ["answered"; 2], "{reason}");
    }
}

#[test]
fn a_certificate_of_an_authority_is_refused_in_words() {
    let authority = Authority::new();
    let own = authority.issue_with(&["127.0.0.1"], |params| {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    });
    let server = started(&authority, &own);
    let outcome = run(tls_job(&authority, &server.server.at(), times(1), get()));
    assert_eq!(outcome.outcomes(), ["tls"]);
    let message = outcome.finding("tls_failed");
    assert!(message.contains("CA:FALSE") && message.contains(&server.server.at()), "{message}");
    assert!(!message.contains("OtherError"), "{message}");
}

#[test]
fn the_name_can_be_another_than_the_address() {
    let authority = Authority::new();
    let server = started(&authority, &authority.issue(&["shop.example"]));
    let base = tls_job(&authority, &server.server.at(), times(1), get());
    assert_eq!(run(with_tls(base.clone(), "server_name", "shop.example")).outcomes(), ["answered"]);
    let mut host = base.clone();
    host["targets"]["app"]["host"] = "shop.example:8443".into();
    assert_eq!(run(host.clone()).outcomes(), ["answered"]);
    assert_eq!(run(with_tls(host, "server_name", "other.example")).outcomes(), ["tls"]);
    let names: Vec<_> = server.seen().into_iter().map(|s| s.server_name).collect();
    assert_eq!(names, [Some("shop.example".into()), Some("shop.example".into())]);
}

#[test]
fn a_client_certificate_is_shown_when_it_is_asked_for() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let (cert, key) = authority.write("client", &authority.issue(&["client"]));
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let server = TlsServer::start(authority.config(&identity, versions, true));
        let base = tls_job(&authority, &server.server.at(), times(2), get());
        let without = run(base.clone());
        assert_eq!(without.outcomes(), ["tls"; 2]);
        assert!(without.finding("tls_failed").to_lowercase().contains("certificate"));
        let with = with_tls(with_tls(base, "cert_file", cert.to_str()), "key_file", key.to_str());
        assert_eq!(run(with).outcomes(), ["answered"; 2]);
    }
}

#[test]
fn sessions_are_resumed_unless_they_must_not_be() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    for versions in [&[&TLS12][..], &[&TLS13]] {
        for resumption in [true, false] {
            let server = TlsServer::start(authority.config(&identity, versions, false));
            let mut job = tls_job(&authority, &server.server.at(), times(3), get());
            job["workloads"][0]["load"]["session"] = "iteration".into();
            let outcome = run(with_tls(job, "resumption", resumption));
            assert_eq!(outcome.outcomes(), ["answered"; 3]);
            let resumed: Vec<_> = server.seen().into_iter().map(|s| s.resumed).collect();
            assert_eq!(resumed, [false, resumption, resumption], "{versions:?}");
        }
    }
}

#[test]
fn other_protocols_on_the_port_have_their_outcome() {
    let authority = Authority::new();
    let plain = Server::answering(|peer, _| peer.answer(200, "ok"));
    let outcome = run(tls_job(&authority, &plain.at(), times(1), get()));
    // A server that reads lines waits for the end of one, which a hello need not have.
    assert!(["tls", "timeout:connect"].contains(&outcome.outcomes()[0].as_str()));
    let chatty = Server::start(|mut peer| {
        peer.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        peer.linger();
    });
    let outcome = run(tls_job(&authority, &chatty.at(), times(1), get()));
    assert_eq!(outcome.outcomes(), ["tls"]);
    assert!(outcome.finding("tls_failed").contains("does not seem to speak TLS"));
    let closing = Server::start(|_| {});
    assert!(
        ["tls", "reset"]
            .contains(&run(tls_job(&authority, &closing.at(), times(1), get())).outcomes()[0].as_str())
    );
    let silent = Server::start(mute);
    let mut job = tls_job(&authority, &silent.at(), times(1), get());
    job["workloads"][0]["timeout_us"] = 100_000.into();
    assert_eq!(run(job).outcomes(), ["timeout:connect"]);
    let secure = started(&authority, &authority.issue(&["127.0.0.1"]));
    let job = load_support::job(&secure.server.at(), times(1), get());
    let outcome = run(job).outcomes();
    assert!(["protocol", "closed", "reset"].contains(&outcome[0].as_str()), "{outcome:?}");
}

/// Anyone on the way can end a connection, but only the server can say that this is the end.
#[test]
fn an_answer_that_may_have_been_cut_off_is_truncated() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let whole = [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    let open_ended = "HTTP/1.1 200 OK\r\n\r\nhello";
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello";
    let cases = [
        (open_ended, true, "answered"),
        (open_ended, false, "truncated"),
        (whole[0], false, "answered"),
        (whole[1], false, "answered"),
        (short, false, "closed"),
        (short, true, "closed"),
    ];
    for versions in [&[&TLS12][..], &[&TLS13]] {
        for (answer, says_so, expected) in cases {
            let server = TlsServer::ending(authority.config(&identity, versions, false), answer, says_so);
            let outcome = run(tls_job(&authority, &server.server.at(), times(2), get()));
            assert_eq!(outcome.outcomes(), [expected; 2], "{says_so} {answer}");
            assert_eq!(outcome.column("status"), [Some(200); 2]);
        }
    }
}

#[test]
fn http2_that_is_not_spoken_is_protocol() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    for alpn in [vec![], vec![b"http/1.1".to_vec()]] {
        let mut config = authority.config(&identity, BOTH, false);
        config.alpn_protocols = alpn;
        let server = TlsServer::start(config);
        let mut job = tls_job(&authority, &server.server.at(), times(1), get());
        job["targets"]["app"]["protocol"] = "http2".into();
        let outcome = run(job);
        assert_eq!(outcome.outcomes(), ["protocol"]);
        let said = outcome.finding("protocol_failed");
        assert!(said.contains(": version: ") && said.contains("ALPN"), "{said}");
    }
}

#[test]
fn many_users_at_once_do_not_mix() {
    let authority = Authority::new();
    let server = started(&authority, &authority.issue(&["127.0.0.1"]));
    let mut load = closed(20, 20_000_000);
    load["iterations_per_user"] = 20.into();
    let steps = json!([{"request": {
        "name": "post", "method": "POST", "path": "/", "body": "user {{ user }} iteration {{ iteration }}",
        "expect": {"contains": "user "},
    }}]);
    let outcome = run(tls_job(&authority, &server.server.at(), load, steps));
    assert_eq!(outcome.outcomes(), vec!["answered"; 400]);
    assert_eq!(server.server.connections(), 20);
}
