use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;

fn facts() -> Facts<'static> {
    Facts {
        head: false,
        instance_header: Some("x-instance"),
        want: Want { fields: true, cookies: false, body: true },
        max_header_bytes: 4096,
        max_body_bytes: 1000,
    }
}

/// Feeds `bytes` in pieces of `size`; gives the bytes used.
fn read(bytes: &[u8], size: usize, facts: &Facts<'_>) -> (Decoder, Result<Option<usize>, Fault>) {
    let (decoder, result, _) = read_reply(bytes, size, facts);
    (decoder, result)
}

fn read_reply(
    bytes: &[u8],
    size: usize,
    facts: &Facts<'_>,
) -> (Decoder, Result<Option<usize>, Fault>, Reply) {
    let mut reply = Reply::default();
    let mut decoder = Decoder::default();
    let mut before = 0;
    for piece in bytes.chunks(size) {
        match decoder.feed(piece, facts, &mut reply) {
            Ok(Progress::Done(used)) => return (decoder, Ok(Some(before + used)), reply),
            Ok(Progress::More) => before += piece.len(),
            Err(fault) => return (decoder, Err(fault), reply),
        }
    }
    (decoder, Ok(None), reply)
}

const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nX-Instance: a-1\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &[u8] =
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nx-sum: 1\r\n\r\n";
const INTERIM: &[u8] = b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n";

#[test]
fn every_split_gives_the_same_answer() {
    for (bytes, status) in [(PLAIN, 200), (CHUNKED, 200), (INTERIM, 404)] {
        let mut longer = bytes.to_vec();
        longer.extend_from_slice(b"HTTP/1.1 surplus");
        for size in 1..longer.len() {
            let (decoder, result) = read(&longer, size, &facts());
            assert_eq!(result, Ok(Some(bytes.len())), "pieces of {size}");
            assert_eq!((decoder.status(), decoder.keep_alive()), (status, true));
        }
    }
    assert_eq!(read(PLAIN, 7, &facts()).0.instance(), b"a-1");
}

#[test]
fn some_answers_have_no_body() {
    let head = Facts { head: true, ..facts() };
    assert_eq!(read(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n", 64, &head).1, Ok(Some(39)));
    for status in ["204 No", "304 Not"] {
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: 9\r\n\r\n");
        assert_eq!(read(text.as_bytes(), 64, &facts()).1, Ok(Some(text.len())));
    }
}

#[test]
fn without_a_length_the_end_of_the_connection_is_the_end() {
    let (mut decoder, result) = read(b"HTTP/1.1 200 OK\r\n\r\nhello", 64, &facts());
    assert_eq!((result, decoder.keep_alive(), decoder.end()), (Ok(None), false, Ok(())));
    let (mut decoder, _) = read(&PLAIN[..PLAIN.len() - 1], 64, &facts());
    assert_eq!(decoder.end(), Err(Fault::Closed));
}

#[test]
fn connections_are_kept_as_the_version_says() {
    let keep = |text: &str| read(text.as_bytes(), 500, &facts()).0.keep_alive();
    assert!(!keep("HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0\r\n\r\n"));
    assert!(!keep("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"));
    assert!(keep("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n"));
    assert!(!keep("HTTP/1.1 200 OK\r\ncontent-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"));
}

#[test]
fn what_is_not_http_is_refused() {
    let bad = [
        ("SSH-2.0-OpenSSH\r\n", Breach::Start),
        ("HTTP/1.1 abc OK\r\n\r\n", Breach::Start),
        ("HTTP/1.1 099 Low\r\n\r\n", Breach::Status),
        ("HTTP/1.1 101 Switch\r\n\r\n", Breach::Upgrade),
        ("HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n", Breach::Header),
        ("HTTP/1.1 200 OK\r\nx: \u{1}\r\n\r\n", Breach::Header),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Breach::Length),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", Breach::Length),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n", Breach::Coding),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", Breach::Chunk),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab", Breach::Chunk),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n", Breach::Chunk),
    ];
    for (text, breach) in bad {
        assert_eq!(read(text.as_bytes(), 500, &facts()).1, Err(Fault::Protocol(breach)), "{text}");
    }
}

#[test]
fn bounds_hold_for_every_part() {
    let big = "x".repeat(5000);
    let too_large = [
        format!("HTTP/1.1 200 OK\r\nx: {big}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nx: {big}"),
        "HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n".into(),
        format!("HTTP/1.1 200 OK\r\n\r\n{big}"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfff\r\n{big}"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;{big}"),
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: {big}"),
        "HTTP/1.1 103 Early\r\n\r\n".repeat(500),
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200)),
    ];
    for text in too_large {
        for size in [1, 100, 9000] {
            assert_eq!(read(text.as_bytes(), size, &facts()).1, Err(Fault::TooLarge), "{size} of {text:.60}");
        }
    }
}

