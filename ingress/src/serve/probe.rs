//! Finds out when an instance is ready, by asking it again and again.
//!
//! As queue-proxy does before a pod is ready: the first probe at once, the next one a short while after the last, and an HTTP
//! probe is answered by any status from 200 to 399.

use super::admission::Admission;
use crate::dispatch::ProbeTask;
use pingora_core::connectors::http::v1::Connector;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::RequestHeader;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Probes an instance until it is ready, is given up, or need not be probed any more.
pub async fn run(admission: Arc<Admission>, task: ProbeTask) {
    let ProbeTask { id, address, probe } = task;
    let began = Instant::now();
    let timeout = Duration::from_millis(probe.timeout_ms.max(1));
    let connector = Connector::new(None);
    let mut probes = 0;
    loop {
        let answer = tokio::time::timeout(timeout, ask(&connector, address, probe.path.as_deref())).await;
        probes += 1;
        let seen = match answer {
            Ok(Ok(())) => {
                return admission.with(|dispatch, now_ns| dispatch.become_ready(id, probes, now_ns));
            }
            Ok(Err(seen)) => seen,
            Err(_) => format!("no answer within {} ms", probe.timeout_ms),
        };
        if probe.give_up_ms.is_some_and(|limit_ms| began.elapsed() >= Duration::from_millis(limit_ms)) {
            return admission.with(|dispatch, now_ns| dispatch.gave_up(id, probes, seen, now_ns));
        }
        tokio::time::sleep(Duration::from_millis(probe.every_ms.max(1))).await;
        if !admission.with(|dispatch, _| dispatch.is_starting(id)) {
            return;
        }
    }
}

/// One probe, on a connection of its own; what was seen instead of readiness, otherwise.
async fn ask(connector: &Connector, address: SocketAddr, path: Option<&str>) -> Result<(), String> {
    let peer = HttpPeer::new(address, false, String::new());
    let (mut session, _) = connector.get_http_session(&peer).await.map_err(|error| error.to_string())?;
    let Some(path) = path else { return Ok(()) };
    let request = request(path, address).map_err(|error| error.to_string())?;
    session.write_request_header(Box::new(request)).await.map_err(|error| error.to_string())?;
    session.read_response().await.map_err(|error| error.to_string())?;
    match session.get_status().map(|status| status.as_u16()) {
        Some(200..400) => Ok(()),
        Some(status) => Err(format!("answered {status} to GET {path}")),
        None => Err(format!("did not answer GET {path}")),
    }
}

fn request(path: &str, address: SocketAddr) -> pingora_core::Result<RequestHeader> {
    let mut request = RequestHeader::build("GET", path.as_bytes(), None)?;
    request.insert_header("host", address.to_string())?;
    request.insert_header("user-agent", "towtank-ingress-probe")?;
    request.insert_header("connection", "close")?;
    Ok(request)
}

/// Can this path be asked for?
pub fn is_path(path: &str) -> bool {
    path.starts_with('/')
        && RequestHeader::build("GET", path.as_bytes(), None).is_ok()
        && !path.contains(char::is_whitespace)
}
