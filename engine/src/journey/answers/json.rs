//! `JSONPath` (RFC 9535) in the body of an answer, all paths of a step at once.
//!
//! Most paths are as plain as `$.items[*].id`. Where all paths of a step are, the body is walked through without
//! being built: only where what they lead to lies is noted. Otherwise it is built once and asked by `serde_json_path`.
//! Both ways find the same; what only the second checks (lone surrogates and depth of what nobody asks for) makes a
//! body no worse.
use super::json_node::Node;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_json_path::JsonPath;
use std::fmt;
use std::ops::Range;

/// The paths of a step.
pub struct JsonPaths {
    paths: Vec<JsonPath>,
    /// If all of them are plain.
    tree: Option<Vec<Branch>>,
}

/// A step of a plain path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    Index(usize),
    Every,
}

/// A place that paths come by; the first of a tree is the root.
#[derive(Default)]
struct Branch {
    /// Paths that end here.
    ends: Vec<u16>,
    keys: Vec<(String, usize)>,
    indexes: Vec<(usize, usize)>,
    every: Option<usize>,
}

/// Where the nodes of plain paths lie; kept from one body to the next.
#[derive(Clone, Debug, Default)]
pub struct Hits(Vec<(u16, Range<u32>)>);

/// What the paths of a step have found.
pub enum Found<'a> {
    /// The body is not JSON.
    Nothing,
    /// Places in the body.
    Places(&'a str, &'a [(u16, Range<u32>)]),
    /// The whole body.
    Whole(&'a [JsonPath], Box<Value>),
}

impl Default for JsonPaths {
    fn default() -> Self {
        Self { paths: Vec::new(), tree: Some(vec![Branch::default()]) }
    }
}

impl JsonPaths {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Adds a path and gives its number.
    pub fn add(&mut self, source: &str) -> Result<u16, String> {
        let path = JsonPath::parse(source).map_err(|e| format!("no JSONPath (RFC 9535): {source}: {e}"))?;
        let number = u16::try_from(self.paths.len()).map_err(|_| "more than 65536 paths in one step")?;
        self.paths.push(path);
        match (&mut self.tree, plain(source)) {
            (Some(tree), Some(parts)) => grow(tree, &parts, number),
            _ => self.tree = None,
        }
        Ok(number)
    }

    /// Looks all paths up.
    pub fn find<'a>(&'a self, body: &'a [u8], hits: &'a mut Hits) -> Found<'a> {
        let Ok(text) = std::str::from_utf8(body) else { return Found::Nothing };
        hits.0.clear();
        if let Some(tree) = &self.tree {
            let mut walk = Walk { tree, base: text.as_ptr() as usize, hits: &mut hits.0, twice: false };
            match (walk.enter(0, text), walk.twice) {
                (Ok(()), false) => return Found::Places(text, &hits.0),
                (Err(_), false) => return Found::Nothing,
                // A name that an object has twice: the last counts, which only the whole can tell.
                (_, true) => {}
            }
        }
        serde_json::from_str(text).map_or(Found::Nothing, |value| Found::Whole(&self.paths, Box::new(value)))
    }
}

impl Found<'_> {
    /// The first node of a path.
    pub fn first(&self, path: u16) -> Option<Node<'_>> {
        let mut first = None;
        self.each(path, &mut |node| {
            first = Some(node);
            false
        });
        first
    }

    /// Gives all nodes of a path to `each`, in their order, until that is false.
    pub fn each<'f>(&'f self, path: u16, each: &mut impl FnMut(Node<'f>) -> bool) {
        match self {
            Self::Nothing => {}
            Self::Places(text, hits) => {
                let raw = |range: &Range<u32>| Node::Raw(&text[range.start as usize..range.end as usize]);
                let mut hits = hits.iter().filter(|(of, _)| *of == path);
                hits.all(|(_, range)| each(raw(range)));
            }
            Self::Whole(paths, value) => {
                paths[usize::from(path)].query(value).into_iter().all(|node| each(Node::Built(node)));
            }
        }
    }
}

/// A plain path: names without escapes, places from the front, `*`.
fn plain(source: &str) -> Option<Vec<Part>> {
    let mut rest = source.strip_prefix('$')?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let end;
        if let Some(after) = rest.strip_prefix("[*]").or_else(|| rest.strip_prefix(".*")) {
            parts.push(Part::Every);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            end = after.find(['.', '[']).unwrap_or(after.len());
            let name = &after[..end];
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80) {
                return None;
            }
            parts.push(Part::Key(name.to_owned()));
            rest = &after[end..];
        } else {
            let after = rest.strip_prefix('[')?;
            end = after.find(']')?;
            parts.push(inside(&after[..end])?);
            rest = &after[end + 1..];
        }
    }
    Some(parts)
}

