//! What the engine has to say about itself: named, with advice, each once.
use std::sync::mpsc::Sender;

/// Something that whoever reads the result has to know.
#[derive(Clone, Debug)]
pub struct Finding {
    /// One of a documented list.
    pub name: &'static str,
    /// On the run clock.
    pub t_us: i64,
    /// In the unit that the message names.
    pub value: f64,
    /// What happened.
    pub message: String,
    /// What to do.
    pub advice: &'static str,
}

/// What a load thread tells the main thread.
pub enum Note {
    /// A finding.
    Finding(Finding),
    /// The run cannot go on: records are being lost.
    Fatal(String),
    /// An order from stdin.
    Order(super::control::Order),
    /// The thread has ended.
    Ended,
}

/// Tells the main thread; it has gone only when the process is ending.
pub fn tell(notes: &Sender<Note>, note: Note) {
    let _ = notes.send(note);
}

/// Advice for each finding.
pub mod advice {
    /// `in_flight_bound_reached`
    pub const BOUND: &str = "the system answers more slowly than requests arrive; raise max_in_flight to see how far it falls behind";
    /// `late`
    pub const LATE: &str = "give the engine more threads, a priority (nice) or CPUs of its own";
    /// `stalled`
    pub const STALLED: &str = "find what stopped or froze the engine (a signal, a CPU limit, a suspended machine) and measure again; until then leave out the requests around that time";
    /// `count_not_reached`
    pub const COUNT: &str = "let the load last longer or give it more users (a shorter start_spread, where users never began), or ask for less";
    /// `cpu_bound`
    pub const CPU: &str = "the engine itself is the limit: add threads, or read the result as a lower bound";
    /// `out_of_descriptors`
    pub const DESCRIPTORS: &str = "raise the hard limit of open files (ulimit -Hn), or set max_in_flight";
    /// `out_of_ports`
    pub const PORTS: &str =
        "keep connections alive, widen net.ipv4.ip_local_port_range, or set max_in_flight";
    /// `out_of_connections`
    pub const CONNECTIONS: &str =
        "raise limits.max_connections (in an experiment: generator.max_connections), or set max_in_flight";
    /// `dns_failed`
    pub const DNS: &str = "check the name, dns.servers of the job, and the resolver of this machine";
    /// `tls_failed`
    pub const TLS: &str =
        "check the certificate; tls.ca_file, tls.server_name and tls.insecure say what is trusted";
    /// `proxy_failed`
    pub const PROXY: &str = "check the proxy's address, its headers, and what it lets through";
    /// `protocol_failed`
    pub const PROTOCOL: &str = "set protocol of the target to what its server speaks; if it is, the server's answers are wrong as the message says";
    /// `source_address_failed`
    pub const SOURCE: &str =
        "give source_addresses that are this machine's and of the family of the target, or leave them out";
    /// `debug_build`
    pub const DEBUG: &str = "build with --release; times of a debug build are not measurements";
    /// `nice_not_permitted`
    pub const NICE: &str = "run with CAP_SYS_NICE, or leave nice out of the job";
    /// `cpus_not_permitted`
    pub const CPUS: &str = "name CPUs that this process may use, or leave cpus out of the job";
    /// `record_write_failed`, `records_lost`
    pub const RECORD: &str = "make room on the disk of the output folder";
    /// `template_failed`
    pub const TEMPLATE: &str = "correct the template; its requests were not sent";
    /// `capture_missing`
    pub const CAPTURE: &str = "look at the outcomes of the step that captures it: requests that needed its answer were not sent, and count as failed";
    /// `instance_names_full`
    pub const INSTANCES: &str =
        "let instance_header name a header with one value per instance, not one per request";
    /// `sessions_cut`
    pub const SESSIONS_CUT: &str = "read what is counted of later steps as a lower bound, or let the timeout be longer than a session thinks";
    /// `compact_failed`
    pub const COMPACT: &str = "the logs are complete; repeat with: towtank-engine compact DIR OUT";
}
