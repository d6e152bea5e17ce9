//! The process: it listens, reports each second, and ends in order.

pub mod admission;
pub mod client;
pub mod clock;
pub mod control;
pub mod probe;
pub mod proxy;

use self::admission::Admission;
use self::proxy::{AddedHeaders, Proxy};
use crate::build_info;
use crate::dispatch::Dispatch;
use crate::events::Events;
use crate::protocol::{Event, PROTOCOL};
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::l4::stream::Stream;
use pingora_core::server::ShutdownWatch;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::{HttpProxy, http_proxy};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

const STATS_EVERY_NS: u64 = 1_000_000_000;
/// Longer than any user of ours thinks; a server of an application has no such limit, or one of its own.
const CLIENT_IDLE_S: u64 = 3600;
/// Kept connections to instances; beyond as many, the one that was used longest ago is closed.
const KEPT_CONNECTIONS: usize = 16_384;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Until there are descriptors again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How it serves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where.
    pub listen: SocketAddr,
    /// Threads that carry requests.
    pub threads: usize,
    /// What requests in flight have at the end.
    pub grace: Duration,
    /// How long a connection to an instance is kept.
    pub upstream_idle: Duration,
    /// What answers say of their way.
    pub headers: AddedHeaders,
}

/// Serves until stdin ends or a signal says so.
pub fn run(settings: Settings) -> io::Result<()> {
    raise_descriptor_limit();
    let mut runtime = match settings.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(settings.threads.max(1)).enable_all().build()?;
    let (events, writer) = Events::to(io::stdout());
    let served = runtime.block_on(serve(settings, events));
    // Whatever is still under way was told to be interrupted.
    runtime.shutdown_background();
    writer.finish();
    served
}

async fn serve(settings: Settings, events: Events) -> io::Result<()> {
    let listener = TcpListener::bind(settings.listen).await?;
    let admission = Admission::new(events.clone());
    let (stop, stopping) = watch::channel(false);
    let conf = ServerConf {
        threads: settings.threads,
        upstream_keepalive_pool_size: KEPT_CONNECTIONS,
        ..ServerConf::default()
    };
    let proxy = Proxy::new(admission.clone(), settings.headers, settings.upstream_idle);
    let proxy = Arc::new(http_proxy(&Arc::new(conf), proxy));
    events.send(Event::Ready {
        protocol: PROTOCOL,
        pid: std::process::id(),
        listen: listener.local_addr()?,
        t_ns: clock::now_ns(),
        version: build_info::VERSION,
        build: build_info::json(),
    });
    let listening = tokio::spawn(accept_all(listener, proxy.clone(), stopping));
    let reporting = tokio::spawn(report(admission.clone()));
    end_of_control(&admission).await?;

    listening.abort();
    admission.with(Dispatch::begin_end);
    let _ = stop.send(true);
    proxy.http_cleanup().await;
    let deadline = tokio::time::Instant::now() + settings.grace;
    let under_way = || admission.with(|dispatch, _| dispatch.under_way());
    while under_way() > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    reporting.abort();
    let (stats, interrupted) =
        admission.with(|dispatch, now_ns| (dispatch.take_stats(now_ns), dispatch.under_way()));
    events.send(Event::Stats(Box::new(stats)));
    events.send(Event::Done { t_ns: clock::now_ns(), interrupted });
    Ok(())
}

/// Obeys stdin until it ends, or until TERM or INT.
async fn end_of_control(admission: &Arc<Admission>) -> io::Result<()> {
    let (told, mut end) = tokio::sync::mpsc::unbounded_channel();
    let (admission, runtime) = (admission.clone(), Handle::current());
    // A thread, since reading from stdin cannot be given up.
    std::thread::spawn(move || {
        control::obey(io::stdin().lock(), &admission, &runtime);
        let _ = told.send(());
    });
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = end.recv() => {}
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

async fn accept_all(listener: TcpListener, proxy: Arc<HttpProxy<Proxy>>, stopping: ShutdownWatch) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, proxy.clone(), stopping.clone()))),
            // Out of descriptors, or a client that left before it was accepted: the next one may do better.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection: request after request.
async fn converse(stream: TcpStream, proxy: Arc<HttpProxy<Proxy>>, stopping: ShutdownWatch) {
    // Without it small answers wait for acknowledgements; that it fails is no reason not to answer.
    let _ = stream.set_nodelay(true);
    let mut session = ServerSession::new_http1(Box::new(Stream::from(stream)));
    session.set_keepalive(Some(CLIENT_IDLE_S));
    session.set_pipelining_enabled(true);
    let mut reused = proxy.process_new_http(session, &stopping).await;
    while let Some((stream, settings)) = reused.map(pingora_core::apps::ReusedHttpStream::consume) {
        let mut session = ServerSession::new_http1(stream);
        if let Some(settings) = settings {
            settings.apply_to_session(&mut session);
        }
        reused = proxy.process_new_http(session, &stopping).await;
    }
}

/// Tells what happened, each second; a second that nobody has read is joined with the next.
async fn report(admission: Arc<Admission>) {
    let began_ns = clock::now_ns();
    for second in 1.. {
        let due_ns = began_ns + second * STATS_EVERY_NS;
        tokio::time::sleep(Duration::from_nanos(due_ns.saturating_sub(clock::now_ns()))).await;
        if admission.events().all_written() {
            let stats = admission.with(Dispatch::take_stats);
            admission.events().send(Event::Stats(Box::new(stats)));
        }
    }
}

/// Each request that is held or in flight has two descriptors or three.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is not granted is said by the kernel when it is needed.
    let _ = setrlimit(Resource::Nofile, limit);
}
