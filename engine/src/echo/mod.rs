//! A small HTTP/1.1 server on one thread: what the engine measures its own ceiling against, and nothing more.
//!
//! Every answer is made by a handler from the whole request. Keep-alive and pipelining are served; bodies need a
//! `content-length`. It costs less CPU a request than the engine does, so that the engine is what reaches its limit.
mod connection;

use connection::{Connection, Next};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::io;
use std::net::{TcpListener, TcpStream};

/// Events taken from the kernel at once.
const EVENTS: usize = 512;
/// Stands for the listener among the connections.
const LISTENER: u64 = u64::MAX;

/// A whole request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// As sent: `GET`.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// In their order.
    pub headers: &'a [httparse::Header<'a>],
    /// All of it.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// The first header of that name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    }
}

/// Appends an answer: `status` such as `200 OK`, `headers` as whole lines (each with its CR LF) or empty.
pub fn respond(out: &mut Vec<u8>, status: &str, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// Serves until the process ends; `handler` appends the answer to a request to the buffer it is given.
pub fn serve(listener: TcpListener, handler: impl FnMut(&Request<'_>, &mut Vec<u8>)) -> io::Result<()> {
    Server::new(listener, handler)?.run()
}

struct Server<H> {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    handler: H,
}

impl<H: FnMut(&Request<'_>, &mut Vec<u8>)> Server<H> {
    fn new(listener: TcpListener, handler: H) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self { epoll, listener, connections: Vec::new(), free: Vec::new(), handler })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let data = event.data;
                match data.u64() {
                    LISTENER => self.accept(),
                    slot => self.advance(slot as usize)?,
                }
            }
        }
    }

    /// Takes whoever waits. What fails here (no descriptor left, a client that has gone) concerns that client alone.
    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = self.admit(stream);
        }
    }

    fn admit(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let slot = self.free.pop().unwrap_or(self.connections.len());
        if slot == self.connections.len() {
            self.connections.push(None);
        }
        if let Err(error) = epoll::add(&self.epoll, &stream, EventData::new_u64(slot as u64), EventFlags::IN)
        {
            self.free.push(slot);
            return Err(error.into());
        }
        self.connections[slot] = Some(Connection::new(stream));
        Ok(())
    }

    fn advance(&mut self, slot: usize) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return Ok(());
        };
        match connection.advance(&mut self.handler) {
            Next::Wait => {}
            // Interest changes only when the client reads more slowly than it asks.
            Next::Watch(flags) => {
                let data = EventData::new_u64(slot as u64);
                epoll::modify(&self.epoll, connection.stream(), data, flags)?;
            }
            Next::Close => {
                self.connections[slot] = None;
                self.free.push(slot);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A server whose answer names what it saw.
    fn serving() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        std::thread::spawn(move || {
            serve(listener, |request, out| {
                let host = request.header("HOST").unwrap_or("-");
                let seen = format!("{} {} {host} {}", request.method, request.path, request.body.len());
                respond(out, "200 OK", "x-a: b\r\n", seen.as_bytes());
            })
        });
        TcpStream::connect(address).expect("connect")
    }

    fn answers(client: &mut TcpStream, until: &str) -> String {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&seen).contains(until) {
            let n = client.read(&mut buffer).expect("read");
            assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8(seen).expect("text")
    }

    #[test]
    fn requests_in_pieces_and_in_one_are_answered_in_order() {
        let mut client = serving();
        for piece in ["GET /a HT", "TP/1.1\r\nhost: h\r\n", "\r", "\n"] {
            client.write_all(piece.as_bytes()).expect("write");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let first = answers(&mut client, "GET /a h 0");
        assert!(first.starts_with("HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: 10\r\n\r\n"), "{first}");
        client
            .write_all(b"POST /b HTTP/1.1\r\ncontent-length: 3\r\n\r\nxyzGET /c HTTP/1.1\r\n\r\n")
            .expect("write");
        let both = answers(&mut client, "GET /c - 0");
        assert!(both.find("POST /b - 3") < both.find("GET /c"), "{both}");
    }

    #[test]
    fn an_answer_larger_than_the_socket_takes_arrives_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let body = vec![b'y'; 16 << 20];
        let size = body.len();
        std::thread::spawn(move || serve(listener, |_, out| respond(out, "200 OK", "", &body)));
        let mut client = TcpStream::connect(address).expect("connect");
        client.write_all(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n").expect("write");
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("read");
        let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert_eq!(all.len() - head, size);
        assert!(all[head..].iter().all(|&byte| byte == b'y'));
    }

    #[test]
    fn what_is_not_http_or_has_no_length_is_refused_and_closed() {
        let requests: [(&[u8], &str); 3] = [
            (b"\x16\x03\x01 hello\r\n\r\n", "400"),
            (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", "411"),
            (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", "413"),
        ];
        for (request, status) in requests {
            let mut client = serving();
            client.write_all(request).expect("write");
            let mut all = String::new();
            client.read_to_string(&mut all).expect("read");
            assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{all}");
        }
    }
}
