//! How much a rendering may handle, so that no template, and nothing that a server sends into one, takes the machine's memory.
//!
//! Fuel bounds steps, not sizes: forty times `{% set a = a ~ a %}` are forty steps and a terabyte. So whatever a rendering
//! writes, binds to a name, loops over or gives to a filter is weighed, and taken from one allowance. For that calls are written
//! into the source before it is compiled, as for comparisons; what one expression can make in between is as long as it is
//! written. What could still multiply is not to be had.
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use std::cell::Cell;
use std::io::{self, Write};

/// Bytes that one rendering may handle.
pub const ALLOWANCE: usize = 64 << 20;
/// What an element of a list takes, whatever it is.
const ELEMENT: usize = 24;
const MAX_DEPTH: usize = 128;
/// The widest field of `format`.
const MAX_WIDTH: u32 = 9999;

/// Weighs a value and gives it back: a function and a filter.
const WEIGH: &str = "__weigh";
/// Gives a number back and refuses anything else: minijinja repeats texts and lists that are multiplied.
const FACTOR: &str = "__factor";

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Before a rendering.
pub fn refill() {
    LEFT.set(ALLOWANCE);
}

/// Takes bytes from the allowance.
fn charge(bytes: usize) -> Result<(), Error> {
    match LEFT.get().checked_sub(bytes) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(invalid(format!("more than {ALLOWANCE} bytes are written and handled by one rendering"))),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Takes all that a value holds from the allowance.
fn weigh(value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(invalid(format!("lists nested more than {MAX_DEPTH} deep")));
    }
    match value.kind() {
        ValueKind::String => charge(ELEMENT + value.as_str().map_or(0, str::len)),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            let is_map = value.kind() == ValueKind::Map;
            for item in value.try_iter()? {
                weigh(&item, depth + 1)?;
                if is_map {
                    weigh(&value.get_item(&item)?, depth + 1)?;
                }
            }
            charge(ELEMENT)
        }
        _ => charge(ELEMENT),
    }
}

/// A text that grows up to what is left.
#[derive(Default)]
pub struct Bounded(pub Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        charge(bytes.len()).map_err(|e| io::Error::other(e.detail().unwrap_or_default().to_owned()))?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the calls known to minijinja, and takes from it what multiplies.
pub fn register(environment: &mut Environment<'_>) {
    let weighed = |value: Value| weigh(&value, 0).map(|()| value);
    environment.add_function(WEIGH, weighed);
    environment.add_filter(WEIGH, weighed);
    environment.add_filter(FACTOR, |value: Value| match value.kind() {
        ValueKind::Number | ValueKind::Bool => Ok(value),
        kind => Err(invalid(format!("{kind} in a multiplication: only numbers are multiplied"))),
    });
    // They lay out text for people, and fill it up to any width.
    for name in ["batch", "slice", "indent", "pprint"] {
        environment.remove_filter(name);
    }
    environment.add_filter("tojson", |value: Value| {
        filters::tojson(&value, None, std::iter::empty::<(String, Value)>().collect())
    });
    guard(environment, "replace", Value::from_function(filters::replace), |arguments| {
        let [text, from, to, ..] = arguments else { return Ok(()) };
        let (text, from, to) = (text.to_string(), from.to_string(), to.to_string());
        charge(text.matches(&from).count().saturating_mul(to.len()))
    });
    guard(environment, "join", Value::from_function(filters::join), |arguments| {
        let [list, joiner, ..] = arguments else { return Ok(()) };
        charge(list.len().unwrap_or(ALLOWANCE).saturating_mul(joiner.to_string().len()))
    });
    guard(environment, "format", Value::from_function(filters::format), |arguments| {
        let form = arguments.first().map(Value::to_string).unwrap_or_default();
        let wide = |digits: &str| digits.parse::<u32>().map_or(!digits.is_empty(), |width| width > MAX_WIDTH);
        if form.contains('*') || form.split(|c: char| !c.is_ascii_digit()).any(wide) {
            return Err(invalid(format!("format: widths are written out and at most {MAX_WIDTH}")));
        }
        Ok(())
    });
}

/// A filter whose arguments are looked at before it is called.
fn guard(
    environment: &mut Environment<'_>,
    name: &'static str,
    filter: Value,
    check: impl Fn(&[Value]) -> Result<(), Error> + Send + Sync + 'static,
) {
    environment.add_filter(name, move |state: &mut State<'_, '_>, Rest(arguments): Rest<Value>| {
        check(&arguments)?;
        filter.call(state, &arguments)
    });
}

/// The source with the calls written in. What cannot be read is left for minijinja to complain of.
pub fn rewrite(source: &str) -> Result<String, String> {
    if source.contains(WEIGH) || source.contains(FACTOR) {
        return Err(format!("unknown: {}", if source.contains(WEIGH) { WEIGH } else { FACTOR }));
    }
    let tokens: Result<Vec<_>, _> = tokenize(source, false, SyntaxConfig::default()).collect();
    let Ok(tokens) = tokens else { return Ok(source.to_owned()) };
    let mut calls = Vec::new();
    for (at, (token, span)) in tokens.iter().enumerate() {
        match token {
            Token::Pipe => calls.push((span.start_offset, format!("|{WEIGH}"))),
            Token::Mul if ends_operand(tokens.get(at.wrapping_sub(1))) => {
                calls.push((span.start_offset, format!("|{FACTOR}")));
                if let Some(end) = operand_end(&tokens, at + 1) {
                    calls.push((end, format!("|{FACTOR}")));
                }
            }
            Token::BlockStart => block(&tokens[at + 1..], &mut calls)?,
            _ => {}
        }
    }
    // Those at the same place stay in their order.
    calls.sort_by_key(|(place, _)| *place);
    let (mut rewritten, mut copied) = (String::with_capacity(source.len() + 16 * calls.len()), 0);
    for (place, call) in calls {
        rewritten.push_str(source.get(copied..place as usize).unwrap_or_default());
        rewritten.push_str(&call);
        copied = place as usize;
    }
    rewritten.push_str(source.get(copied..).unwrap_or_default());
    Ok(rewritten)
}

type Tokens<'t, 's> = &'t [(Token<'s>, Span)];

