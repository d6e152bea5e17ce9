//! Ceph file systems: those that the kernel mounts, from debugfs, and those of ceph-fuse, from its admin sockets.
//!
//! The kernel writes tables (`metrics/size` and `metrics/latency` of each client, fs/ceph/debugfs.c): a line `read` and a line
//! `write` with their number, mean, least, most, and total bytes, or mean time in µs. ceph-fuse answers `perf dump` with JSON:
//! bytes are `data_read` and `data_written` of its object cacher, times are `rdlat` and `wrlat` of the client; its `rdops`
//! stands for two counters of one name, and is not used.
use super::host::{number, text};
use super::number::{Number, Shown};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Of the folders in debugfs, and of the sockets.
const MOST_CLIENTS: usize = 64;
/// A socket that does not answer holds up all else.
const ANSWER_WITHIN: Duration = Duration::from_millis(200);
const MOST_ANSWER: u64 = 4 << 20;
const QUESTION: &[u8] = b"{\"prefix\": \"perf dump\", \"format\": \"json\"}\0";
const READ: [&str; 3] = ["mount_read_bytes_per_s", "mount_reads_per_s", "mount_read_s"];
const WRITE: [&str; 3] = ["mount_write_bytes_per_s", "mount_writes_per_s", "mount_write_s"];

/// Clients of the kernel.
pub fn read_kernel(sys: &Path, into: &mut Vec<Number>) {
    let Ok(folder) = std::fs::read_dir(sys.join("kernel/debug/ceph")) else { return };
    for client in folder.flatten().take(MOST_CLIENTS) {
        let part = format!("ceph/{}", client.file_name().to_string_lossy());
        let metrics = client.path().join("metrics");
        tables(&part, &text(&metrics.join("size")), &text(&metrics.join("latency")), into);
    }
}

/// Both tables of one client.
pub fn tables(part: &str, sizes: &str, latencies: &str, into: &mut Vec<Number>) {
    for (item, [bytes, per_s, mean]) in [("read", READ), ("write", WRITE)] {
        if let Some(&[count, _, _, _, total]) = row(sizes, item).as_deref() {
            into.push(Number::of(part.to_owned(), bytes, total, Shown::Rate));
            into.push(Number::of(part.to_owned(), per_s, count, Shown::Rate));
        }
        if let Some(&[count, mean_us, ..]) = row(latencies, item).as_deref() {
            // Of the mean and the number, the sum: good to half a µs an operation, as the kernel rounds.
            into.push(Number::of(part.to_owned(), mean, mean_us * count / 1e6, Shown::Share(count)));
        }
    }
}

fn row(table: &str, item: &str) -> Option<Vec<f64>> {
    let line = table.lines().find(|line| line.split_ascii_whitespace().next() == Some(item))?;
    line.split_ascii_whitespace().skip(1).map(number).collect()
}

/// Clients of ceph-fuse: every socket in a folder.
pub fn read_sockets(folder: &Path, into: &mut Vec<Number>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let sockets =
        entries.flatten().map(|entry| entry.path()).filter(|p| p.extension().is_some_and(|e| e == "asok"));
    for socket in sockets.take(MOST_CLIENTS) {
        let part = format!("ceph-fuse/{}", socket.file_stem().unwrap_or_default().to_string_lossy());
        if let Ok(answer) = ask(&socket) {
            dump(&part, &answer, into);
        }
    }
}

/// The admin socket's protocol: a question up to a zero byte; a length (u32, big-endian) and as many bytes.
fn ask(socket: &Path) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(QUESTION)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = Vec::new();
    stream.take(u64::from(u32::from_be_bytes(length)).min(MOST_ANSWER)).read_to_end(&mut answer)?;
    Ok(answer)
}

