//! NFS: what each mount read and wrote, from the client's own statistics (`/proc/1/mountstats`).
//!
//! The form is that of `nfs_show_stats` and `rpc_clnt_show_stats` of the kernel, as nfsiostat(8) and mountstats(8) read it:
//! `device SERVER:PATH mounted on PATH with fstype nfs4 statvers=1.1`, a line `bytes:` with eight counters, and a line for each
//! operation with its requests, transmissions, timeouts, bytes sent and received, and three times in ms: queued, round trip,
//! execution.
use super::number::{Number, Shown};

/// Places in the line `bytes:`: what applications read and wrote, past the cache too, and what went over the wire.
const READ: usize = 0;
const WRITTEN: usize = 1;
const READ_DIRECT: usize = 2;
const WRITTEN_DIRECT: usize = 3;
const READ_THERE: usize = 4;
const WRITTEN_THERE: usize = 5;
const BYTES_FIELDS: usize = 6;

/// Numbers of each mount; a part is the path that it is mounted on.
pub fn read(text: &str, into: &mut Vec<Number>) {
    let mut mount: Option<String> = None;
    for line in text.lines() {
        if let Some(device) = line.strip_prefix("device ") {
            mount = nfs_mount(device);
            continue;
        }
        let Some(path) = &mount else { continue };
        let Some((name, counts)) = line.trim_start().split_once(':') else { continue };
        match name {
            "bytes" => bytes(path, counts, into),
            "READ" => {
                operation(path, counts, ["mount_reads_per_s", "mount_read_s", "mount_read_trip_s"], into);
            }
            "WRITE" => {
                operation(path, counts, ["mount_writes_per_s", "mount_write_s", "mount_write_trip_s"], into);
            }
            _ => {}
        }
    }
}

/// The path of an NFS mount, with the blanks that the kernel writes as \040.
fn nfs_mount(device: &str) -> Option<String> {
    let (_, rest) = device.split_once(" mounted on ")?;
    let (path, kind) = rest.rsplit_once(" with fstype ")?;
    let kind = kind.split_ascii_whitespace().next()?;
    matches!(kind, "nfs" | "nfs4").then(|| path.replace("\\040", " "))
}

fn counts(text: &str) -> Vec<f64> {
    text.split_ascii_whitespace().map_while(super::host::number).collect()
}

fn bytes(path: &str, text: &str, into: &mut Vec<Number>) {
    let found = counts(text);
    if found.len() < BYTES_FIELDS {
        return;
    }
    let numbers = [
        ("mount_read_bytes_per_s", found[READ] + found[READ_DIRECT]),
        ("mount_write_bytes_per_s", found[WRITTEN] + found[WRITTEN_DIRECT]),
        ("mount_server_read_bytes_per_s", found[READ_THERE]),
        ("mount_server_write_bytes_per_s", found[WRITTEN_THERE]),
    ];
    for (metric, value) in numbers {
        into.push(Number::of(path.to_owned(), metric, value, Shown::Rate));
    }
}

/// Requests, and the mean time of one: until it was done (`execution`), and on the way there and back.
fn operation(path: &str, text: &str, names: [&'static str; 3], into: &mut Vec<Number>) {
    let found = counts(text);
    let [requests, _, _, _, _, _, trip_ms, done_ms, ..] = found.as_slice() else { return };
    let [per_s, done, trip] = names;
    into.push(Number::of(path.to_owned(), per_s, *requests, Shown::Rate));
    into.push(Number::of(path.to_owned(), done, done_ms / 1e3, Shown::Share(*requests)));
    into.push(Number::of(path.to_owned(), trip, trip_ms / 1e3, Shown::Share(*requests)));
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// In the published form; this machine's kernel has no NFS client.
    pub const MOUNTSTATS: &str = "\
device proc mounted on /proc with fstype proc
device nas:/export/wiki mounted on /var/data\\040one with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp
\tage:\t4137
\tcaps:\tcaps=0xfffbc0bf,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tnfsv4:\tbm0=0xfdffbfff,bm1=0xf9be3e,bm2=0x68800,acl=0x3,sessions,pnfs=not configured
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t52 226 0 0 58 4 307 2 0 2 0 0 0 14 0 0 3 0 0 0 0 0 0 0 0 0 0
\tbytes:\t1000 2000 30 40 500 600 7 8
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 946 0 2 0 39 13320 13320 0 13320 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 10 10 0 1920 500 3 40 50 0
\t       WRITE: 20 21 0 9000 3200 5 60 100 0
device nas:/export mounted on /mnt with fstype nfs statvers=1.1
\tbytes:\t1 1 1
device none mounted on /tmp with fstype tmpfs
\tbytes:\t9 9 9 9 9 9 9 9
";

    #[test]
    fn each_mount_has_its_bytes_operations_and_times() {
        let mut found = Vec::new();
        read(MOUNTSTATS, &mut found);
        assert!(found.iter().all(|n| n.part == "/var/data one"), "others are torn, or no NFS: {found:?}");
        let of = |metric: &str| found.iter().find(|n| n.metric == metric).map(|n| (n.value, n.shown));
        assert_eq!(of("mount_read_bytes_per_s"), Some((1030.0, Shown::Rate)));
        assert_eq!(of("mount_write_bytes_per_s"), Some((2040.0, Shown::Rate)));
        assert_eq!(of("mount_server_write_bytes_per_s"), Some((600.0, Shown::Rate)));
        assert_eq!(of("mount_reads_per_s"), Some((10.0, Shown::Rate)));
        assert_eq!(of("mount_read_s"), Some((0.05, Shown::Share(10.0))));
        assert_eq!(of("mount_write_trip_s"), Some((0.06, Shown::Share(20.0))));
    }
}
