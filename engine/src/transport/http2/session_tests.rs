use super::super::frame::{flag, write};
use super::super::hpack::encode_field;
use super::super::streams::Opened;
use super::*;
use crate::rng::Rng;
use crate::transport::{Reply, Want};
use proptest::prelude::*;

const ALL: Want = Want { fields: true, cookies: false, body: true };

fn terms() -> Rc<Terms> {
    let instance_header = Some("x-instance".to_owned());
    Rc::new(Terms {
        instance_header,
        max_header_bytes: 4096,
        max_body_bytes: 100_000,
        instances: Rc::default(),
    })
}

/// A connection whose server has sent SETTINGS, and from which everything has been sent.
fn settled(settings: &[(u16, u32)]) -> Session {
    let mut session = Session::new(terms());
    session.feed(&settings_frame(settings), 1).unwrap();
    flush(&mut session);
    session
}

fn settings_frame(settings: &[(u16, u32)]) -> Vec<u8> {
    let pair = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let mut out = Vec::new();
    write(kind::SETTINGS, 0, 0, &settings.iter().flat_map(pair).collect::<Vec<_>>(), &mut out);
    out
}

/// What the session has to send.
fn flush(session: &mut Session) -> Vec<u8> {
    let bytes = session.outgoing().to_vec();
    session.sent(bytes.len());
    bytes
}

/// Type, flags, stream and length of each frame.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, u32, usize)> {
    bytes = bytes.strip_prefix(PREFACE).unwrap_or(bytes);
    let mut found = Vec::new();
    while let [a, b, c, kind, flags, s0, s1, s2, s3, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        found.push((*kind, *flags, u32::from_be_bytes([*s0, *s1, *s2, *s3]), length));
        bytes = &rest[length..];
    }
    found
}

fn opened(head: bool) -> Opened {
    Opened { task: 7, head, want: ALL, reply: Reply::default(), expects: false }
}

fn get(session: &mut Session) -> Key {
    session.open(opened(false), [&[0x82, 0x86, 0x84, 0x81], &[]], true)
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, v) in fields {
        encode_field(n.as_bytes(), v.as_bytes(), &mut out);
    }
    out
}

/// HEADERS of an answer, complete.
fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    write(kind::HEADERS, flags | flag::END_HEADERS, stream, &block(fields), &mut out);
    out
}

fn data(stream: u32, flags: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write(kind::DATA, flags, stream, content, &mut out);
    out
}

fn outcome(session: &Session, key: Key) -> Option<Outcome> {
    session.stream(key).unwrap().outcome
}

#[test]
fn the_preface_comes_first_and_opens_the_windows() {
    let mut session = Session::new(terms());
    let bytes = flush(&mut session);
    assert!(bytes.starts_with(PREFACE));
    assert_eq!(frames(&bytes), [(kind::SETTINGS, 0, 0, 18), (kind::WINDOW_UPDATE, 0, 0, 4)]);
    assert_eq!((session.room(), session.is_settled()), (1, false));
    session.feed(&settings_frame(&[(setting::MAX_CONCURRENT_STREAMS, 3)]), 1).unwrap();
    assert_eq!(frames(&flush(&mut session)), [(kind::SETTINGS, flag::ACK, 0, 0)]);
    assert_eq!(session.room(), 3);
    get(&mut session);
    assert_eq!((session.room(), session.live()), (2, 1));
    assert_eq!(frames(&flush(&mut session)), [(kind::HEADERS, 5, 1, 4)]);
}

#[test]
fn an_answer_has_head_body_and_trailers() {
    let mut session = settled(&[]);
    let key = get(&mut session);
    session.feed(&head(1, 0, &[(":status", "103"), ("link", "x")]), 5).unwrap();
    let fields = [(":status", "201"), ("x-instance", "pod-3"), ("content-length", "5")];
    session.feed(&head(1, 0, &fields), 10).unwrap();
    session.feed(&data(1, 0, b"he"), 20).unwrap();
    session.feed(&data(1, flag::PADDED, b"\x02llo\0\0"), 30).unwrap();
    assert_eq!((outcome(&session, key), session.take_woken().count()), (None, 0));
    session.feed(&head(1, flag::END_STREAM, &[("grpc-status", "0")]), 40).unwrap();
    assert_eq!(session.take_woken().collect::<Vec<_>>(), [7]);
    let stream = session.stream_mut(key).unwrap();
    assert_eq!((stream.outcome, stream.status), (Some(Outcome::Answered), 201));
    assert_eq!((stream.first_byte_ns, stream.end_ns, stream.instance), (Some(5), 40, Some(0)));
    let reply = std::mem::take(&mut stream.opened.reply);
    assert_eq!(reply.body, b"hello");
    let names: Vec<_> = reply.fields.iter().map(|(n, _)| String::from_utf8_lossy(n).into_owned()).collect();
    assert_eq!(names, ["x-instance", "content-length", "grpc-status"]);
    flush(&mut session);
    session.close(key);
    assert!(session.outgoing().is_empty(), "nothing to be said about a request that ended well");
}

