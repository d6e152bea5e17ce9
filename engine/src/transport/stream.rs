//! A connection as a stream of bytes, whatever carries them.
use super::tls::TlsStream;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// What carries the bytes.
pub enum Stream {
    /// A socket.
    Plain(OwnedFd),
    /// TLS over a socket.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Sends as much as fits; `EAGAIN` if nothing does. After that the same bytes have to be offered again, and more
    /// may follow them: TLS may have encrypted and half sent them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Plain(fd) => send(fd, bytes, SendFlags::NOSIGNAL),
            Self::Tls(tls) => tls.send(bytes),
        }
    }

    /// Receives what is there; 0 at the end of the stream, `EAGAIN` if nothing is there, `EPROTO` if it is not the TLS
    /// that was agreed on. `buffer` has at least 32 KiB.
    pub fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Plain(fd) => recv(fd, buffer, RecvFlags::empty()).map(|(count, _)| count),
            Self::Tls(tls) => tls.recv(buffer),
        }
    }

    /// Whether a [`Stream::recv`] that gave `count` of `room` bytes left nothing to be received.
    pub fn is_drained(&self, count: usize, room: usize) -> bool {
        match self {
            Self::Plain(_) => count < room,
            Self::Tls(tls) => tls.is_drained(),
        }
    }

    /// Whether an idle stream that was said to be readable has nothing to read after all.
    pub fn is_silent(&mut self) -> bool {
        match self {
            Self::Plain(fd) => matches!(recv(fd, &mut [0][..], RecvFlags::PEEK), Err(Errno::AGAIN)),
            Self::Tls(tls) => tls.is_silent(),
        }
    }

    /// Whether the stream ended without the last word that TLS has for that: it may not be all that was sent.
    pub fn is_cut_off(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.is_cut_off(),
        }
    }

    /// What was agreed on by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.alpn(),
        }
    }

    /// What `EPROTO` meant.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.failure().map(ToString::to_string),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(fd) => fd.as_fd(),
            Self::Tls(tls) => tls.as_fd(),
        }
    }
}
