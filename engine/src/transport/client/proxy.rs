//! Asks a proxy for a way to an endpoint.
//!
//! An answer is looked at first and then taken no further than its end: what follows belongs to the endpoint.
use super::Client;
use super::endpoints::Ask;
use super::exchange::Limit;
use crate::job::{BaseUrl, Target, bracketed};
use crate::transport::reactor::{Interest, SocketId};
use crate::transport::{Outcome, Trouble};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::IpAddr;

/// A proxy's answer is shorter than this.
const MAX_ANSWER: usize = 16 * 1024;

/// What an answer so far means.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is not complete.
    More,
    /// So many bytes of it, and the way is free.
    Granted(usize),
    /// It is not, for this reason.
    Refused(String),
}

impl Client {
    /// Asks for the endpoint and waits for the answer.
    pub(super) async fn tunnel(
        &self,
        fd: &OwnedFd,
        id: SocketId,
        ask: Ask,
        (target, endpoint): (usize, usize),
        limit: Limit,
    ) -> Result<(), Outcome> {
        let url = self.endpoints.borrow().url(endpoint).clone();
        let target = &self.plan.job.targets[target];
        if ask == Ask::Connect {
            let request = connect_request(target, &url);
            return self.negotiate(fd, id, endpoint, &request, connect_verdict, limit).await;
        }
        self.negotiate(fd, id, endpoint, &SOCKS_GREETING, socks_greeting_verdict, limit).await?;
        let request = socks_request(&url);
        self.negotiate(fd, id, endpoint, &request, socks_verdict, limit).await
    }

    /// A proxy that was given a request wants to know first who asks.
    pub(super) fn unwelcome(&self, endpoint: usize) -> Outcome {
        let why =
            "the proxy answered 407: it wants to know who asks, by a proxy-authorization among proxy.headers";
        self.report(Trouble::Proxy, endpoint, &why);
        Outcome::Proxy
    }

    async fn negotiate(
        &self,
        fd: &OwnedFd,
        id: SocketId,
        endpoint: usize,
        request: &[u8],
        verdict: fn(&[u8]) -> Verdict,
        limit: Limit,
    ) -> Result<(), Outcome> {
        let refused = |why: &dyn std::fmt::Display| {
            self.report(Trouble::Proxy, endpoint, why);
            Outcome::Proxy
        };
        // It is short and the connection new: there is room for it.
        if !matches!(send(fd, request, SendFlags::NOSIGNAL), Ok(count) if count == request.len()) {
            return Err(refused(&"the proxy takes no request"));
        }
        let mut answer = vec![0; MAX_ANSWER];
        loop {
            let verdict = match recv(fd, &mut answer[..], RecvFlags::PEEK) {
                Ok((0, _)) => return Err(refused(&"the proxy closed the connection without an answer")),
                Ok((MAX_ANSWER.., _)) => {
                    return Err(refused(&format_args!("an answer of more than {MAX_ANSWER} bytes")));
                }
                Ok((count, _)) => verdict(&answer[..count]),
                Err(Errno::AGAIN | Errno::INTR) => Verdict::More,
                Err(errno) => return Err(refused(&format_args!("the proxy broke the connection: {errno}"))),
            };
            match verdict {
                Verdict::Granted(used) => {
                    // They are there: they have just been seen.
                    let taken = recv(fd, &mut answer[..used], RecvFlags::empty());
                    return taken.map(drop).map_err(|errno| refused(&errno));
                }
                Verdict::Refused(why) => return Err(refused(&why)),
                Verdict::More => {
                    self.rt.clear_readable(id);
                    let wait = self.rt.socket(id, Interest::Read, limit.at_ns).await;
                    limit.check(wait, Outcome::TimeoutConnect)?;
                }
            }
        }
    }
}

fn connect_request(target: &Target, url: &BaseUrl) -> Vec<u8> {
    let authority = format!("{}:{}", bracketed(&url.host), url.port);
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    for (name, value) in target.proxy.iter().flat_map(|proxy| &proxy.headers) {
        request.extend([name.as_str(), ": ", value, "\r\n"]);
    }
    request.push_str("\r\n");
    request.into_bytes()
}

/// RFC 9110, section 9.3.6: any 2xx; interim answers before it say nothing (section 15.2).
pub fn connect_verdict(answer: &[u8]) -> Verdict {
    let mut skipped = 0;
    loop {
        match answer_verdict(&answer[skipped..]) {
            Said::Interim(used) => skipped += used,
            Said::Final(Verdict::Granted(used)) => return Verdict::Granted(skipped + used),
            Said::Final(verdict) => return verdict,
        }
    }
}

/// What one answer to CONNECT is.
enum Said {
    /// So many bytes that come before the answer that counts.
    Interim(usize),
    Final(Verdict),
}

fn answer_verdict(answer: &[u8]) -> Said {
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut response = httparse::Response::new(&mut headers);
    let verdict = match response.parse(answer) {
        Ok(httparse::Status::Partial) => Verdict::More,
        Ok(httparse::Status::Complete(used)) => match response.code {
            Some(100 | 102..=199) => return Said::Interim(used),
            Some(200..=299) => Verdict::Granted(used),
            Some(code) => {
                Verdict::Refused(format!("the proxy answered {code} {}", response.reason.unwrap_or("")))
            }
            None => Verdict::Refused("the proxy answered without a status".into()),
        },
        Err(error) => Verdict::Refused(format!("the proxy does not speak HTTP: {error}")),
    };
    Said::Final(verdict)
}

