//! One client of the small server: bytes in, requests, bytes out.
use super::{Request, respond};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use std::net::TcpStream;

/// Room made for each read.
const READ_BYTES: usize = 16 * 1024;
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_BODY_BYTES: usize = 16 << 20;
const MAX_HEADERS: usize = 64;

/// What a connection wants next.
pub enum Next {
    /// The same as before.
    Wait,
    /// Other events than before.
    Watch(EventFlags),
    /// Nothing more.
    Close,
}

/// A client.
pub struct Connection {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    /// Bytes of `outbox` that are with the kernel.
    sent: usize,
    /// Room for the answer is awaited; nothing is read meanwhile.
    blocked: bool,
    /// Nothing is read any more; closed when the answer is out.
    last: bool,
}

/// Why a request is not answered by the handler: status, and whether more bytes may help.
enum Unready {
    Incomplete,
    Refused(&'static str),
}

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, inbox: Vec::new(), outbox: Vec::new(), sent: 0, blocked: false, last: false }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads what is there, answers what is whole, writes what fits.
    pub fn advance(&mut self, handler: &mut impl FnMut(&Request<'_>, &mut Vec<u8>)) -> Next {
        if !self.blocked && !self.last {
            match self.read() {
                Ok(0) => return Next::Close,
                Ok(_) => self.answer(handler),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Next::Close,
            }
        }
        self.write()
    }

    fn read(&mut self) -> Result<usize, Errno> {
        self.inbox.reserve(READ_BYTES);
        rustix::io::read(&self.stream, rustix::buffer::spare_capacity(&mut self.inbox))
    }

    fn answer(&mut self, handler: &mut impl FnMut(&Request<'_>, &mut Vec<u8>)) {
        let mut taken = 0;
        while taken < self.inbox.len() && !self.last {
            match one(&self.inbox[taken..], &mut self.outbox, handler) {
                Ok((bytes, close)) => {
                    taken += bytes;
                    self.last = close;
                }
                Err(Unready::Incomplete) => break,
                Err(Unready::Refused(status)) => {
                    respond(&mut self.outbox, status, "connection: close\r\n", b"");
                    self.last = true;
                }
            }
        }
        if self.last {
            // Unread bytes at the close would reset the connection under the answer.
            taken = self.inbox.len();
        }
        self.inbox.drain(..taken);
    }

    fn write(&mut self) -> Next {
        while self.sent < self.outbox.len() {
            match rustix::io::write(&self.stream, &self.outbox[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.blocked => return Next::Wait,
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    return Next::Watch(EventFlags::OUT);
                }
                Err(_) => return Next::Close,
            }
        }
        self.outbox.clear();
        self.sent = 0;
        if self.last {
            return Next::Close;
        }
        if std::mem::take(&mut self.blocked) { Next::Watch(EventFlags::IN) } else { Next::Wait }
    }
}

/// Answers the first request in `bytes`; its length, and whether it is the last of its connection.
fn one(
    bytes: &[u8],
    out: &mut Vec<u8>,
    handler: &mut impl FnMut(&Request<'_>, &mut Vec<u8>),
) -> Result<(usize, bool), Unready> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let head = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD_BYTES => return Err(Unready::Incomplete),
        Ok(httparse::Status::Partial) => return Err(Unready::Refused("431 Request Header Fields Too Large")),
        Err(_) => return Err(Unready::Refused("400 Bad Request")),
    };
    let mut request = Request {
        method: parsed.method.unwrap_or_default(),
        path: parsed.path.unwrap_or_default(),
        headers: parsed.headers,
        body: b"",
    };
    if request.header("transfer-encoding").is_some() {
        return Err(Unready::Refused("411 Length Required"));
    }
    let length = request.header("content-length").map_or(Ok(0), str::parse::<usize>);
    let length = length.map_err(|_| Unready::Refused("400 Bad Request"))?;
    if length > MAX_BODY_BYTES {
        return Err(Unready::Refused("413 Content Too Large"));
    }
    let end = head + length;
    request.body = bytes.get(head..end).ok_or(Unready::Incomplete)?;
    handler(&request, out);
    let close = parsed.version == Some(0)
        || request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok((end, close))
}
