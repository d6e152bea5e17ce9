//! How a value is written where it stands, so that it can be nothing but a value there.
use minijinja::value::Value;

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// In a body of text: as it is.
    Raw,
    /// What stands in a path as it is: the request line stays one line with two blanks.
    Path,
    /// Name or value in a query, or a value in a path (RFC 3986: all but unreserved characters are escaped).
    Query,
    /// Name or value in a URL-encoded form.
    Form,
    /// In a header: on one line.
    Header,
    /// Inside of quotation marks of a multipart header.
    Quoted,
    /// Inside of the quotation marks of a JSON text.
    JsonText,
    /// As a JSON value.
    Json,
    /// In a header of a `CloudEvent` (HTTP binding 1.0, section 3.1.3.2).
    EventHeader,
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

impl Encoding {
    /// Appends a text as it has to be written.
    pub fn push(self, text: &str, out: &mut String) {
        match self {
            Self::Raw => out.push_str(text),
            Self::Path => escape(text, out, |b| b > b' ' && b < 0x7f && b != b'#'),
            Self::Query => escape(text, out, |b| b.is_ascii_alphanumeric() || b"-._~".contains(&b)),
            Self::EventHeader => escape(text, out, |b| b > b' ' && b < 0x7f && b != b'"' && b != b'%'),
            Self::Quoted => escape(text, out, |b| b >= b' ' && b != b'"' && b != 0x7f),
            Self::Form => push_form(text, out),
            // A line end in a value would begin another header.
            Self::Header => out.extend(text.chars().map(|c| if c < ' ' || c == '\x7f' { ' ' } else { c })),
            Self::JsonText => push_json_text(text, out),
            Self::Json => {
                out.push('"');
                push_json_text(text, out);
                out.push('"');
            }
        }
    }

    /// Appends a value as JSON; texts are quoted.
    pub fn push_json(value: &Value, out: &mut String) -> Result<(), String> {
        if let Some(text) = value.as_str() {
            Self::Json.push(text, out);
            return Ok(());
        }
        if value.is_undefined() {
            return Err("undefined value".into());
        }
        out.push_str(&serde_json::to_string(value).map_err(|e| e.to_string())?);
        Ok(())
    }
}

/// Runs of characters that stay are copied as a whole.
fn escape(text: &str, out: &mut String, stays: impl Fn(u8) -> bool) {
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        // Bytes outside of ASCII are escaped one by one wherever they do not stay, so a cut never parts a character
        // of which a part stays.
        if !stays(byte) {
            out.push_str(text.get(copied..at).unwrap_or_default());
            out.push('%');
            out.push(DIGITS[usize::from(byte >> 4)] as char);
            out.push(DIGITS[usize::from(byte & 15)] as char);
            copied = at + 1;
        }
    }
    out.push_str(text.get(copied..).unwrap_or_default());
}

/// WHATWG URL, `application/x-www-form-urlencoded`.
fn push_form(text: &str, out: &mut String) {
    for (place, word) in text.split(' ').enumerate() {
        if place > 0 {
            out.push('+');
        }
        escape(word, out, |b| b.is_ascii_alphanumeric() || b"*-._".contains(&b));
    }
}

fn push_json_text(text: &str, out: &mut String) {
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                out.push_str("\\u00");
                out.push(DIGITS[usize::from(byte >> 4)] as char);
                out.push(DIGITS[usize::from(byte & 15)] as char);
            }
        }
    }
    out.push_str(&text[copied..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(encoding: Encoding, text: &str) -> String {
        let mut out = String::new();
        encoding.push(text, &mut out);
        out
    }

    #[test]
    fn values_stay_values() {
        let hostile = "a b&c=d/é?#%\"\\\r\nx: y~*";
        let cases = [
            (Encoding::Raw, hostile),
            (Encoding::Path, "a%20b&c=d/%C3%A9?%23%\"\\%0D%0Ax:%20y~*"),
            (Encoding::Query, "a%20b%26c%3Dd%2F%C3%A9%3F%23%25%22%5C%0D%0Ax%3A%20y~%2A"),
            (Encoding::Form, "a+b%26c%3Dd%2F%C3%A9%3F%23%25%22%5C%0D%0Ax%3A+y%7E*"),
            (Encoding::Header, "a b&c=d/é?#%\"\\  x: y~*"),
            (Encoding::Quoted, "a b&c=d/é?#%%22\\%0D%0Ax: y~*"),
            (Encoding::JsonText, "a b&c=d/é?#%\\\"\\\\\\r\\nx: y~*"),
            (Encoding::EventHeader, "a%20b&c=d/%C3%A9?#%25%22\\%0D%0Ax:%20y~*"),
        ];
        for (encoding, expected) in cases {
            assert_eq!(encoded(encoding, hostile), expected, "{encoding:?}");
        }
    }

    proptest! {
        #[test]
        fn json_texts_are_read_back(text: String) {
            let read: String = serde_json::from_str(&encoded(Encoding::Json, &text)).expect("JSON");
            prop_assert_eq!(read, text);
        }

        #[test]
        fn nothing_ends_a_line(text: String) {
            for encoding in [Encoding::Path, Encoding::Query, Encoding::Form, Encoding::Header, Encoding::Quoted] {
                let out = encoded(encoding, &text);
                prop_assert!(!out.bytes().any(|b| b < b' '), "{:?}: {}", encoding, out);
            }
        }
    }
}
