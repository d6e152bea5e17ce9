//! HTTP/2 end to end, against the server of the `h2` crate: which connections requests share.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod load_support;

use load_support::h2::{H2, answered, plain, pooled};
use load_support::{closed, get, number, open, run, text, times, truth};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;

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

/// A connection that serves no more requests is closed before the bound is said to be reached.
#[test]
fn the_bound_on_connections_leaves_time_to_close() {
    for connections in [json!({"policy": "new"}), json!({"policy": "per-user", "max_requests": 1})] {
        let server = H2::echo(plain, Duration::ZERO);
        let mut load = closed(3, 20_000_000);
        load["iterations_per_user"] = 10.into();
        let mut job = server.job(load, get());
        job["workloads"][0]["connections"] = connections.clone();
        job["limits"] = json!({"max_connections": 3});
        let outcome = run(job);
        assert_eq!(answered(&outcome), 30, "{connections}: {:?}", outcome.event("done")["counts"]);
        assert_eq!(server.connections(), 30);
    }
}
