use super::*;
use minijinja::value::Value as Variable;
use proptest::prelude::*;
use serde_json::json;

fn paths(sources: &[&str]) -> JsonPaths {
    let mut paths = JsonPaths::default();
    for source in sources {
        paths.add(source).unwrap_or_else(|e| panic!("{e}"));
    }
    paths
}

fn all<'f>(found: &'f Found<'_>, path: u16) -> Vec<Node<'f>> {
    let mut all = Vec::new();
    found.each(path, &mut |node| {
        all.push(node);
        true
    });
    all
}

/// Everything that each path finds, as JSON.
fn found(paths: &JsonPaths, body: &[u8]) -> Vec<Vec<Value>> {
    let mut hits = Hits::default();
    let found = paths.find(body, &mut hits);
    let value = |node: Node<'_>| match node {
        Node::Raw(raw) => serde_json::from_str(raw).expect("a part of a document is one"),
        Node::Built(value) => value.clone(),
    };
    (0..paths.paths.len() as u16)
        .map(|path| {
            let all: Vec<_> = all(&found, path).into_iter().map(value).collect();
            assert_eq!(found.first(path).map(value).as_ref(), all.first());
            all
        })
        .collect()
}

const PLAIN: &[&str] = &[
    "$",
    "$.a",
    "$['a']",
    "$[\"b\"]",
    "$.a.b",
    "$.a[0]",
    "$[0]",
    "$[*]",
    "$.*",
    "$[*].a",
    "$.a[*].b",
    "$[1][*]",
    "$.a[*]",
    "$.a[*][0].b",
    "$['a'][*]['b'].a",
    "$.b.*.a",
];

#[test]
fn plain_paths_are_told_from_others() {
    for source in PLAIN {
        assert!(plain(source).is_some(), "{source}");
    }
    for source in [
        "$..a",
        "$[-1]",
        "$[?@.a]",
        "$[0:2]",
        "$['a','b']",
        "$['a\\'b']",
        "$[0,1]",
        "$[ 0 ]",
        "$.a .b",
        "$['a]b']",
    ] {
        assert!(plain(source).is_none(), "{source}");
        assert!(JsonPath::parse(source).is_ok(), "{source}");
    }
    for source in ["", "a", "$.", "$a", "$[01]", "$.1a", "$[x]", "$['a'"] {
        assert!(JsonPaths::default().add(source).is_err(), "{source}");
    }
}

#[test]
fn a_path_finds_what_it_says() {
    let body = br#" {"user": {"id": 7, "tags": ["x", "y\n"]}, "items": [{"id": 1}, {"no": 2}, {"id": "three"}], "e\u0301": null} "#;
    let all = paths(&[
        "$.user.id",
        "$.user.tags[1]",
        "$.items[*].id",
        "$.items[9]",
        "$.user",
        "$['e\u{301}']",
        "$.user.id.x",
    ]);
    assert!(all.tree.is_some());
    let expected = vec![
        vec![json!(7)],
        vec![json!("y\n")],
        vec![json!(1), json!("three")],
        vec![],
        vec![json!({"id": 7, "tags": ["x", "y\n"]})],
        vec![json!(null)],
        vec![],
    ];
    assert_eq!(found(&all, body), expected);
    let whole = paths(&["$..id", "$.items[?@.id].id", "$.items[-1].id", "$.user.id"]);
    assert!(whole.tree.is_none());
    assert_eq!(
        found(&whole, body)[1..],
        [vec![json!(1), json!("three")], vec![json!("three")], vec![json!(7)]]
    );
}

#[test]
fn what_is_not_json_has_nothing() {
    for source in ["$.a", "$", "$..a"] {
        let paths = paths(&[source]);
        for body in [
            "",
            "{",
            "{\"a\": 1",
            "{\"a\": 1} x",
            "{\"a\": 1,}",
            "{\"a\": 01}",
            "<html>",
            "{\"a\": 1, \"b\": tru}",
        ] {
            assert_eq!(found(&paths, body.as_bytes()), [Vec::<Value>::new()], "{source} {body}");
        }
        assert_eq!(found(&paths, b"{\"a\": \"\xff\"}"), [Vec::<Value>::new()]);
        assert_eq!(found(&paths, b"{\"\xff\": 1, \"a\": 1}"), [Vec::<Value>::new()]);
    }
}

