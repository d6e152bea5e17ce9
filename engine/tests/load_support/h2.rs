//! Servers of HTTP/2: one of the `h2` crate, and one that says the bytes it is given.
use super::{Outcome, job};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{self, SendResponse};
use http::{Request, Response};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What a server does with its connections.
pub type Builder = fn(&mut server::Builder);
/// A request, and how to answer it.
pub type Exchange = (Request<RecvStream>, SendResponse<Bytes>);

/// A server of the `h2` crate, until it is dropped.
pub struct H2 {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    /// The most requests at once on one connection.
    pub peak: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl H2 {
    /// Calls `answer` for each request, each in a task of its own; it is given the number of the connection too.
    pub fn start<F>(
        builder: Builder,
        answer: impl Fn(usize, Exchange) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, peak) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (count, most) = (Arc::clone(&connections), Arc::clone(&peak));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = count.fetch_add(1, Ordering::Relaxed);
                let (answer, most) = (answer.clone(), Arc::clone(&most));
                tokio::spawn(async move {
                    let mut settings = server::Builder::new();
                    builder(&mut settings);
                    let Ok(mut connection) = settings.handshake::<_, Bytes>(stream).await else { return };
                    let live = Arc::<AtomicUsize>::default();
                    while let Some(Ok(exchange)) = connection.accept().await {
                        most.fetch_max(live.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                        let (done, live) = (answer(number, exchange), Arc::clone(&live));
                        tokio::spawn(async move {
                            done.await;
                            live.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        Self { address, connections, peak, _runtime: runtime }
    }

    /// Answers each request with the number of bytes that it brought, after a while.
    pub fn echo(builder: Builder, after: Duration) -> Self {
        Self::start(builder, move |_, (request, mut respond)| async move {
            let count = drain(request.into_body()).await;
            tokio::time::sleep(after).await;
            let head = Response::builder().header("x-instance", "pod-1").body(()).unwrap();
            let Ok(mut body) = respond.send_response(head, false) else { return };
            let _ = body.send_data(count.to_string().into(), true);
        })
    }

    pub fn job(&self, load: Value, steps: Value) -> Value {
        let mut job = job(&self.address.to_string(), load, steps);
        job["targets"]["app"]["protocol"] = "http2".into();
        job
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

pub async fn drain(mut body: RecvStream) -> usize {
    let mut count = 0;
    while let Some(Ok(chunk)) = body.data().await {
        count += chunk.len();
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    count
}

pub fn plain(_: &mut server::Builder) {}

pub fn pooled(mut job: Value) -> Value {
    job["workloads"][0]["connections"] = json!({"policy": "pool"});
    job
}

pub fn answered(outcome: &Outcome) -> usize {
    outcome.outcomes().iter().filter(|o| *o == "answered").count()
}

/// A server that sends these bytes after the preface and a request, and closes after `linger`.
pub fn raw(answer: Vec<u8>, linger: Duration) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::<AtomicUsize>::default();
    let accepted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            accepted.fetch_add(1, Ordering::Relaxed);
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer);
                let _ = stream.write_all(&answer);
                // What is not read would make the close a reset.
                stream.set_read_timeout(Some(linger)).unwrap();
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            });
        }
    });
    (address, count)
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
