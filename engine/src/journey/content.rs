//! What a request sends: its body, and the headers that describe it.
use super::draft::{BodyDraft, Line};
use super::encode::Encoding;
use super::message::Texts;
use super::template::Text;
use crate::job::{Body, CloudEvent, PartContent, Request};
use crate::rng::Rng;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;

/// A body and its headers.
#[derive(Default)]
pub struct Content {
    pub body: BodyDraft,
    pub headers: Vec<(String, Text, Encoding)>,
}

impl Content {
    /// Compiles what a request sends.
    pub fn new(request: &Request, texts: &mut Texts<'_>) -> Self {
        let mut content = Self::default();
        if let Some(event) = &request.cloud_event {
            content.event(event, request.body.as_ref(), texts);
            return content;
        }
        if request.grpc {
            content.header("content-type", "application/grpc");
            content.header("te", "trailers");
        }
        match &request.body {
            Some(Body::Bytes(bytes)) if request.grpc => content.body.shared(framed(bytes)),
            Some(body) => content.data(body, texts),
            None => {}
        }
        content
    }

    fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), Text::Fixed(value.to_owned()), Encoding::Header));
    }

    /// A body as it is.
    fn data(&mut self, body: &Body, texts: &mut Texts<'_>) {
        match body {
            Body::Text(text) => {
                let text = texts.text("body", text);
                self.body.line().text(text, Encoding::Raw);
            }
            Body::Json(value) => {
                self.header("content-type", "application/json");
                push_json(value, "body.json", texts, self.body.line());
            }
            Body::Form(fields) => {
                self.header("content-type", "application/x-www-form-urlencoded");
                push_form(fields, texts, self.body.line());
            }
            Body::Multipart(_) => self.multipart(body, texts),
            Body::Bytes(bytes) => self.body.shared(Arc::clone(bytes)),
            Body::Generated(least, most) => self.body.generated(*least, *most),
        }
    }

    /// RFC 7578.
    fn multipart(&mut self, body: &Body, texts: &mut Texts<'_>) {
        let Body::Multipart(parts) = body else { return };
        let boundary = boundary(body);
        self.header("content-type", &format!("multipart/form-data; boundary={boundary}"));
        for (place, part) in parts.iter().enumerate() {
            let key = |name: &str| format!("body.multipart[{place}].{name}");
            let line = self.body.line();
            line.literal(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\""));
            line.text(Text::Fixed(part.name.clone()), Encoding::Quoted);
            line.literal("\"");
            if let Some(filename) = &part.filename {
                line.literal("; filename=\"");
                line.text(texts.text(&key("filename"), filename), Encoding::Quoted);
                line.literal("\"");
            }
            let is_file = !matches!(part.content, PartContent::Value(_));
            let default = is_file.then_some("application/octet-stream");
            if let Some(kind) = part.content_type.as_deref().or(default) {
                line.literal("\r\nContent-Type: ");
                line.text(texts.text(&key("content_type"), kind), Encoding::Header);
            }
            line.literal("\r\n\r\n");
            match &part.content {
                PartContent::Value(value) => line.text(texts.text(&key("value"), value), Encoding::Raw),
                PartContent::File(bytes) => self.body.shared(Arc::clone(bytes)),
                PartContent::Generated(least, most) => self.body.generated(*least, *most),
            }
            self.body.line().literal("\r\n");
        }
        self.body.line().literal(&format!("--{boundary}--\r\n"));
    }

    /// `CloudEvents` 1.0, HTTP protocol binding.
    fn event(&mut self, event: &CloudEvent, body: Option<&Body>, texts: &mut Texts<'_>) {
        let mut attributes = Vec::new();
        for (name, value) in &event.attributes {
            attributes.push((name.as_str(), texts.text(&format!("cloud_event.{name}"), value)));
        }
        if event.structured {
            return self.structured(attributes, body, texts);
        }
        self.header("ce-specversion", "1.0");
        for (name, text) in attributes {
            if name == "datacontenttype" {
                self.headers.push(("content-type".to_owned(), text, Encoding::Header));
            } else {
                self.headers.push((format!("ce-{name}"), text, Encoding::EventHeader));
            }
        }
        if let Some(body) = body {
            // What the event says of its data comes first, and the first of a name is taken.
            self.data(body, texts);
        }
    }

    fn structured(&mut self, attributes: Vec<(&str, Text)>, body: Option<&Body>, texts: &mut Texts<'_>) {
        self.header("content-type", "application/cloudevents+json");
        let kind = attributes.iter().find(|(name, _)| *name == "datacontenttype");
        let (has_kind, holds_json) =
            (kind.is_some(), kind.and_then(|(_, text)| text.fixed()).is_some_and(is_json));
        let line = self.body.line();
        line.literal("{\"specversion\":\"1.0\"");
        for (name, text) in attributes {
            line.literal(&format!(",\"{name}\":\""));
            line.text(text, Encoding::JsonText);
            line.literal("\"");
        }
        let say_kind = |line: &mut Line, kind: &str| {
            if !has_kind {
                line.literal(&format!(",\"datacontenttype\":\"{kind}\""));
            }
        };
        match body {
            Some(Body::Json(value)) => {
                say_kind(line, "application/json");
                line.literal(",\"data\":");
                push_json(value, "body.json", texts, line);
            }
            Some(Body::Text(text)) if holds_json => {
                line.literal(",\"data\":");
                line.text(texts.text("body", text), Encoding::Raw);
            }
            Some(Body::Text(text)) => {
                say_kind(line, "text/plain");
                line.literal(",\"data\":\"");
                line.text(texts.text("body", text), Encoding::JsonText);
                line.literal("\"");
            }
            Some(Body::Form(fields)) => {
                say_kind(line, "application/x-www-form-urlencoded");
                line.literal(",\"data\":\"");
                // What a form is encoded with has nothing in it that JSON would have to escape.
                push_form(fields, texts, line);
                line.literal("\"");
            }
            Some(Body::Bytes(bytes)) => {
                line.literal(",\"data_base64\":\"");
                line.literal(&STANDARD.encode(bytes));
                line.literal("\"");
            }
            // The others are refused where the job is read.
            Some(Body::Multipart(_) | Body::Generated(..)) | None => {}
        }
        line.literal("}");
    }
}