fn inside(text: &str) -> Option<Part> {
    for quote in ['\'', '"'] {
        if let Some(name) = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
            let is_plain = !name.contains(['\\', '\'', '"']);
            return is_plain.then(|| Part::Key(name.to_owned()));
        }
    }
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok().map(Part::Index)).flatten()
}

fn grow(tree: &mut Vec<Branch>, parts: &[Part], number: u16) {
    let mut at = 0;
    for part in parts {
        let known = match part {
            Part::Key(key) => tree[at].keys.iter().find(|(name, _)| name == key).map(|(_, to)| *to),
            Part::Index(index) => tree[at].indexes.iter().find(|(i, _)| i == index).map(|(_, to)| *to),
            Part::Every => tree[at].every,
        };
        let next = tree.len();
        at = known.unwrap_or_else(|| {
            match part {
                Part::Key(key) => tree[at].keys.push((key.clone(), next)),
                Part::Index(index) => tree[at].indexes.push((*index, next)),
                Part::Every => tree[at].every = Some(next),
            }
            tree.push(Branch::default());
            next
        });
    }
    tree[at].ends.push(number);
}

/// A walk through a body.
struct Walk<'w> {
    tree: &'w [Branch],
    /// Where the body begins.
    base: usize,
    hits: &'w mut Vec<(u16, Range<u32>)>,
    /// An object had a name twice that paths go by.
    twice: bool,
}

impl Walk<'_> {
    /// Goes into a value that is a document of its own.
    fn enter(&mut self, branch: usize, text: &str) -> Result<(), serde_json::Error> {
        let mut document = serde_json::Deserializer::from_str(text);
        if branch == 0 && !self.tree[0].ends.is_empty() {
            let raw = <&RawValue>::deserialize(&mut document)?;
            document.end()?;
            return self.meet(raw, 0);
        }
        Step { walk: self, branch }.deserialize(&mut document)?;
        document.end()
    }

    /// Notes a value and goes on inside of it.
    fn meet(&mut self, raw: &RawValue, branch: usize) -> Result<(), serde_json::Error> {
        let start = (raw.get().as_ptr() as usize - self.base) as u32;
        let range = start..start + raw.get().len() as u32;
        let of = &self.tree[branch];
        self.hits.extend(of.ends.iter().map(|path| (*path, range.clone())));
        if !of.leads_on() {
            return Ok(());
        }
        let mut document = serde_json::Deserializer::from_str(raw.get());
        Step { walk: self, branch }.deserialize(&mut document)
    }
}

impl Branch {
    fn leads_on(&self) -> bool {
        self.every.is_some() || !self.keys.is_empty() || !self.indexes.is_empty()
    }
}

/// What is to be done with the next value: paths lead to these branches.
struct Take<'s, 'w> {
    walk: &'s mut Walk<'w>,
    named: Option<usize>,
    every: Option<usize>,
}

impl<'de> DeserializeSeed<'de> for Take<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let passes = |branch: usize| self.walk.tree[branch].ends.is_empty();
        match (self.named, self.every) {
            (None, None) => IgnoredAny::deserialize(from).map(drop),
            (Some(branch), None) | (None, Some(branch)) if passes(branch) => {
                Step { walk: self.walk, branch }.deserialize(from)
            }
            (named, every) => {
                let raw = <&RawValue>::deserialize(from)?;
                let mut branches = named.into_iter().chain(every);
                branches.try_for_each(|branch| self.walk.meet(raw, branch)).map_err(D::Error::custom)
            }
        }
    }
}

/// Goes on in a value, without stopping at it.
struct Step<'s, 'w> {
    walk: &'s mut Walk<'w>,
    branch: usize,
}

impl<'de> DeserializeSeed<'de> for Step<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Step<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let tree = self.walk.tree;
        let branch = &tree[self.branch];
        let mut seen = 0_u64;
        while let Some(place) = map.next_key_seed(Name(&branch.keys))? {
            if let Some(place) = place {
                let bit = 1 << (place % 64);
                self.walk.twice |= seen & bit != 0;
                seen |= bit;
            }
            // Of all members one may come twice as well; that is not looked for, but left to the other way.
            self.walk.twice |= branch.every.is_some();
            let named = place.map(|place| branch.keys[place].1);
            map.next_value_seed(Take { walk: &mut *self.walk, named, every: branch.every })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let tree = self.walk.tree;
        let branch = &tree[self.branch];
        for at in 0.. {
            let named = branch.indexes.iter().find(|(index, _)| *index == at).map(|(_, to)| *to);
            let take = Take { walk: &mut *self.walk, named, every: branch.every };
            if list.next_element_seed(take)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// The place of a member's name among those that paths go by.
struct Name<'k>(&'k [(String, usize)]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<usize>, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.iter().position(|(known, _)| known == name))
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
