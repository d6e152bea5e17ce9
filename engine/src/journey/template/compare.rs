//! Comparisons by order: only numbers with numbers and texts with texts.
//!
//! To minijinja every text is above every number, so that a captured `"2"` would be `> 3` without a word. So `a < b` is
//! rewritten as a call, before it is compiled, of a function that refuses what has no order.
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// The function that compares.
pub const COMPARE: &str = "__compare";

/// A part of an expression in which nothing binds less than a comparison.
#[derive(Default)]
struct Stretch {
    spans: Vec<Span>,
    /// Comparisons: which of the tokens, and how it is written.
    operators: Vec<(usize, &'static str)>,
    has_in: bool,
}

/// The source with its comparisons rewritten. What cannot be read is left for minijinja to complain of.
pub fn rewrite(source: &str) -> Result<String, String> {
    let mut edits = Vec::new();
    let mut stack = vec![Stretch::default()];
    let mut before = Token::Comma;
    for token in tokenize(source, false, minijinja::syntax::SyntaxConfig::default()) {
        let Ok((token, span)) = token else { return Ok(source.to_owned()) };
        match &token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                push(&mut stack, span);
                stack.push(Stretch::default());
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                finish(&mut stack, &mut edits)?;
                if stack.len() > 1 {
                    stack.pop();
                }
                push(&mut stack, span);
            }
            _ if ends_stretch(&token, &before) => finish(&mut stack, &mut edits)?,
            _ => {
                if let Some(stretch) = stack.last_mut() {
                    stretch.has_in |= matches!(token, Token::Ident("in")) && !is_name(&before);
                    stretch.operators.extend(operator(&token).map(|o| (stretch.spans.len(), o)));
                }
                push(&mut stack, span);
            }
        }
        before = token;
    }
    edits.sort_by_key(|(start, ..)| *start);
    let (mut rewritten, mut copied) = (String::with_capacity(source.len()), 0);
    for (start, end, text) in edits {
        rewritten.push_str(source.get(copied..start).unwrap_or_default());
        rewritten.push_str(&text);
        copied = end;
    }
    rewritten.push_str(source.get(copied..).unwrap_or_default());
    Ok(rewritten)
}

fn push(stack: &mut [Stretch], span: Span) {
    if let Some(stretch) = stack.last_mut() {
        stretch.spans.push(span);
    }
}

/// Whether a word after this one is a name, whatever it says.
fn is_name(before: &Token<'_>) -> bool {
    matches!(before, Token::Dot | Token::Pipe | Token::Ident("is"))
}

fn ends_stretch(token: &Token<'_>, before: &Token<'_>) -> bool {
    match token {
        Token::TemplateData(_)
        | Token::VariableStart
        | Token::VariableEnd
        | Token::BlockStart
        | Token::BlockEnd
        | Token::Comma
        | Token::Colon
        | Token::Assign => true,
        // The first word of a block is its kind.
        Token::Ident(_) if matches!(before, Token::BlockStart) => true,
        Token::Ident("and" | "or" | "not" | "if" | "else") => !is_name(before),
        _ => false,
    }
}

fn operator(token: &Token<'_>) -> Option<&'static str> {
    Some(match token {
        Token::Lt => "<",
        Token::Lte => "<=",
        Token::Gt => ">",
        Token::Gte => ">=",
        Token::Eq => "==",
        Token::Ne => "!=",
        _ => return None,
    })
}

fn finish(stack: &mut [Stretch], edits: &mut Vec<(usize, usize, String)>) -> Result<(), String> {
    let Some(stretch) = stack.last_mut().map(std::mem::take) else { return Ok(()) };
    let Stretch { spans, operators, has_in } = stretch;
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Ok(()) };
    if !operators.iter().any(|(_, operator)| operator.starts_with(['<', '>'])) {
        return Ok(());
    }
    if has_in {
        return Err("`in` and an order in one comparison; part them with `and`".into());
    }
    let (start, end) = (first.start_offset as usize, last.end_offset as usize);
    edits.push((start, start, format!("{COMPARE}(")));
    for (at, operator) in operators {
        let (start, end) = (spans[at].start_offset as usize, spans[at].end_offset as usize);
        edits.push((start, end, format!(", \"{operator}\", ")));
    }
    edits.push((end, end, ")".into()));
    Ok(())
}

/// `a, "<", b, "<=", c`: whether all of it holds.
pub fn compare(Rest(arguments): Rest<Value>) -> Result<bool, Error> {
    let mut holds = true;
    for step in arguments.windows(3).step_by(2) {
        let [a, operator, b] = step else { continue };
        let operator = operator.as_str().unwrap_or_default();
        if operator.starts_with(['<', '>']) {
            ordered(a.kind(), b.kind(), operator)?;
        }
        holds &= match operator {
            "<" => a < b,
            "<=" => a <= b,
            ">" => a > b,
            ">=" => a >= b,
            "==" => a == b,
            _ => a != b,
        };
    }
    Ok(holds)
}

fn ordered(a: ValueKind, b: ValueKind, operator: &str) -> Result<(), Error> {
    if a == b && matches!(a, ValueKind::Number | ValueKind::String | ValueKind::Seq | ValueKind::Bool) {
        return Ok(());
    }
    let message = format!(
        "{a} {operator} {b} has no answer: only numbers or only texts have an order; make a text a number with | int or | float"
    );
    Err(Error::new(ErrorKind::InvalidOperation, message))
}
