//! The few questions to the kernel's rtnetlink that cutting an interface takes.
//!
//! Layouts are those of `linux/netlink.h`, `rtnetlink.h`, `pkt_sched.h` and `pkt_cls.h`; numbers are in the machine's order.
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;
const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;
/// An answer to a dump comes in pieces of at most this.
const ANSWER_BYTES: usize = 64 << 10;

const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const LINK_NAME: u16 = 3;
const BPF_LENGTH: u16 = 4;
const BPF_PROGRAM: u16 = 5;
const BPF_FLAGS: u16 = 8;
const BPF_DIRECT: u32 = 1;
const LOOPBACK: u32 = 8;
const IS_UP: u32 = 1;

const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// What comes in, and what goes out.
const DIRECTIONS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// Our filters have this priority, by which they are known.
const PRIORITY: u32 = 0x7417;
const ALL_PROTOCOLS: u16 = 3;
/// Classic BPF: `ret 2`, which drops (`TC_ACT_SHOT`).
const DROP: [u8; 8] = {
    let code = 6_u16.to_ne_bytes();
    let verdict = 2_u32.to_ne_bytes();
    [code[0], code[1], 0, 0, verdict[0], verdict[1], verdict[2], verdict[3]]
};

/// An interface of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number in its namespace.
    pub index: i32,
    /// Name.
    pub name: String,
}

/// A connection to the kernel, in one network namespace.
pub struct Netlink(OwnedFd);

/// Does something in the network namespace of a process.
pub fn within<T: Send>(
    pid: i32,
    work: impl FnOnce(&Netlink) -> Result<T, String> + Send,
) -> Result<T, String> {
    let inside = move || {
        let path = format!("/proc/{pid}/ns/net");
        let space = File::open(&path).map_err(|e| format!("{path}: {e}"))?;
        // This thread only, and it ends with the work.
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|e| format!("{path} cannot be entered: {e}"))?;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .map_err(|e| format!("no connection to the kernel's network: {e}"))?;
        work(&Netlink(socket))
    };
    std::thread::scope(|scope| scope.spawn(inside).join())
        .unwrap_or_else(|_| Err("what was to be done to the network failed".into()))
}

impl Netlink {
    /// Interfaces that are up, without loopback.
    pub fn links(&self) -> Result<Vec<Link>, String> {
        let answers = self.ask(GET_LINK, REQUEST | DUMP, &[0; LINK_BYTES]).map_err(|e| said("links", e))?;
        Ok(answers.iter().filter(|(kind, _)| *kind == NEW_LINK).filter_map(|(_, body)| link(body)).collect())
    }

    /// Lets nothing through an interface. Where classifiers of others are on it, it is left alone.
    pub fn cut(&self, link: &Link) -> Result<(), String> {
        let made = self.ask(NEW_QDISC, REQUEST | ACK | CREATE | EXCLUSIVE, &clsact(link));
        match made {
            Ok(_) => {}
            Err(Errno::EXIST) => {
                return Err(format!("interface {} has classifiers (clsact) of somebody else", link.name));
            }
            Err(error) => return Err(said(&format!("interface {}: clsact", link.name), error)),
        }
        for direction in DIRECTIONS {
            let flags = REQUEST | ACK | CREATE | EXCLUSIVE;
            if let Err(error) = self.ask(NEW_FILTER, flags, &filter(link, direction)) {
                let _ = self.ask(DELETE_QDISC, REQUEST | ACK, &clsact(link));
                return Err(said(&format!("interface {}: a filter (cls_bpf)", link.name), error));
            }
        }
        Ok(())
    }

    /// Undoes [`Netlink::cut`]; what is not ours stays.
    pub fn mend(&self, link: &Link) -> Result<(), String> {
        let mut ours = false;
        for direction in DIRECTIONS {
            match self.ask(DELETE_FILTER, REQUEST | ACK, &traffic(link, direction)) {
                Ok(_) => ours = true,
                Err(Errno::NOENT | Errno::INVAL | Errno::NODEV) => {}
                Err(error) => return Err(said(&format!("interface {}: a filter", link.name), error)),
            }
        }
        if !ours {
            return Ok(());
        }
        self.ask(DELETE_QDISC, REQUEST | ACK, &clsact(link))
            .map(drop)
            .map_err(|e| said(&format!("interface {}: clsact", link.name), e))
    }

    /// Sends a request, and collects what is answered.
    fn ask(&self, kind: u16, flags: u16, body: &[u8]) -> Result<Vec<(u16, Vec<u8>)>, Errno> {
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(body);
        send(&self.0, &message, SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; ANSWER_BYTES];
        loop {
            let (got, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            if take(&buffer[..got], &mut answers)? {
                return Ok(answers);
            }
        }
    }
}

/// Takes the messages of an answer; whether it was the last.
fn take(mut all: &[u8], answers: &mut Vec<(u16, Vec<u8>)>) -> Result<bool, Errno> {
    while let (Some(length), Some(kind)) = (number(all, 0), half(all, 4)) {
        let length = length as usize;
        let Some(body) = all.get(HEADER_BYTES..length) else { return Err(Errno::BADMSG) };
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let code = number(body, 0).unwrap_or(0).cast_signed();
                return if code == 0 { Ok(true) } else { Err(Errno::from_raw_os_error(-code)) };
            }
            _ => answers.push((kind, body.to_vec())),
        }
        all = all.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn link(body: &[u8]) -> Option<Link> {
    let flags = number(body, 8)?;
    let mut rest = body.get(LINK_BYTES..)?;
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let value = rest.get(ATTRIBUTE_BYTES..length.into())?;
        if kind == LINK_NAME {
            let name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
            let wanted = flags & LOOPBACK == 0 && flags & IS_UP != 0;
            return wanted.then_some(Link { index: number(body, 4)?.cast_signed(), name });
        }
        rest = rest.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn clsact(link: &Link) -> Vec<u8> {
    let mut body = traffic_message(link, CLSACT_HANDLE, CLSACT, 0);
    attribute(&mut body, KIND, b"clsact\0");
    body
}

fn filter(link: &Link, direction: u32) -> Vec<u8> {
    let mut body = traffic(link, direction);
    let mut options = Vec::new();
    attribute(&mut options, BPF_LENGTH, &1_u16.to_ne_bytes());
    attribute(&mut options, BPF_PROGRAM, &DROP);
    attribute(&mut options, BPF_FLAGS, &BPF_DIRECT.to_ne_bytes());
    attribute(&mut body, KIND, b"bpf\0");
    attribute(&mut body, OPTIONS, &options);
    body
}

/// About our filters of an interface, whatever handles they were given.
fn traffic(link: &Link, direction: u32) -> Vec<u8> {
    traffic_message(link, 0, direction, (PRIORITY << 16) | u32::from(ALL_PROTOCOLS.to_be()))
}

/// `struct tcmsg`.
fn traffic_message(link: &Link, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&link.index.to_ne_bytes());
    for number in [handle, parent, info] {
        body.extend_from_slice(&number.to_ne_bytes());
    }
    body
}

fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend_from_slice(&((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

fn number(from: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(from.get(at..at + 4)?.try_into().ok()?))
}

fn half(from: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(from.get(at..at + 2)?.try_into().ok()?))
}

fn said(what: &str, error: Errno) -> String {
    format!("{what}: {error}")
}
