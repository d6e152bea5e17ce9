//! How a request ends, and why when the ingress itself answers it.

/// Why the ingress made an answer itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    /// As many requests are held as may be.
    Pending,
    /// As many are held as the ready instances may have waiting.
    Queue,
    /// Held too long.
    Held,
    /// OpenWhisk's invocations per minute.
    Rate,
    /// OpenWhisk's concurrent invocations.
    Concurrent,
    /// The instance took no connection.
    Refused,
    /// The instance took the request and ended without an answer.
    Broke,
    /// The request cannot be passed on.
    Malformed,
    /// The ingress ends.
    Ending,
    /// A fault of the ingress itself.
    Internal,
}

impl Made {
    /// All, in the order in which they are counted.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Queue,
        Self::Held,
        Self::Rate,
        Self::Concurrent,
        Self::Refused,
        Self::Broke,
        Self::Malformed,
        Self::Ending,
        Self::Internal,
    ];

    /// As it is counted.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queue => "queue",
            Self::Held => "held",
            Self::Rate => "rate",
            Self::Concurrent => "concurrent",
            Self::Refused => "refused",
            Self::Broke => "broke",
            Self::Malformed => "malformed",
            Self::Ending => "ending",
            Self::Internal => "internal",
        }
    }

    /// As it is answered.
    pub fn status(self) -> u16 {
        match self {
            Self::Pending | Self::Queue | Self::Refused | Self::Ending => 503,
            Self::Held => 504,
            Self::Rate | Self::Concurrent => 429,
            Self::Broke => 502,
            Self::Malformed => 400,
            Self::Internal => 500,
        }
    }
}

/// A request that no instance gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub made: Made,
    /// In words.
    pub text: String,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With this answer of an instance.
    Answered(u16),
    /// With an answer of the ingress.
    Made(Made),
    /// Its client left while it was held.
    LeftHeld,
    /// Its client left while an instance served it.
    Left,
    /// The instance broke its answer off.
    Cut,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_once_each() {
        let names: std::collections::BTreeSet<_> = Made::ALL.iter().map(|made| made.name()).collect();
        assert_eq!(names.len(), Made::ALL.len());
    }
}
