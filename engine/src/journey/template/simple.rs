//! Templates that are no more than texts and plain expressions: these are most, and need no template machine.
use super::functions::{self, MAX_CHARACTERS, check_bounds};
use super::scope::{Name, Scope, cell_value};
use super::{Frame, write_value};
use minijinja::value::Value;
use std::fmt::Write as _;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Segment {
    /// As it is.
    Text(String),
    /// What an expression gives.
    Plain(Plain),
}

/// A plain expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    /// `user`, `arrival`
    User,
    /// `iteration`
    Iteration,
    /// A variable of the journey
    Constant(Value),
    /// A capture, and its name.
    Slot(usize, String),
    /// `people.name`: feed and column.
    Cell(usize, usize),
    /// `random_int(1, 9)`
    Int(i64, i64),
    /// `random_float(0, 1)`
    Float(f64, f64),
    /// `random_hex(8)`
    Hex(u64),
    /// `random_string(8)`
    Letters(u64),
    /// `random_uuid()`
    Uuid,
    /// `now_ms()`
    Now,
    /// `random_choice([…])` or of a variable
    Choice(Box<Plain>),
}

/// The pieces of a template; none if minijinja has to do it.
pub fn parse(source: &str, scope: &Scope) -> Option<Vec<Segment>> {
    if source.contains("{%") || source.contains("{#") {
        return None;
    }
    let mut segments = Vec::new();
    let mut rest = source;
    while let Some(start) = rest.find("{{") {
        let (before, after) = (&rest[..start], &rest[start + 2..]);
        let end = after.find("}}")?;
        let inner = &after[..end];
        // Braces, and signs that take blanks away, are for minijinja.
        if inner.contains(['{', '}']) || inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']) {
            return None;
        }
        if !before.is_empty() {
            segments.push(Segment::Text(before.to_owned()));
        }
        segments.push(Segment::Plain(expression(inner, scope)?));
        rest = &after[end + 2..];
        if rest.starts_with('}') {
            return None;
        }
    }
    if !rest.is_empty() {
        segments.push(Segment::Text(rest.to_owned()));
    }
    Some(segments)
}

fn expression(source: &str, scope: &Scope) -> Option<Plain> {
    let source = source.trim();
    let Some((function, arguments)) = source.split_once('(') else { return name(source, scope) };
    let arguments = arguments.strip_suffix(')')?.trim();
    if function.trim() == "random_choice" {
        let list = if arguments.starts_with('[') {
            Plain::Constant(list(arguments)?)
        } else {
            name(arguments, scope)?
        };
        // Whether it is a list, and has elements, is seen when it is drawn from.
        return Some(Plain::Choice(Box::new(list)));
    }
    let arguments: Vec<_> =
        if arguments.is_empty() { Vec::new() } else { arguments.split(',').map(str::trim).collect() };
    let count = |text: &str| digits(text)?.parse().ok().filter(|n| *n <= MAX_CHARACTERS);
    match (function.trim(), &arguments[..]) {
        ("random_int", [a, b]) => {
            let (a, b) = (integer(a)?, integer(b)?);
            check_bounds(&a, &b).ok().map(|()| Plain::Int(a, b))
        }
        ("random_float", [a, b]) => {
            let (a, b) = (number(a)?, number(b)?);
            check_bounds(&a, &b).ok().map(|()| Plain::Float(a, b))
        }
        ("random_hex", [n]) => count(n).map(Plain::Hex),
        ("random_string", [n]) => count(n).map(Plain::Letters),
        ("random_uuid", []) => Some(Plain::Uuid),
        ("now_ms", []) => Some(Plain::Now),
        _ => None,
    }
}

fn name(source: &str, scope: &Scope) -> Option<Plain> {
    if let Some((feed, column)) = source.split_once('.') {
        let Some(Name::Feed(place)) = scope.get(feed.trim()) else { return None };
        return scope.table(*place).column(column.trim()).map(|column| Plain::Cell(*place, column));
    }
    Some(match scope.get(source)? {
        Name::User | Name::Arrival => Plain::User,
        Name::Iteration => Plain::Iteration,
        Name::Constant(value) => Plain::Constant(value.clone()),
        Name::Slot(slot) => Plain::Slot(*slot, source.to_owned()),
        Name::Feed(_) => return None,
    })
}

