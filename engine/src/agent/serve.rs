//! The life of an agent: it reads its machine each interval, watches containers, and answers whoever has the token.
use super::Roots;
use super::group_watch::{Change, GroupWatch, What};
use super::groups::Layout;
use super::number::{Meter, Number, Shown, Values};
use super::ring::Ring;
use super::{ceph, host, nfs, session};
use crate::build_info;
use crate::remote::door::{Door, at_most, spawn};
use crate::remote::handshake::{self, Token};
use crate::remote::pipe::Pipe;
use crate::transport::reactor::monotonic_ns;
use serde::Serialize;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Whoever asks does so more often than this; longer silence means that it has gone.
const SILENCE: Duration = Duration::from_secs(180);
/// … and more rarely where readings are rare.
const SILENT_INTERVALS: u32 = 3;
const MOST_CONNECTIONS: usize = 4;

/// What an agent is given besides its way to be reached.
pub struct Terms {
    /// Where the machine is read.
    pub roots: Roots,
    /// Between two readings.
    pub interval: Duration,
}

/// What is kept and handed out.
#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Reading { t_ns: u64, values: BTreeMap<String, Values> },
    Container { t_ns: u64, container: &'static str, pod: String, id: String },
}

struct Agent {
    ring: Ring,
    terms: Terms,
    layout: Option<Layout>,
    /// Why containers are not watched, or empty.
    unwatched: String,
    /// It was started anew when this is another.
    life: String,
}

/// Answers whoever connects to this address and has the token, until a signal ends it.
pub fn over_tcp(
    address: &str,
    token: Token,
    terms: Terms,
    listening: impl FnOnce(SocketAddr),
) -> Result<(), String> {
    end_on_signals()?;
    let (door, bound) = Door::open(address, token)?;
    let agent = Agent::begin(terms)?;
    listening(bound);
    let answering = Arc::clone(&agent);
    door.serve(at_most(MOST_CONNECTIONS, move |mut stream, proof| {
        let silence = SILENCE.max(answering.terms.interval * SILENT_INTERVALS);
        let _ = stream.set_read_timeout(Some(silence));
        let _ = session::answer(&mut stream, &answering.welcome(proof), &answering.ring);
    }))?;
    agent.read_on()
}

/// Answers whoever started it, over stdin and stdout, until that connection ends.
pub fn over_stdio(terms: Terms) -> Result<(), String> {
    let agent = Agent::begin(terms)?;
    let reading = Arc::clone(&agent);
    spawn("readings", move || {
        let _ = reading.read_on();
    })?;
    let mut pipe = Pipe::of_process();
    let proof = handshake::greet(&mut pipe, None).map_err(|refused| refused.to_string())?;
    session::answer(&mut pipe, &agent.welcome(&proof), &agent.ring).map_err(|error| error.to_string())
}

impl Agent {
    fn begin(terms: Terms) -> Result<Arc<Self>, String> {
        let layout = Layout::find(&terms.roots.sys);
        let watch = layout.clone().map(GroupWatch::begin);
        let unwatched = match &watch {
            None => "there are no control groups of pods".to_owned(),
            Some(Err(error)) => format!("control groups cannot be watched: {error}"),
            Some(Ok(_)) => String::new(),
        };
        let life = format!("{}-{}", std::process::id(), monotonic_ns());
        let agent = Arc::new(Self { ring: Ring::default(), terms, layout, unwatched, life });
        if let Some(Ok(watch)) = watch {
            let telling = Arc::clone(&agent);
            spawn("containers", move || telling.tell(watch))?;
        }
        Ok(agent)
    }

    /// Reads at multiples of the interval; what was missed stays missed.
    fn read_on(&self) -> Result<(), String> {
        let interval_ns = self.terms.interval.as_nanos() as u64;
        let mut meter = Meter::default();
        loop {
            let t_ns = monotonic_ns();
            let values = meter.read(self.numbers(), t_ns);
            self.ring.push(&Item::Reading { t_ns, values });
            let now_ns = monotonic_ns();
            std::thread::sleep(Duration::from_nanos(interval_ns - now_ns % interval_ns));
        }
    }

    fn numbers(&self) -> Vec<Number> {
        let mut numbers = Vec::with_capacity(64);
        let roots = &self.terms.roots;
        host::read(roots, &mut numbers);
        nfs::read(&host::text(&roots.proc.join("1/mountstats")), &mut numbers);
        ceph::read_kernel(&roots.sys, &mut numbers);
        if let Some(folder) = &roots.ceph_sockets {
            ceph::read_sockets(folder, &mut numbers);
        }
        if let Some(layout) = &self.layout {
            layout.read(&mut numbers);
        }
        numbers.push(Number::of_host("agent_cpu_cores", own_cpu_s(), Shown::Rate));
        let resident = host::text(std::path::Path::new("/proc/self/statm"));
        if let Some(pages) = resident.split_ascii_whitespace().nth(1).and_then(host::number) {
            let bytes = pages * rustix::param::page_size() as f64;
            numbers.push(Number::of_host("agent_memory_bytes", bytes, Shown::Level));
        }
        numbers
    }

    /// Containers, as long as they can be watched.
    fn tell(&self, mut watch: GroupWatch) {
        while let Ok(changes) = watch.wait() {
            for Change { t_ns, what, pod, container: id } in changes {
                let container = match what {
                    What::Started => "started",
                    What::Ended => "ended",
                    What::Missed => "missed",
                };
                self.ring.push(&Item::Container { t_ns, container, pod, id });
            }
        }
    }

    fn welcome(&self, proof: &str) -> Value {
        json!({
            "event": "welcome",
            "proof": proof,
            "engine": build_info::VERSION,
            "build": build_info::json(),
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "pid": std::process::id(),
            "life": self.life,
            "interval_ms": self.terms.interval.as_millis() as u64,
            "newest": self.ring.newest(),
            "containers": self.layout.as_ref().filter(|_| self.unwatched.is_empty()).map(|layout| {
                if layout.unified { "cgroup v2" } else { "cgroup v1" }
            }),
            "unwatched": self.unwatched,
        })
    }
}

fn own_cpu_s() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// It has nothing to put in order: a signal ends it at once, also as process 1 of a container.
fn end_on_signals() -> Result<(), String> {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(signal, 0, always)
            .map_err(|e| format!("cannot watch signals: {e}"))?;
    }
    Ok(())
}