/// What a block binds to a name is weighed. Blocks that keep what they write are not to be had.
fn block(tokens: Tokens<'_, '_>, calls: &mut Vec<(u32, String)>) -> Result<(), String> {
    let Some((Token::Ident(kind), _)) = tokens.first() else { return Ok(()) };
    let start = match *kind {
        "set" if matches!(tokens.get(1..3), Some([(Token::Ident(_), _), (Token::Assign, _)])) => 3,
        "set" => return Err("a set block binds one name: {% set name = value %}".into()),
        "for" => match outermost(tokens, |token| matches!(token, Token::Ident("in"))) {
            Some(at) => at + 1,
            None => return Ok(()),
        },
        "if" | "elif" | "else" | "endif" | "endfor" => return Ok(()),
        other => return Err(format!("unknown block: {other}; known: for, if, set, raw")),
    };
    let is_loop = *kind == "for";
    let ends = |token: &Token<'_>| match token {
        Token::BlockEnd => true,
        Token::Ident("if" | "recursive") => is_loop,
        _ => false,
    };
    let Some(end) = outermost(&tokens[start..], ends).map(|end| start + end) else { return Ok(()) };
    if matches!(tokens[end].0, Token::Ident("recursive")) {
        return Err("a loop cannot be recursive".into());
    }
    if end > start {
        calls.push((tokens[start].1.start_offset, format!("{WEIGH}(")));
        calls.push((tokens[end - 1].1.end_offset, ")".into()));
    }
    Ok(())
}

fn opens(token: &Token<'_>) -> bool {
    matches!(token, Token::ParenOpen | Token::BracketOpen | Token::BraceOpen)
}

fn closes(token: &Token<'_>) -> bool {
    matches!(token, Token::ParenClose | Token::BracketClose | Token::BraceClose)
}

/// The first token of a kind that is in no brackets.
fn outermost(tokens: Tokens<'_, '_>, wanted: impl Fn(&Token<'_>) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|(token, _)| {
        let found = depth == 0 && wanted(token);
        if opens(token) {
            depth += 1;
        } else if closes(token) {
            depth = depth.saturating_sub(1);
        }
        found
    })
}

/// Whether a `*` behind this multiplies, and does not spread arguments.
fn ends_operand(token: Option<&(Token<'_>, Span)>) -> bool {
    token.is_some_and(|(token, _)| {
        closes(token)
            || matches!(
                token,
                Token::Ident(_)
                    | Token::Str(_)
                    | Token::String(_)
                    | Token::Int(_)
                    | Token::Int128(_)
                    | Token::Float(_)
            )
    })
}

/// Where the operand ends that begins with a token: signs, a name or brackets, and what belongs to it.
fn operand_end(tokens: Tokens<'_, '_>, start: usize) -> Option<u32> {
    let mut at = start;
    while matches!(tokens.get(at)?.0, Token::Minus | Token::Plus) {
        at += 1;
    }
    let mut end = group_end(tokens, at)?;
    loop {
        end = match tokens.get(end + 1).map(|(token, _)| token) {
            Some(Token::Dot | Token::Pipe) => end + 2,
            Some(Token::BracketOpen | Token::ParenOpen) => group_end(tokens, end + 1)?,
            _ => return tokens.get(end).map(|(_, span)| span.end_offset),
        };
    }
}

/// The last token of what begins with a token: itself, or the bracket that closes it.
fn group_end(tokens: Tokens<'_, '_>, start: usize) -> Option<usize> {
    if !opens(&tokens.get(start)?.0) {
        return Some(start);
    }
    let end = outermost(&tokens[start + 1..], closes)?;
    Some(start + 1 + end)
}
