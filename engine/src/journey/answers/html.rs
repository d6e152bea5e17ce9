//! Tags of an HTML document, found as the standard's tokenizer finds them, but without building anything: only tags
//! and their attributes are of interest here, and a page has to cost next to nothing.
//!
//! Character references are decoded by html5gum, whose tokenizer is also what the tests compare this one with.
use html5gum::Tokenizer;
use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use memchr::{memchr, memchr_iter, memmem};
use std::borrow::Cow;
use std::convert::Infallible;

/// Elements whose content is text, whatever it looks like. Scripts are never carried out, so that `noscript` is not one.
const TEXT_ONLY: [&[u8]; 8] =
    [b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes"];

/// A document, and where reading it has come to.
#[derive(Clone, Copy)]
pub struct Document<'a> {
    html: &'a [u8],
    at: usize,
}

/// A start or end tag.
#[derive(Clone, Copy, Debug)]
pub struct Tag<'a> {
    /// As it is written.
    pub name: &'a [u8],
    /// Whether it ends an element.
    pub is_end: bool,
    /// Where it begins, from the start of the document.
    pub starts_at: usize,
    /// What follows the name.
    attributes: &'a [u8],
}

impl<'a> Document<'a> {
    /// From its start.
    pub fn new(html: &'a [u8]) -> Self {
        Self { html, at: 0 }
    }

    /// The next tag; what only looks like one, in comments and scripts, is passed over.
    pub fn next_tag(&mut self) -> Option<Tag<'a>> {
        loop {
            let html = self.html;
            let starts_at = self.at + memchr(b'<', html.get(self.at..)?)?;
            let is_end = html.get(starts_at + 1) == Some(&b'/');
            let name_at = starts_at + 1 + usize::from(is_end);
            match html.get(name_at)? {
                b if b.is_ascii_alphabetic() => {
                    let rest = &html[name_at..];
                    let name_end = rest.iter().position(|b| is_space(*b) || matches!(b, b'/' | b'>'))?;
                    let (name, attributes) = rest.split_at(name_end);
                    // A tag that the document cuts off is none.
                    let length = attributes_end(attributes)?;
                    self.at = name_at + name_end + length;
                    return Some(Tag { name, is_end, starts_at, attributes: &attributes[..length] });
                }
                b'!' if !is_end => self.at = end_of_declaration(html, name_at + 1),
                b'?' if !is_end => self.at = end_of_bogus(html, name_at),
                _ if is_end => self.at = end_of_bogus(html, name_at),
                _ => self.at = name_at,
            }
        }
    }

    /// After the start tag of an element whose content is text: passes over that, up to its end tag, and gives it.
    pub fn text_of(&mut self, name: &[u8]) -> Option<&'a [u8]> {
        if name.eq_ignore_ascii_case(b"plaintext") {
            self.at = self.html.len();
            return None;
        }
        if !TEXT_ONLY.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return None;
        }
        let rest = &self.html[self.at..];
        let is_end = |at: &usize| {
            let end = at + 2 + name.len();
            rest.get(at + 1) == Some(&b'/')
                && rest.get(at + 2..end).is_some_and(|found| found.eq_ignore_ascii_case(name))
                && rest.get(end).is_some_and(|b| is_space(*b) || matches!(b, b'/' | b'>'))
        };
        let length = memchr_iter(b'<', rest).find(is_end).unwrap_or(rest.len());
        self.at += length;
        Some(&rest[..length])
    }

    /// The document from one place up to another, or to its end.
    pub fn between(&self, from: usize, to: Option<usize>) -> &'a [u8] {
        &self.html[from..to.unwrap_or(self.html.len())]
    }

    /// Where reading has come to.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Tag<'a> {
    /// Whether it begins an element of this name, which is in small letters.
    pub fn starts(&self, name: &[u8]) -> bool {
        !self.is_end && self.name.eq_ignore_ascii_case(name)
    }

    /// Whether it ends an element of this name.
    pub fn ends(&self, name: &[u8]) -> bool {
        self.is_end && self.name.eq_ignore_ascii_case(name)
    }

    /// Names and values as they are written. Of a name that comes twice the first counts.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes { rest: self.attributes }
    }
}

