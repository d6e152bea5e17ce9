//! Writes the head of a request.
use crate::journey::{Fields, Outgoing};

/// Appends the head without the empty line that ends it, so that more headers can follow.
pub fn write_head(outgoing: &Outgoing, prefix: &str, authority: &str, out: &mut Vec<u8>) {
    let prefix = if outgoing.is_whole { "" } else { prefix };
    for part in [outgoing.method.as_str(), " ", prefix, &outgoing.path, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    if outgoing.headers.get(b"host").is_none() {
        for part in ["Host: ", authority, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    write_fields(&outgoing.headers, out);
    if outgoing.has_length() {
        out.extend_from_slice(format!("content-length: {}\r\n", outgoing.body.len()).as_bytes());
    }
}

/// Appends header lines.
pub fn write_fields(fields: &Fields, out: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

/// Appends header lines of texts.
pub fn write_lines(lines: &[(String, String)], out: &mut Vec<u8>) {
    for (name, value) in lines {
        for part in [name, ": ", value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}
