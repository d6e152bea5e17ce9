//! How a request ended.

/// Ids from this one on are names of the job's own: its checks and captures.
const FIRST_NAMED: u8 = 32;
/// Names of the job's own at most.
pub const MAX_NAMED: usize = (u8::MAX - FIRST_NAMED) as usize;

/// The names are part of the record format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "docs/formats.md, section 2, has a sentence on each")]
pub enum Outcome {
    Answered,
    CheckStatus,
    CheckContains,
    TimeoutConnect,
    TimeoutFirstByte,
    TimeoutBody,
    Refused,
    Reset,
    Closed,
    Unreachable,
    Dns,
    Tls,
    Protocol,
    TooLarge,
    NotSent,
    Interrupted,
    Redirect,
    Template,
    Proxy,
    Truncated,
    TimeoutDns,
    CaptureMissing,
    /// A check or a capture of the job, by its place among [`OutcomeNames`].
    Named(u8),
}

impl Outcome {
    /// All that do not depend on the job, in the order of their ids.
    pub const FIXED: [Self; 22] = [
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
        Self::Redirect,
        Self::Template,
        Self::Proxy,
        Self::Truncated,
        Self::TimeoutDns,
        Self::CaptureMissing,
    ];

    /// Id in a row.
    pub fn id(self) -> u8 {
        match self {
            Self::Named(place) => FIRST_NAMED + place,
            fixed => Self::FIXED.iter().position(|f| *f == fixed).unwrap_or(0) as u8,
        }
    }

    /// Name in the records; none for those of the job.
    pub fn fixed_name(self) -> Option<&'static str> {
        Some(match self {
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
            Self::Redirect => "redirect",
            Self::Template => "template",
            Self::Proxy => "proxy",
            Self::Truncated => "truncated",
            Self::TimeoutDns => "timeout:dns",
            Self::CaptureMissing => "capture_missing",
            Self::Named(_) => return None,
        })
    }

    /// Nobody was reached: the connection could not be made, or a proxy let nothing through.
    pub fn is_connect_failure(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Unreachable | Self::Dns | Self::NotSent | Self::Tls | Self::Proxy
        )
    }

    /// Nothing was sent, and nothing was tried.
    pub fn is_unsent(self) -> bool {
        matches!(self, Self::NotSent | Self::Template | Self::CaptureMissing)
    }
}

/// The outcomes that a job names itself: `check:NAME`, `capture:NAME`.
#[derive(Clone, Debug, Default)]
pub struct OutcomeNames(Vec<String>);

impl OutcomeNames {
    /// The outcome of this name; none if there are too many of them.
    pub fn intern(&mut self, name: &str) -> Option<Outcome> {
        if let Some(fixed) = Outcome::FIXED.iter().find(|o| o.fixed_name() == Some(name)) {
            return Some(*fixed);
        }
        if let Some(place) = self.0.iter().position(|known| known == name) {
            return Some(Outcome::Named(place as u8));
        }
        if self.0.len() >= MAX_NAMED {
            return None;
        }
        self.0.push(name.to_owned());
        Some(Outcome::Named(self.0.len() as u8 - 1))
    }

    /// All outcomes that can occur, each with its name.
    pub fn all(&self) -> impl Iterator<Item = (Outcome, &str)> {
        let fixed = Outcome::FIXED.iter().filter_map(|o| Some((*o, o.fixed_name()?)));
        fixed.chain(self.0.iter().enumerate().map(|(at, name)| (Outcome::Named(at as u8), name.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_job_have_ids_of_their_own() {
        let mut names = OutcomeNames::default();
        let a = names.intern("check:json").expect("room");
        let b = names.intern("capture:token").expect("room");
        assert_eq!((a.id(), b.id()), (32, 33));
        assert_eq!(names.intern("check:json"), Some(a));
        assert_eq!(names.intern("check:status"), Some(Outcome::CheckStatus));
        let ids: std::collections::BTreeSet<u8> = names.all().map(|(o, _)| o.id()).collect();
        assert_eq!(ids.len(), Outcome::FIXED.len() + 2);
    }

    #[test]
    fn there_is_room_for_a_bounded_number_of_names() {
        let mut names = OutcomeNames::default();
        let found = (0..MAX_NAMED + 5).filter_map(|i| names.intern(&format!("check:{i}"))).count();
        assert_eq!(found, MAX_NAMED);
        assert!(names.intern("check:0").is_some());
    }
}
