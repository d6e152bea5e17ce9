//! A step's request: ready, or to be rendered each time.
use super::Outgoing;
use super::content::Content;
use super::draft::{BodyDraft, Line};
use super::encode::Encoding;
use super::template::{Frame, Scope, Templates, Text};
use crate::job::{Request, Target};
use std::sync::Arc;

/// What a step sends.
pub enum Message {
    /// Always the same.
    Static(Outgoing),
    /// Rendered for every request.
    Template(Box<Draft>),
}

/// A request that holds templates.
#[derive(Default)]
pub struct Draft {
    method: String,
    path: Line,
    /// No segment of the path is `.` or `..` unless a value makes it so.
    guards_dots: bool,
    headers: Vec<(String, Line)>,
    body: BodyDraft,
}

/// Compiles the texts of a request and keeps what is wrong with them, each with its key.
pub struct Texts<'a> {
    templates: &'a mut Templates,
    scope: &'a Arc<Scope>,
    problems: Vec<(String, String)>,
}

impl<'a> Texts<'a> {
    /// Without problems so far.
    pub fn new(templates: &'a mut Templates, scope: &'a Arc<Scope>) -> Self {
        Self { templates, scope, problems: Vec::new() }
    }

    /// A text, or a problem and an empty text.
    pub fn text(&mut self, key: &str, source: &str) -> Text {
        self.templates.text(source, self.scope).unwrap_or_else(|message| {
            self.problem(key, message);
            Text::Fixed(String::new())
        })
    }

    /// That of a path.
    fn path(&mut self, source: &str) -> Text {
        self.templates.path(source, self.scope).unwrap_or_else(|message| {
            self.problem("path", message);
            Text::Fixed(String::new())
        })
    }

    /// Notes a problem.
    pub fn problem(&mut self, key: &str, message: impl Into<String>) {
        self.problems.push((key.to_owned(), message.into()));
    }
}

impl Message {
    /// Whether a header is sent.
    pub fn sends(&self, name: &str) -> bool {
        match self {
            Self::Static(outgoing) => outgoing.headers.get(name.as_bytes()).is_some(),
            Self::Template(draft) => draft.has(name),
        }
    }

    /// Compiles a request; errors name what is wrong with its templates, each with its key.
    pub fn new(
        request: &Request,
        target: &Target,
        mut texts: Texts<'_>,
    ) -> Result<Self, Vec<(String, String)>> {
        let draft = Draft::new(request, target, &mut texts);
        if !texts.problems.is_empty() {
            return Err(texts.problems);
        }
        if !draft.is_fixed() {
            return Ok(Self::Template(Box::new(draft)));
        }
        let mut outgoing = Outgoing::default();
        let rendered = texts.templates.with_frame(texts.scope, |frame| draft.render(frame, &mut outgoing));
        rendered.map_err(|message| vec![(String::new(), message)])?;
        Ok(Self::Static(outgoing))
    }
}

impl Draft {
    fn new(request: &Request, target: &Target, texts: &mut Texts<'_>) -> Self {
        let mut draft = Self { method: request.method.clone(), ..Self::default() };
        draft.path.path(texts.path(&request.path));
        draft.guards_dots = !request.path.split('/').any(|part| matches!(part, "." | ".."));
        let mut separator = if request.path.contains('?') { "&" } else { "?" };
        for (name, value) in &request.query {
            draft.path.literal(separator);
            draft.path.text(Text::Fixed(name.clone()), Encoding::Query);
            draft.path.literal("=");
            draft.path.text(texts.text(&format!("query.{name}"), value), Encoding::Query);
            separator = "&";
        }
        // Headers of the step stand in place of the target's of the same name.
        let overridden = |name: &str| request.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        for (name, value) in
            target.headers.iter().filter(|(name, _)| !overridden(name)).chain(&request.headers)
        {
            draft.header(name, texts.text(&format!("headers.{name}"), value), Encoding::Header);
        }
        let content = Content::new(request, texts);
        for (name, text, encoding) in content.headers {
            if !draft.has(&name) {
                draft.header(&name, text, encoding);
            }
        }
        if request.compression && !draft.has("accept-encoding") {
            draft.header("accept-encoding", Text::Fixed("gzip, br".into()), Encoding::Header);
        }
        draft.body = content.body;
        draft
    }

    /// Whether a header is sent.
    pub fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name))
    }

    fn header(&mut self, name: &str, text: Text, encoding: Encoding) {
        let mut line = Line::default();
        line.text(text, encoding);
        self.headers.push((name.to_owned(), line));
    }

    fn is_fixed(&self) -> bool {
        self.path.is_fixed() && self.body.is_fixed() && self.headers.iter().all(|(_, line)| line.is_fixed())
    }

    /// Renders all templates of a request.
    pub fn render(&self, frame: &mut Frame<'_>, out: &mut Outgoing) -> Result<(), String> {
        out.clear();
        out.method.push_str(&self.method);
        self.path.write(frame, &mut out.path)?;
        if !out.path.starts_with('/') {
            out.path.insert(0, '/');
        }
        if self.guards_dots && !self.path.is_fixed() && has_dots(&out.path) {
            return Err("path: a value makes a segment \".\" or \"..\", which leads elsewhere".into());
        }
        for (name, line) in &self.headers {
            line.with_text(frame, |text| out.headers.push(name.as_bytes(), text.as_bytes()))?;
        }
        self.body.write(frame, &mut out.body)
    }
}

/// Whether a segment is one that servers take for a way up, or for none.
fn has_dots(path: &str) -> bool {
    let end = path.find('?').unwrap_or(path.len());
    path.contains("/.") && path[..end].split('/').any(|part| matches!(part, "." | ".."))
}