/// What `perf dump` says.
pub fn dump(part: &str, answer: &[u8], into: &mut Vec<Number>) {
    let Ok(Value::Object(sections)) = serde_json::from_slice(answer) else { return };
    let of = |section: &str, name: &str| sections.get(section).and_then(|found| found.get(name));
    let cacher = sections.keys().find(|name| name.starts_with("objectcacher-"));
    for (data, latency, [bytes, per_s, mean]) in
        [("data_read", "rdlat", READ), ("data_written", "wrlat", WRITE)]
    {
        if let Some(value) = cacher.and_then(|section| of(section, data)).and_then(Value::as_f64) {
            into.push(Number::of(part.to_owned(), bytes, value, Shown::Rate));
        }
        let Some(latency) = of("client", latency) else { continue };
        let (count, sum_s) = (latency.get("avgcount"), latency.get("sum"));
        if let (Some(count), Some(sum_s)) = (count.and_then(Value::as_f64), sum_s.and_then(Value::as_f64)) {
            into.push(Number::of(part.to_owned(), per_s, count, Shown::Rate));
            into.push(Number::of(part.to_owned(), mean, sum_s, Shown::Share(count)));
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// In the form of fs/ceph/debugfs.c; this machine has no Ceph.
    pub const SIZES: &str = "\
item          total       avg_sz(bytes)   min_sz(bytes)   max_sz(bytes)  total_sz(bytes)
----------------------------------------------------------------------------------------
read          3           10              5               15              30
write         5           4194304         4194304         4194304         20971520
";
    /// As above.
    pub const LATENCIES: &str = "\
item          total       avg_lat(us)     min_lat(us)     max_lat(us)     stdev(us)
-----------------------------------------------------------------------------------
read          4           250             0               0               0
write         5           914013          824797          1092343         103476
metadata      79          12856           1572            114572          13262
";
    /// As Ceph's perf counters are dumped.
    pub const DUMP: &str = r#"{"client": {"reply": {"avgcount": 3, "sum": 0.01, "avgtime": 0.003},
        "rdlat": {"avgcount": 8, "sum": 0.4, "avgtime": 0.05}, "wrlat": {"avgcount": 2, "sum": 0.5, "avgtime": 0.25},
        "rdops": 2}, "objectcacher-libcephfs": {"data_read": 4096, "data_written": 8192, "data_flushed": 1}}"#;

    fn value(numbers: &[Number], metric: &str) -> Option<(f64, Shown)> {
        numbers.iter().find(|n| n.metric == metric).map(|n| (n.value, n.shown))
    }

    #[test]
    fn tables_of_the_kernel() {
        let folder = tempfile::tempdir().expect("a folder");
        let metrics = folder.path().join("kernel/debug/ceph/f00.client7/metrics");
        std::fs::create_dir_all(&metrics).expect("a folder");
        std::fs::write(metrics.join("size"), SIZES).expect("a file");
        std::fs::write(metrics.join("latency"), LATENCIES).expect("a file");
        let mut found = Vec::new();
        read_kernel(folder.path(), &mut found);
        assert!(found.iter().all(|n| n.part == "ceph/f00.client7"));
        assert_eq!(value(&found, "mount_write_bytes_per_s"), Some((20_971_520.0, Shown::Rate)));
        assert_eq!(value(&found, "mount_reads_per_s"), Some((3.0, Shown::Rate)));
        assert_eq!(value(&found, "mount_read_s"), Some((0.001, Shown::Share(4.0))));
    }

    #[test]
    fn an_admin_socket_is_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("ceph-client.admin.7.asok")).expect("a socket");
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a question");
            let mut question = vec![0; QUESTION.len()];
            stream.read_exact(&mut question).expect("a question");
            stream.write_all(&(DUMP.len() as u32).to_be_bytes()).expect("an answer");
            stream.write_all(DUMP.as_bytes()).expect("an answer");
            question
        });
        let mut found = Vec::new();
        read_sockets(folder.path(), &mut found);
        assert_eq!(answering.join().expect("asked"), QUESTION);
        assert!(found.iter().all(|n| n.part == "ceph-fuse/ceph-client.admin.7"));
        assert_eq!(value(&found, "mount_write_bytes_per_s"), Some((8192.0, Shown::Rate)));
        assert_eq!(value(&found, "mount_read_s"), Some((0.4, Shown::Share(8.0))));
    }
}
