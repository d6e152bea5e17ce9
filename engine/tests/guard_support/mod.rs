//! A guard under test: commands in, events out, and nothing left behind whatever the test does.
#![allow(dead_code, clippy::unwrap_used, clippy::missing_panics_doc)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Events come well within this, on a busy machine too.
pub const SOON: Duration = Duration::from_secs(15);

/// A `guard` process with its own token, cgroup name and folder.
pub struct Guard {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    events: Receiver<Value>,
    pub token: String,
    pub cgroup: Option<String>,
    pub dir: tempfile::TempDir,
    pub ready: Value,
}

pub fn engine(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towtank-engine"));
    command.args(arguments);
    command
}

pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tt-test-{what}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Guard {
    /// With cgroups, where the machine has them.
    pub fn start() -> Self {
        let cgroup = unique("g");
        Self::start_with(Some(&cgroup))
    }

    pub fn start_with(cgroup: Option<&str>) -> Self {
        Self::start_by(engine(&[]), cgroup)
    }

    /// Without any right; `None` where that cannot be had.
    pub fn start_as_nobody() -> Option<Self> {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            env!("CARGO_BIN_EXE_towtank-engine"),
        ]);
        let works = command.arg("--version").output().is_ok_and(|output| output.status.success());
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            env!("CARGO_BIN_EXE_towtank-engine"),
        ]);
        works.then(|| Self::start_by(command, Some(&unique("g"))))
    }

    fn start_by(mut command: Command, cgroup: Option<&str>) -> Self {
        let token = unique("t");
        command.args(["guard", "--token", &token]);
        if let Some(name) = cgroup {
            command.args(["--cgroup", name]);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (send, events) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).unwrap());
            }
        });
        let stdin = child.stdin.take();
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let cgroup = cgroup.map(str::to_owned);
        let mut guard = Self { child, stdin, events, token, cgroup, dir, ready: Value::Null };
        guard.ready = guard.event("ready");
        assert_eq!(guard.ready["pid"], guard.child.id());
        guard
    }

    pub fn send(&mut self, command: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    /// The next event, which must be of this kind.
    pub fn event(&mut self, kind: &str) -> Value {
        let event = self.events.recv_timeout(SOON).unwrap_or_else(|_| panic!("no {kind} came"));
        assert_eq!(event["event"], kind, "{event}");
        event
    }

    /// A spawn command for a shell script.
    pub fn shell(&self, id: &str, script: &str) -> Value {
        json!({"cmd": "spawn", "id": id, "argv": ["sh", "-c", script], "env": {"PATH": std::env::var("PATH").unwrap()},
               "cwd": self.dir.path(), "log": self.log(id), "grace_ms": 300})
    }

    /// Starts it; the `spawned` event.
    pub fn spawn(&mut self, command: &Value) -> Value {
        self.send(command);
        self.event("spawned")
    }

    pub fn spawn_shell(&mut self, id: &str, script: &str) -> Value {
        let command = self.shell(id, script);
        self.spawn(&command)
    }

    pub fn log(&self, id: &str) -> PathBuf {
        self.dir.path().join(format!("logs/{id}.log"))
    }

    pub fn log_text(&self, id: &str) -> String {
        std::fs::read_to_string(self.log(id)).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Closes stdin and waits for the guard; the exit code.
    pub fn end(&mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().unwrap().code()
    }

    pub fn sweep(&self) -> Value {
        let mut command = engine(&["sweep", "--token", &self.token]);
        if let Some(name) = &self.cgroup {
            command.args(["--cgroup", name]);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        serde_json::from_str(text.trim()).unwrap()
    }

    /// The guard's directories that are there.
    pub fn cgroups_left(&self) -> Vec<PathBuf> {
        self.cgroup
            .as_deref()
            .map(|name| find_directories(Path::new("/sys/fs/cgroup"), name))
            .unwrap_or_default()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stdin = None;
        let until = Instant::now() + SOON;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut command = engine(&["sweep", "--token", &self.token]);
        command.args(self.cgroup.iter().flat_map(|name| ["--cgroup", name])).stdout(Stdio::null());
        let _ = command.status();
    }
}

fn find_directories(root: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name() == name {
                found.push(entry.path());
            }
            found.extend(find_directories(&entry.path(), name));
        }
    }
    found
}

/// Waits until a file has text in it: how scripts say where they are.
pub fn wait_for_text(path: &Path) -> String {
    wait_until(&format!("{}", path.display()), || {
        std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'))
    })
    .trim()
    .to_owned()
}

pub fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lives, and is not only waiting to be reaped.
pub fn is_alive(pid: i32) -> bool {
    towtank_engine::guard::process::Stat::of(pid).is_some_and(|stat| stat.is_alive())
}

/// Processes that carry the token.
pub fn carriers(token: &str) -> Vec<i32> {
    use towtank_engine::guard::process::{Mark, all};
    let mark = Mark::new(token);
    all().iter().map(|stat| stat.pid).filter(|&pid| mark.is_on(pid)).collect()
}
