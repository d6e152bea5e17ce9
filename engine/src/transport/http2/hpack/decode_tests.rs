use super::super::{encode_field, encode_no_table};
use super::*;
use proptest::prelude::*;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Pairs, Malformed> {
    let mut found = Pairs::new();
    decoder.decode(block, |name, value| found.push((name.to_vec(), value.to_vec())))?;
    Ok(found)
}

fn pairs(list: &[(&str, &str)]) -> Pairs {
    list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
}

/// RFC 7541, appendix C.1 and C.2.
#[test]
fn the_examples_of_integers_and_fields() {
    assert_eq!(Input(&[0xea]).integer(5), Ok(10));
    assert_eq!(Input(&hex("1f9a0a")).integer(5), Ok(1337));
    assert_eq!(Input(&[42]).integer(8), Ok(42));
    let cases = [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key",
            "custom-header",
            55,
        ),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path", "/sample/path", 0),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password", "secret", 0),
        ("82", ":method", "GET", 0),
    ];
    for (block, name, value, size) in cases {
        let mut decoder = Decoder::default();
        assert_eq!(read(&mut decoder, &hex(block)), Ok(pairs(&[(name, value)])));
        assert_eq!(decoder.table_size(), size);
    }
}

/// RFC 7541, appendix C.3 and C.4: the same requests, plain and coded.
#[test]
fn the_examples_of_requests() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let authority = (":authority", "www.example.com");
    let expected = [
        vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), authority],
        vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            authority,
            ("cache-control", "no-cache"),
        ],
        vec![
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            authority,
            ("custom-key", "custom-value"),
        ],
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        for ((block, fields), size) in blocks.iter().zip(&expected).zip([57, 110, 164]) {
            assert_eq!(read(&mut decoder, &hex(block)), Ok(pairs(fields)));
            assert_eq!(decoder.table_size(), size);
        }
    }
}

/// RFC 7541, appendix C.5 and C.6: the same answers, plain and coded, with a table of 256 bytes from which entries fall.
#[test]
fn the_examples_of_answers() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32
         3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970
         7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61
         6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2
         e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let (d1, d2) = ("Mon, 21 Oct 2013 20:13:21 GMT", "Mon, 21 Oct 2013 20:13:22 GMT");
    let rest = [("cache-control", "private"), ("date", d1), ("location", "https://www.example.com")];
    let expected = [
        [&[(":status", "302")], &rest[..]].concat(),
        [&[(":status", "307")], &rest[..]].concat(),
        vec![
            (":status", "200"),
            rest[0],
            ("date", d2),
            rest[2],
            ("content-encoding", "gzip"),
            ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"),
        ],
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        decoder.dynamic.resize(256);
        for ((block, fields), size) in blocks.iter().zip(&expected).zip([222, 222, 215]) {
            assert_eq!(read(&mut decoder, &hex(block)), Ok(pairs(fields)));
            assert_eq!(decoder.table_size(), size);
        }
    }
}

#[test]
fn what_is_malformed_is_said_so() {
    let wrong = [
        "80",              // index 0
        "be",              // an index that nothing has
        "0f",              // an integer without an end
        "8f ffffffffffff", // one that is too large
        "ff 8080808080808080 00",
        "04 7f", // a text longer than the block
        "04 05 61",
        "04 81 18", // Huffman padding with zeros
        "82 20",    // a size update after a field
        "3f e2 1f", // a table larger than 4096 bytes
        "04",
    ];
    for block in wrong {
        assert_eq!(read(&mut Decoder::default(), &hex(block)), Err(Malformed), "{block}");
    }
    assert_eq!(read(&mut Decoder::default(), &hex("20 3fe11f 82")), Ok(pairs(&[(":method", "GET")])));
}

#[test]
fn what_the_encoder_writes_is_short_and_read_back() {
    let mut block = Vec::new();
    encode_no_table(&mut block);
    let fields = [
        (":method", "GET", 1),
        (":method", "PATCH", 7),
        (":path", "/a", 4),
        ("Authorization", "Bearer x", 9),
        ("x-empty", "", 9),
        ("accept-encoding", "gzip, deflate", 1),
    ];
    for (name, value, most) in fields {
        let before = block.len();
        encode_field(name.as_bytes(), value.as_bytes(), &mut block);
        assert!(block.len() - before <= most, "{name}: {} bytes", block.len() - before);
        if name == "Authorization" {
            assert_eq!(block[before] & 0xf0, 0x10, "never indexed");
        }
    }
    let mut decoder = Decoder::default();
    let expected: Vec<_> = fields.iter().map(|(n, v, _)| (n.to_ascii_lowercase(), *v)).collect();
    let expected: Vec<_> = expected.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    assert_eq!(read(&mut decoder, &block), Ok(pairs(&expected)));
}

fn any_fields() -> impl Strategy<Value = Pairs> {
    let name = prop_oneof![
        // The crate on the other side misspells the first name after the pseudo-headers.
        proptest::sample::select(STATIC.map(|(n, _)| n.to_vec()).to_vec())
            .prop_filter("accept-charset", |name| name != b"accept-charset"),
        "[a-z-]{1,12}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        Just(b"200".to_vec()),
        Just(b"GET".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..300),
    ];
    proptest::collection::vec((name, value), 0..20)
}

proptest! {
    #[test]
    fn what_this_encoder_writes_others_read(fields in any_fields()) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            encode_field(name, value, &mut block);
        }
        prop_assert_eq!(read(&mut Decoder::default(), &block), Ok(fields.clone()));
        prop_assert_eq!(hpack::Decoder::new().decode(&block).unwrap(), fields);
    }

    #[test]
    fn what_others_write_this_decoder_reads(blocks in proptest::collection::vec(any_fields(), 1..10)) {
        // Of the same connection: the tables of both sides have to stay the same.
        let (mut encoder, mut decoder) = (hpack::Encoder::new(), Decoder::default());
        for fields in blocks {
            let block = encoder.encode(fields.iter().map(|(n, v)| (&n[..], &v[..])));
            prop_assert_eq!(read(&mut decoder, &block), Ok(fields));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 1..10)) {
        let mut decoder = Decoder::default();
        for block in blocks {
            let bytes = read(&mut decoder, &block).unwrap_or_default().iter().map(|(n, v)| n.len() + v.len()).sum::<usize>();
            // A byte names an entry of the table at most.
            prop_assert!(decoder.table_size() <= TABLE_BYTES && bytes <= block.len() * TABLE_BYTES);
        }
    }
}
