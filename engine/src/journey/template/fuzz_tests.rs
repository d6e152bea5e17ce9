//! Whatever the source, the reader gives a text or an error, soon, and so does rendering.
use super::tests::Stage;
use crate::rng::Rng;
use std::time::{Duration, Instant};

/// What sources are made of: some of it belongs together, the rest is in the way.
const PARTS: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "user",
    "people",
    ".",
    "name",
    "(",
    ")",
    "[",
    "]",
    "random_int",
    "1",
    ",",
    "9",
    "-",
    "+",
    " ",
    "'",
    "\"",
    "\\",
    "|",
    "upper",
    "if",
    "else",
    "endif",
    "for",
    "in",
    "endfor",
    "é",
    "\u{1F600}",
    "\n",
    "random_choice",
    "list",
    "~",
    "*",
    "{",
    "}",
    "not",
    "token",
    "unset",
    "set",
    "x",
    "=",
    "__keep",
    "range",
    "\0",
    "~",
    "*",
    "**",
    "replace",
    "join",
    "format",
    "%",
    "d",
    "list",
    "range",
    "9999999",
    "recursive",
    "loop",
    "with",
    "raw",
    "endraw",
];

/// Good ones, to be spoiled.
const CORPUS: &[&str] = &[
    "/{{ user }}/{{ iteration }}?p={{page}}&s={{ secure }}",
    "{{ random_int(1, 9) }} {{ random_choice(['a', \"b c\", 3, -4]) }} {{ random_hex(3) }}-{{ random_uuid() }}",
    "{{ people.name | upper }} of {{ people['city'] | replace('o', '00') }}{{ device.tags | join(',') }}",
    "{% set a = token ~ user %}{% set b = [a, a] + list %}{{ b | length }}{{ b | tojson }}",
    "{% for x in list + [1, 2] if x is not none %}{{ loop.index * 2 }}{{ x }};{% endfor %}",
    "{% if iteration > 1 and price >= 2.0 %}{{ price * 2 }}{% elif user in [7] %}{{ '%05d' | format(user) }}{% else %}-{% endif %}",
    "{{ 'set' if unset is defined else unset | default('x') }}{# a remark #}{% raw %}{{ }}{% endraw %}",
    "{{ {'a': {'b': [1, 2.5, none, true]}} | items | list }}{{ (user + 1) ** 2 // 3 % 5 - -user }}",
];

fn from_parts(rng: &mut Rng) -> String {
    let count = 1 + rng.below(14);
    let source: String = (0..count).map(|_| PARTS[rng.below(PARTS.len() as u64) as usize]).collect();
    if rng.below(2) == 0 { format!("{{{{ {source} }}}}") } else { source }
}

/// A good source after a few accidents: something is cut out, doubled, put in, or taken from another.
fn spoiled(rng: &mut Rng) -> String {
    let mut text: Vec<char> = CORPUS[rng.below(CORPUS.len() as u64) as usize].chars().collect();
    for _ in 0..=rng.below(4) {
        let at = rng.below(text.len() as u64 + 1) as usize;
        let end = text.len().min(at + rng.below(20) as usize);
        match rng.below(4) {
            0 => drop(text.drain(at..end)),
            1 => {
                let copy = text[at..end].to_vec();
                text.splice(at..at, copy);
            }
            2 => drop(text.splice(at..at, PARTS[rng.below(PARTS.len() as u64) as usize].chars())),
            _ => {
                let other: Vec<char> = CORPUS[rng.below(CORPUS.len() as u64) as usize].chars().collect();
                let from = rng.below(other.len() as u64) as usize;
                let to = other.len().min(from + 1 + rng.below(30) as usize);
                drop(text.splice(at..end, other[from..to].iter().copied()));
            }
        }
    }
    text.into_iter().collect()
}

fn survive(stage: &mut Stage, source: &str) -> bool {
    let start = Instant::now();
    let text = stage.text(source);
    if let Ok(text) = &text {
        let _ = stage.write(text, 1);
        let _ = stage.with(1, |frame| text.value(frame));
        let _ = stage.with(1, |frame| text.holds(frame));
        assert!(stage.session.slots.len() == 3 && stage.session.rows.len() == 2, "{source}");
    }
    // Fuel and the allowance are used up in far less, four times over.
    assert!(start.elapsed() < Duration::from_secs(30), "{source}");
    text.is_ok()
}

fn survives_all(seed: u64, make: fn(&mut Rng) -> String) {
    let mut rng = Rng::from_parts(&[seed]);
    let start = Instant::now();
    let (mut good, mut bad) = (0, 0);
    while start.elapsed() < Duration::from_secs(2) || good + bad < 300 {
        let mut stage = Stage::new();
        for _ in 0..300 {
            *(if survive(&mut stage, &make(&mut rng)) { &mut good } else { &mut bad }) += 1;
        }
    }
    assert!(good > 10 && bad > 100, "{good} good, {bad} bad");
}

#[test]
fn any_source_is_a_text_or_an_error() {
    survives_all(0x6675_7a7a, from_parts);
}

#[test]
fn a_spoiled_source_is_a_text_or_an_error() {
    let mut stage = Stage::new();
    for source in CORPUS {
        assert!(survive(&mut stage, source), "{source}");
    }
    survives_all(0x7370_6f69, spoiled);
}
