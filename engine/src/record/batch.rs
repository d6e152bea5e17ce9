//! The header before every batch of a log; docs/formats.md, section 2.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// First bytes of every batch.
pub const MAGIC: [u8; 4] = *b"TTLG";
/// The version of the log format.
pub const VERSION: u16 = 1;
/// A payload that claims more is damage: the writer never makes one of this size.
pub const MAX_PAYLOAD_BYTES: u32 = 16 << 20;

/// What a batch carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rows of 64 bytes.
    Rows,
    /// What ids stand for, or facts of the run.
    Names,
    /// The log is whole; the payload is the number of rows, u64.
    End,
}

/// The decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Position of the batch in its log, from 0.
    pub sequence: u32,
    /// Rows, or names.
    pub count: u32,
    /// Bytes that follow.
    pub payload_bytes: u32,
    /// CRC-32 (IEEE) of these bytes.
    pub crc32: u32,
}

impl Header {
    /// The header as it lies in the file.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let kind: u16 = match self.kind {
            Kind::Rows => 0,
            Kind::Names => 1,
            Kind::End => 2,
        };
        let mut b = [0u8; HEADER_BYTES];
        b[0..4].copy_from_slice(&MAGIC);
        b[4..6].copy_from_slice(&VERSION.to_le_bytes());
        b[6..8].copy_from_slice(&kind.to_le_bytes());
        b[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        b[12..16].copy_from_slice(&self.count.to_le_bytes());
        b[16..20].copy_from_slice(&self.payload_bytes.to_le_bytes());
        b[20..24].copy_from_slice(&self.crc32.to_le_bytes());
        b
    }

    /// `None` for anything that this version's writer would not have written.
    pub fn decode(b: &[u8; HEADER_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        if b[0..4] != MAGIC || version(b) != VERSION || b[24..32] != [0; 8] {
            return None;
        }
        let kind = match u16::from_le_bytes([b[6], b[7]]) {
            0 => Kind::Rows,
            1 => Kind::Names,
            2 => Kind::End,
            _ => return None,
        };
        let payload_bytes = u32_at(16);
        (payload_bytes <= MAX_PAYLOAD_BYTES).then(|| Self {
            kind,
            sequence: u32_at(8),
            count: u32_at(12),
            payload_bytes,
            crc32: u32_at(20),
        })
    }
}

/// The format version that a header names; meaningful only behind [`MAGIC`].
pub fn version(b: &[u8; HEADER_BYTES]) -> u16 {
    u16::from_le_bytes([b[4], b[5]])
}
