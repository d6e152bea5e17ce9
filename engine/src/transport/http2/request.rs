//! Writes the header block of a request.
use super::hpack::encode_field;
use crate::journey::Outgoing;

/// Fields that describe a connection, which HTTP/2 has no words for (section 8.2.2).
const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Appends the block; it may be followed by more fields.
pub fn write_head(outgoing: &Outgoing, scheme: &str, prefix: &str, authority: &str, out: &mut Vec<u8>) {
    // A Host of the step stands in place of the authority: both would say the same.
    let authority = outgoing.headers.get(b"host").unwrap_or(authority.as_bytes());
    encode_field(b":method", outgoing.method.as_bytes(), out);
    encode_field(b":scheme", scheme.as_bytes(), out);
    if prefix.is_empty() || outgoing.is_whole {
        encode_field(b":path", outgoing.path.as_bytes(), out);
    } else {
        encode_field(b":path", format!("{prefix}{}", outgoing.path).as_bytes(), out);
    }
    encode_field(b":authority", authority, out);
    for (name, value) in outgoing.headers.iter() {
        if !is_left_out(name, value) {
            encode_field(name, value, out);
        }
    }
    if outgoing.has_length() {
        encode_field(b"content-length", outgoing.body.len().to_string().as_bytes(), out);
    }
}

fn is_left_out(name: &[u8], value: &[u8]) -> bool {
    let same = |known: &[u8]| name.eq_ignore_ascii_case(known);
    same(b"host") || OF_CONNECTIONS.into_iter().any(same) || (same(b"te") && value != b"trailers")
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;

    #[test]
    fn pseudo_fields_come_first_and_fields_of_connections_not_at_all() {
        let mut outgoing = Outgoing { method: "POST".into(), path: "/a?b=c".into(), ..Outgoing::default() };
        for (name, value) in [("X-Key", "v"), ("Host", "shop"), ("keep-alive", "5"), ("te", "trailers")] {
            outgoing.headers.push(name.as_bytes(), value.as_bytes());
        }
        outgoing.body.push_noise(5);
        let mut block = Vec::new();
        write_head(&outgoing, "https", "/v1", "10.0.0.1:8443", &mut block);
        let mut lines = Vec::new();
        let line = |n: &[u8], v: &[u8]| format!("{} {}", n.escape_ascii(), v.escape_ascii());
        Decoder::default().decode(&block, |n, v| lines.push(line(n, v))).unwrap();
        let expected = [
            ":method POST",
            ":scheme https",
            ":path /v1/a?b=c",
            ":authority shop",
            "x-key v",
            "te trailers",
            "content-length 5",
        ];
        assert_eq!(lines, expected);
    }
}
