//! Arrivals from a file: one timestamp a line.
use super::super::MAX_DURATION_US;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Timestamps at most: 8 bytes each are held in memory.
pub const MAX_TIMES: usize = 100_000_000;
/// No timestamp has as many characters.
const MAX_LINE_BYTES: u64 = 256;

/// Spreadsheets and some systems begin a text with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// When arrivals are due.
#[derive(Debug)]
pub struct Times {
    /// Where they were read from.
    pub file: PathBuf,
    /// In ns from the start of the load, in their order.
    pub offsets_ns: Vec<u64>,
    /// Length of the schedule: longer than the last of them.
    pub duration_us: u64,
}

/// What a number in the file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    S,
    Ms,
    Us,
    Ns,
}

impl Unit {
    fn ns(self) -> f64 {
        match self {
            Self::S => 1e9,
            Self::Ms => 1e6,
            Self::Us => 1e3,
            Self::Ns => 1.0,
        }
    }
}

impl Times {
    /// Reads a whole file. The message says in which line the first mistake is.
    pub fn read(file: &Path, unit: Unit, duration_us: Option<u64>) -> Result<Self, String> {
        let shown = file.display();
        let regular = std::fs::metadata(file).map(|about| about.is_file());
        // A pipe or a device may never come to an end.
        if regular.as_ref().is_ok_and(|regular| !regular) {
            return Err(format!("cannot read {shown}: it is no regular file"));
        }
        let opened = File::open(file).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let offsets_ns = read_lines(BufReader::with_capacity(1 << 16, opened), unit)
            .map_err(|(line, message)| format!("{shown}:{line}: {message}"))?;
        let Some(last_ns) = offsets_ns.last() else {
            return Err(format!("{shown}: no timestamp; at least one is needed"));
        };
        let duration_us = duration_us.unwrap_or(0).max(last_ns / 1000 + 1);
        Ok(Self { file: file.to_owned(), offsets_ns, duration_us })
    }
}

type LineError = (u64, String);

fn read_lines(mut lines: impl BufRead, unit: Unit) -> Result<Vec<u64>, LineError> {
    let mut offsets_ns: Vec<u64> = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        let fail = |message: String| Err((number, message));
        line.clear();
        let read = io::Read::take(&mut lines, MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        match read {
            Err(e) => return fail(format!("cannot be read: {e}")),
            Ok(0) => break,
            Ok(n) if n as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') => {
                return fail(format!(
                    "a line of {MAX_LINE_BYTES} bytes or more where one timestamp is expected"
                ));
            }
            Ok(_) => {}
        }
        let text = line.trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            continue;
        }
        let due_ns = match offset(text, unit) {
            Ok(due_ns) => due_ns,
            Err(message) => return fail(message),
        };
        if offsets_ns.last().is_some_and(|before| *before > due_ns) {
            let shown = String::from_utf8_lossy(text);
            return fail(format!("{shown} is before the timestamp above it; they must be in order"));
        }
        if offsets_ns.len() == MAX_TIMES {
            return fail(format!("more than {MAX_TIMES} timestamps"));
        }
        offsets_ns.push(due_ns);
    }
    offsets_ns.shrink_to_fit();
    Ok(offsets_ns)
}

/// f64 has ns to spare over the longest run that is allowed.
fn offset(text: &[u8], unit: Unit) -> Result<u64, String> {
    let shown = String::from_utf8_lossy(text);
    let number: Option<f64> = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
    let Some(number) = number else {
        return Err(format!("\"{shown}\" is no number; one timestamp is expected"));
    };
    if !number.is_finite() {
        return Err(format!("{shown} is not finite"));
    }
    if number < 0.0 {
        return Err(format!("{shown} is negative; timestamps count from the start of the load"));
    }
    let offset_ns = (number * unit.ns()).round();
    if offset_ns >= MAX_DURATION_US as f64 * 1e3 {
        let days = MAX_DURATION_US / 86_400_000_000;
        return Err(format!("{shown} is later than a run may last, {days} days; is the unit right?"));
    }
    Ok(offset_ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn read(text: &str, unit: Unit) -> Result<Vec<u64>, LineError> {
        read_lines(text.as_bytes(), unit)
    }

    #[test]
    fn each_unit_is_read_to_the_ns() {
        let text = "# start\n0\n\n  0.000000001 \r\n1.5\n1.5\n1e1\n2678399.123456789";
        let expected = [0, 1, 1_500_000_000, 1_500_000_000, 10_000_000_000, 2_678_399_123_456_789];
        assert_eq!(read(text, Unit::S).unwrap_or_default(), expected);
        assert_eq!(read("1\n2.5\n", Unit::Ms).unwrap_or_default(), [1_000_000, 2_500_000]);
        assert_eq!(read("1\n2.5\n", Unit::Us).unwrap_or_default(), [1000, 2500]);
        assert_eq!(read("1\n2678399999999999", Unit::Ns).unwrap_or_default(), [1, 2_678_399_999_999_999]);
    }

    #[test]
    fn each_mistake_is_told_with_its_line() {
        let long = format!("1\n{}\n", "1".repeat(300));
        let cases = [
            ("1\n-0.5\n", 2, "negative"),
            ("1\n\n3\n2\n", 4, "in order"),
            ("1\nsoon\n", 2, "\"soon\" is no number"),
            ("1,2\n", 1, "no number"),
            ("1\nNaN", 2, "not finite"),
            ("inf\n", 1, "not finite"),
            ("1e400\n", 1, "not finite"),
            ("1\n\u{0}\n", 2, "no number"),
            ("2678401\n", 1, "31 days"),
            (&long, 2, "256 bytes"),
        ];
        for (text, line, message) in cases {
            let found = read(text, Unit::S);
            let told = found.as_ref().is_err_and(|(n, m)| *n == line && m.contains(message));
            assert!(told, "{text:?}: expected line {line}: …{message}…, found {found:?}");
        }
        assert!(
            read_lines(&b"1\n\xff\xfe\n"[..], Unit::S).is_err_and(|(n, m)| n == 2 && m.contains("no number"))
        );
    }

    #[test]
    fn a_file_gives_the_length_of_the_schedule() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("times.txt");
        let mut text = String::new();
        (0..1000).for_each(|k| writeln!(text, "{}", k * 3).expect("a string"));
        std::fs::write(&file, text).expect("written");
        let length = |duration_us| Times::read(&file, Unit::Ms, duration_us).map(|t| t.duration_us);
        assert_eq!(length(None), Ok(2_997_001));
        assert_eq!(length(Some(5)), Ok(2_997_001));
        assert_eq!(length(Some(9_000_000)), Ok(9_000_000));
        std::fs::write(&file, "# nothing\n\n").expect("written");
        assert!(length(None).is_err_and(|m| m.contains("no timestamp")));
        assert!(
            Times::read(&dir.path().join("absent"), Unit::S, None).is_err_and(|m| m.contains("cannot read"))
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_timestamp() {
        let read = read_lines(&b"\xef\xbb\xbf0.5\n1\n"[..], Unit::S);
        assert_eq!(read.ok(), Some(vec![500_000_000, 1_000_000_000]));
    }
}
