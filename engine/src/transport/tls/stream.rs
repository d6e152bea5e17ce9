//! One TLS connection.
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, InsufficientSizeError, ReadTraffic};
use rustls::{ClientConfig, Error, HandshakeKind};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Plaintext that is encrypted at once: four records.
const SEND_BYTES: usize = 64 * 1024;
/// Ciphertext that is read at once.
const READ_BYTES: usize = 64 * 1024;
/// What encryption adds at most to [`SEND_BYTES`], and what of a handshake may wait before it.
const OVERHEAD_BYTES: usize = 16 * 1024;

/// What all TLS connections of a thread share.
pub struct Buffers {
    /// As it came from a socket.
    pub(super) incoming: RefCell<Box<[u8]>>,
    /// As it goes to a socket.
    outgoing: RefCell<Box<[u8]>>,
    /// What an idle connection says.
    idle: RefCell<Box<[u8]>>,
}

impl Default for Buffers {
    fn default() -> Self {
        let buffer = |size: usize| RefCell::new(vec![0; size].into_boxed_slice());
        let (incoming, idle) = (buffer(READ_BYTES), buffer(READ_BYTES));
        Self { incoming, outgoing: buffer(SEND_BYTES + OVERHEAD_BYTES), idle }
    }
}

/// Whether anything can still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It can.
    None,
    /// The connection has ended.
    Cut,
    /// The server has said that nothing follows (`close_notify`).
    Told,
}

/// Why a handshake or a connection failed.
#[derive(Debug)]
pub enum Failure {
    /// The server closed during the handshake.
    Closed,
    /// The socket failed.
    Socket(Errno),
    /// What was said did not agree with TLS, or with what was asked for.
    Tls(Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Socket(errno)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Tls(error)
    }
}

/// See the module.
pub struct TlsStream {
    pub(super) fd: OwnedFd,
    pub(super) session: UnbufferedClientConnection,
    /// Ciphertext that is not a whole record yet.
    pub(super) partial: Vec<u8>,
    /// It came with the handshake, and may hold whole records.
    pub(super) untouched: bool,
    /// Ciphertext that the socket has not taken.
    pub(super) unsent: Vec<u8>,
    /// Plaintext that `unsent` stands for and that was not said to be sent.
    owed: usize,
    /// Content that came before anybody wanted it.
    pub(super) early: Vec<u8>,
    /// There was less in the socket than asked for.
    drained: bool,
    pub(super) end: End,
    failure: Option<Error>,
    pub(super) buffers: Rc<Buffers>,
}

