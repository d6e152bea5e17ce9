//! A disturber as a process: what it does to a real group of processes, and that all of it is undone, whatever ends it.
//!
//! A group of processes stands for a container: control groups that are named by a long id, as container runtimes name theirs.
//! Where none may be made (no root), these tests are left out and say so.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

mod worker_support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use towtank_engine::guard::cgroup::Tree;
use worker_support::{Orders, TOKEN};

const PATIENCE: Duration = Duration::from_secs(60);

struct Disturber {
    child: Child,
    address: String,
    dir: tempfile::TempDir,
}

impl Disturber {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        let (child, address) = Self::spawn(&dir);
        Self { child, address, dir }
    }

    fn spawn(dir: &tempfile::TempDir) -> (Child, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_towtank-engine"))
            .args(["disturb", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(dir.path().join("token"))
            .arg("--journal")
            .arg(dir.path().join("journal"))
            // The first process may belong to somebody else here.
            .args(["--machine", &std::process::id().to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        (child, said["address"].as_str().unwrap().to_owned())
    }

    /// Killed, and started again as a kubelet does it.
    fn killed_and_started(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.address) = Self::spawn(&self.dir);
    }

    fn connect(&self) -> Orders {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut orders = Orders(stream);
        orders.hello(TOKEN);
        orders.hear("welcome");
        orders
    }

    fn begin(&self, fault: &Value, lasts_ms: u64) -> (Orders, Value) {
        let mut orders = self.connect();
        orders.say(&json!({"do": "begin", "fault": fault, "lasts_ms": lasts_ms}));
        let said = orders.next();
        (orders, said)
    }

    fn noted(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("journal")).unwrap().count()
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes in control groups named like a container's.
struct Container {
    id: String,
    tree: Tree,
    child: Child,
}

impl Container {
    /// `None`, and a word about it, where that is not possible.
    fn start(script: &str) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{:032x}{:032x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tree = Tree::create(&id).unwrap();
        let mut entrances = tree.as_group().entrances();
        if entrances.is_empty() || entrances.iter().any(|(_, file)| file.is_err()) {
            eprintln!("left out: no control groups can be made here: {:?}", tree.notes);
            return None;
        }
        let child =
            Command::new("sh").args(["-c", &format!("read go; {script}")]).stdin(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        for (_, file) in &mut entrances {
            file.as_mut().unwrap().write_all(child.id().to_string().as_bytes()).unwrap();
        }
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        Some(Self { id, tree, child })
    }

    fn states(&self) -> Vec<char> {
        let pids = self.tree.as_group().pids();
        let stat = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        pids.into_iter().filter_map(|pid| stat(pid)?.rsplit_once(") ")?.1.chars().next()).collect()
    }

    fn is_stopped(&self) -> bool {
        let states = self.states();
        !states.is_empty() && states.iter().all(|state| *state == 'T')
    }

    fn runs(&self) -> bool {
        !self.states().contains(&'T')
    }

    fn fault(&self, kind: &str) -> Value {
        json!({"kind": kind, "containers": [self.id]})
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.tree.as_group().kill();
        let _ = self.child.wait();
        let until = Instant::now() + PATIENCE;
        while !self.tree.as_group().remove() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As much of a Toxiproxy as is spoken to: one way, and what is on it.
struct Toxiproxy {
    address: String,
    on: Arc<Mutex<Vec<String>>>,
}

impl Toxiproxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let on = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&on);
        // It ends with the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let status = Self::answer(&read_request(&mut stream), &mut kept.lock().unwrap());
                let _ = write!(stream, "HTTP/1.0 {status} Said\r\n\r\n{{}}");
            }
        });
        Self { address, on }
    }

    fn answer((head, body): &(String, Value), on: &mut Vec<String>) -> u16 {
        const WAY: &str = "/proxies/towtank-edge-0";
        let (method, path) = head.split_once(' ').unwrap();
        match (method, path.strip_prefix(WAY)) {
            ("GET", Some("")) => 200,
            ("POST", Some("/toxics")) if body["type"] == "latency" => {
                on.push(body["name"].as_str().unwrap().to_owned());
                200
            }
            ("POST", Some("/toxics")) => 400,
            ("DELETE", Some(rest)) => {
                let before = on.len();
                on.retain(|name| format!("/toxics/{name}") != rest);
                if on.len() < before { 204 } else { 404 }
            }
            _ => 404,
        }
    }

    fn fault(&self, way: &str, kinds: &[&str]) -> Value {
        let toxic = |(n, kind): (usize, &&str)| {
            json!({"name": format!("towtank-fault-{n}"), "type": kind, "stream": "downstream", "toxicity": 1.0,
                   "attributes": {"latency": 300}})
        };
        let toxics: Vec<Value> = kinds.iter().enumerate().map(toxic).collect();
        json!({"kind": "toxics", "api": self.address, "ways": [way], "toxics": toxics})
    }

    fn on(&self) -> usize {
        self.on.lock().unwrap().len()
    }
}