/// See [`Tag::attributes`].
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|b| !is_space(*b) && *b != b'/')?;
        let text = &self.rest[start..];
        if text[0] == b'>' {
            return None;
        }
        // The first character belongs to the name even if it is "=".
        let is_after = |b: &u8| is_space(*b) || matches!(b, b'/' | b'>' | b'=');
        let name_end = 1 + text[1..].iter().position(is_after)?;
        let (name, after) = text.split_at(name_end);
        let mut rest = skip_space(after);
        let mut value: &[u8] = b"";
        if let Some(written) = rest.strip_prefix(b"=") {
            rest = skip_space(written);
            match rest.first()? {
                quote @ (b'"' | b'\'') => {
                    let end = memchr(*quote, &rest[1..])?;
                    (value, rest) = (&rest[1..=end], &rest[end + 2..]);
                }
                b'>' => {}
                _ => {
                    let end = rest.iter().position(|b| is_space(*b) || *b == b'>')?;
                    (value, rest) = rest.split_at(end);
                }
            }
        }
        self.rest = rest;
        Some((name, value))
    }
}

/// How far a tag reaches, from the end of its name to behind its `>`.
fn attributes_end(text: &[u8]) -> Option<usize> {
    let mut attributes = Attributes { rest: text };
    while attributes.next().is_some() {}
    let left = attributes.rest;
    let close = left.iter().position(|b| !is_space(*b) && *b != b'/')?;
    (left[close] == b'>').then(|| text.len() - left.len() + close + 1)
}

/// Behind a comment, or whatever else begins with `<!`.
fn end_of_declaration(html: &[u8], at: usize) -> usize {
    let Some(text) = html[at..].strip_prefix(b"--") else { return end_of_bogus(html, at) };
    let at = at + 2;
    // Two comments that end as soon as they have begun.
    for short in [&b">"[..], b"->"] {
        if text.starts_with(short) {
            return at + short.len();
        }
    }
    let mut from = 0;
    while let Some(dashes) = memmem::find(&text[from..], b"--") {
        from += dashes + 2;
        // Of more than two dashes the first are content.
        from += text[from..].iter().take_while(|b| **b == b'-').count();
        for end in [&b">"[..], b"!>"] {
            if text[from..].starts_with(end) {
                return at + from + end.len();
            }
        }
    }
    html.len()
}

fn end_of_bogus(html: &[u8], at: usize) -> usize {
    memchr(b'>', &html[at..]).map_or(html.len(), |end| at + end + 1)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

fn skip_space(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|b| !is_space(*b)).unwrap_or(text.len());
    &text[start..]
}

/// The value of an attribute as it is meant.
pub fn decode_value(value: &[u8]) -> Cow<'_, str> {
    if is_literal(value) {
        return String::from_utf8_lossy(value);
    }
    let mut document = b"<a b=\"".to_vec();
    push_escaped(&mut document, value, b'"', b"&quot;");
    document.extend_from_slice(b"\">");
    decode(&document, |event| match event {
        CallbackEvent::AttributeValue { value } => Some(value),
        _ => None,
    })
}

/// Text of an element as it is meant. Tags in it are left out.
pub fn decode_text(text: &[u8]) -> Cow<'_, str> {
    if is_literal(text) && memchr(b'<', text).is_none() {
        return String::from_utf8_lossy(text);
    }
    decode(text, |event| match event {
        CallbackEvent::String { value } => Some(value),
        _ => None,
    })
}

/// Content of a textarea as it is meant: there are no tags in it.
pub fn decode_textarea(text: &[u8]) -> Cow<'_, str> {
    let text = text.strip_prefix(b"\r\n").or_else(|| text.strip_prefix(b"\n")).unwrap_or(text);
    if is_literal(text) {
        return String::from_utf8_lossy(text);
    }
    let mut escaped = Vec::with_capacity(text.len() + 16);
    push_escaped(&mut escaped, text, b'<', b"&lt;");
    Cow::Owned(decode_text(&escaped).into_owned())
}

fn push_escaped(out: &mut Vec<u8>, text: &[u8], byte: u8, escaped: &[u8]) {
    for (at, part) in text.split(|b| *b == byte).enumerate() {
        out.extend_from_slice(if at > 0 { escaped } else { b"" });
        out.extend_from_slice(part);
    }
}

/// Nothing in it has to be decoded.
fn is_literal(text: &[u8]) -> bool {
    memchr::memchr3(b'&', b'\r', 0, text).is_none()
}

fn decode(document: &[u8], mut part: impl FnMut(CallbackEvent<'_>) -> Option<&[u8]>) -> Cow<'static, str> {
    let mut all = Vec::new();
    let emitter =
        CallbackEmitter::new(|event: CallbackEvent<'_>, _: html5gum::Span<()>| -> Option<Infallible> {
            if let Some(bytes) = part(event) {
                all.extend_from_slice(bytes);
            }
            None
        });
    // Nothing is emitted, and reading from memory cannot fail.
    let _ = Tokenizer::new_with_emitter(document, emitter).finish();
    Cow::Owned(String::from_utf8_lossy(&all).into_owned())
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
