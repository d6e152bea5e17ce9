use super::*;
use proptest::prelude::*;

fn values(html: &str, name: &str) -> Vec<String> {
    let mut all = Vec::new();
    fields(html.as_bytes(), name, &mut |value| {
        all.push(value.decode().into_owned());
        true
    });
    all
}

const PAGE: &str = r#"<!DOCTYPE html>
<html><head><title><input name="csrf" value="title"></title>
<script>document.write('<input name="csrf" value="script">');</script>
<style>input[name="csrf"] { color: red }</style></head>
<body><!-- <input name="csrf" value="comment"> -->
<p title='<input name="csrf" value="attribute">'>name="csrf" value="text"</p>
<form method=POST action="/x">
  <INPUT Type=hidden VALUE="a&amp;b&#34;c" name=csrf />
  <input type="hidden" name="csrf_other" value="no"><input name='csrf' disabled value="disabled">
  <input name="empty"><input value="nameless">
  <input type=checkbox name=box value=1><input type=checkbox name=box value=2 checked><input type=checkbox name=box checked>
  <input type=radio name=radio value=r1><input type=radio name=radio value=r2 CHECKED="">
  <textarea name="area">
 first <b>line</b>
second &lt; third</textarea>
  <select name="one"><option value=1>One<option value=2 selected>Two</select>
  <select name="none"><optgroup label=x><option disabled>Choose<option>  The
     first &amp; best </option></optgroup><option value="">Other</option></select>
  <select name="many" multiple><option selected value=a><option value=b><option selected>c</select>
  <select name="nothing" multiple><option>c</select>
  <select name="empty-list"></select>
</form></body></html>"#;

#[test]
fn fields_have_the_values_that_a_browser_would_send() {
    for (name, expected) in [
        ("csrf", &["a&b\"c"][..]),
        ("empty", &[""]),
        ("box", &["2", "on"]),
        ("radio", &["r2"]),
        ("area", &[" first <b>line</b>\nsecond < third"]),
        ("one", &["2"]),
        ("none", &["The first & best"]),
        ("many", &["a", "c"]),
        ("nothing", &[]),
        ("empty-list", &[]),
        ("absent", &[]),
        ("", &[]),
    ] {
        assert_eq!(values(PAGE, name), expected, "{name}");
    }
}

#[test]
fn names_are_decoded_and_compared_exactly() {
    let html = r#"<input name="a&#91;0]" value=1><input name="a[1]" value=2><input name=A[1] value=3>"#;
    assert_eq!(values(html, "a[0]"), ["1"]);
    assert_eq!(values(html, "a[1]"), ["2"]);
}

#[test]
fn reading_ends_when_enough_was_found() {
    let mut count = 0;
    fields(
        b"<input name=a><input name=a><select name=a multiple><option selected><option selected></select>",
        "a",
        &mut |_| {
            count += 1;
            count < 3
        },
    );
    assert_eq!(count, 3);
}

#[test]
fn pages_that_are_cut_off_give_what_they_have() {
    assert_eq!(values("<input name=a value=1><input name=a value=2", "a"), ["1"]);
    assert_eq!(values("<select name=a><option>x", "a"), ["x"]);
    assert_eq!(values("<select name=a><option>x<", "a"), ["x<"]);
    assert_eq!(values("<textarea name=a>x", "a"), ["x"]);
    for end in 0..PAGE.len() {
        for name in ["csrf", "one", "area", "none"] {
            values(&PAGE[..end], name);
        }
    }
}

proptest! {
    #[test]
    fn any_page_can_be_read(parts in proptest::collection::vec(
        prop_oneof![
            "<(input|select|option|textarea|/select|/option|optgroup|script|plaintext)( (name|value|type|checked|multiple)(=\"?(a|checkbox|&amp;)\"?)?){0,3}>?",
            "[a<&; ]{0,5}",
        ],
        0..20,
    )) {
        let html = parts.concat();
        prop_assert!(values(&html, "a").len() <= parts.len());
    }
}
