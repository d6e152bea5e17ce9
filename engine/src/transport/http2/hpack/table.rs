//! The tables of HPACK: the static one (RFC 7541, appendix A) and the dynamic one of a decoder.
use std::collections::VecDeque;

/// What an entry costs beside its bytes (section 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// Index 1 is the first.
pub const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// What the other side has told to remember.
pub struct Dynamic {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    most: usize,
}

struct Entry {
    bytes: Box<[u8]>,
    name: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD
    }
}

impl Dynamic {
    /// An empty table of at most so many bytes.
    pub fn new(most: usize) -> Self {
        Self { entries: VecDeque::new(), size: 0, most }
    }

    /// Name and value at an index above those of the static table, counted from 0.
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        self.entries.get(at).map(|entry| entry.bytes.split_at(entry.name))
    }

    /// Adds a field; the oldest go to make room for it.
    pub fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        self.evict(self.most.saturating_sub(size));
        // What is larger than the table empties it, and that is no error (section 4.4).
        if size <= self.most {
            self.size += size;
            self.entries.push_front(Entry { bytes: [name, value].concat().into(), name: name.len() });
        }
    }

    /// Changes the bound.
    pub fn resize(&mut self, most: usize) {
        self.most = most;
        self.evict(most);
    }

    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.size -= oldest.size();
        }
    }

    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.size
    }
}
