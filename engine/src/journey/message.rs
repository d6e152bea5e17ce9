//! The bytes of a request.
use super::template::{Templates, Text, Variables};
use crate::job::{BaseUrl, Request, Target};
use crate::rng::Rng;

/// What a step sends.
pub enum Message {
    /// Ready bytes, for each instance of the target.
    Static(Vec<Box<[u8]>>),
    /// Rendered for every request.
    Template(Box<Draft>),
}

/// A request that holds templates.
pub struct Draft {
    method: String,
    path: Text,
    headers: Vec<(String, Text)>,
    body: Option<Text>,
    has_host: bool,
    /// Prefix and authority of each instance of the target.
    places: Vec<(String, String)>,
}

/// What the templates of a request gave; buffers are kept from one to the next.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    path: String,
    /// Everything after the Host line, body included.
    rest: Vec<u8>,
    scratch: String,
}

impl Message {
    /// Compiles a request; errors name what is wrong with its templates.
    pub fn new(
        request: &Request,
        target: &Target,
        templates: &mut Templates,
    ) -> Result<Self, Vec<(String, String)>> {
        let draft = Draft::new(request, target, templates)?;
        if draft.is_template() {
            return Ok(Self::Template(Box::new(draft)));
        }
        let mut rendered = Rendered::default();
        let variables = Variables::default();
        let failed = |message| vec![(String::new(), message)];
        draft.render(templates, &variables, &mut Rng::from_parts(&[]), &mut rendered).map_err(failed)?;
        let bytes = |at| {
            let mut buffer = Vec::new();
            draft.assemble(&rendered, at, &mut buffer);
            buffer.into_boxed_slice()
        };
        Ok(Self::Static((0..target.instances.len()).map(bytes).collect()))
    }
}

impl Draft {
    fn new(
        request: &Request,
        target: &Target,
        templates: &mut Templates,
    ) -> Result<Self, Vec<(String, String)>> {
        let mut problems = Vec::new();
        let mut text = |key: &str, source: &str| {
            templates.text(source).unwrap_or_else(|message| {
                problems.push((key.to_owned(), message));
                Text::Plain(String::new())
            })
        };
        let path = text("path", &request.path);
        let body = request.body.as_ref().map(|body| text("body", body));
        let mut headers: Vec<(String, Text)> = Vec::new();
        // Headers of the step stand in place of the target's of the same name.
        let overridden = |name: &str| request.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        for (name, value) in
            target.headers.iter().filter(|(name, _)| !overridden(name)).chain(&request.headers)
        {
            headers.push((name.clone(), text(&format!("headers.{name}"), value)));
        }
        let has_host = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        let place = |url: &BaseUrl| (url.prefix.clone(), url.authority());
        let places = target.instances.iter().map(|i| place(&i.url)).collect();
        let draft = Self { method: request.method.clone(), path, headers, body, has_host, places };
        if problems.is_empty() { Ok(draft) } else { Err(problems) }
    }

    fn is_template(&self) -> bool {
        self.path.is_template()
            || self.body.as_ref().is_some_and(Text::is_template)
            || self.headers.iter().any(|(_, value)| value.is_template())
    }

    /// Renders all templates of a request.
    pub fn render(
        &self,
        templates: &Templates,
        variables: &Variables<'_>,
        rng: &mut Rng,
        out: &mut Rendered,
    ) -> Result<(), String> {
        out.scratch.clear();
        templates.render(&self.path, variables, rng, &mut out.scratch)?;
        out.path.clear();
        escape_path(&out.scratch, &mut out.path);
        out.rest.clear();
        for (name, value) in &self.headers {
            out.scratch.clear();
            templates.render(value, variables, rng, &mut out.scratch)?;
            out.rest.extend_from_slice(name.as_bytes());
            out.rest.extend_from_slice(b": ");
            // A line end in a value would begin another header.
            out.rest.extend(out.scratch.bytes().map(|b| if b < b' ' || b == 0x7f { b' ' } else { b }));
            out.rest.extend_from_slice(b"\r\n");
        }
        out.scratch.clear();
        if let Some(body) = &self.body {
            templates.render(body, variables, rng, &mut out.scratch)?;
        }
        let expects_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if self.body.is_some() || expects_body {
            out.rest.extend_from_slice(format!("content-length: {}\r\n", out.scratch.len()).as_bytes());
        }
        out.rest.extend_from_slice(b"\r\n");
        out.rest.extend_from_slice(out.scratch.as_bytes());
        Ok(())
    }

    /// Puts a rendered request together for instance `at` of the target.
    pub fn assemble(&self, rendered: &Rendered, at: usize, out: &mut Vec<u8>) {
        let (prefix, authority) = &self.places[at];
        out.clear();
        for part in [self.method.as_str(), " ", prefix, &rendered.path, " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        if !self.has_host {
            for part in ["Host: ", authority, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        out.extend_from_slice(&rendered.rest);
    }
}

/// Whatever a template gave, the request line stays one line with two blanks.
fn escape_path(path: &str, out: &mut String) {
    use std::fmt::Write as _;
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        if byte <= b' ' || byte >= 0x7f {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        } else {
            out.push(byte as char);
        }
    }
}