/// Method and path, and the body.
fn read_request(stream: &mut TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            Some(("Content-Length", count)) => length = count.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let head = first.rsplit_once(' ').unwrap().0.to_owned();
    (head, serde_json::from_slice(&body).unwrap_or_default())
}

#[test]
fn calls_go_wrong_until_that_is_undone_whatever_ends_it() {
    let (mut disturber, proxy) = (Disturber::start(), Toxiproxy::start());
    let fault = proxy.fault("towtank-edge-0", &["latency", "latency"]);
    let (mut orders, said) = disturber.begin(&fault, 60_000);
    assert_eq!((said["event"].as_str(), proxy.on(), disturber.noted()), (Some("began"), 2, 1), "{said}");
    orders.say(&json!({"do": "undo"}));
    orders.hear("undone");
    assert_eq!((proxy.on(), disturber.noted()), (0, 0));
    let (orders, _) = disturber.begin(&fault, 60_000);
    assert_eq!(proxy.on(), 2);
    drop(orders);
    eventually("the end of the connection undoes it", || proxy.on() == 0);
    let (_orders, _) = disturber.begin(&fault, 600_000);
    assert_eq!(proxy.on(), 2);
    disturber.killed_and_started();
    assert_eq!((proxy.on(), disturber.noted()), (0, 0), "it listens when that is done");
}

#[test]
fn toxics_that_cannot_be_put_leave_nothing() {
    let (disturber, proxy) = (Disturber::start(), Toxiproxy::start());
    let refused = |fault: &Value| {
        let (_, said) = disturber.begin(fault, 60_000);
        assert_eq!(
            (said["event"].as_str(), proxy.on(), disturber.noted()),
            (Some("refused"), 0, 0),
            "{said}"
        );
        said["message"].as_str().unwrap().to_owned()
    };
    let message = refused(&proxy.fault("towtank-edge-0", &["latency", "no-such-toxic"]));
    assert!(message.contains("refuses a toxic: status 400"), "{message}");
    let message = refused(&proxy.fault("towtank-edge-1", &["latency"]));
    assert!(message.contains("has no way towtank-edge-1: status 404"), "{message}");
    let mut elsewhere = proxy.fault("towtank-edge-0", &[]);
    elsewhere["api"] = json!("192.0.2.1:8474");
    assert!(refused(&elsewhere).contains("on loopback only"));
}

/// Two processes that do nothing.
const IDLE: &str = "sleep 600 & wait";

#[test]
fn what_is_stopped_goes_on_when_that_is_asked() {
    let Some(container) = Container::start(IDLE) else { return };
    let disturber = Disturber::start();
    eventually("both are there", || container.states().len() == 2);
    let (mut orders, said) = disturber.begin(&container.fault("stop"), 60_000);
    assert_eq!((said["event"].as_str(), said["facts"]["processes"].as_u64()), (Some("began"), Some(2)));
    assert!(container.is_stopped());
    assert_eq!(disturber.noted(), 1);
    orders.say(&json!({"do": "undo"}));
    assert_eq!(orders.next()["why"], "asked");
    assert!(container.runs());
    assert_eq!(disturber.noted(), 0);
}

#[test]
fn it_is_undone_at_the_deadline_and_when_the_connection_ends() {
    let Some(container) = Container::start(IDLE) else { return };
    let disturber = Disturber::start();
    let (mut orders, _) = disturber.begin(&container.fault("stop"), 300);
    assert!(container.is_stopped());
    assert_eq!(orders.hear("undone")["why"], "deadline");
    assert!(container.runs());
    let (orders, _) = disturber.begin(&container.fault("stop"), 60_000);
    assert!(container.is_stopped());
    drop(orders);
    eventually("it goes on", || container.runs());
}

#[test]
fn it_is_undone_on_a_signal_and_by_the_next_one_after_a_kill() {
    let Some(container) = Container::start(IDLE) else { return };
    let mut disturber = Disturber::start();
    let (_orders, _) = disturber.begin(&container.fault("stop"), 600_000);
    assert!(container.is_stopped());
    disturber.killed_and_started();
    assert!(container.runs(), "it listens when that is done");
    assert_eq!(disturber.noted(), 0);
    let (_orders, _) = disturber.begin(&container.fault("stop"), 600_000);
    assert!(container.is_stopped());
    let asked = Command::new("kill").arg(disturber.child.id().to_string()).status().unwrap();
    assert!(asked.success() && disturber.child.wait().unwrap().success());
    assert!(container.runs());
}

