//! Toxics of a Toxiproxy in the same pod: what goes over one of its ways is delayed, lost or broken by them.
//!
//! It listens on loopback only, where nobody else may tell it anything: it asks for no token. What it is told lives in its
//! memory, so one that was started again has no toxics.
use super::orders::Id;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const LONGEST_ANSWER_BYTES: u64 = 1 << 20;
const OK: u16 = 200;
const GONE: u16 = 404;

/// One of them, in Toxiproxy's own words.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Toxic {
    /// By which it is taken away again.
    pub name: Id,
    #[serde(rename = "type")]
    kind: String,
    stream: String,
    toxicity: f64,
    attributes: Map<String, Value>,
}

/// Looks whether a way is there.
pub fn find_way(api: SocketAddr, way: &Id) -> Result<(), String> {
    if !api.ip().is_loopback() {
        return Err(format!("a Toxiproxy is told what to do on loopback only, and {api} is not there"));
    }
    match ask(api, "GET", &format!("/proxies/{}", way.text()), "").map_err(|e| lost(api, &e))? {
        (OK, _) => Ok(()),
        (status, said) => Err(refused(&format!("has no way {}", way.text()), status, &said)),
    }
}

/// Puts all of them on each way; connections that stand are met, too.
pub fn put_all(api: SocketAddr, ways: &[Id], toxics: &[Toxic]) -> Result<(), String> {
    ways.iter().try_for_each(|way| toxics.iter().try_for_each(|one| put(api, way, one)))
}

/// Takes all of them away from each way; what is not there needs nothing.
pub fn take_all_away(api: SocketAddr, ways: &[Id], names: &[Id]) -> Result<(), String> {
    ways.iter().try_for_each(|way| names.iter().rev().try_for_each(|name| take_away(api, way, name)))
}

fn put(api: SocketAddr, way: &Id, toxic: &Toxic) -> Result<(), String> {
    let body = serde_json::to_string(toxic).map_err(|e| e.to_string())?;
    match ask(api, "POST", &format!("/proxies/{}/toxics", way.text()), &body).map_err(|e| lost(api, &e))? {
        (200..=299, _) => Ok(()),
        (status, said) => Err(refused("refuses a toxic", status, &said)),
    }
}

fn take_away(api: SocketAddr, way: &Id, name: &Id) -> Result<(), String> {
    match ask(api, "DELETE", &format!("/proxies/{}/toxics/{}", way.text(), name.text()), "") {
        Ok((200..=299 | GONE, _)) => Ok(()),
        Ok((status, said)) => Err(refused("keeps a toxic", status, &said)),
        // It ended, and its toxics with it.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(lost(api, &error)),
    }
}

/// Status and body of its answer. In HTTP/1.0 the end of the connection is that of the answer.
fn ask(api: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&api, CONNECT_WITHIN)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {api}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER_BYTES).read_to_end(&mut answer)?;
    read(&answer).ok_or_else(|| std::io::Error::new(ErrorKind::InvalidData, "what answers is no HTTP server"))
}

fn read(answer: &[u8]) -> Option<(u16, String)> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(body) = response.parse(answer).ok()? else { return None };
    Some((response.code?, String::from_utf8_lossy(&answer[body..]).trim().to_owned()))
}

fn lost(api: SocketAddr, error: &std::io::Error) -> String {
    format!("the Toxiproxy at {api} does not answer: {error}")
}

fn refused(what: &str, status: u16, said: &str) -> String {
    format!("the Toxiproxy {what}: status {status}, {said}")
}
