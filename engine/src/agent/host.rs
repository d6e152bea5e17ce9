//! The machine's own counters: processors, memory, disks, interfaces, pressure stall. Names are those of the source `host`.
use super::Roots;
use super::number::{Number, Shown};
use std::path::Path;

/// Of /proc/diskstats, whatever the disk says of itself.
const SECTOR_BYTES: f64 = 512.0;
/// Their traffic is that of another disk, or none.
const VIRTUAL_DISKS: [&str; 7] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
const LOOPBACK: &str = "lo";
/// Their traffic is that of another interface, seen twice.
const VIRTUAL_LINKS: [&str; 9] = ["veth", "cali", "cni", "docker", "flannel", "lxc", "br-", "tunl", "kube-"];
/// Resource, whether all tasks waited (`full`) or some: its metric.
const PRESSURE: [(&str, &str, &str); 6] = [
    ("cpu", "some", "pressure_cpu_some_ratio"),
    ("cpu", "full", "pressure_cpu_full_ratio"),
    ("memory", "some", "pressure_memory_some_ratio"),
    ("memory", "full", "pressure_memory_full_ratio"),
    ("io", "some", "pressure_io_some_ratio"),
    ("io", "full", "pressure_io_full_ratio"),
];

/// Reads all of it; what is not there, or cannot be understood, is left out.
pub fn read(roots: &Roots, into: &mut Vec<Number>) {
    let proc = |name: &str| text(&roots.proc.join(name));
    processors(&proc("stat"), into);
    memory(&proc("meminfo"), into);
    if let Some(load) = proc("loadavg").split_ascii_whitespace().next().and_then(|word| word.parse().ok()) {
        into.push(Number::of_host("load_1m", load, Shown::Level));
    }
    disks(&proc("diskstats"), |name| roots.sys.join("block").join(name).is_dir(), into);
    // Of process 1: our own network is that of a container.
    links(&proc("1/net/dev"), into);
    for resource in ["cpu", "memory", "io"] {
        pressure(resource, &proc(&format!("pressure/{resource}")), into);
    }
}

/// A file's content; empty where there is none.
pub fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `/proc/stat`, see proc(5): time by kind, and context switches. Guest time is part of user time.
pub fn processors(text: &str, into: &mut Vec<Number>) {
    let mut cpus = 0_u32;
    let mut times = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => times = eight(words),
            Some("ctxt") => {
                if let Some(count) = words.next().and_then(number) {
                    into.push(Number::of_host("context_switches_per_s", count, Shown::Rate));
                }
            }
            Some(name) if name.starts_with("cpu") => cpus += 1,
            _ => {}
        }
    }
    let Some([user, nice, system, idle, iowait, irq, softirq, steal]) = times else { return };
    let total = user + nice + system + idle + iowait + irq + softirq + steal;
    let busy = total - idle - iowait - steal;
    let shares = [
        ("cpu_user_ratio", user + nice),
        ("cpu_system_ratio", system + irq + softirq),
        ("cpu_iowait_ratio", iowait),
        ("cpu_steal_ratio", steal),
        ("cpu_busy_ratio", busy),
        ("cpu_cores", busy * f64::from(cpus)),
    ];
    for (metric, value) in shares {
        into.push(Number::of_host(metric, value, Shown::Share(total)));
    }
}

fn eight<'a>(words: impl Iterator<Item = &'a str>) -> Option<[f64; 8]> {
    let times: Vec<f64> = words.take(8).map_while(number).collect();
    times.try_into().ok()
}

/// `/proc/meminfo`: used is what is not available.
pub fn memory(text: &str, into: &mut Vec<Number>) {
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next().and_then(number).map(|kib| kib * 1024.0)
    };
    let (Some(total), Some(available)) = (of("MemTotal"), of("MemAvailable")) else { return };
    into.push(Number::of_host("memory_bytes", (total - available).max(0.0), Shown::Level));
    into.push(Number::of_host("memory_available_bytes", available, Shown::Level));
}

/// `/proc/diskstats`: whole disks, each counted once.
pub fn disks(text: &str, is_whole: impl Fn(&str) -> bool, into: &mut Vec<Number>) {
    let mut sums = [0.0; 4];
    let mut any = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[_, _, name, reads, _, read, _, writes, _, written, ..] = words.as_slice() else { continue };
        if VIRTUAL_DISKS.iter().any(|begin| name.starts_with(begin)) || !is_whole(name) {
            continue;
        }
        let counts = [reads, writes, read, written].map(number);
        if let [Some(reads), Some(writes), Some(read), Some(written)] = counts {
            any = true;
            for (sum, value) in
                sums.iter_mut().zip([reads, writes, read * SECTOR_BYTES, written * SECTOR_BYTES])
            {
                *sum += value;
            }
        }
    }
    let names = ["disk_reads_per_s", "disk_writes_per_s", "disk_read_bytes_per_s", "disk_write_bytes_per_s"];
    for (metric, value) in names.into_iter().zip(sums).filter(|_| any) {
        into.push(Number::of_host(metric, value, Shown::Rate));
    }
}

