//! The load of a worker: `towtank-engine run` as a process of its own, under a lifeline that ends with the connection.
use super::intake::{JOB, LOGS};
use super::logs::{self, Log};
use super::output::Output;
use crate::transport::reactor::monotonic_ns;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far a load is.
#[derive(Clone, Debug, Default)]
pub enum Stage {
    /// There is none.
    #[default]
    Idle,
    /// It reads its job.
    Reading,
    /// It waits for its start.
    Ready,
    /// It was told when, and goes on until it ends.
    Started,
    /// It has ended.
    Ended {
        /// What was said of it.
        said: Value,
        /// What it left.
        logs: Vec<Log>,
    },
}

/// Carries out at most one job.
pub struct Carrier {
    folder: PathBuf,
    output: Arc<Output>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stage: Stage,
    lifeline: Option<ChildStdin>,
    pid: Option<rustix::process::Pid>,
    /// When the load is to begin.
    at_ns: u64,
}

/// What matters here of an event of the engine.
#[derive(Deserialize)]
struct Event {
    event: String,
}

impl Carrier {
    /// Without a load. Jobs and logs are kept in `folder`.
    pub fn new(folder: PathBuf, output: Arc<Output>) -> Self {
        Self { folder, output, state: Mutex::default() }
    }

    /// Where jobs and logs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.state().stage.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to carry out the job that was taken in. Its events go to the output.
    pub fn begin(self: &Arc<Self>) -> io::Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["run", JOB])
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        {
            let mut state = self.state();
            state.lifeline = child.stdin.take();
            state.pid = Some(rustix::process::Pid::from_child(&child));
            state.stage = Stage::Reading;
        }
        let carrier = Arc::clone(self);
        std::thread::Builder::new().name("events".into()).spawn(move || carrier.follow(child)).map(drop)
    }

    /// Orders the start; refuses one that it could not keep.
    pub fn start(&self, at_ns: u64) -> Result<(), String> {
        let mut state = self.state();
        if !matches!(state.stage, Stage::Ready) {
            return Err("there is no load that waits for its start".into());
        }
        let now_ns = monotonic_ns();
        if now_ns >= at_ns {
            let late_s = (now_ns - at_ns) as f64 / 1e9;
            state.lifeline = None;
            return Err(format!("the start was {late_s:.3} s ago when its order came; nothing is sent"));
        }
        state.at_ns = at_ns;
        let order = json!({"start_at_ns": at_ns});
        let told = state.lifeline.as_mut().map(|line| writeln!(line, "{order}").and_then(|()| line.flush()));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err("the load has ended already".into()),
        }
    }

    /// Ends the load in order: nothing new is sent, all is kept. Harmless where there is none.
    pub fn stop(&self) {
        self.state().lifeline = None;
    }

    /// Ends it at once.
    pub fn kill(&self) {
        if let Some(pid) = self.state().pid {
            // Until it was waited for, nobody else can have its number; that happens under the same lock.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// Passes the events of the engine on until it has ended.
    fn follow(&self, mut child: Child) {
        for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n')) {
            let Ok(line) = line else { break };
            self.note(&line);
            self.output.line(&line);
        }
        let status = wait_for_end(&mut child);
        let mut state = self.state();
        state.pid = None;
        state.lifeline = None;
        let status = status.or_else(|| child.wait().ok());
        let (logs, problem) = match logs::list(&self.folder.join(LOGS)) {
            Ok(logs) => (logs, None),
            Err(error) => (Vec::new(), Some(format!("the logs cannot be read: {error}"))),
        };
        let code = status.and_then(|status| status.code());
        let said = json!({"code": code, "logs": logs, "message": problem});
        state.stage = Stage::Ended { said: said.clone(), logs };
        drop(state);
        self.output.event("ended", said);
    }

    fn note(&self, line: &[u8]) {
        let Ok(Event { event }) = serde_json::from_slice(line) else { return };
        let mut state = self.state();
        match &*event {
            "ready" => {
                state.stage = Stage::Ready;
                // It has been read, and may hold secrets.
                let _ = std::fs::remove_file(self.folder.join(JOB));
            }
            "started" => {
                state.stage = Stage::Started;
                let late_ns = monotonic_ns().saturating_sub(state.at_ns);
                if late_ns > 0 {
                    // The order lay between us and the engine for too long.
                    state.lifeline = None;
                    drop(state);
                    let message =
                        format!("the load began {:.3} s after its start; it is ended", late_ns as f64 / 1e9);
                    self.output.event("refused", json!({"message": message}));
                }
            }
            _ => {}
        }
    }
}

/// Waits without taking the status: until it is taken, the number of the process stays its own.
fn wait_for_end(child: &mut Child) -> Option<std::process::ExitStatus> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(_) => None,
        Err(_) => child.wait().ok(),
    }
}
