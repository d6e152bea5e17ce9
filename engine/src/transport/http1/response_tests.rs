use super::*;
use proptest::prelude::*;
use std::fmt::Write as _;

fn facts() -> Facts<'static> {
    Facts {
        head: false,
        instance_header: Some("x-instance"),
        contains: None,
        max_header_bytes: 4096,
        max_body_bytes: 1000,
    }
}

/// Feeds `bytes` in pieces of `size`; gives the bytes used.
fn read(bytes: &[u8], size: usize, facts: &Facts<'_>) -> (Decoder, Result<Option<usize>, Fault>) {
    let mut decoder = Decoder::default();
    let mut before = 0;
    for piece in bytes.chunks(size) {
        match decoder.feed(piece, facts) {
            Ok(Progress::Done(used)) => return (decoder, Ok(Some(before + used))),
            Ok(Progress::More) => before += piece.len(),
            Err(fault) => return (decoder, Err(fault)),
        }
    }
    (decoder, Ok(None))
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
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 101 Switch\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
    ];
    for text in bad {
        assert_eq!(read(text.as_bytes(), 500, &facts()).1, Err(Fault::Protocol), "{text}");
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

proptest! {
    #[test]
    fn a_text_is_found_however_it_is_split(
        body in "[ab]{0,40}", needle in "[ab]{1,6}", size in 1_usize..50, chunk in 1_usize..20,
    ) {
        let finder = Finder::new(needle.as_bytes()).into_owned();
        let facts = Facts { contains: Some(&finder), ..facts() };
        let mut text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        for piece in body.as_bytes().chunks(chunk) {
            write!(text, "{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)).expect("a String takes it");
        }
        text += "0\r\n\r\n";
        let (decoder, result) = read(text.as_bytes(), size, &facts);
        prop_assert_eq!(result, Ok(Some(text.len())));
        prop_assert_eq!(decoder.found(), body.contains(&needle));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
        let mut text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        text.extend_from_slice(&bytes);
        let _ = read(&text, size, &facts());
        let _ = read(&bytes, size, &facts());
    }
}
