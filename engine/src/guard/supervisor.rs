//! The guard's loop: signals, commands and output in; processes and events out.

use super::capture::{Capture, open_log};
use super::cgroup::{Group, Tree};
use super::channel::{EventsOut, LinesIn};
use super::ending::{Kin, kill_all_descendants};
use super::instance::{Ending, Instance, Progress};
use super::log_times::LogTimes;
use super::process::{Mark, Stat, boot_id};
use super::protocol::{Command, Event, Spawn};
use super::{is_plain_name, spawn};
use crate::transport::reactor::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, wait};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long the kernel may take to let go of a cgroup whose processes have ended.
const CGROUP_REMOVAL: Duration = Duration::from_secs(3);
/// How long events may take to be read at the end.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Runs until stdin ends or a signal asks for the end, and everything is ended.
pub fn run(token: &str, cgroup: Option<&str>) -> io::Result<()> {
    let mut signals = Signals::install()?;
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))?;
    if !io::stdin().is_terminal() {
        // Out of reach of a terminal's Ctrl-C, which towtank turns into an orderly end itself. By hand, on a terminal,
        // Ctrl-C is how the guard is ended.
        let _ = rustix::process::setsid();
    }
    let mut guard = Supervisor {
        token: token.to_owned(),
        mark: Mark::new(token),
        tree: open_tree(cgroup)?,
        instances: BTreeMap::new(),
        abandoned: Vec::new(),
        events: EventsOut::default(),
        lines: LinesIn::default(),
        ending: false,
    };
    guard.say_ready(me);
    while !guard.is_done() {
        guard.wait(&mut signals)?;
        guard.look();
    }
    guard.clean_up();
    Ok(())
}

fn open_tree(name: Option<&str>) -> io::Result<Tree> {
    let Some(name) = name else { return Ok(Tree::none("no --cgroup was given")) };
    Tree::create(name).map_err(|in_use| {
        let message = format!(
            "cgroup {name} is in use by {}; take another name, or sweep what a killed guard left",
            in_use.0
        );
        io::Error::new(io::ErrorKind::AlreadyExists, message)
    })
}

/// Signals as bytes of a pipe. Handlers, not a mask: an exec resets them, so that instances start clean.
struct Signals {
    children: UnixStream,
    end: UnixStream,
}

impl Signals {
    fn install() -> io::Result<Self> {
        use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
        let pipe_for = |signals: &[i32]| {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
            }
            Ok::<_, io::Error>(read)
        };
        Ok(Self { children: pipe_for(&[SIGCHLD])?, end: pipe_for(&[SIGTERM, SIGINT, SIGHUP])? })
    }
}

fn drain(mut stream: &UnixStream) {
    let mut buffer = [0; 64];
    while matches!(stream.read(&mut buffer), Ok(n) if n == buffer.len()) {}
}

/// What a wait found ready.
#[expect(clippy::struct_excessive_bools, reason = "four independent sources")]
#[derive(Default)]
struct Ready {
    children: bool,
    end: bool,
    stdin: bool,
    stdout: bool,
    outputs: Vec<String>,
}

struct Supervisor {
    token: String,
    mark: Mark,
    tree: Tree,
    instances: BTreeMap<String, Instance>,
    /// Groups that could not be removed yet.
    abandoned: Vec<Group>,
    events: EventsOut,
    lines: LinesIn,
    ending: bool,
}

impl Supervisor {
    fn say_ready(&mut self, me: Pid) {
        let pid = me.as_raw_nonzero().get();
        self.events.send(&Event::Ready {
            pid,
            start_ticks: Stat::of(pid).map_or(0, |stat| stat.start_ticks),
            boot_id: boot_id(),
            cgroup: self.tree.version(),
            note: self.tree.notes.join("; "),
        });
    }

    fn is_done(&self) -> bool {
        self.ending && self.instances.values().all(Instance::is_gone)
    }

    fn wait(&mut self, signals: &mut Signals) -> io::Result<()> {
        let ready = self.poll(signals)?;
        if ready.children {
            drain(&signals.children);
            self.reap();
        }
        if ready.end {
            drain(&signals.end);
            // Asked twice, there is no grace left.
            self.end(if self.ending { Some(Duration::ZERO) } else { None });
        }
        if ready.stdout {
            self.events.write(io::stdout().as_fd());
        }
        for id in ready.outputs {
            let message = self.instances.get_mut(&id).and_then(Instance::pump);
            self.say_error(message);
        }
        if ready.stdin {
            for line in self.lines.read(io::stdin().as_fd()) {
                self.carry_out(&line);
            }
            if self.lines.ended() {
                self.end(None);
            }
        }
        Ok(())
    }

