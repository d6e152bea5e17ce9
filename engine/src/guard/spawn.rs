//! Starting a process so that it is in its cgroup, session and limits before it runs its first instruction.
//!
//! There is `unsafe` here for one reason: `pre_exec` runs between fork and exec, where only async-signal-safe calls
//! are allowed. The closure makes plain system calls on values that were prepared before the fork: it does not allocate,
//! lock or print.
#![allow(unsafe_code, reason = "see above")]

use super::cgroup::Group;
use super::protocol::{Limits, Spawn};
use super::{INSTANCE_VARIABLE, TOKEN_VARIABLE};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A process that was started, and the read end of its output.
pub(super) struct Started {
    /// Its first process. Not reaped yet, so the pid is its own.
    pub(super) pid: i32,
    /// Its stdout and stderr; does not block.
    pub(super) output: OwnedFd,
    /// What became of the limits.
    pub(super) limits: Limits,
    /// Groups that it could not be put in.
    pub(super) notes: Vec<String>,
}

/// What the child could not do before exec, sent through a pipe: which step, and the error number.
const REPORT_BYTES: usize = 5;
const STEP_NICE: u8 = 254;
const STEP_CPUS: u8 = 255;

/// What the child does before exec.
struct Preparation {
    entrances: Vec<File>,
    nice: Option<i32>,
    cpus: Option<CpuSet>,
    guard: Pid,
    reports: OwnedFd,
}

impl Preparation {
    /// Runs in the child. A limit that is not permitted is reported, and the child goes on without it.
    fn carry_out(&self) -> io::Result<()> {
        for (step, entrance) in self.entrances.iter().enumerate() {
            if let Err(error) = rustix::io::write(entrance, b"0") {
                self.report(step as u8, error);
            }
        }
        rustix::process::setsid()?;
        if let Some(Err(error)) = self.nice.map(|nice| rustix::process::setpriority_process(None, nice)) {
            self.report(STEP_NICE, error);
        }
        if let Some(Err(error)) = self.cpus.as_ref().map(|cpus| rustix::thread::sched_setaffinity(None, cpus))
        {
            self.report(STEP_CPUS, error);
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the guard died before this was set, nobody would tell us.
        if rustix::process::getppid() == Some(self.guard) { Ok(()) } else { Err(Errno::OWNERDEAD.into()) }
    }

    fn report(&self, step: u8, error: Errno) {
        let mut report = [0; REPORT_BYTES];
        report[0] = step;
        report[1..].copy_from_slice(&error.raw_os_error().to_le_bytes());
        let _ = rustix::io::write(&self.reports, &report);
    }
}

/// Starts it; an error says what was tried.
pub(super) fn start(spawn: &Spawn, token: &str, group: &Group) -> Result<Started, String> {
    let (program, arguments) = spawn.argv.split_first().ok_or("argv is empty")?;
    if !spawn.cwd.is_dir() {
        return Err(format!("{}: no such directory", spawn.cwd.display()));
    }
    let mut limits = Limits {
        cpu: spawn.cpu_cores.map(|cores| applied(group.limit_cpu(cores))),
        memory: spawn.memory_bytes.map(|bytes| applied(group.limit_memory(bytes))),
        cpus: spawn.cpus.as_ref().map(|_| applied(Ok(()))),
        nice: spawn.nice.map(|_| applied(Ok(()))),
    };
    let (entrance_names, entrances, mut notes) = open_entrances(group);
    let plumbing = |error: io::Error| format!("pipe: {error}");
    let (output, output_write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| plumbing(e.into()))?;
    let (reports, reports_write) =
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|e| plumbing(e.into()))?;
    // The read end only: the instance may expect its stdout to block.
    rustix::io::ioctl_fionbio(&output, true).map_err(|e| plumbing(e.into()))?;

    let preparation = Preparation {
        entrances,
        nice: spawn.nice,
        cpus: spawn.cpus.as_deref().map(cpu_set).transpose()?,
        guard: rustix::process::getpid(),
        reports: reports_write,
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&spawn.env)
        .env(TOKEN_VARIABLE, token)
        .env(INSTANCE_VARIABLE, &spawn.id)
        .current_dir(&spawn.cwd)
        .stdin(Stdio::null())
        .stdout(output_write.try_clone().map_err(plumbing)?)
        .stderr(output_write);
    // SAFETY: the closure is async-signal-safe, see the module's comment.
    unsafe {
        command.pre_exec(move || preparation.carry_out());
    }
    let child = command.spawn().map_err(|error| format!("cannot run {program:?}: {error}"))?;
    // Our copies of the write ends go with the command, so that the pipes end with the instance.
    drop(command);
    read_reports(&reports, &entrance_names, &mut limits, &mut notes);
    Ok(Started { pid: child.id().cast_signed(), output, limits, notes })
}

fn applied(result: Result<(), String>) -> String {
    result.map_or_else(|why| format!("not applied: {why}"), |()| "applied".to_owned())
}

fn open_entrances(group: &Group) -> (Vec<String>, Vec<File>, Vec<String>) {
    let (mut names, mut files, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for (name, file) in group.entrances() {
        match file {
            Ok(file) => {
                names.push(name);
                files.push(file);
            }
            Err(error) => notes.push(format!("{name}: {error}")),
        }
    }
    (names, files, notes)
}

fn cpu_set(cpus: &[u32]) -> Result<CpuSet, String> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        let index = cpu as usize;
        if index >= CpuSet::MAX_CPU {
            return Err(format!("cpus: there is no CPU {cpu}"));
        }
        set.set(index);
    }
    Ok(set)
}

fn read_reports(reports: &OwnedFd, entrances: &[String], limits: &mut Limits, notes: &mut Vec<String>) {
    let mut buffer = [0; REPORT_BYTES * 64];
    let Ok(n) = rustix::io::read(reports, &mut buffer) else { return };
    for report in buffer[..n].chunks_exact(REPORT_BYTES) {
        let error =
            io::Error::from_raw_os_error(i32::from_le_bytes([report[1], report[2], report[3], report[4]]));
        match report[0] {
            STEP_NICE => limits.nice = Some(format!("not applied: {error}")),
            STEP_CPUS => limits.cpus = Some(format!("not applied: {error}")),
            step => {
                let name = entrances.get(usize::from(step)).map_or("cgroup", String::as_str);
                notes.push(format!("{name}: {error}"));
                // Not in the group, so not under its limits; better to say so for both than to guess which.
                for limit in [&mut limits.cpu, &mut limits.memory] {
                    if limit.is_some() {
                        *limit = Some(format!("not applied: {name}: {error}"));
                    }
                }
            }
        }
    }
}
