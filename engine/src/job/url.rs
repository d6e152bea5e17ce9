//! The address of an instance.

/// `http://host[:port][/prefix]`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// A name or a literal address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Put before every path; "" or "/…" without a slash at its end.
    pub prefix: String,
}

impl BaseUrl {
    /// Parses; the error says what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("\"{text}\" is no URL; expected http://host:port"));
        };
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("scheme \"{scheme}\" is not supported; allowed: http"));
        }
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err("white space or a control character in the URL".into());
        }
        if rest.contains(['?', '#', '@']) {
            return Err("a base URL has no query, no fragment and no credentials".into());
        }
        let (authority, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = split_authority(authority)?;
        Ok(Self { host, port, prefix: prefix.trim_end_matches('/').to_owned() })
    }

    /// What the Host header says.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == 80 { host } else { format!("{host}:{}", self.port) }
    }
}

fn split_authority(authority: &str) -> Result<(String, u16), String> {
    let bad_port = || format!("no valid port in \"{authority}\"; allowed: 1 to 65535");
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("an IPv6 address without its closing bracket")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| format!("\"{host}\" is no IPv6 address"))?;
        (host, if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(bad_port)?) })
    } else {
        authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
    };
    if host.is_empty() {
        return Err("a URL without a host".into());
    }
    let port = port.map_or(Ok(80), str::parse).map_err(|_| bad_port())?;
    if port == 0 { Err(bad_port()) } else { Ok((host.to_owned(), port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_addresses_apart() {
        let url = BaseUrl::parse("http://127.0.0.1:8101/v1/").expect("valid");
        assert_eq!(url, BaseUrl { host: "127.0.0.1".into(), port: 8101, prefix: "/v1".into() });
        assert_eq!(url.authority(), "127.0.0.1:8101");
        let six = BaseUrl::parse("http://[::1]:80").expect("valid");
        assert_eq!((six.host.as_str(), six.authority().as_str()), ("::1", "[::1]"));
        assert_eq!(BaseUrl::parse("http://shop").expect("valid").port, 80);
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        let bad =
            ["", "shop", "https://shop", "http://", "http://a:0", "http://a:x", "http://[::1", "http://a b"];
        for text in bad.iter().chain(&["http://a/?q", "http://u@a", "http://[zz]:1", "http://[::1]x"]) {
            assert!(BaseUrl::parse(text).is_err(), "{text}");
        }
    }
}