    /// Sleeps until something is ready or some instance has to be looked at: for ever, while all just run.
    fn poll(&self, signals: &Signals) -> io::Result<Ready> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut fds =
            vec![PollFd::new(&signals.children, PollFlags::IN), PollFd::new(&signals.end, PollFlags::IN)];
        let stdin_at = (!self.lines.ended()).then(|| {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
            fds.len() - 1
        });
        let stdout_at = self.events.is_pending().then(|| {
            fds.push(PollFd::new(&stdout, PollFlags::OUT));
            fds.len() - 1
        });
        let outputs_at = fds.len();
        let outputs: Vec<_> =
            self.instances.iter().filter_map(|(id, instance)| Some((id, instance.output()?))).collect();
        fds.extend(outputs.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));

        match poll(&mut fds, self.timeout().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| !fds[at].revents().is_empty();
        Ok(Ready {
            children: is_ready(0),
            end: is_ready(1),
            stdin: stdin_at.is_some_and(is_ready),
            stdout: stdout_at.is_some_and(is_ready),
            outputs: outputs
                .iter()
                .enumerate()
                .filter(|(i, _)| is_ready(outputs_at + i))
                .map(|(_, (id, _))| (*id).clone())
                .collect(),
        })
    }

    fn timeout(&self) -> Option<Timespec> {
        let next = self.instances.values().filter_map(Instance::next_look).min()?;
        let wait = next.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() })
    }

    /// Takes the status of every child that has ended; orphans that came to us are children too.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let t_ns = monotonic_ns();
            let pid = pid.as_raw_nonzero().get();
            let instance = self.instances.values_mut().find(|i| i.kin.pid == pid && i.is_running());
            if let Some(instance) = instance {
                let (code, signal) = (status.exit_status(), status.terminating_signal());
                instance.first_process_ended(Ending { code, signal, t_ns }, Instant::now());
            }
        }
    }

    fn look(&mut self) {
        let now = Instant::now();
        for instance in self.instances.values_mut() {
            if let Progress::Gone(exited, message) = instance.look(now) {
                if !instance.kin.group.remove() {
                    self.abandoned.push(instance.kin.group.clone());
                }
                self.events.send(&Event::Exited(*exited));
                if let Some(message) = message {
                    self.events.send(&Event::Error { message });
                }
            }
        }
    }

    fn carry_out(&mut self, line: &[u8]) {
        match serde_json::from_slice(line) {
            Ok(Command::Spawn(spawn)) => self.spawn(&spawn),
            Ok(Command::Stop { id, signal, grace_ms }) => self.with_running(&id, |instance| {
                instance.stop(signal.0, Duration::from_millis(grace_ms), Instant::now());
            }),
            Ok(Command::Signal { id, signal }) => {
                self.with_running(&id, |instance| instance.kin.signal(signal.0));
            }
            Ok(Command::Status {}) => {
                let instances = self.instances.iter_mut().map(|(id, i)| (id.clone(), i.status())).collect();
                self.events.send(&Event::Status { instances });
            }
            Err(error) => self.say_error(Some(format!("command not understood: {error}"))),
        }
    }

    fn with_running(&mut self, id: &str, act: impl FnOnce(&mut Instance)) {
        match self.instances.get_mut(id).filter(|instance| !instance.is_gone()) {
            Some(instance) => act(instance),
            None => self.say_error(Some(format!("there is no running instance {id:?}"))),
        }
    }

    fn say_error(&mut self, message: Option<String>) {
        if let Some(message) = message {
            self.events.send(&Event::Error { message });
        }
    }

    fn spawn(&mut self, spawn: &Spawn) {
        match self.try_spawn(spawn) {
            Ok(event) => self.events.send(&event),
            Err(message) => self.events.send(&Event::SpawnFailed { id: spawn.id.clone(), message }),
        }
    }

    fn try_spawn(&mut self, spawn: &Spawn) -> Result<Event, String> {
        if !is_plain_name(&spawn.id) {
            return Err("an id has letters, digits, '.', '_' and '-' only".to_owned());
        }
        if self.ending {
            return Err("the guard is ending".to_owned());
        }
        if self.instances.get(&spawn.id).is_some_and(|instance| !instance.is_gone()) {
            return Err("an instance of this id is running".to_owned());
        }
        let log = open_log(&spawn.log).map_err(|error| format!("{}: {error}", spawn.log.display()))?;
        let times =
            LogTimes::open(&spawn.log).map_err(|error| format!("{}.times: {error}", spawn.log.display()))?;
        let group = self.tree.instance(&spawn.id);
        let started = match spawn::start(spawn, &self.token, &group) {
            Ok(started) => started,
            Err(message) => {
                group.remove();
                return Err(message);
            }
        };
        self.say_error(
            (!started.notes.is_empty()).then(|| format!("{}: {}", spawn.id, started.notes.join("; "))),
        );
        let start_ticks = Stat::of(started.pid).map_or(0, |stat| stat.start_ticks);
        let event = Event::Spawned {
            id: spawn.id.clone(),
            pid: started.pid,
            start_ticks,
            cgroup: group.directories(),
            limits: started.limits,
        };
        let kin = Kin { id: spawn.id.clone(), pid: started.pid, start_ticks, group, mark: self.mark.clone() };
        let capture = Capture::new(started.output, log, times, spawn.log_limit_bytes);
        let instance = Instance::new(kin, capture, Duration::from_millis(spawn.grace_ms));
        self.instances.insert(spawn.id.clone(), instance);
        Ok(event)
    }

    /// Begins the end of everything, all at once.
    fn end(&mut self, grace: Option<Duration>) {
        self.ending = true;
        for instance in self.instances.values_mut() {
            instance.stop(Signal::TERM, grace.unwrap_or(instance.grace), Instant::now());
        }
    }

    /// Kills what belonged to no instance any more, removes the cgroups, says good-bye.
    fn clean_up(&mut self) {
        let until = Instant::now() + CGROUP_REMOVAL;
        let whole = self.tree.as_group();
        let mut left = kill_all_descendants();
        loop {
            whole.kill();
            self.reap();
            self.abandoned.retain(|group| !group.remove());
            let removed = whole.remove();
            if (removed && left == 0) || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
            left = kill_all_descendants();
        }
        let remaining: Vec<_> = whole.directories().into_iter().filter(|dir| dir.exists()).collect();
        if !remaining.is_empty() {
            self.say_error(Some(format!("cgroups {remaining:?} could not be removed")));
        }
        self.events.send(&Event::Bye);
        self.events.drain(LAST_EVENTS);
    }
}
