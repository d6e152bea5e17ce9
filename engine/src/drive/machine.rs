//! What the engine asks of its machine, and what it uses of it.
use super::findings::{Finding, advice};
use super::priority;
use crate::job::Job;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use std::fs::read_to_string;
use std::num::NonZeroU64;

/// Raises the limit of open files as far as it goes.
pub fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // What it was will do for most runs; the others say out_of_descriptors.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// A wait that is shorter than this is spent asking: to sleep and be woken by a timer takes about as long (measured: 30 to 60 µs
/// of a core in a virtual machine), so it costs at most twice what the better of the two would have.
const SPIN_NS: u64 = 50_000;

/// How long a load thread may spin, where it has a CPU that nobody else waits for: one that the job names, or where this process may use
/// (by affinity and quota) more of them than there are load threads. Other workers of the same job may be on this machine, too.
pub fn affordable_spin_ns(job: &Job) -> u64 {
    let has_own = job.cpus.len() >= job.threads;
    let has_more = || std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > job.lanes());
    if has_own || has_more() { SPIN_NS } else { 0 }
}

/// Priority, CPUs and exact timers of the calling thread.
pub fn prepare_thread(job: &Job, thread: usize, mut find: impl FnMut(Finding)) {
    // The default lets every sleep end up to 50 µs late.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut refused = |name, value, message, advice| {
        find(Finding { name, t_us: 0, value, message, advice });
    };
    if let Some(nice) = job.nice
        && let Err(error) = priority::set_thread(nice)
    {
        refused("nice_not_permitted", f64::from(nice), format!("nice {nice}: {error}"), advice::NICE);
    }
    if job.cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    if job.cpus.len() >= job.threads {
        set.set(job.cpus[thread]);
    } else {
        job.cpus.iter().for_each(|cpu| set.set(*cpu));
    }
    if let Err(error) = sched_setaffinity(None, &set) {
        let message = format!("CPUs {:?}: {error}", job.cpus);
        refused("cpus_not_permitted", job.cpus[0] as f64, message, advice::CPUS);
    }
}

/// What a thread has used so far, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadUsage {
    /// On a CPU.
    pub cpu_ns: u64,
    /// Runnable, but waiting for a CPU.
    pub run_queue_ns: u64,
    /// Share of `cpu_ns` in user space, in clock ticks.
    pub user_ticks: u64,
    /// Share in the kernel.
    pub system_ticks: u64,
    /// Switches that it did not ask for.
    pub involuntary_switches: u64,
}

impl ThreadUsage {
    /// Reads /proc; zeros where it cannot be read.
    pub fn read(tid: u32) -> Self {
        let (cpu_ns, run_queue_ns) = schedstat(tid);
        let stat = read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        // Fields are counted from the end of the name, which may hold blanks and brackets.
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|f| f.parse().ok()).unwrap_or(0);
        let (user_ticks, system_ticks) = (ticks(), ticks());
        let status = read_to_string(format!("/proc/self/task/{tid}/status")).unwrap_or_default();
        let involuntary_switches = number_after(&status, "nonvoluntary_ctxt_switches:");
        Self { cpu_ns, run_queue_ns, user_ticks, system_ticks, involuntary_switches }
    }

    /// The difference.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            run_queue_ns: self.run_queue_ns.saturating_sub(before.run_queue_ns),
            user_ticks: self.user_ticks.saturating_sub(before.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(before.system_ticks),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }

    /// CPU seconds in user space and in the kernel: the exact sum, split as the ticks fell.
    pub fn user_system_s(&self) -> (f64, f64) {
        let total_s = self.cpu_ns as f64 / 1e9;
        let ticks = self.user_ticks + self.system_ticks;
        let share = if ticks == 0 { 0.5 } else { self.user_ticks as f64 / ticks as f64 };
        (total_s * share, total_s * (1.0 - share))
    }
}

/// CPU time and time in the run queue, in ns.
pub fn schedstat(tid: u32) -> (u64, u64) {
    let text = read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
    let mut numbers = text.split_ascii_whitespace().map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The most memory that this process ever held.
pub fn max_rss_bytes() -> u64 {
    number_after(&read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:") * 1024
}

fn number_after(text: &str, label: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(label));
    found.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}
