use super::*;
use proptest::prelude::*;

const NOW_S: i64 = 1_700_000_000;
const SECOND: u64 = 1_000_000_000;

struct Visit {
    jar: Jar,
    now_ns: u64,
}

impl Visit {
    fn new() -> Self {
        Self { jar: Jar::default(), now_ns: 5 * SECOND }
    }

    fn set(&mut self, site: &Site, path: &str, lines: &[&str]) {
        self.set_at(Place::new(site, "", path), lines);
    }

    fn set_at(&mut self, place: Place<'_>, lines: &[&str]) {
        let mut fields = Fields::default();
        for line in lines {
            fields.push(b"Set-Cookie", line.as_bytes());
        }
        self.jar.take_in(&fields, place, self.now_ns, || NOW_S);
    }

    fn get(&self, site: &Site, path: &str) -> String {
        self.get_at(Place::new(site, "", path))
    }

    fn get_at(&self, place: Place<'_>) -> String {
        let mut out = Vec::new();
        self.jar.write(place, self.now_ns, &mut out);
        String::from_utf8(out).expect("text")
    }
}

fn site(host: &str) -> Site {
    Site::new(host, false)
}

/// RFC 6265, section 3.1.
#[test]
fn the_examples_of_the_rfc() {
    let (host, secure) = (Site::new("www.example.com", false), Site::new("www.example.com", true));
    let mut visit = Visit::new();
    visit.set(&host, "/login", &["SID=31d4d96e407aad42"]);
    assert_eq!(visit.get(&host, "/"), "SID=31d4d96e407aad42");
    assert_eq!(visit.get(&site("example.com"), "/"), "");

    let mut visit = Visit::new();
    visit.set(&host, "/login", &["SID=31d4d96e407aad42; Path=/; Domain=example.com"]);
    assert_eq!(visit.get(&host, "/any"), "SID=31d4d96e407aad42");
    assert_eq!(visit.get(&site("example.com"), "/"), "SID=31d4d96e407aad42");
    assert_eq!(visit.get(&site("a.b.example.com"), "/"), "SID=31d4d96e407aad42");
    assert_eq!(visit.get(&site("badexample.com"), "/"), "");

    let mut visit = Visit::new();
    visit.set(
        &secure,
        "/login",
        &["SID=31d4d96e407aad42; Path=/; Secure; HttpOnly", "lang=en-US; Path=/; Domain=example.com"],
    );
    assert_eq!(visit.get(&secure, "/"), "SID=31d4d96e407aad42; lang=en-US");
    assert_eq!(visit.get(&host, "/"), "lang=en-US");
    visit.set(&secure, "/", &["lang=en-US; Expires=Wed, 09 Jun 2071 10:18:14 GMT"]);
    // Host-only is not part of what makes a cookie the same; its domain is.
    assert_eq!(visit.get(&secure, "/"), "SID=31d4d96e407aad42; lang=en-US; lang=en-US");
    visit.set(&secure, "/", &["lang=; Expires=Sun, 06 Nov 1994 08:49:37 GMT"]);
    assert_eq!(visit.get(&secure, "/"), "SID=31d4d96e407aad42; lang=en-US");
}

