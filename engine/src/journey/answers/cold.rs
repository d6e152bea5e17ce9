//! Whether an answer tells that an instance had to be started for it.
use super::decode::Buffers;
use crate::job::Cold;
use crate::transport::{Reply, Want};
use serde_json::Value;

/// What has to be kept of answers so that the signs can be seen.
pub fn want(cold: &Cold) -> Want {
    let body = cold.json.is_some();
    Want { fields: body || cold.header.is_some(), cookies: false, body }
}

/// The first sign that is given and found decides; none if none is found.
pub fn is_cold(
    cold: &Cold,
    reply: &Reply,
    total_us: u64,
    max_body_bytes: u64,
    buffers: &mut Buffers,
) -> Option<bool> {
    let header = || {
        let (name, value) = cold.header.as_ref()?;
        Some(reply.fields.get(name.as_bytes())? == value.as_bytes())
    };
    let mut json = || {
        let (path, value) = cold.json.as_ref()?;
        let body = buffers.decode(&reply.fields, &reply.body, max_body_bytes).ok()?;
        let document: Value = serde_json::from_slice(body).ok()?;
        Some(super::json_node::equal(path.query(&document).first()?, value))
    };
    header().or_else(&mut json).or_else(|| cold.above_us.map(|bound| total_us > bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json_path::JsonPath;

    fn reply(headers: &[(&str, &str)], body: &str) -> Reply {
        let mut reply = Reply::default();
        for (name, value) in headers {
            reply.fields.push(name.as_bytes(), value.as_bytes());
        }
        reply.body.extend_from_slice(body.as_bytes());
        reply
    }

    #[test]
    fn the_first_sign_that_is_found_decides() {
        let cold = Cold {
            header: Some(("x-cold".into(), "true".into())),
            json: Some((JsonPath::parse("$.cold").expect("valid"), json!(1))),
            above_us: Some(500),
        };
        let look = |cold: &Cold, reply: &Reply, us| is_cold(cold, reply, us, 1000, &mut Buffers::default());
        assert_eq!(look(&cold, &reply(&[("X-Cold", "true")], ""), 1), Some(true));
        assert_eq!(look(&cold, &reply(&[("x-cold", "false")], r#"{"cold": 1}"#), 900), Some(false));
        assert_eq!(look(&cold, &reply(&[], r#"{"cold": 1.0}"#), 1), Some(true));
        assert_eq!(look(&cold, &reply(&[], r#"{"cold": 0}"#), 900), Some(false));
        assert_eq!(look(&cold, &reply(&[], r#"{"warm": 0}"#), 900), Some(true));
        assert_eq!(look(&cold, &reply(&[], "not json"), 500), Some(false));
        let only_header = Cold { json: None, above_us: None, ..cold.clone() };
        assert_eq!(look(&only_header, &reply(&[], ""), 900), None);
        assert_eq!(want(&only_header), Want { fields: true, cookies: false, body: false });
        assert!(want(&cold).body);
    }
}
