//! An answer, kept for those who want to look at it.
use crate::journey::Fields;

/// What a step wants to see of its answers. Nothing costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Header fields.
    pub fields: bool,
    /// Of the header fields, those that set cookies.
    pub cookies: bool,
    /// The body, as it came: not decoded.
    pub body: bool,
}

impl Want {
    /// Whether anything is wanted.
    pub fn any(self) -> bool {
        self.fields || self.cookies || self.body
    }

    /// Whether any header field is wanted.
    pub fn any_field(self) -> bool {
        self.fields || self.cookies
    }

    /// Whether the header field of this name is wanted.
    pub fn wants(self, name: &[u8]) -> bool {
        self.fields || self.cookies && name.len() == 10 && name.eq_ignore_ascii_case(b"set-cookie")
    }

    /// What either wants.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            fields: self.fields || other.fields,
            cookies: self.cookies || other.cookies,
            body: self.body || other.body,
        }
    }
}

/// Header fields and body of an answer; of several answers (redirects, repeats) the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Header fields in their order; trailers of HTTP/2 after them.
    pub fields: Fields,
    /// The body without its framing.
    pub body: Vec<u8>,
}

impl Reply {
    /// Forgets an answer; buffers are kept.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.body.clear();
    }
}