impl TlsStream {
    /// Over a connected socket. Nothing has been said yet.
    pub fn new(
        fd: OwnedFd,
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
        buffers: &Rc<Buffers>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            fd,
            session: UnbufferedClientConnection::new(Arc::clone(config), name.clone())?,
            partial: Vec::new(),
            untouched: false,
            unsent: Vec::new(),
            owed: 0,
            early: Vec::new(),
            drained: false,
            end: End::None,
            failure: None,
            buffers: Rc::clone(buffers),
        })
    }

    /// As agreed by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    /// Whether an older session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What `EPROTO` meant.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Whether it ended without a word.
    pub fn is_cut_off(&self) -> bool {
        self.end == End::Cut
    }

    /// The server has said that nothing follows.
    pub(super) fn take_leave(&mut self) {
        self.end = End::Told;
    }

    /// Whether the last [`TlsStream::recv`] left nothing in the socket.
    pub fn is_drained(&self) -> bool {
        self.drained && self.end == End::None
    }

    /// Sends as much as fits. After `EAGAIN` the same bytes have to be offered again: they may be on their way.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        if self.owed > 0 {
            self.flush()?;
            return Ok(std::mem::take(&mut self.owed));
        }
        let take = bytes.len().min(SEND_BYTES);
        let buffers = Rc::clone(&self.buffers);
        let mut outgoing = buffers.outgoing.borrow_mut();
        let filled = self.encrypt(&bytes[..take], &mut outgoing)?;
        let count = match send(&self.fd, &outgoing[..filled], SendFlags::NOSIGNAL) {
            Ok(count) if count == filled => return Ok(take),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(errno),
        };
        self.unsent.extend_from_slice(&outgoing[count..filled]);
        self.owed = take;
        Err(Errno::AGAIN)
    }

    /// Puts what is still unsent, and then `bytes` as records, into `out`.
    fn encrypt(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<usize, Errno> {
        loop {
            let status = self.session.process_tls_records(&mut self.partial);
            let discard = status.discard;
            let mut filled = None;
            match status.state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let before = self.unsent.len();
                    if before > OVERHEAD_BYTES / 2 {
                        // Never seen: a handshake whose last words are longer than a few certificates.
                        return Err(Errno::NOBUFS);
                    }
                    out[..before].copy_from_slice(&self.unsent);
                    let count = traffic.encrypt(bytes, &mut out[before..]).map_err(|_| Errno::PROTO)?;
                    filled = Some(before + count);
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, &mut self.unsent).map_err(|_| Errno::PROTO)?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                // It came with the handshake.
                Ok(ConnectionState::ReadTraffic(mut traffic)) => take_in(&mut traffic, &mut self.early),
                Ok(ConnectionState::PeerClosed) => self.take_leave(),
                Ok(_) => return Err(Errno::PIPE),
                Err(error) => {
                    self.failure = Some(error);
                    return Err(Errno::PROTO);
                }
            }
            self.partial.drain(..discard);
            if let Some(filled) = filled {
                self.unsent = Vec::new();
                return Ok(filled);
            }
        }
    }

    /// Sends what is unsent; `EAGAIN` if not all of it goes.
    pub(super) fn flush(&mut self) -> Result<(), Errno> {
        let mut sent = 0;
        let mut result = Ok(());
        while sent < self.unsent.len() {
            match send(&self.fd, &self.unsent[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    result = Err(errno);
                    break;
                }
            }
        }
        if sent == self.unsent.len() {
            self.unsent = Vec::new();
        } else {
            self.unsent.drain(..sent);
        }
        result
    }

    /// Receives what is there; 0 at the end of the stream, `EAGAIN` if nothing is there, `EPROTO` if it cannot be
    /// decrypted. `buffer` is larger than a record, which has at most 18 KiB.
    pub fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        if !self.early.is_empty() {
            let count = self.early.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.early[..count]);
            self.early = self.early.split_off(count);
            self.drained = false;
            return Ok(count);
        }
        let buffers = Rc::clone(&self.buffers);
        let mut incoming = buffers.incoming.borrow_mut();
        let room = buffer.len().min(incoming.len());
        while self.end == End::None {
            let kept = self.partial.len();
            if std::mem::take(&mut self.untouched) {
                incoming[..kept].copy_from_slice(&self.partial);
                let content = self.decrypt(&mut incoming[..kept], buffer)?;
                if content > 0 {
                    self.drained = false;
                    return Ok(content);
                }
                continue;
            }
            let (count, _) = recv(&self.fd, &mut incoming[kept..room], RecvFlags::empty())?;
            if count == 0 {
                self.end = End::Cut;
                break;
            }
            self.drained = count < room - kept;
            incoming[..kept].copy_from_slice(&self.partial);
            let content = self.decrypt(&mut incoming[..kept + count], buffer)?;
            if content > 0 {
                return Ok(content);
            }
            if self.drained && self.end == End::None {
                return Err(Errno::AGAIN);
            }
        }
        Ok(0)
    }

    /// Content of all whole records in `incoming`; the rest is kept.
    fn decrypt(&mut self, incoming: &mut [u8], content: &mut [u8]) -> Result<usize, Errno> {
        let (mut at, mut filled) = (0, 0);
        loop {
            let status = self.session.process_tls_records(&mut incoming[at..]);
            let discard = status.discard;
            let mut more = true;
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        let end = filled + record.payload.len();
                        content[filled..end].copy_from_slice(record.payload);
                        filled = end;
                    }
                }
                // An answer to a change of keys: it goes out with the next request.
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    encode(&mut data, &mut self.unsent).map_err(|_| Errno::PROTO)?;
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.take_leave();
                    more = false;
                }
                Ok(_) => more = false,
                Err(error) => {
                    self.failure = Some(error);
                    return Err(Errno::PROTO);
                }
            }
            at += discard;
            if !more {
                break;
            }
        }
        self.keep(&incoming[at..]);
        Ok(filled)
    }

    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            // A connection that is idle holds no buffer.
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
    }

    /// Whether a stream that was said to be readable has nothing to say to a client: tickets and the like are taken in.
    /// What it has to say is kept for [`TlsStream::recv`].
    pub fn is_silent(&mut self) -> bool {
        if !self.early.is_empty() {
            return false;
        }
        let buffers = Rc::clone(&self.buffers);
        let mut idle = buffers.idle.borrow_mut();
        match self.recv(&mut idle) {
            Ok(count) => self.early.extend_from_slice(&idle[..count]),
            Err(errno) => return errno == Errno::AGAIN,
        }
        false
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Appends content that nobody waits for yet.
pub(super) fn take_in(traffic: &mut ReadTraffic<'_, '_, ClientConnectionData>, early: &mut Vec<u8>) {
    while let Some(Ok(record)) = traffic.next_record() {
        early.extend_from_slice(record.payload);
    }
}

/// Appends a record of the handshake.
pub(super) fn encode(
    data: &mut EncodeTlsData<'_, ClientConnectionData>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let odd = |_| Error::General("a record was encoded twice".into());
    let start = out.len();
    let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) = data.encode(&mut [])
    else {
        return Ok(());
    };
    out.resize(start + required_size, 0);
    data.encode(&mut out[start..]).map(|count| out.truncate(start + count)).map_err(odd)
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