#[test]
fn continuations_make_one_block() {
    let mut session = settled(&[]);
    let key = get(&mut session);
    let bytes = block(&[(":status", "200"), ("etag", "abc")]);
    let mut out = Vec::new();
    write(kind::HEADERS, flag::END_STREAM, 1, &bytes[..1], &mut out);
    write(kind::CONTINUATION, 0, 1, &bytes[1..3], &mut out);
    write(kind::CONTINUATION, flag::END_HEADERS, 1, &bytes[3..], &mut out);
    session.feed(&out, 1).unwrap();
    let stream = session.stream(key).unwrap();
    assert_eq!((stream.outcome, stream.bytes_in), (Some(Outcome::Answered), out.len() as u64));
}

#[test]
fn answers_that_are_malformed_end_their_stream_only() {
    let cases: Vec<(Breach, &str, Vec<u8>)> = vec![
        (Breach::Status, "no status", head(1, 1, &[("etag", "x")])),
        (Breach::Status, "status after a field", head(1, 1, &[("etag", "x"), (":status", "200")])),
        (Breach::Status, "two", head(1, 1, &[(":status", "200"), (":status", "200")])),
        (Breach::Status, "no number", head(1, 1, &[(":status", "2x0")])),
        (Breach::Status, "switch", head(1, 0, &[(":status", "101")])),
        (Breach::Status, "unknown pseudo", head(1, 1, &[(":status", "200"), (":path", "/")])),
        (Breach::Header, "connection", head(1, 1, &[(":status", "200"), ("connection", "close")])),
        (Breach::Header, "line end", head(1, 1, &[(":status", "200"), ("etag", "a\r\nb")])),
        (Breach::Order, "interim at the end", head(1, 1, &[(":status", "100")])),
        (Breach::Length, "length", head(1, 1, &[(":status", "200"), ("content-length", "+5")])),
        (Breach::Length, "short", head(1, 1, &[(":status", "200"), ("content-length", "5")])),
        (
            Breach::Length,
            "two lengths",
            head(1, 1, &[(":status", "200"), ("content-length", "0"), ("content-length", "1")]),
        ),
        (Breach::Order, "body first", data(1, 1, b"x")),
        (
            Breach::Order,
            "trailers go on",
            [head(1, 0, &[(":status", "200")]), head(1, 0, &[("a", "b")])].concat(),
        ),
    ];
    for (breach, name, bytes) in cases {
        let mut session = settled(&[]);
        let (key, other) = (get(&mut session), get(&mut session));
        session.feed(&bytes, 1).unwrap();
        assert_eq!(outcome(&session, key), Some(Outcome::Protocol), "{name}");
        assert_eq!(session.stream(key).and_then(|s| s.breach), Some(breach), "{name}");
        session.feed(&head(3, 1, &[(":status", "200")]), 1).unwrap();
        assert_eq!(outcome(&session, other), Some(Outcome::Answered), "{name}");
    }
}

