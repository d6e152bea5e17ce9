//! The functions of templates, as plain functions and as those of minijinja.
use super::scope::with_rng;
use crate::rng::Rng;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind};
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// `random_hex` and `random_string` give this many characters at most.
pub const MAX_CHARACTERS: u64 = 1 << 20;
/// All of them, for messages.
pub const NAMES: [&str; 8] = [
    "random_int",
    "random_float",
    "random_choice",
    "random_hex",
    "random_string",
    "random_uuid",
    "now_ms",
    "base64",
];
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Makes them known to minijinja.
pub fn register(environment: &mut Environment<'_>) {
    environment.add_function("random_int", |a: i64, b: i64| {
        let drawn = check_bounds(&a, &b).map_err(invalid);
        drawn.and_then(|()| with_rng(|rng| int(a, b, rng)).map_err(invalid))
    });
    environment.add_function("random_float", |a: f64, b: f64| {
        let drawn = check_bounds(&a, &b).map_err(invalid);
        drawn.and_then(|()| with_rng(|rng| float(a, b, rng)).map_err(invalid))
    });
    environment.add_function("random_choice", |list: Value| {
        with_rng(|rng| choice(&list, rng)).and_then(|v| v).map_err(invalid)
    });
    environment.add_function("random_hex", |count: u64| {
        check_count(count).and_then(|()| with_rng(|rng| written(|out| hex(count, rng, out)))).map_err(invalid)
    });
    environment.add_function("random_string", |count: u64| {
        check_count(count)
            .and_then(|()| with_rng(|rng| written(|out| string(count, rng, out))))
            .map_err(invalid)
    });
    environment
        .add_function("random_uuid", || with_rng(|rng| written(|out| uuid(rng, out))).map_err(invalid));
    environment.add_function("now_ms", now_ms);
    environment.add_function("base64", |text: &str| STANDARD.encode(text));
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn written(write: impl FnOnce(&mut String)) -> String {
    let mut text = String::new();
    write(&mut text);
    text
}

/// The first bound must not be above the second.
pub fn check_bounds<T: PartialOrd + std::fmt::Display>(a: &T, b: &T) -> Result<(), String> {
    if a <= b { Ok(()) } else { Err(format!("the first bound, {a}, is above the second, {b}")) }
}

/// A text must have a length that fits into a request.
pub fn check_count(count: u64) -> Result<(), String> {
    if count <= MAX_CHARACTERS {
        return Ok(());
    }
    Err(format!("{count} random characters; at most {MAX_CHARACTERS} are possible"))
}

/// Between two bounds, both included.
pub fn int(a: i64, b: i64, rng: &mut Rng) -> i64 {
    let span = b.wrapping_sub(a) as u64;
    let step = if span == u64::MAX { rng.next_u64() } else { rng.below(span + 1) };
    a.wrapping_add(step as i64)
}

/// Between two bounds.
pub fn float(a: f64, b: f64, rng: &mut Rng) -> f64 {
    let share = rng.unit();
    a.mul_add(1.0 - share, b * share)
}

/// One element of a list.
pub fn choice(list: &Value, rng: &mut Rng) -> Result<Value, String> {
    match list.len() {
        Some(count) if count > 0 && list.kind() == minijinja::value::ValueKind::Seq => {
            list.get_item_by_index(rng.below(count as u64) as usize).map_err(|e| e.to_string())
        }
        Some(0) => Err("random_choice: an empty list".into()),
        _ => Err(format!("random_choice: {} where a list is expected", list.kind())),
    }
}

/// Hexadecimal digits.
pub fn hex(count: u64, rng: &mut Rng, out: &mut String) {
    let end = out.len() + count as usize;
    while out.len() < end {
        // Writing to a String cannot fail.
        let _ = write!(out, "{:016x}", rng.next_u64());
    }
    out.truncate(end);
}

/// Letters and digits.
pub fn string(count: u64, rng: &mut Rng, out: &mut String) {
    out.extend((0..count).map(|_| LETTERS[rng.below(LETTERS.len() as u64) as usize] as char));
}

/// A random UUID (RFC 9562, version 4).
pub fn uuid(rng: &mut Rng, out: &mut String) {
    let (a, b) = (rng.next_u64(), rng.next_u64());
    let (time_low, time_mid, time_high) = (a >> 32, (a >> 16) & 0xffff, 0x4000 | (a & 0x0fff));
    let (clock, node) = (0x8000 | (b >> 50), b & 0xffff_ffff_ffff);
    let _ = write!(out, "{time_low:08x}-{time_mid:04x}-{time_high:04x}-{clock:04x}-{node:012x}");
}

/// The wall clock.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
