use super::*;
use proptest::prelude::*;

type Seen = (bool, String, Vec<(String, String)>);

/// Tags and attributes as we see them, decoded.
fn ours(html: &[u8]) -> Vec<Seen> {
    let mut document = Document::new(html);
    let mut seen = Vec::new();
    while let Some(tag) = document.next_tag() {
        let lower = |text: &[u8]| String::from_utf8_lossy(text).to_ascii_lowercase();
        let mut attributes: Vec<(String, String)> = Vec::new();
        for (name, value) in tag.attributes() {
            let name = lower(name);
            if !tag.is_end && attributes.iter().all(|(known, _)| *known != name) {
                attributes.push((name, decode_value(value).into_owned()));
            }
        }
        seen.push((tag.is_end, lower(tag.name), attributes));
        if !tag.is_end {
            document.text_of(tag.name);
        }
    }
    seen
}

/// The same by the tokenizer of html5gum.
fn theirs(html: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut emitter = html5gum::DefaultEmitter::<()>::default();
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match token {
            Ok(html5gum::Token::StartTag(tag)) => {
                let attributes = tag.attributes.iter().map(|(k, v)| (text(k), text(v)));
                let mut attributes: Vec<_> = attributes.collect();
                attributes.sort();
                seen.push((false, text(&tag.name), attributes));
            }
            Ok(html5gum::Token::EndTag(tag)) => seen.push((true, text(&tag.name), Vec::new())),
            Ok(_) => {}
        }
    }
    seen
}

fn sorted(mut seen: Vec<Seen>) -> Vec<Seen> {
    for (_, _, attributes) in &mut seen {
        attributes.sort();
    }
    seen
}

#[test]
fn tags_are_found_where_browsers_find_them() {
    for html in [
        "<p>a</p>",
        "<P CLASS=x Id='y' data-z=\"<b>\">",
        "<a title=don't href=/x/>",
        "<a =b c = d e= f g>",
        "<a/b/c=d/>",
        "<a b='1' b='2'>",
        "<a b=\"&amp;&quot;&lt&notit;&#x41;\">",
        "1 < 2 <3> <",
        "<!doctype html><html>",
        "<!-- <p> --><i>",
        "<!--><i>",
        "<!---><i>",
        "<!-- a --!><i>",
        "<!-- a ---><i>",
        "<!-- a ---!><i>",
        "<!--<!---!><i>",
        "<!-- a -----! --><i>",
        "<!-- a -- > <i> --><b>",
        "<!----><i>",
        "<!---!><i>--><b>",
        "<!><i>",
        "<![CDATA[ <p> ]]><i>",
        "<?php <p> ?><i>",
        "</><i></ x><b></p class=\"q\">",
        "<script>if (a<b) document.write('<p>')</script><i>",
        "<SCRIPT>'</scripty>'</Script ><i>",
        "<style>p > i {}</style><title><b></title><textarea><u></textarea><i>",
        "<plaintext><p></plaintext><p>",
        "<p <i>",
        "<p",
        "<p class=\"x>",
        "<p class=>x",
        "",
    ] {
        assert_eq!(sorted(ours(html.as_bytes())), theirs(html.as_bytes()), "{html}");
    }
}

#[test]
fn references_are_decoded() {
    assert_eq!(decode_value(b"a&amp;b&#39;&eacute;\xc3\xa9"), "a&b'éé");
    assert_eq!(decode_value(b"say \"&lt;\""), "say \"<\"");
    assert_eq!(decode_value(b"it's &lt;"), "it's <");
    assert_eq!(decode_text(b"a&nbsp;<b>b</b>&gt;"), "a\u{a0}b>");
    assert_eq!(decode_textarea(b"\r\n<b>&amp;\n"), "<b>&\n");
    assert_eq!(decode_textarea(b"\n\n&lt;"), "\n<");
    assert!(matches!(decode_value(b"plain"), Cow::Borrowed("plain")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn tags_are_those_of_a_whole_tokenizer(
        parts in proptest::collection::vec(
            prop_oneof![
                "<[a-z/!?]?[a-cA-C/ =\"'>&;-]{0,12}>?",
                "<(p|input|a) ([a-c]{1,2} ?= ?[\"']?[a-c<>&;= ]{0,4}[\"']? ?){0,3}/?>",
                "<!--[-<>! a]{0,8}(-->)?",
                "<(textarea|style|title)>[</a-z >]{0,9}</(textarea|style|title)[ />]?",
                "[a<> \"'=/-]{0,6}",
            ],
            0..8,
        )
    ) {
        let html = parts.concat();
        prop_assert_eq!(sorted(ours(html.as_bytes())), theirs(html.as_bytes()), "{}", html);
    }

    #[test]
    fn any_bytes_can_be_read(html in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'<'), Just(b'>'), Just(b'-'), Just(b'"')], 0..200)) {
        let seen = ours(&html);
        prop_assert!(seen.len() <= html.len());
        drop((decode_value(&html), decode_text(&html), decode_textarea(&html)));
    }
}