#[test]
fn domains_are_matched_at_dots_and_never_for_addresses() {
    let mut visit = Visit::new();
    let host = site("Shop.Example.com.");
    for line in [
        "a=1; Domain=other.com",
        "b=1; Domain=com",
        "c=1; Domain=x.shop.example.com",
        "d=1; Domain=hop.example.com",
    ] {
        visit.set(&host, "/", &[line]);
        assert!(visit.jar.is_empty(), "{line}");
    }
    visit.set(&host, "/", &["e=1; Domain=.EXAMPLE.com", "f=1; Domain=shop.example.com", "g=1"]);
    assert_eq!(visit.get(&host, "/"), "e=1; f=1; g=1");
    assert_eq!(visit.get(&site("www.shop.example.com"), "/"), "e=1; f=1");
    let address = site("127.0.0.1");
    let mut visit = Visit::new();
    visit.set(&address, "/", &["a=1; Domain=0.0.1", "b=1; Domain=127.0.0.1", "c=1; Domain=1", "d=1"]);
    assert_eq!(visit.get(&address, "/"), "b=1; d=1");
    assert_eq!(visit.get(&site("127.0.0.2"), "/"), "");
    let mut visit = Visit::new();
    visit.set(&site("::1"), "/", &["a=1"]);
    assert_eq!((visit.get(&site("::1"), "/").as_str(), visit.get(&site("::2"), "/").as_str()), ("a=1", ""));
    let mut visit = Visit::new();
    visit.set(&site("localhost"), "/", &["a=1; Domain=localhost"]);
    assert_eq!(visit.get(&site("localhost"), "/"), "a=1");
}

/// RFC 6265, section 5.1.4.
#[test]
fn paths_are_matched_at_slashes() {
    let host = site("h");
    let sets = |request: &str, line: &str, path: &str| {
        let mut visit = Visit::new();
        visit.set(&host, request, &[line]);
        !visit.get(&host, path).is_empty()
    };
    for (cookie, path, goes) in [
        ("/", "/", true),
        ("/", "/any/where", true),
        ("/a", "/a", true),
        ("/a", "/a/b", true),
        ("/a", "/a?q=/x", true),
        ("/a", "/ab", false),
        ("/a/", "/a/b", true),
        ("/a/", "/a", false),
        ("/a/b", "/a", false),
        ("/A", "/a", false),
    ] {
        assert_eq!(sets("/", &format!("n=1; Path={cookie}"), path), goes, "{cookie} {path}");
    }
    for (request, path, goes) in [
        ("/a/b", "/a/c", true),
        ("/a/b", "/a", true),
        ("/a/b", "/ab", false),
        ("/a/b/", "/a/b", true),
        ("/a/b/", "/a", false),
        ("/a", "/z", true),
        ("/a?b=/c/d", "/z", true),
    ] {
        assert_eq!(sets(request, "n=1", path), goes, "set at {request}, asked at {path}");
    }
}

#[test]
fn the_prefix_of_a_target_is_part_of_the_path() {
    let plain = site("h");
    let prefixed = |path| Place::new(&plain, "/v1/api", path);
    let mut visit = Visit::new();
    visit.set_at(prefixed("/x"), &["a=1", "b=1; Path=/v1", "c=1; Path=/v1/api/x", "d=1; Path=/x"]);
    assert_eq!(visit.get_at(prefixed("/x?y")), "c=1; a=1; b=1");
    assert_eq!(visit.get_at(prefixed("/y")), "a=1; b=1");
    assert_eq!(visit.get(&plain, "/v1/api/x/z"), "c=1; a=1; b=1");
    assert_eq!(visit.get(&plain, "/v1/ap"), "b=1");
    assert_eq!(visit.get(&plain, "/x"), "d=1");
}

#[test]
fn longer_paths_go_first_then_older_cookies() {
    let host = site("h");
    let mut visit = Visit::new();
    visit.set(&host, "/", &["a=1; Path=/", "b=2; Path=/x/y", "c=3; Path=/", "d=4; Path=/x", "e=5; Path=/x"]);
    assert_eq!(visit.get(&host, "/x/y"), "b=2; d=4; e=5; a=1; c=3");
    visit.set(&host, "/", &["a=9; Path=/", "d=; Path=/x"]);
    assert_eq!(visit.get(&host, "/x/y"), "b=2; d=; e=5; a=9; c=3");
}

