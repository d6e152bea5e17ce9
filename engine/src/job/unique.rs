//! JSON in which no object has a key twice: which of two values would count is nothing to be guessed.
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Reads one document.
pub fn from_slice(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice::<Unique>(text).map(|unique| unique.0)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any).map(Self)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(truth.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!(
                    "the key \"{key}\" is there twice; a key is written once"
                )));
            }
            let Unique(value) = entries.next_value()?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_serde_reads() {
        let text = r#"{"a": [null, true, 1, -1, 1.5, 1e300, 18446744073709551615, "\u00e9\n"], "b": {"a": {}}, "": ""}"#;
        assert_eq!(from_slice(text.as_bytes()).ok(), serde_json::from_str(text).ok());
        for bad in ["", "{", "{\"a\"}", "[1,]", "{} x", "nul"] {
            assert!(from_slice(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_refused_with_its_place() {
        for (text, line, column) in
            [("{\"a\": 1, \"a\": 1}", 1, 12), ("[{\n\"b\": {\"a\": 1, \"\\u0061\": 2}}]", 2, 22)]
        {
            let error = from_slice(text.as_bytes()).expect_err(text);
            assert!(error.to_string().contains("the key \"a\" is there twice"), "{error}");
            assert_eq!((error.line(), error.column()), (line, column), "{text}");
        }
        let problems = crate::job::Job::from_json("{\"version\": 1, \"version\": 1}").expect_err("a job");
        assert!(
            problems[0].message.starts_with("not JSON: the key \"version\" is there twice"),
            "{problems:?}"
        );
    }
}