#[test]
fn cpu_is_limited_where_there_was_no_limit_and_given_back() {
    let Some(container) = Container::start("while :; do :; done") else { return };
    let limits: Vec<PathBuf> = container
        .tree
        .as_group()
        .directories()
        .iter()
        .flat_map(|directory| ["cpu.max", "cpu.cfs_quota_us"].map(|name| directory.join(name)))
        .filter(|path| path.exists())
        .collect();
    let Some(limit) = limits.first() else {
        eprintln!("left out: no control group limits CPU here");
        return;
    };
    let read = || std::fs::read_to_string(limit).unwrap().trim().to_owned();
    let before = read();
    let disturber = Disturber::start();
    let mut fault = container.fault("cpu");
    fault["cores"] = json!(0.1);
    let (mut orders, said) = disturber.begin(&fault, 60_000);
    assert_eq!(said["event"], "began", "{said}");
    assert!(read().starts_with("10000"), "{}", read());
    let (_, refused) = disturber.begin(&fault, 60_000);
    assert!(refused["message"].as_str().unwrap().contains("may use 0.1 cores already"), "{refused}");
    orders.say(&json!({"do": "undo"}));
    orders.hear("undone");
    assert_eq!(read(), before);
}

#[test]
fn a_volume_is_filled_and_emptied() {
    let Some(container) = Container::start(IDLE) else { return };
    let (disturber, volume) = (Disturber::start(), tempfile::tempdir().unwrap());
    let fault = json!({
        "kind": "disk", "containers": [container.id], "pod": "0000-none-such", "folder": volume.path(),
        "bytes": 2 << 20, "leave_bytes": 0, "leave_shared_bytes": 0,
    });
    let (mut orders, said) = disturber.begin(&fault, 60_000);
    assert_eq!(said["facts"]["bytes"], 2 << 20, "{said}");
    let file = volume.path().join(".towtank-fill");
    assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    let (_, refused) = disturber.begin(&fault, 60_000);
    assert_eq!(refused["event"], "refused");
    assert!(file.exists(), "what is the other's is left alone");
    orders.say(&json!({"do": "undo"}));
    orders.hear("undone");
    assert!(!file.exists());
}

#[test]
fn a_pod_is_cut_off_and_one_that_shares_the_machines_network_is_not() {
    let Some(plain) = Container::start(IDLE) else { return };
    let disturber = Disturber::start();
    let (_, refused) = disturber.begin(&plain.fault("cut"), 60_000);
    assert!(refused["message"].as_str().unwrap().contains("hostNetwork"), "{refused}");
    let wired = "exec unshare --net sh -c 'ip link add va type veth peer name vb; ip link set va up; ip link set vb up; \
                 sleep 600'";
    let Some(container) = Container::start(wired) else { return };
    let pid = container.child.id().to_string();
    let tc = |words: &[&str]| {
        let told =
            Command::new("nsenter").args(["--net", "--target", &pid, "tc"]).args(words).output().unwrap();
        String::from_utf8_lossy(&told.stdout).into_owned()
    };
    eventually("the wire is there", || tc(&["qdisc", "show"]).contains("dev vb"));
    let (mut orders, said) = disturber.begin(&container.fault("cut"), 60_000);
    assert_eq!(said["facts"]["interfaces"].as_array().map(Vec::len), Some(2), "{said}");
    assert!(tc(&["filter", "show", "dev", "va", "ingress"]).contains("direct-action"));
    orders.say(&json!({"do": "undo"}));
    orders.hear("undone");
    assert!(!tc(&["qdisc", "show"]).contains("clsact"));
}

#[test]
fn what_is_not_there_and_what_is_no_order_is_refused() {
    let disturber = Disturber::start();
    for kind in ["stop", "cut"] {
        let (_, said) = disturber.begin(&json!({"kind": kind, "containers": ["feedfeedfeedfeed"]}), 1000);
        assert_eq!(said["event"], "refused");
        assert!(
            said["message"].as_str().unwrap().contains("no process of container feedfeedfeedfeed"),
            "{said}"
        );
    }
    let (_, said) = disturber.begin(&json!({"kind": "burn"}), 1000);
    assert!(said["message"].as_str().unwrap().contains("no order: unknown variant"), "{said}");
    assert_eq!(disturber.noted(), 0);
    let stranger = TcpStream::connect(&disturber.address).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stranger = Orders(stranger);
    stranger.hello("another token, as long");
    assert_eq!(stranger.next()["event"], "refused");
}