/// `/proc/net/dev`: each interface that is an end of its own, and all of them together.
pub fn links(text: &str, into: &mut Vec<Number>) {
    let (mut received, mut sent, mut any) = (0.0, 0.0, false);
    for line in text.lines() {
        let Some((name, counts)) = line.split_once(':') else { continue };
        let name = name.trim();
        if name.is_empty() || name == LOOPBACK || VIRTUAL_LINKS.iter().any(|begin| name.starts_with(begin)) {
            continue;
        }
        let mut counts = counts.split_ascii_whitespace();
        let (Some(came), Some(went)) = (counts.next().and_then(number), counts.nth(7).and_then(number))
        else {
            continue;
        };
        any = true;
        received += came;
        sent += went;
        into.push(Number::of(name.to_owned(), "network_received_bytes_per_s", came, Shown::Rate));
        into.push(Number::of(name.to_owned(), "network_sent_bytes_per_s", went, Shown::Rate));
    }
    if any {
        into.push(Number::of_host("network_received_bytes_per_s", received, Shown::Rate));
        into.push(Number::of_host("network_sent_bytes_per_s", sent, Shown::Rate));
    }
}

/// `/proc/pressure/*`: `some avg10=… avg60=… avg300=… total=µs`.
pub fn pressure(resource: &str, text: &str, into: &mut Vec<Number>) {
    for line in text.lines() {
        let who = line.split_ascii_whitespace().next().unwrap_or_default();
        let stalled_us = line.rsplit_once("total=").and_then(|(_, word)| number(word.trim()));
        let metric = PRESSURE.iter().find(|(of, all, _)| *of == resource && *all == who);
        if let (Some((_, _, metric)), Some(stalled_us)) = (metric, stalled_us) {
            into.push(Number::of_host(metric, stalled_us / 1e6, Shown::Rate));
        }
    }
}

/// A count, as the kernel writes it.
pub fn number(word: &str) -> Option<f64> {
    word.parse::<u64>().ok().map(|count| count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(numbers: &[Number], part: &str, metric: &str) -> Option<f64> {
        numbers.iter().find(|n| n.part == part && n.metric == metric).map(|n| n.value)
    }

    #[test]
    fn processors_are_shares_of_all_time() {
        let mut found = Vec::new();
        let text = "cpu  10 2 3 70 5 1 1 8 4 0\ncpu0 5 1 1 35 2 0 0 4 0 0\ncpu1 5 1 2 35 3 1 1 4 4 0\nctxt 99\nbtime 1\n";
        processors(text, &mut found);
        assert_eq!(value(&found, "", "cpu_user_ratio"), Some(12.0));
        assert_eq!(value(&found, "", "cpu_system_ratio"), Some(5.0));
        assert_eq!(value(&found, "", "cpu_busy_ratio"), Some(17.0), "guest time is not counted twice");
        assert_eq!(value(&found, "", "cpu_cores"), Some(34.0), "two processors");
        assert_eq!(value(&found, "", "context_switches_per_s"), Some(99.0));
        assert!(found.iter().all(|n| n.metric == "context_switches_per_s" || n.shown == Shown::Share(100.0)));
    }

    #[test]
    fn only_ends_of_their_own_are_counted() {
        let mut found = Vec::new();
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n\
                    lo: 7 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n  eth0: 100 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\n\
                    veth1234: 9 0 0 0 0 0 0 0 9 0\neth1:5 0 0 0 0 0 0 0 6 0\n";
        links(text, &mut found);
        assert_eq!(value(&found, "", "network_received_bytes_per_s"), Some(105.0));
        assert_eq!(value(&found, "", "network_sent_bytes_per_s"), Some(46.0));
        assert_eq!(value(&found, "eth1", "network_sent_bytes_per_s"), Some(6.0));
        assert_eq!(value(&found, "lo", "network_sent_bytes_per_s"), None);
        assert_eq!(value(&found, "veth1234", "network_sent_bytes_per_s"), None);
    }

    #[test]
    fn partitions_and_virtual_disks_are_not_counted_again() {
        let mut found = Vec::new();
        let text = " 8 0 sda 10 0 100 5 20 0 200 6 0 0 0\n 8 1 sda1 10 0 100 5 20 0 200 6 0 0 0\n 7 0 loop0 1 0 1 0 1 0 1 0 0 0 0\n";
        disks(text, |name| name == "sda" || name == "loop0", &mut found);
        assert_eq!(value(&found, "", "disk_reads_per_s"), Some(10.0));
        assert_eq!(value(&found, "", "disk_write_bytes_per_s"), Some(200.0 * 512.0));
    }

    #[test]
    fn memory_and_pressure() {
        let mut found = Vec::new();
        memory("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n", &mut found);
        pressure("io", "some avg10=0.00 total=2000000\nfull avg10=0.00 total=1000000\n", &mut found);
        assert_eq!(value(&found, "", "memory_bytes"), Some(600.0 * 1024.0));
        assert_eq!(value(&found, "", "pressure_io_some_ratio"), Some(2.0));
        assert_eq!(value(&found, "", "pressure_io_full_ratio"), Some(1.0));
    }

    #[test]
    fn this_machine_says_all_of_it() {
        let roots = Roots { proc: "/proc".into(), sys: "/sys".into(), ceph_sockets: None };
        let mut found = Vec::new();
        read(&roots, &mut found);
        for metric in ["cpu_cores", "memory_bytes", "load_1m", "context_switches_per_s"] {
            assert!(value(&found, "", metric).is_some(), "{metric}");
        }
    }
}