#[test]
fn what_two_readers_could_take_differently_is_not_trusted() {
    let refused = [
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked, gzip\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 5\r\n",
        "content-length: +5\r\n",
        "content-length: 0x5\r\n",
        "content-length : 5\r\n",
        "x-folded: a\r\n b\r\ncontent-length: 5\r\n",
    ];
    for headers in refused {
        let text = format!("HTTP/1.1 200 OK\r\n{headers}\r\n5\r\nhello\r\n0\r\n\r\n");
        let result = read(text.as_bytes(), 500, &facts()).1;
        assert!(matches!(result, Err(Fault::Protocol(_))), "{headers}: {result:?}");
    }
    let doubtful = [
        ("1.1", "content-length: 5\r\ntransfer-encoding: chunked\r\n"),
        ("1.0", "connection: keep-alive\r\ntransfer-encoding: chunked\r\n"),
    ];
    for (version, headers) in doubtful {
        let text = format!("HTTP/{version} 200 OK\r\n{headers}\r\n5\r\nhello\r\n0\r\n\r\n");
        let (decoder, result) = read(text.as_bytes(), 500, &facts());
        assert_eq!((result, decoder.keep_alive()), (Ok(Some(text.len())), false), "{headers}");
    }
}

#[test]
fn consent_is_noticed() {
    let (decoder, result) = read(b"HTTP/1.1 100 Continue\r\n\r\n", 500, &facts());
    assert_eq!((decoder.is_continued(), decoder.status(), result), (true, 0, Ok(None)));
    assert!(!read(b"HTTP/1.1 103 Early\r\n\r\n", 500, &facts()).0.is_continued());
}

/// Answers that are changed at random, a few bytes at a time.
const CORPUS: &[&[u8]] = &[
    PLAIN,
    CHUNKED,
    INTERIM,
    b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\nabc",
    b"HTTP/1.1 204 No\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    b"HTTP/1.1 200 \r\n\r\nuntil the end",
];

fn changed(seed: &[u8], changes: &[(u8, usize, u8)]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (kind, place, value) in changes {
        let at = place % (bytes.len() + 1);
        match kind % 4 {
            0 if at < bytes.len() => bytes[at] = *value,
            1 => bytes.insert(at, *value),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            // A piece of it once more.
            _ => {
                let end = bytes.len().min(at + usize::from(*value));
                let piece = bytes[at..end].to_vec();
                bytes.extend_from_slice(&piece);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn changed_answers_keep_within_bounds(
        seed in 0..CORPUS.len(),
        changes in prop::collection::vec((any::<u8>(), any::<usize>(), any::<u8>()), 0..6),
        size in 1_usize..80,
    ) {
        let bytes = changed(CORPUS[seed], &changes);
        let facts = facts();
        let (decoder, result, reply) = read_reply(&bytes, size, &facts);
        let (whole, whole_result, whole_reply) = read_reply(&bytes, bytes.len().max(1), &facts);
        prop_assert!(reply.body.len() as u64 <= facts.max_body_bytes + 80);
        if let Ok(Some(used)) = result {
            prop_assert!(used <= bytes.len() && decoder.status() >= 200);
            // However it comes, it is the same answer.
            prop_assert_eq!(&whole_result, &result);
            prop_assert_eq!((&whole_reply, whole.status(), whole.keep_alive()), (&reply, decoder.status(), decoder.keep_alive()));
        }
    }
}

proptest! {
    #[test]
    fn a_body_is_kept_however_it_is_split(
        body in "[a-z]{0,40}", size in 1_usize..50, chunk in 1_usize..20,
    ) {
        let mut text = "HTTP/1.1 200 OK\r\nx-a: 1\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        for piece in body.as_bytes().chunks(chunk) {
            write!(text, "{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)).expect("a String takes it");
        }
        text += "0\r\n\r\n";
        let (_, result, reply) = read_reply(text.as_bytes(), size, &facts());
        prop_assert_eq!(result, Ok(Some(text.len())));
        prop_assert_eq!(&reply.body[..], body.as_bytes());
        prop_assert_eq!(reply.fields.get(b"X-A"), Some(&b"1"[..]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
        let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        text.extend_from_slice(&bytes);
        let _ = read(&text, size, &facts());
        let _ = read(&bytes, size, &facts());
    }
}