/// A list of numbers and texts without escapes.
fn list(source: &str) -> Option<Value> {
    let inner = source.strip_prefix('[')?.strip_suffix(']')?.trim();
    if inner.contains(['\\', '[', ']', '(', ')']) {
        return None;
    }
    let mut items = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (item, after) = if let Some(quote) = quote {
            let end = rest[1..].find(quote)? + 1;
            (Value::from(&rest[1..end]), rest[end + 1..].trim_start())
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (Value::from(integer(rest[..end].trim())?), &rest[end..])
        };
        items.push(item);
        if after.is_empty() {
            break;
        }
        rest = after.strip_prefix(',')?.trim_start();
    }
    Some(Value::from(items))
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then_some(text)
}

fn integer(text: &str) -> Option<i64> {
    digits(text.strip_prefix('-').unwrap_or(text))?;
    text.parse().ok()
}

fn number(text: &str) -> Option<f64> {
    let plain = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, "0"));
    (digits(whole).is_some() && digits(fraction).is_some()).then(|| text.parse().ok())?
}

impl Plain {
    /// Whether what it writes is safe in every place of a request.
    pub fn is_safe(&self) -> bool {
        !matches!(
            self,
            Self::Constant(_) | Self::Slot(..) | Self::Cell(..) | Self::Choice(_) | Self::Float(..)
        )
    }

    /// Writes what it gives.
    pub fn write(&self, frame: &mut Frame<'_>, out: &mut String) -> Result<(), String> {
        match self {
            Self::User => push_number(frame.user, out),
            Self::Iteration => push_number(frame.iteration, out),
            Self::Now => push_number(functions::now_ms(), out),
            Self::Int(a, b) => {
                // Writing to a String cannot fail.
                let _ = write!(out, "{}", functions::int(*a, *b, frame.rng));
            }
            Self::Hex(count) => functions::hex(*count, frame.rng, out),
            Self::Letters(count) => functions::string(*count, frame.rng, out),
            Self::Uuid => functions::uuid(frame.rng, out),
            Self::Slot(slot, name) => return write_value(slot_value(frame, *slot, name)?, out),
            Self::Cell(feed, column) => return write_cell(frame, *feed, *column, out),
            Self::Constant(_) | Self::Float(..) | Self::Choice(_) => {
                let value = self.value(frame)?;
                return write_value(&value, out);
            }
        }
        Ok(())
    }

    /// What it gives.
    pub fn value(&self, frame: &mut Frame<'_>) -> Result<Value, String> {
        Ok(match self {
            Self::User => Value::from(frame.user),
            Self::Iteration => Value::from(frame.iteration),
            Self::Now => Value::from(functions::now_ms()),
            Self::Int(a, b) => Value::from(functions::int(*a, *b, frame.rng)),
            Self::Float(a, b) => Value::from(functions::float(*a, *b, frame.rng)),
            Self::Constant(value) => value.clone(),
            Self::Slot(slot, name) => slot_value(frame, *slot, name)?.clone(),
            Self::Cell(feed, column) => {
                let row = frame.session.rows.get(*feed).copied().unwrap_or(0) as usize;
                cell_value(frame.scope.table(*feed), row, *column)
            }
            Self::Choice(list) => match &**list {
                Self::Slot(slot, name) => {
                    // Without a copy of the list: its elements are counted references at most.
                    let list = slot_value(frame, *slot, name)?.clone();
                    functions::choice(&list, frame.rng)?
                }
                list => {
                    let list = list.value(frame)?;
                    functions::choice(&list, frame.rng)?
                }
            },
            Self::Hex(_) | Self::Letters(_) | Self::Uuid => {
                let mut text = String::new();
                self.write(frame, &mut text)?;
                Value::from(text)
            }
        })
    }
}

fn slot_value<'a>(frame: &'a mut Frame<'_>, slot: usize, name: &str) -> Result<&'a Value, String> {
    frame.session.lacked = frame.session.get(slot).is_none();
    frame.session.get(slot).ok_or_else(|| format!("{name}: no capture has set it"))
}

fn write_cell(frame: &Frame<'_>, feed: usize, column: usize, out: &mut String) -> Result<(), String> {
    let table = frame.scope.table(feed);
    let row = frame.session.rows.get(feed).copied().unwrap_or(0) as usize;
    let cell = table.cell(row, column);
    // Of JSON only texts are written in another way than they are kept.
    if table.is_json && cell.starts_with('"') {
        return write_value(&cell_value(table, row, column), out);
    }
    out.push_str(cell);
    Ok(())
}

/// Decimal digits; the formatting machinery costs three times as much.
fn push_number(mut number: u64, out: &mut String) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|digit| *digit as char));
}
