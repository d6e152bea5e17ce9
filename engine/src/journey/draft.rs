//! Parts of a request, compiled: literal bytes, encoded once, and the values between them.
use super::encode::Encoding;
use super::outgoing::Body;
use super::template::{Frame, Plain, Segment, Text, write_value};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// A value before it is encoded, and a line before it is complete.
    static SCRATCH: RefCell<(String, String)> = RefCell::default();
}

/// A buffer that has grown beyond this is not kept.
const KEPT_BYTES: usize = 1 << 20;

/// Something that is written in one go: a path, a header value, a text of a body.
#[derive(Clone, Debug, Default)]
pub struct Line(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    /// Encoded already.
    Literal(String),
    /// A plain expression whose value needs no encoding.
    Safe(Plain),
    Value(Text, Encoding),
    /// A path that is one value alone.
    Link(Text),
}

impl Line {
    /// Appends a text that is written as it is.
    pub fn literal(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Literal(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push(Piece::Literal(text.to_owned())),
        }
    }

    /// Appends a text that is encoded.
    pub fn text(&mut self, text: Text, encoding: Encoding) {
        let encode = |line: &mut Self, text: &str| {
            let mut encoded = String::new();
            encoding.push(text, &mut encoded);
            line.literal(&encoded);
        };
        match text {
            Text::Fixed(text) => encode(self, &text),
            // A JSON value is one expression as a whole.
            Text::Simple(segments) if encoding != Encoding::Json => {
                for segment in segments {
                    match segment {
                        Segment::Text(text) => encode(self, &text),
                        Segment::Plain(plain) if plain.is_safe() => self.0.push(Piece::Safe(plain)),
                        plain @ Segment::Plain(_) => {
                            self.0.push(Piece::Value(Text::Simple(vec![plain]), encoding));
                        }
                    }
                }
            }
            text => self.0.push(Piece::Value(text, encoding)),
        }
    }

    /// Appends a path: what stands there as it is, and values as nothing but values.
    pub fn path(&mut self, text: Text) {
        if text.is_typed() {
            return self.0.push(Piece::Link(text));
        }
        let Text::Simple(segments) = text else { return self.text(text, Encoding::Path) };
        for segment in segments {
            match segment {
                Segment::Text(text) => self.text(Text::Fixed(text), Encoding::Path),
                plain @ Segment::Plain(_) => self.text(Text::Simple(vec![plain]), Encoding::Query),
            }
        }
    }

    /// Whether it is the same every time.
    pub fn is_fixed(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Literal(_)))
    }

    /// Hands over what it gives.
    pub fn with_text<R>(&self, frame: &mut Frame<'_>, take: impl FnOnce(&str) -> R) -> Result<R, String> {
        if let [Piece::Literal(text)] = &self.0[..] {
            return Ok(take(text));
        }
        let mut text = SCRATCH.with_borrow_mut(|scratch| std::mem::take(&mut scratch.1));
        text.clear();
        let written = self.write(frame, &mut text);
        let taken = take(&text);
        if text.capacity() <= KEPT_BYTES {
            SCRATCH.with_borrow_mut(|scratch| scratch.1 = text);
        }
        written.map(|()| taken)
    }

    /// Appends what it gives.
    pub fn write(&self, frame: &mut Frame<'_>, out: &mut String) -> Result<(), String> {
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Safe(plain) => plain.write(frame, out)?,
                Piece::Link(link) => {
                    let (value, mut text) = (link.value(frame)?, String::new());
                    write_value(&value, &mut text)?;
                    let is_link = text.starts_with('/') || value.is_safe();
                    if is_link { Encoding::Path } else { Encoding::Query }.push(&text, out);
                }
                Piece::Value(text, Encoding::Raw) => text.write(frame, out)?,
                Piece::Value(text, Encoding::Json) => Encoding::push_json(&text.value(frame)?, out)?,
                Piece::Value(text, encoding) => {
                    let mut value = SCRATCH.with_borrow_mut(|scratch| std::mem::take(&mut scratch.0));
                    value.clear();
                    let written = text.write(frame, &mut value);
                    encoding.push(&value, out);
                    SCRATCH.with_borrow_mut(|scratch| scratch.0 = value);
                    written?;
                }
            }
        }
        Ok(())
    }
}

/// A body, compiled.
#[derive(Clone, Debug, Default)]
pub struct BodyDraft(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Line(Line),
    Shared(Arc<[u8]>),
    Generated(u64, u64),
}

impl BodyDraft {
    /// The line that texts can be appended to.
    pub fn line(&mut self) -> &mut Line {
        if !matches!(self.0.last(), Some(Part::Line(_))) {
            self.0.push(Part::Line(Line::default()));
        }
        match self.0.last_mut() {
            Some(Part::Line(line)) => line,
            _ => unreachable!("it was pushed just now"),
        }
    }

    /// Appends bytes that all requests share.
    pub fn shared(&mut self, bytes: Arc<[u8]>) {
        self.0.push(Part::Shared(bytes));
    }

    /// Appends so many generated bytes.
    pub fn generated(&mut self, least: u64, most: u64) {
        self.0.push(Part::Generated(least, most));
    }

    /// Whether it is the same every time.
    pub fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| match part {
            Part::Line(line) => line.is_fixed(),
            Part::Shared(_) => true,
            Part::Generated(least, most) => least == most,
        })
    }

    /// Makes the body.
    pub fn write(&self, frame: &mut Frame<'_>, out: &mut Body) -> Result<(), String> {
        for part in &self.0 {
            match part {
                Part::Line(line) => {
                    let push = |text: &str| out.push_text(|bytes| bytes.extend_from_slice(text.as_bytes()));
                    line.with_text(frame, push)?;
                }
                Part::Shared(bytes) => out.push_shared(bytes),
                Part::Generated(least, most) if least == most => out.push_noise(*least),
                Part::Generated(least, most) => out.push_noise(least + frame.rng.below(most - least + 1)),
            }
        }
        Ok(())
    }
}