/// Version 5, one method, no authentication (RFC 1928, section 3).
const SOCKS_GREETING: [u8; 3] = [5, 1, 0];

/// Whether the proxy lets one in without a password.
pub fn socks_greeting_verdict(answer: &[u8]) -> Verdict {
    match answer {
        [] | [5] => Verdict::More,
        [5, 0, ..] => Verdict::Granted(2),
        [5, ..] => Verdict::Refused("the proxy asks for a user name or the like".into()),
        _ => Verdict::Refused("the proxy does not speak SOCKS 5".into()),
    }
}

fn socks_request(url: &BaseUrl) -> Vec<u8> {
    let mut request = vec![5, 1, 0];
    match url.host.parse() {
        Ok(IpAddr::V4(ip)) => {
            request.push(1);
            request.extend_from_slice(&ip.octets());
        }
        Ok(IpAddr::V6(ip)) => {
            request.push(4);
            request.extend_from_slice(&ip.octets());
        }
        Err(_) => {
            // A name in the DNS has at most 253 bytes; what is longer, no proxy could resolve.
            let name = &url.host.as_bytes()[..url.host.len().min(255)];
            request.extend_from_slice(&[3, name.len() as u8]);
            request.extend_from_slice(name);
        }
    }
    request.extend_from_slice(&url.port.to_be_bytes());
    request
}

/// The answer to a request (RFC 1928, section 6).
pub fn socks_verdict(answer: &[u8]) -> Verdict {
    let [version, reply, _, kind, rest @ ..] = answer else {
        return match answer {
            [] | [5, ..] => Verdict::More,
            _ => Verdict::Refused("the proxy does not speak SOCKS 5".into()),
        };
    };
    if *version != 5 {
        return Verdict::Refused("the proxy does not speak SOCKS 5".into());
    }
    if *reply != 0 {
        return Verdict::Refused(format!("the proxy refused: {}", socks_reason(*reply)));
    }
    let address = match (kind, rest.first()) {
        (1, _) => 4,
        (4, _) => 16,
        (3, Some(length)) => 1 + usize::from(*length),
        (3, None) => return Verdict::More,
        _ => return Verdict::Refused(format!("the proxy gave an address of the unknown kind {kind}")),
    };
    let used = 4 + address + 2;
    if answer.len() < used { Verdict::More } else { Verdict::Granted(used) }
}

fn socks_reason(reply: u8) -> String {
    match reply {
        1 => "general failure".into(),
        2 => "not allowed by its rules".into(),
        3 => "network unreachable".into(),
        4 => "host unreachable".into(),
        5 => "connection refused".into(),
        6 => "time to live expired".into(),
        7 => "command not supported".into(),
        8 => "address type not supported".into(),
        other => format!("code {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_end_where_they_end() {
        let answer = b"HTTP/1.1 200 Fine\r\nx: 1\r\n\r\n\x16\x03";
        for size in 0..answer.len() - 2 {
            assert_eq!(connect_verdict(&answer[..size]), Verdict::More, "{size}");
        }
        assert_eq!(connect_verdict(answer), Verdict::Granted(answer.len() - 2));
        // Interim answers come before the one that counts, whole or in pieces.
        let patient = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 Fine\r\n\r\n\x16";
        for size in 0..patient.len() - 1 {
            assert_eq!(connect_verdict(&patient[..size]), Verdict::More, "{size}");
        }
        assert_eq!(connect_verdict(patient), Verdict::Granted(patient.len() - 1));
        let refused = connect_verdict(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\n\r\n");
        assert_eq!(refused, Verdict::Refused("the proxy answered 403 Forbidden".into()));
        let switched = connect_verdict(b"HTTP/1.1 101 Switching\r\n\r\n");
        assert!(matches!(switched, Verdict::Refused(_)), "{switched:?}");
        let granted = [5, 0, 0, 3, 2, b'a', b'b', 0, 80, 0x16];
        for size in 0..9 {
            assert_eq!(socks_verdict(&granted[..size]), Verdict::More, "{size}");
        }
        assert_eq!(socks_verdict(&granted), Verdict::Granted(9));
        assert_eq!(socks_greeting_verdict(&[5, 0, 5]), Verdict::Granted(2));
    }

    #[test]
    fn names_and_addresses_are_asked_for_as_what_they_are() {
        let url = |text| BaseUrl::parse(text).expect("valid");
        assert_eq!(socks_request(&url("http://ab:258")), [5, 1, 0, 3, 2, b'a', b'b', 1, 2]);
        assert_eq!(socks_request(&url("http://1.2.3.4:80")), [5, 1, 0, 1, 1, 2, 3, 4, 0, 80]);
        assert_eq!(socks_request(&url("http://[::1]:80")).len(), 3 + 1 + 16 + 2);
    }

    proptest! {
        #[test]
        fn no_answer_grants_more_than_it_has(
            mut answer in prop::collection::vec(any::<u8>(), 0..300), version in prop::bool::ANY, http in prop::bool::ANY,
        ) {
            if version && answer.len() > 1 {
                answer[..2].copy_from_slice(&[5, 0]);
            }
            for verdict in [socks_greeting_verdict, socks_verdict] {
                if let Verdict::Granted(used) = verdict(&answer) {
                    prop_assert!(used <= answer.len());
                }
            }
            let mut text = if http { b"HTTP/1.1 200 OK\r\n".to_vec() } else { Vec::new() };
            text.extend_from_slice(&answer);
            text.extend_from_slice(b"\r\n\r\n");
            if let Verdict::Granted(used) = connect_verdict(&text) {
                prop_assert!(used <= text.len());
            }
        }
    }
}