/// RFC 6839: `…+json`.
fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

/// One message of a unary call: not compressed, then its length.
fn framed(message: &[u8]) -> Arc<[u8]> {
    let length = message.len() as u32;
    let mut bytes = vec![0];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(message);
    bytes.into()
}

fn push_form(fields: &[(String, String)], texts: &mut Texts<'_>, line: &mut Line) {
    for (place, (name, value)) in fields.iter().enumerate() {
        line.literal(if place > 0 { "&" } else { "" });
        line.text(Text::Fixed(name.clone()), Encoding::Form);
        line.literal("=");
        line.text(texts.text(&format!("body.form.{name}"), value), Encoding::Form);
    }
}

/// JSON, whose texts may be templates; one that is an expression alone keeps its type.
fn push_json(value: &Value, key: &str, texts: &mut Texts<'_>, line: &mut Line) {
    match value {
        Value::String(source) => {
            let text = texts.text(key, source);
            if text.is_typed() {
                line.text(text, Encoding::Json);
            } else {
                line.literal("\"");
                line.text(text, Encoding::JsonText);
                line.literal("\"");
            }
        }
        Value::Array(items) => {
            line.literal("[");
            for (place, item) in items.iter().enumerate() {
                line.literal(if place > 0 { "," } else { "" });
                push_json(item, &format!("{key}[{place}]"), texts, line);
            }
            line.literal("]");
        }
        Value::Object(entries) => {
            line.literal("{");
            for (place, (name, item)) in entries.iter().enumerate() {
                line.literal(if place > 0 { "," } else { "" });
                line.text(Text::Fixed(name.clone()), Encoding::Json);
                line.literal(":");
                push_json(item, &format!("{key}.{name}"), texts, line);
            }
            line.literal("}");
        }
        other => line.literal(&other.to_string()),
    }
}

/// A text that none of the parts has in it, the same in every run.
fn boundary(body: &Body) -> String {
    let Body::Multipart(parts) = body else { return String::new() };
    let mut rng = Rng::from_parts(&[parts.len() as u64]);
    loop {
        let mut boundary = "towtank-".to_owned();
        // Writing to a String cannot fail.
        let _ = write!(boundary, "{:016x}{:016x}", rng.next_u64(), rng.next_u64());
        let finder = memchr::memmem::Finder::new(&boundary);
        let is_in = |part: &crate::job::Part| match &part.content {
            PartContent::File(bytes) => finder.find(bytes).is_some(),
            PartContent::Value(text) => finder.find(text.as_bytes()).is_some(),
            PartContent::Generated(..) => false,
        };
        if !parts.iter().any(is_in) {
            return boundary;
        }
    }
}
