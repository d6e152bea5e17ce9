//! Whatever a kernel or a daemon writes, cut or bent anywhere: an agent reads what is left, and goes on.
use super::ceph::tests::{DUMP, LATENCIES, SIZES};
use super::nfs::tests::MOUNTSTATS;
use super::{ceph, groups, host, nfs};
use proptest::prelude::*;

const STAT: &str = "cpu  10 2 3 70 5 1 1 8 4 0\ncpu0 5 1 1 35 2 0 0 4 0 0\nctxt 99\n";
const DISKS: &str = " 8 0 sda 10 0 100 5 20 0 200 6 0 0 0\n";
const LINKS: &str = "face |bytes\n lo: 7 0 0 0 0 0 0 0 7 0\n eth0: 100 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\n";
const PRESSURE: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n";
const MEMORY: &str = "MemTotal:  1000 kB\nMemAvailable:    400 kB\n";
const WORDS: [&str; 8] = [STAT, DISKS, LINKS, PRESSURE, MEMORY, MOUNTSTATS, SIZES, DUMP];

fn read_all(text: &str) -> usize {
    let mut found = Vec::new();
    host::processors(text, &mut found);
    host::memory(text, &mut found);
    host::disks(text, |_| true, &mut found);
    host::links(text, &mut found);
    host::pressure("io", text, &mut found);
    nfs::read(text, &mut found);
    ceph::tables("ceph", text, LATENCIES, &mut found);
    ceph::tables("ceph", SIZES, text, &mut found);
    ceph::dump("ceph", text.as_bytes(), &mut found);
    let _ = groups::named(text);
    let _ = groups::is_populated(text);
    assert!(found.iter().all(|number| number.value.is_finite()));
    found.len()
}

#[test]
fn the_texts_as_they_are_say_something() {
    for text in WORDS {
        assert!(read_all(text) > read_all(""), "{text}");
    }
}

proptest! {
    #[test]
    fn damaged_texts_are_read_without_a_panic(
        which in 0..WORDS.len(), at in 0.0..1.0_f64, cut in 0..40_usize, instead in "\\PC{0,8}|[0-9 :=\n]{0,30}",
    ) {
        let text = WORDS[which];
        // All of them are ASCII.
        let begin = (at * text.len() as f64) as usize;
        let end = (begin + cut).min(text.len());
        read_all(&format!("{}{instead}{}", &text[..begin], &text[end..]));
        read_all(&text[..begin]);
    }
}
