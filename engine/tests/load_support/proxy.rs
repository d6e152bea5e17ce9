//! A tiny proxy: HTTP in absolute form, CONNECT, and SOCKS 5.
use super::server::{Peer, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// Runs until it is dropped.
pub struct Proxy {
    pub server: Server,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Sends everything to `origin`, whatever it is asked for.
    pub fn http(origin: String) -> Self {
        Self::http_after(origin, "")
    }

    /// As [`Proxy::http`]; says that it is at work before it grants a tunnel.
    pub fn patient(origin: String) -> Self {
        Self::http_after(
            origin,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
        )
    }

    fn http_after(origin: String, interim: &'static str) -> Self {
        Self::start(move |mut peer, log| {
            let Some(request) = peer.request() else { return };
            log.lock().unwrap().push(request.head.clone());
            let upstream = TcpStream::connect(&origin).unwrap();
            if request.head.starts_with("CONNECT ") {
                peer.send(interim);
                std::thread::sleep(std::time::Duration::from_millis(5));
                peer.send("HTTP/1.1 200 Connection established\r\nx-proxy: tiny\r\n\r\n");
            } else {
                (&upstream).write_all(request.head.as_bytes()).unwrap();
                (&upstream).write_all(&request.body).unwrap();
            }
            relay(&peer, upstream);
        })
    }

    /// SOCKS 5 without a password.
    pub fn socks(origin: String) -> Self {
        Self::start(move |peer, log| {
            let mut stream = peer.stream.try_clone().unwrap();
            let mut greeting = [0; 3];
            stream.read_exact(&mut greeting).unwrap();
            assert_eq!(greeting, [5, 1, 0]);
            stream.write_all(&[5]).unwrap();
            // An answer may come in pieces.
            std::thread::sleep(std::time::Duration::from_millis(5));
            stream.write_all(&[0]).unwrap();
            let mut head = [0; 5];
            stream.read_exact(&mut head).unwrap();
            let length = match head[3] {
                1 => 3,
                3 => usize::from(head[4]),
                _ => 15,
            };
            let mut rest = vec![0; length + 2];
            stream.read_exact(&mut rest).unwrap();
            let port = u16::from_be_bytes([rest[length], rest[length + 1]]);
            let host = match head[3] {
                1 => format!("{}.{}.{}.{}", head[4], rest[0], rest[1], rest[2]),
                3 => String::from_utf8(rest[..length].to_vec()).unwrap(),
                _ => "v6".into(),
            };
            log.lock().unwrap().push(format!("{host}:{port}"));
            stream.write_all(&[5, 0, 0, 3, 4, b'h', b'o', b's', b't', 0, 80]).unwrap();
            relay(&peer, TcpStream::connect(&origin).unwrap());
        })
    }

    fn start(serve: impl Fn(Peer, &Mutex<Vec<String>>) + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        Self { server: Server::start(move |peer| serve(peer, &log)), asked }
    }

    /// What it was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Until either side ends.
fn relay(peer: &Peer, upstream: TcpStream) {
    let (mut down, mut up) = (peer.stream.try_clone().unwrap(), upstream.try_clone().unwrap());
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut up, &mut down);
        let _ = down.shutdown(std::net::Shutdown::Both);
    });
    let (mut down, mut up) = (peer.stream.try_clone().unwrap(), upstream);
    let _ = std::io::copy(&mut down, &mut up);
    let _ = up.shutdown(std::net::Shutdown::Both);
    back.join().unwrap();
}