#[test]
fn what_breaks_the_connection_ends_all() {
    let raw = |kind, flags, stream, payload: &[u8]| {
        let mut out = Vec::new();
        write(kind, flags, stream, payload, &mut out);
        out
    };
    let cases: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("push", raw(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82]), ErrorCode::Protocol),
        ("never opened", head(9, 1, &[(":status", "200")]), ErrorCode::Protocol),
        ("even", data(2, 1, b"x"), ErrorCode::Protocol),
        ("index", raw(kind::HEADERS, 5, 1, &[0xff, 0x70]), ErrorCode::Compression),
        ("padding", raw(kind::HEADERS, 0xd, 1, &[9, 0x88]), ErrorCode::Protocol),
        ("alone", raw(kind::CONTINUATION, 4, 1, &[0x88]), ErrorCode::Protocol),
        (
            "interrupted",
            [raw(kind::HEADERS, 0, 1, &[0x88]), raw(kind::PING, 0, 0, &[0; 8])].concat(),
            ErrorCode::Protocol,
        ),
        ("ping", raw(kind::PING, 0, 0, &[0; 7]), ErrorCode::FrameSize),
        ("settings", raw(kind::SETTINGS, 0, 0, &[0; 5]), ErrorCode::FrameSize),
        ("window", raw(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]), ErrorCode::FlowControl),
        (
            "initial window",
            settings_frame(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]),
            ErrorCode::FlowControl,
        ),
        ("frame size", settings_frame(&[(setting::MAX_FRAME_SIZE, 1)]), ErrorCode::Protocol),
        ("http/1", b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n".to_vec(), ErrorCode::FrameSize),
    ];
    for (name, bytes, code) in cases {
        let mut session = settled(&[]);
        let keys = [get(&mut session), get(&mut session)];
        assert_eq!(session.feed(&bytes, 1).map_err(|e| e.code), Err(code), "{name}");
        assert_eq!(keys.map(|key| outcome(&session, key)), [Some(Outcome::Protocol); 2], "{name}");
        assert!(session.failure().is_some_and(|error| error.breach.is_some()), "{name}");
        assert!(session.is_over() && session.room() == 0);
        let said = frames(&flush(&mut session));
        assert_eq!(said.last().map(|f| f.0), Some(kind::GOAWAY), "{name}");
        assert!(session.feed(&bytes, 1).is_err(), "nothing is read after it");
    }
}

#[test]
fn bounds_are_kept() {
    let mut session = settled(&[]);
    let key = get(&mut session);
    let long = "x".repeat(4096);
    session.feed(&head(1, 0, &[(":status", "200"), ("a", &long)]), 1).unwrap();
    assert_eq!(outcome(&session, key), Some(Outcome::TooLarge));
    let key = get(&mut session);
    session.feed(&head(3, 0, &[(":status", "200"), ("content-length", "100001")]), 1).unwrap();
    assert_eq!(outcome(&session, key), Some(Outcome::TooLarge));
    let key = get(&mut session);
    session.feed(&head(5, 0, &[(":status", "200")]), 1).unwrap();
    for _ in 0..7 {
        session.feed(&data(5, 0, &[0; 16_000]), 1).unwrap();
    }
    assert_eq!(outcome(&session, key), Some(Outcome::TooLarge));
    let resets = frames(&flush(&mut session)).iter().filter(|f| f.0 == kind::RST_STREAM).count();
    assert_eq!(resets, 3);
    // A block without an end.
    let key = get(&mut session);
    let mut out = Vec::new();
    write(kind::HEADERS, 0, 7, &[0x88], &mut out);
    session.feed(&out, 1).unwrap();
    out.clear();
    write(kind::CONTINUATION, 0, 7, &[0x88; 1000], &mut out);
    let ended = (0..10).find_map(|_| session.feed(&out, 1).err()).expect("an end");
    assert_eq!(ended.outcome, Outcome::TooLarge);
    assert_eq!(outcome(&session, key), Some(Outcome::TooLarge));
}

#[test]
fn floods_end_the_connection() {
    let mut ping = Vec::new();
    write(kind::PING, 0, 0, &[0; 8], &mut ping);
    let mut empty = Vec::new();
    write(kind::CONTINUATION, 0, 1, &[], &mut empty);
    let mut reset = Vec::new();
    write(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8], &mut reset);
    let begun = [head(1, 0, &[(":status", "200")]), data(1, 0, b"")].concat();
    let mut opened_block = Vec::new();
    write(kind::HEADERS, 0, 1, &[], &mut opened_block);
    for (first, flood) in [
        (&[][..], ping.as_slice()),
        (&[], &settings_frame(&[])),
        (&begun, &data(1, 0, b"")),
        (&opened_block, &empty),
        (&[], &reset),
        (&[], &head(1, 0, &[(":status", "100")])),
    ] {
        let mut session = settled(&[]);
        get(&mut session);
        session.feed(first, 1).unwrap();
        // Answers are sent, so that what is counted is the flood itself.
        let ended = (0..20_000).find_map(|_| {
            flush(&mut session);
            session.feed(flood, 1).err()
        });
        assert_eq!(ended.map(|e| e.code), Some(ErrorCode::EnhanceYourCalm), "{flood:?}");
    }
    // A server that asks and does not listen.
    let mut session = settled(&[]);
    let mut bytes = 0;
    while session.feed(&ping, 1).is_ok() {
        session.idle_frames = 0;
        bytes += ping.len();
        assert!(bytes < 4 * MOST_UNREAD);
    }
}