#[test]
fn of_a_name_that_comes_twice_the_last_counts() {
    assert_eq!(
        found(&paths(&["$.a.b", "$.c"]), br#"{"a": {"b": 1}, "a": {"b": 2}, "c": 3}"#),
        [[json!(2)], [json!(3)]]
    );
    assert_eq!(found(&paths(&["$.*.b"]), br#"{"x": {"b": 1}, "x": {"b": 2}}"#), [[json!(2)]]);
}

#[test]
fn values_are_compared_by_what_they_are() {
    let body = br#"{"i": 1, "f": 1.0, "s": "1", "e": "\u00e9", "l": [1, {"a": 2.0}], "t": true, "n": null, "h": 18446744073709551615}"#;
    let same = [
        ("$.i", json!(1)),
        ("$.i", json!(1.0)),
        ("$.f", json!(1)),
        ("$.s", json!("1")),
        ("$.e", json!("é")),
        ("$.l", json!([1.0, {"a": 2}])),
        ("$.t", json!(true)),
        ("$.n", json!(null)),
        ("$.h", json!(u64::MAX)),
    ];
    let other = [json!(2), json!("x"), json!([1]), json!({"a": 1}), json!(false), json!(u64::MAX - 1)];
    for prefix in ["", ".."] {
        for (path, value) in &same {
            let source = if prefix.is_empty() { (*path).to_owned() } else { path.replacen("$.", "$..", 1) };
            let paths = paths(&[&source]);
            let mut hits = Hits::default();
            let found = paths.find(body, &mut hits);
            let node = found.first(0).expect("there");
            assert!(node.equals(value), "{source} {value}");
            assert!(other.iter().all(|other| !node.equals(other)), "{source}");
        }
    }
}

#[test]
fn variables_have_types_and_texts_are_decoded() {
    let body = br#"{"s": "a\"b", "p": "plain", "i": 3, "f": 1.5, "b": false, "n": null, "l": [1, "x"], "o": {"k": "v"}, "bad": "\ud800"}"#;
    for way in ["$.", "$.."] {
        let node = |key: &str, look: &mut dyn FnMut(Node<'_>)| {
            let paths = paths(&[&format!("{way}{key}")]);
            let mut hits = Hits::default();
            if let Some(node) = paths.find(body, &mut hits).first(0) {
                look(node);
            }
        };
        let cases = [
            ("s", "a\"b"),
            ("p", "plain"),
            ("i", "3"),
            ("f", "1.5"),
            ("b", "False"),
            ("n", "None"),
            ("l", "[1, 'x']"),
        ];
        if way == "$." {
            for (key, text) in cases {
                node(key, &mut |node| {
                    assert_eq!(node.variable().map(|v| v.to_string()).as_deref(), Some(text));
                });
            }
            node("o", &mut |node| {
                let value = node.variable().and_then(|v| v.get_attr("k").ok());
                assert_eq!(value, Some(Variable::from("v")));
            });
            node("s", &mut |node| assert_eq!(node.text(), "a\"b"));
            node("l", &mut |node| assert_eq!(node.text(), "[1, \"x\"]"));
            node("bad", &mut |node| assert_eq!(node.variable(), None));
        } else {
            node("s", &mut |_| panic!("a lone surrogate is no JSON when all of it is built"));
        }
    }
}

#[test]
fn deep_bodies_neither_overflow_nor_hang() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let list = format!("{{\"a\": {deep}}}");
    for source in ["$.b", "$.a", "$..a", "$[*]", "$.a[*][*]"] {
        let paths = paths(&[source]);
        let mut hits = Hits::default();
        let found = paths.find(list.as_bytes(), &mut hits);
        assert!(all(&found, 0).iter().all(|node| node.variable().is_none()), "{source}");
    }
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|x: f64| json!(x)),
        "[a-z\"\\\\\u{e9} ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(("[abc\"]{1,1}", inner), 0..5)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn both_ways_find_the_same(document in document(), picks in proptest::collection::vec(0..PLAIN.len(), 1..6), pretty: bool) {
        let sources: Vec<&str> = picks.iter().map(|at| PLAIN[*at]).collect();
        let plain = paths(&sources);
        prop_assert!(plain.tree.is_some());
        let body = if pretty { serde_json::to_vec_pretty(&document) } else { serde_json::to_vec(&document) };
        let body = body.expect("JSON");
        // What is read is not, to the last bit of a float, what was written.
        let document: Value = serde_json::from_slice(&body).expect("JSON");
        let expected: Vec<Vec<Value>> = sources
            .iter()
            .map(|s| JsonPath::parse(s).expect("valid").query(&document).into_iter().cloned().collect())
            .collect();
        prop_assert_eq!(found(&plain, &body), expected);
    }

    #[test]
    fn cut_documents_have_nothing(document in document(), cut in 0.0..1.0_f64, at in 1..PLAIN.len()) {
        prop_assume!(document.is_array() || document.is_object());
        let body = document.to_string();
        let cut = &body.as_bytes()[..(body.len() as f64 * cut) as usize];
        prop_assert_eq!(found(&paths(&[PLAIN[at]]), cut), [Vec::<Value>::new()]);
    }

    #[test]
    fn any_bytes_can_be_searched(body in proptest::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\"a:,0-9\\\\u. ]{0,60}") {
        for source in PLAIN.iter().chain(&["$..a"]) {
            found(&paths(&[source]), &body);
            let mut hits = Hits::default();
            let paths = paths(&[source]);
            let found = paths.find(json.as_bytes(), &mut hits);
            for node in all(&found, 0) {
                drop((node.variable(), node.text()));
            }
        }
    }
}
