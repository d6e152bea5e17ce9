//! A name server that does what a script says.
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a question is answered with.
pub enum Reply {
    /// These addresses, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// This address, and not a word about the other family.
    Only(IpAddr),
    /// Another name.
    Alias(&'static str),
    /// There is no such name.
    NoName,
    /// Nothing at all.
    Silence,
}

/// Runs until it is dropped.
pub struct NameServer {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    stop: Arc<std::sync::atomic::AtomicBool>,
}

const A: u16 = 1;
const AAAA: u16 = 28;
const CNAME: u16 = 5;

impl NameServer {
    /// Calls `script` with the name and how often its address was asked for before.
    pub fn start(script: impl Fn(&str, usize) -> Reply + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (asked, stop): (Arc<Mutex<Vec<String>>>, Arc<std::sync::atomic::AtomicBool>) = Default::default();
        let (log, stopped) = (Arc::clone(&asked), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut packet = [0; 1500];
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                let Ok((count, from)) = socket.recv_from(&mut packet) else { continue };
                let (name, kind, end) = question(&packet[..count]);
                let before = log.lock().unwrap().iter().filter(|n| **n == name).count();
                if kind == A {
                    log.lock().unwrap().push(name.clone());
                }
                let reply = script(&name, if kind == A { before } else { before.saturating_sub(1) });
                if let Some(answer) = answer(&packet[..end], kind, &reply) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        Self { address, asked, stop }
    }

    /// How often the IPv4 address of this name was asked for.
    pub fn asked(&self, name: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|n| *n == name).count()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Name, type, and where the question ends.
fn question(packet: &[u8]) -> (String, u16, usize) {
    let (mut at, mut labels) = (12, Vec::new());
    while packet[at] > 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), u16::from_be_bytes([packet[at + 1], packet[at + 2]]), at + 5)
}

/// RFC 1035, section 4.
fn answer(question: &[u8], kind: u16, reply: &Reply) -> Option<Vec<u8>> {
    let (addresses, ttl, code) = match reply {
        Reply::Only(address) if (kind == AAAA) != address.is_ipv6() => return None,
        Reply::Only(address) => (std::slice::from_ref(address), 60, 0),
        Reply::Alias(name) => return Some(alias(question, name)),
        Reply::Addresses(addresses, ttl) => (&addresses[..], *ttl, 0),
        Reply::NoName => (&[][..], 0, 3),
        Reply::Silence => return None,
    };
    let fitting: Vec<_> =
        addresses.iter().filter(|a| if kind == AAAA { a.is_ipv6() } else { a.is_ipv4() }).collect();
    let mut packet = question.to_vec();
    packet[2..4].copy_from_slice(&[0x85, 0x80 | code]);
    packet[4..12].copy_from_slice(&[0, 1, 0, fitting.len() as u8, 0, 0, 0, 0]);
    for address in fitting {
        let bytes = match address {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        packet.extend_from_slice(&[0xc0, 12]);
        packet.extend_from_slice(&kind.to_be_bytes());
        packet.extend_from_slice(&[0, 1]);
        packet.extend_from_slice(&ttl.to_be_bytes());
        packet.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        packet.extend_from_slice(&bytes);
    }
    Some(packet)
}

fn alias(question: &[u8], name: &str) -> Vec<u8> {
    let mut packet = question.to_vec();
    packet[2..4].copy_from_slice(&[0x85, 0x80]);
    packet[4..12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    let data: Vec<u8> = labels.chain([0]).collect();
    packet.extend_from_slice(&[0xc0, 12]);
    packet.extend_from_slice(&CNAME.to_be_bytes());
    packet.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
    packet.extend_from_slice(&data);
    packet
}