#[test]
fn bodies_are_sent_within_both_windows() {
    let mut session = settled(&[(setting::INITIAL_WINDOW_SIZE, 100)]);
    let body = vec![7; 70_000];
    let key = session.open(opened(false), [&[0x83], &[]], false);
    assert_eq!(session.push(key, &body, true), 100);
    assert_eq!(session.push(key, &body[100..], true), 0);
    let mut update = Vec::new();
    write(kind::WINDOW_UPDATE, 0, 1, &1_000_000_u32.to_be_bytes(), &mut update);
    session.feed(&update, 1).unwrap();
    assert_eq!(session.take_woken().collect::<Vec<_>>(), [7]);
    // Now the window of the connection is the narrower.
    assert_eq!(session.push(key, &body[100..], true), 65_435);
    update.clear();
    write(kind::WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes(), &mut update);
    session.feed(&update, 1).unwrap();
    assert_eq!(session.take_woken().collect::<Vec<_>>(), [7]);
    assert_eq!(session.push(key, &body[65_535..], true), 70_000 - 65_535);
    let sent = frames(&flush(&mut session));
    assert!(sent.iter().all(|f| f.3 <= 16_384));
    assert_eq!(sent.iter().map(|f| f.3).sum::<usize>(), 70_001);
    assert_eq!(sent.iter().filter(|f| f.0 == kind::DATA && f.1 == flag::END_STREAM).count(), 1);
    assert_eq!(session.stream(key).unwrap().bytes_out, 70_001 + 9 * sent.len() as u64);
}

