//! How a request ended.

/// The names are part of the record format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "docs/formats.md, section 2, has a sentence on each")]
pub enum Outcome {
    Answered = 0,
    CheckStatus = 1,
    CheckContains = 2,
    TimeoutConnect = 3,
    TimeoutFirstByte = 4,
    TimeoutBody = 5,
    Refused = 6,
    Reset = 7,
    Closed = 8,
    Unreachable = 9,
    Dns = 10,
    Tls = 11,
    Protocol = 12,
    TooLarge = 13,
    NotSent = 14,
    Interrupted = 15,
}

impl Outcome {
    /// All, in the order of their ids.
    pub const ALL: [Self; 16] = [
        Self::Answered,
        Self::CheckStatus,
        Self::CheckContains,
        Self::TimeoutConnect,
        Self::TimeoutFirstByte,
        Self::TimeoutBody,
        Self::Refused,
        Self::Reset,
        Self::Closed,
        Self::Unreachable,
        Self::Dns,
        Self::Tls,
        Self::Protocol,
        Self::TooLarge,
        Self::NotSent,
        Self::Interrupted,
    ];

    /// Id in a row.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Name in the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::CheckStatus => "check:status",
            Self::CheckContains => "check:contains",
            Self::TimeoutConnect => "timeout:connect",
            Self::TimeoutFirstByte => "timeout:first_byte",
            Self::TimeoutBody => "timeout:body",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Unreachable => "unreachable",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
            Self::TooLarge => "too_large",
            Self::NotSent => "not_sent",
            Self::Interrupted => "interrupted",
        }
    }

    /// The connection could not be made: nothing was sent.
    pub fn is_connect_failure(self) -> bool {
        matches!(self, Self::Refused | Self::Unreachable | Self::Dns | Self::NotSent)
    }
}
