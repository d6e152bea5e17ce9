use super::*;
use crate::job::Job;
use proptest::prelude::*;
use serde_json::json;

fn places() -> Places {
    let target = |name: &str, urls: &[&str]| {
        let instance = |(at, url): (usize, &&str)| json!({"name": format!("{name}-{at}"), "url": url});
        json!({"instances": urls.iter().enumerate().map(instance).collect::<Vec<_>>()})
    };
    let mut named = target("named", &["https://10.0.0.7:8443/v1"]);
    named["host"] = "Named.example".into();
    let job = json!({
        "version": 1, "run_id": "r", "output": "/nowhere",
        "targets": {
            "app": target("app", &["http://127.0.0.1:8101", "http://127.0.0.1:8102"]),
            "shop": target("shop", &["http://Shop.example/v1"]),
            "old": target("old", &["http://shop.example"]),
            "six": target("six", &["http://[::1]:90"]),
            "named": named,
            "socket": target("socket", &["unix:/run/x.sock"]),
        },
        "workloads": [{
            "name": "w", "timeout_us": 1,
            "load": {"model": "open", "stages": [{"from_per_s": 1, "to_per_s": 1, "duration_us": 1}]},
            "journey": {"steps": [{"request": {"name": "s", "path": "/", "target": "app"}}]},
        }],
    });
    Places::new(&Job::from_json(&job.to_string()).unwrap_or_else(|p| panic!("{p:?}")).targets)
}

fn to(target: usize, path: &str, location: &str) -> Option<(usize, String)> {
    places().locate(target, path, location.as_bytes()).map(|hop| (hop.target, hop.path))
}

#[test]
fn locations_are_resolved_against_the_request() {
    // RFC 3986, section 5.4, with what of it has an http path.
    for (location, path) in [
        ("g", "/b/c/g"),
        ("./g", "/b/c/g"),
        ("g/", "/b/c/g/"),
        ("/g", "/g"),
        ("?y", "/b/c/d;p?y"),
        ("g?y", "/b/c/g?y"),
        ("#s", "/b/c/d;p?q"),
        ("g#s", "/b/c/g"),
        (";x", "/b/c/;x"),
        ("g;x?y#s", "/b/c/g;x?y"),
        ("", "/b/c/d;p?q"),
        (".", "/b/c/"),
        ("..", "/b/"),
        ("../g", "/b/g"),
        ("../..", "/"),
        ("../../../g", "/g"),
        ("/./g", "/g"),
        ("/../g", "/g"),
        ("g..", "/b/c/g.."),
        ("./../g", "/b/g"),
        ("g;x=1/../y", "/b/c/y"),
        ("g?y/../x", "/b/c/g?y/../x"),
        ("a b\u{e9}", "/b/c/a%20b%C3%A9"),
    ] {
        assert_eq!(to(0, "/b/c/d;p?q", location), Some((0, path.to_owned())), "{location}");
    }
}