#[test]
fn a_narrower_window_counts_for_what_is_under_way() {
    let mut session = settled(&[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    let key = session.open(opened(false), [&[0x83], &[]], false);
    assert_eq!(session.push(key, &[0; 600], false), 600);
    session.feed(&settings_frame(&[(setting::INITIAL_WINDOW_SIZE, 200)]), 1).unwrap();
    assert_eq!(session.stream(key).unwrap().window, -400);
    assert_eq!(session.push(key, &[0; 10], true), 0);
    session.feed(&settings_frame(&[(setting::INITIAL_WINDOW_SIZE, 605)]), 1).unwrap();
    assert_eq!(session.push(key, &[0; 10], true), 5);
}

#[test]
fn what_was_not_processed_is_known() {
    let mut session = settled(&[]);
    let keys = [get(&mut session), get(&mut session), get(&mut session)];
    let mut out = Vec::new();
    write(kind::RST_STREAM, 0, 3, &7_u32.to_be_bytes(), &mut out);
    write(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0], &mut out);
    session.feed(&out, 1).unwrap();
    let seen = keys.map(|key| {
        let stream = session.stream(key).unwrap();
        (stream.outcome, stream.unprocessed)
    });
    assert_eq!(seen, [(None, false), (Some(Outcome::Reset), true), (Some(Outcome::Closed), true)]);
    assert_eq!((session.room(), session.is_over()), (0, false));
    session.feed(&head(1, 1, &[(":status", "204")]), 1).unwrap();
    assert!(session.is_over());
    assert_eq!(outcome(&session, keys[0]), Some(Outcome::Answered));
}

#[test]
fn a_cancelled_request_leaves_the_connection_whole() {
    let mut session = settled(&[]);
    let (key, other) = (get(&mut session), get(&mut session));
    flush(&mut session);
    session.close(key);
    assert_eq!(frames(&flush(&mut session)), [(kind::RST_STREAM, 0, 1, 4)]);
    // Its answer was on the way; the table that it filled is used by the next.
    let mut insert = vec![0x88, 0x40, 3];
    insert.extend_from_slice(b"x-a\x01b");
    let mut out = Vec::new();
    write(kind::HEADERS, flag::END_HEADERS, 1, &insert, &mut out);
    out.extend(data(1, 1, b"late"));
    write(kind::HEADERS, 5, 3, &[0x88, 0xbe], &mut out);
    session.feed(&out, 1).unwrap();
    let stream = session.stream(other).unwrap();
    assert_eq!(stream.opened.reply.fields.get(b"x-a"), Some(&b"b"[..]));
}

#[test]
fn long_heads_and_smaller_tables() {
    let mut session = settled(&[(setting::HEADER_TABLE_SIZE, 0)]);
    let long = vec![0x82; 40_000];
    session.open(opened(false), [&long, &[0x84]], true);
    let bytes = flush(&mut session);
    let expected = [
        (kind::HEADERS, flag::END_STREAM, 1, 16_384),
        (kind::CONTINUATION, 0, 1, 16_384),
        (kind::CONTINUATION, flag::END_HEADERS, 1, 7234),
    ];
    assert_eq!((frames(&bytes).as_slice(), bytes[9]), (&expected[..], 0x20));
    get(&mut session);
    assert_eq!(flush(&mut session)[9], 0x82, "the change of the table is said once");
}

#[test]
fn head_requests_have_a_length_and_no_content() {
    let mut session = settled(&[]);
    let key = session.open(opened(true), [&[0x82], &[]], true);
    session.feed(&head(1, 1, &[(":status", "200"), ("content-length", "5000000")]), 1).unwrap();
    assert_eq!(outcome(&session, key), Some(Outcome::Answered));
}

#[test]
fn leave_to_send_a_body_is_noticed() {
    for (status, flags, noticed) in
        [("100", 0, true), ("103", 0, false), ("413", 0, true), ("417", flag::END_STREAM, true)]
    {
        let mut session = settled(&[]);
        let key = session.open(Opened { expects: true, ..opened(false) }, [&[0x83], &[]], false);
        session.feed(&head(1, flags, &[(":status", status)]), 1).unwrap();
        assert_eq!(
            (session.has_woken(), session.stream(key).unwrap().continued),
            (noticed, noticed),
            "{status}"
        );
        assert_eq!(outcome(&session, key).is_some(), flags != 0);
    }
}

/// A long, good conversation to begin with.
fn conversation() -> Vec<u8> {
    let mut bytes =
        settings_frame(&[(setting::MAX_CONCURRENT_STREAMS, 100), (setting::INITIAL_WINDOW_SIZE, 70_000)]);
    for id in (1..20).step_by(2) {
        bytes.extend(head(id, 0, &[(":status", "200"), ("content-length", "20"), ("x-instance", "pod")]));
        bytes.extend(data(id, flag::PADDED, &[&[3][..], &[5; 23]].concat()));
        write(kind::WINDOW_UPDATE, 0, id, &[0, 0, 1, 0], &mut bytes);
        bytes.extend(head(id, flag::END_STREAM, &[("grpc-status", "0")]));
        write(kind::PING, 0, 0, &[1; 8], &mut bytes);
    }
    write(kind::RST_STREAM, 0, 21, &[0, 0, 0, 7], &mut bytes);
    write(kind::GOAWAY, 0, 0, &[0, 0, 0, 99, 0, 0, 0, 0], &mut bytes);
    bytes
}

/// Nothing that a server sends makes this side panic, loop or keep more than it may.
fn survive(bytes: &[u8], step: usize) {
    let mut session = Session::new(terms());
    let mut keys: Vec<_> = (0..12).map(|_| get(&mut session)).collect();
    keys.extend((0..3).map(|_| session.open(opened(false), [&[0x83], &[]], false)));
    for (n, chunk) in bytes.chunks(step.max(1)).enumerate() {
        let result = session.feed(chunk, n as u64);
        for key in &keys[12..] {
            session.push(*key, &[1; 5000], false);
        }
        if n % 3 == 0 {
            flush(&mut session);
        }
        session.take_woken().for_each(drop);
        let kept: usize = keys.iter().map(|k| session.stream(*k).unwrap().opened.reply.body.len()).sum();
        assert!(kept <= bytes.len() && session.outgoing().len() <= 2 * MOST_UNREAD);
        if result.is_err() {
            assert!(keys.iter().all(|key| outcome(&session, *key).is_some()));
            break;
        }
    }
    for key in keys {
        session.close(key);
    }
}

#[test]
fn mutations_of_a_conversation_do_no_harm() {
    let good = conversation();
    survive(&good, good.len());
    let mut rng = Rng::from_parts(&[2026]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(2);
    let mut rounds = 0;
    while rounds < 200 || (std::time::Instant::now() < until && rounds < 20_000) {
        let mut bytes = good.clone();
        for _ in 0..=rng.below(8) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes[at] = rng.below(256) as u8,
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => drop(bytes.drain(at..(at + rng.below(30) as usize).min(bytes.len()))),
                _ => {
                    let end = (at + rng.below(60) as usize).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        survive(&bytes, 1 + rng.below(400) as usize);
        rounds += 1;
    }
}

proptest! {
    #[test]
    fn random_frames_do_no_harm(
        parts in proptest::collection::vec((0_u8..12, any::<u8>(), 0_u32..24, proptest::collection::vec(any::<u8>(), 0..40)), 0..40),
        step in 1_usize..200,
    ) {
        let mut bytes = settings_frame(&[]);
        for (kind, flags, stream, payload) in parts {
            write(kind, flags, stream, &payload, &mut bytes);
        }
        survive(&bytes, step);
    }
}