#[test]
fn time_passes_and_deletes() {
    let host = site("h");
    let mut visit = Visit::new();
    let soon = "Tue, 14 Nov 2023 22:13:30 GMT"; // ten seconds after NOW_S
    visit.set(
        &host,
        "/",
        &["a=1; Max-Age=5", &format!("b=1; Expires={soon}"), "c=1", "d=1; Max-Age=99999999999999"],
    );
    visit.set(
        &host,
        "/",
        &[&format!("e=1; Max-Age=0; Expires={soon}"), &format!("f=1; Max-Age=7; Expires={soon}")],
    );
    assert_eq!(visit.get(&host, "/"), "a=1; b=1; c=1; d=1; f=1");
    visit.now_ns += 6 * SECOND;
    assert_eq!(visit.get(&host, "/"), "b=1; c=1; d=1; f=1");
    visit.now_ns += 2 * SECOND;
    assert_eq!(visit.get(&host, "/"), "b=1; c=1; d=1");
    visit.now_ns += 3 * SECOND;
    assert_eq!(visit.get(&host, "/"), "c=1; d=1");
    visit.set(&host, "/", &["c=1; Max-Age=-1", "d=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"]);
    assert_eq!(visit.get(&host, "/"), "");
}

#[test]
fn a_jar_is_bounded_and_the_oldest_goes() {
    let host = site("h");
    let mut visit = Visit::new();
    for n in 0..MAX_COOKIES + 10 {
        visit.set(&host, "/", &[&format!("c{n}=1")]);
    }
    assert_eq!(visit.jar.len(), MAX_COOKIES);
    assert!(visit.get(&host, "/").starts_with("c10=1; c11=1"));
    let large = "x".repeat(MAX_COOKIE_BYTES - 3);
    for n in 0..50 {
        visit.set(&host, "/", &[&format!("l{n:02}={large}"), &format!("m{n:02}={large}x")]);
        assert!(visit.jar.bytes <= MAX_JAR_BYTES);
    }
    let sent = visit.get(&host, "/");
    assert!(sent.contains("l49=") && !sent.contains("m49="), "a cookie over the bound is ignored");
    visit.set(&host, "/", &[&format!("p=1; Path=/{}", "y".repeat(60_000))]);
    assert!(visit.get(&host, "/").ends_with("p=1"), "a path without end is ignored");
}

#[test]
fn an_empty_jar_is_small() {
    assert!(
        size_of::<Jar>() <= 40 && size_of::<Cookie>() <= 40,
        "{} {}",
        size_of::<Jar>(),
        size_of::<Cookie>()
    );
}

proptest! {
    #[test]
    fn whatever_servers_set_bounds_are_kept(
        lines in proptest::collection::vec(
            "[ab]{1,2}=[c;\" ]{0,3}(; (Path=/[ab/]{0,4}|Domain=[a.]{1,4}|Max-Age=[-0-9]{1,3}|Secure|Expires=[0-9A-Za-z: ]{0,30})){0,3}",
            0..300,
        ),
        path in "/[ab/?]{0,6}",
    ) {
        let host = site("a.a");
        let mut visit = Visit::new();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        visit.set(&host, &path, &lines);
        let bytes: usize = visit.jar.cookies.iter().map(|c| c.text.len()).sum();
        prop_assert_eq!(bytes, visit.jar.bytes);
        prop_assert!(visit.jar.len() <= MAX_COOKIES && bytes <= MAX_JAR_BYTES);
        let order: Vec<_> = visit.jar.cookies.iter().map(|c| (std::cmp::Reverse(c.path().len()), c.number)).collect();
        prop_assert!(order.is_sorted());
        let sent = visit.get(&host, &path);
        prop_assert!(!sent.contains(['\r', '\n']));
    }

    #[test]
    fn any_bytes_can_be_set(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20)) {
        let mut fields = Fields::default();
        for line in &lines {
            fields.push(b"set-cookie", line);
        }
        let mut jar = Jar::default();
        let host = site("h");
        jar.take_in(&fields, Place::new(&host, "", "/"), 1, || NOW_S);
        jar.write(Place::new(&host, "", ""), 2, &mut Vec::new());
    }
}
