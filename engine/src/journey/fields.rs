//! Header fields in one buffer: no allocation for each.

/// Names and values in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where the name and where the value of each field ends.
    ends: Vec<(u32, u32)>,
}

impl Fields {
    /// Forgets all; buffers are kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Keeps the first `count` fields.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.bytes.truncate(self.ends.last().map_or(0, |(_, end)| *end as usize));
    }

    /// Adds a field.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_with(name, |bytes| bytes.extend_from_slice(value));
    }

    /// Adds a field whose value is written by `write`, which only appends.
    pub fn push_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len() as u32;
        write(&mut self.bytes);
        self.ends.push((name_end, self.bytes.len() as u32));
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (name_end, end))| {
            let (start, name_end, end) = (start as usize, *name_end as usize, *end as usize);
            (&self.bytes[start..name_end], &self.bytes[name_end..end])
        })
    }

    /// The values of a field, whose name is compared without regard to case.
    pub fn all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// As [`Self::all`], where the name does not live as long as the fields.
    pub fn named<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The first value of a field.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_order_and_find_without_case() {
        let mut fields = Fields::default();
        fields.push(b"Set-Cookie", b"a=1");
        fields.push(b"etag", b"");
        fields.push(b"set-cookie", b"b=2");
        assert_eq!(fields.all(b"SET-COOKIE").collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert_eq!((fields.get(b"ETag"), fields.get(b"none"), fields.len()), (Some(&b""[..]), None, 3));
        fields.clear();
        assert!(fields.is_empty() && fields.iter().next().is_none());
    }
}