#[test]
fn only_targets_of_the_job_are_followed() {
    for (location, expected) in [
        ("http://127.0.0.1:8101/x?y", Some((0, "/x?y"))),
        ("http://127.0.0.1:8102/x", Some((0, "/x"))),
        ("//127.0.0.1:8101/x", Some((0, "/x"))),
        ("HTTP://SHOP.example", Some((2, "/"))),
        ("http://shop.example:80/v1", Some((1, "/v1"))),
        ("http://shop.example/v1/x", Some((1, "/v1/x"))),
        ("http://shop.example/v1x", Some((2, "/v1x"))),
        ("http://shop.example/v1?x", Some((1, "/v1?x"))),
        ("http://[::1]:90/x", Some((3, "/x"))),
        ("http://[0:0::1]:90/x", Some((3, "/x"))),
        ("http://127.0.0.1:8103/", None),
        ("http://127.0.0.1/", None),
        ("https://127.0.0.1:8101/", None),
        ("https://shop.example/", None),
        ("http://evil.example/", None),
        ("http://127.0.0.1:8101@evil.example/", None),
        ("//evil.example", None),
        ("javascript:alert(1)", None),
        ("mailto:a@b", None),
        ("http://", None),
        ("http://[::1", None),
        ("http://a:99999/", None),
    ] {
        assert_eq!(
            to(0, "/", location),
            expected.map(|(target, path)| (target, path.to_owned())),
            "{location}"
        );
    }
    for (location, expected) in [
        ("/login", Some((4, "/login"))),
        ("https://named.example/login", Some((4, "/login"))),
        ("https://10.0.0.7:8443/login", Some((4, "/login"))),
        ("http://named.example/login", None),
        ("https://named.example:8443/login", None),
    ] {
        assert_eq!(
            to(4, "/v1/", location),
            expected.map(|(target, path)| (target, path.to_owned())),
            "{location}"
        );
    }
    assert_eq!(to(5, "/a/b", "c"), Some((5, "/a/c".into())));
    assert_eq!(to(5, "/a/b", "http://localhost/c"), Some((5, "/c".into())));
    assert_eq!(to(1, "/v1/x/y", "../z"), Some((1, "/v1/z".into())));
    assert_eq!(
        to(1, "/v1/x", "/login"),
        Some((1, "/login".into())),
        "outside of the prefix, but at the same host"
    );
    assert_eq!(places().locate(0, "/", b"/\xff"), None);
    assert_eq!(to(9, "/", "/"), None);
}

#[test]
fn statuses_and_locations_make_a_redirect() {
    let mut fields = Fields::default();
    assert_eq!(location(302, &fields), None);
    fields.push(b"Location", b"/x");
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(location(status, &fields), Some(&b"/x"[..]));
    }
    for status in [200, 201, 300, 304, 305, 306, 399, 404] {
        assert_eq!(location(status, &fields), None);
    }
}

fn post() -> Outgoing {
    let mut request = Outgoing { method: "POST".into(), path: "/a".into(), ..Outgoing::default() };
    for name in ["Authorization", "x-key", "Content-Type", "accept", "cookie", "Host"] {
        request.headers.push(name.as_bytes(), b"v");
    }
    request.body.push_text(|text| text.extend_from_slice(b"body"));
    request
}

fn names(request: &Outgoing) -> Vec<String> {
    request.headers.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn methods_and_bodies_change_as_the_status_says() {
    let hop = Hop { target: 0, path: "/b".into() };
    for (method, status, expected, keeps_body) in [
        ("POST", 301, "GET", false),
        ("POST", 302, "GET", false),
        ("POST", 303, "GET", false),
        ("PUT", 303, "GET", false),
        ("POST", 307, "POST", true),
        ("DELETE", 308, "DELETE", true),
        ("HEAD", 303, "HEAD", true),
        ("HEAD", 302, "HEAD", true),
    ] {
        let request = Outgoing { method: method.into(), ..post() };
        let next = follow(&request, status, &hop, |_| false);
        assert_eq!(
            (next.method.as_str(), next.body.is_empty()),
            (expected, !keeps_body),
            "{method} {status}"
        );
        assert_eq!(names(&next).contains(&"Content-Type".to_owned()), keeps_body, "{method} {status}");
        assert!(names(&next).contains(&"Authorization".to_owned()) && next.path == "/b" && next.is_whole);
    }
}

#[test]
fn nothing_private_goes_to_another_target() {
    let hop = Hop { target: 1, path: "/b".into() };
    let next = follow(&post(), 307, &hop, |name| is_credential(name) || name.eq_ignore_ascii_case(b"X-Key"));
    assert_eq!(names(&next), ["Content-Type", "accept"]);
}

proptest! {
    #[test]
    fn any_location_leads_to_a_target_or_nowhere(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
        text in "(http:|https:|//|/|\\?|#|\\.\\./|127\\.0\\.0\\.1|:8101|@|[a-z%\\\\ \t]){0,8}",
    ) {
        for location in [&bytes[..], text.as_bytes()] {
            if let Some(hop) = places().locate(0, "/a/b?c", location) {
                prop_assert!(hop.target < 6 && hop.path.starts_with('/'));
                prop_assert!(hop.path.bytes().all(|b| b > b' ' && b < 0x7f), "{}", hop.path);
            }
        }
    }
}
