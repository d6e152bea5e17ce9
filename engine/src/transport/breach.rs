//! In which way an answer breaks the rules of its protocol: a row has only the outcome for it, the finding says the kind.
use std::fmt;

/// A kind of breach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The version of HTTP is not the one that was asked for.
    Version,
    /// The first line of an answer, HTTP/1.1.
    Start,
    /// A header field.
    Header,
    /// The status.
    Status,
    /// A switch of protocols that nobody asked for.
    Upgrade,
    /// `content-length`, or a body of another length.
    Length,
    /// `transfer-encoding`.
    Coding,
    /// The framing of a chunk.
    Chunk,
    /// What follows what, HTTP/2.
    Order,
    /// A frame that must not be there, or not like that.
    Frame,
    /// The length of a frame.
    Size,
    /// Flow control.
    Window,
    /// The compression of header fields.
    Compression,
    /// More than serves any request.
    Flood,
    /// `content-encoding`, and a body that is not like that.
    Content,
}

impl Breach {
    /// Its name, in one word.
    pub fn word(self) -> &'static str {
        self.words().0
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Version => ("version", "the server wants another version of HTTP than was asked for"),
            Self::Start => ("start", "the answer does not begin as one of HTTP/1.1 does"),
            Self::Header => ("header", "a header field of the answer is malformed, or must not be there"),
            Self::Status => ("status", "the answer has no status from 100 to 999, or more than one"),
            Self::Upgrade => ("upgrade", "101: the server switches to a protocol that nobody asked for"),
            Self::Length => (
                "length",
                "content-length is no number, or not that of the body, or there are two that differ",
            ),
            Self::Coding => ("coding", "chunked is not the last of the transfer codings, or is there twice"),
            Self::Chunk => ("chunk", "the framing of a chunk is malformed"),
            Self::Order => ("order", "a part of the answer came before or after its time"),
            Self::Frame => ("frame", "a frame that must not be there, or not be like that"),
            Self::Size => ("size", "a frame of a wrong length"),
            Self::Window => ("window", "more than the window for it allows"),
            Self::Compression => ("compression", "a malformed header block"),
            Self::Flood => ("flood", "frames that serve no request"),
            Self::Content => {
                ("content", "the body is not what its content-encoding says, or in one that is not known")
            }
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, what) = self.words();
        write!(f, "{word}: {what}")
    }
}
