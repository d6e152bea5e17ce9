//! Requests of HTTP/1.1 that are the same every time, as the bytes that go out.
use super::endpoints::{prefix, proxy_headers};
use super::prepared::{Known, Prepared};
use crate::job::Protocol;
use crate::journey::Plan;
use crate::transport::http1::{write_head, write_lines};

/// A body up to this size is kept, and sent, together with its head.
pub(super) const INLINE_BODY: u64 = 16 * 1024;

/// One request, ready to be sent.
pub(super) struct Ready {
    /// Head, empty line, and the body if it is small.
    pub bytes: Box<[u8]>,
    /// Where the empty line begins: more headers may be put in there.
    pub head: usize,
}

/// The requests of all targets that may be spoken to in HTTP/1.1.
pub(super) fn requests(plan: &Plan) -> Prepared<Ready> {
    Prepared::new(plan, |protocol| protocol != Protocol::Http2, |known| Ready::new(&known))
}

impl Ready {
    fn new(known: &Known<'_>) -> Self {
        let Known { outgoing, target, url, .. } = *known;
        let mut bytes = Vec::new();
        write_head(outgoing, &prefix(target, url), &target.authority(url), &mut bytes);
        write_lines(proxy_headers(target, url), &mut bytes);
        let head = bytes.len();
        bytes.extend_from_slice(b"\r\n");
        if outgoing.body.len() <= INLINE_BODY {
            outgoing.body.chunks().for_each(|chunk| bytes.extend_from_slice(chunk));
        }
        Self { bytes: bytes.into_boxed_slice(), head }
    }
}
