//! The address of an instance.
use std::path::{Path, PathBuf};

/// `http://host[:port][/prefix]`, `https://…` or `unix:/path/of/socket[:/prefix]`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// A name or a literal address, without brackets; `localhost` for a Unix socket.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Put before every path; "" or "/…" without a slash at its end.
    pub prefix: String,
    /// `https`.
    pub tls: bool,
    /// The Unix socket, instead of host and port.
    pub socket: Option<PathBuf>,
}

/// Longest path of a Unix socket: what fits into `sockaddr_un`.
const MAX_SOCKET_PATH: usize = 107;

impl BaseUrl {
    /// Parses; the error says what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.bytes().any(|b| b <= b' ' || b == 0x7f) {
            return Err("white space or a control character in the URL".into());
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return Self::unix(rest);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!(
                "\"{text}\" is no URL; expected http://host:port, https://host:port or unix:/path"
            ));
        };
        let tls = scheme.eq_ignore_ascii_case("https");
        if !tls && !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("scheme \"{scheme}\" is not supported; allowed: http, https, unix"));
        }
        check_base(rest)?;
        let (authority, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = split_authority(authority)?;
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { host, port, prefix: prefix.trim_end_matches('/').to_owned(), tls, socket: None })
    }

    /// `/path/of/socket[:/prefix]`.
    fn unix(rest: &str) -> Result<Self, String> {
        let (path, prefix) = rest.split_once(':').unwrap_or((rest, ""));
        if !Path::new(path).is_absolute() || path.len() > MAX_SOCKET_PATH {
            return Err(format!(
                "\"{path}\" is no absolute path of a socket with at most {MAX_SOCKET_PATH} bytes; expected unix:/path[:/prefix]"
            ));
        }
        if !prefix.is_empty() && !prefix.starts_with('/') {
            return Err(format!("the prefix \"{prefix}\" does not start with a slash"));
        }
        check_base(prefix)?;
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Self { host: "localhost".into(), port: 80, prefix, tls: false, socket: Some(path.into()) })
    }

    /// What the Host header says.
    pub fn authority(&self) -> String {
        let host = bracketed(&self.host);
        let default = if self.tls { 443 } else { 80 };
        if self.port == default { host } else { format!("{host}:{}", self.port) }
    }
}

/// A host as it stands before a port.
pub fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn check_base(rest: &str) -> Result<(), String> {
    if rest.contains(['?', '#', '@']) {
        return Err("a base URL has no query, no fragment and no credentials".into());
    }
    Ok(())
}

/// Host and port of `host[:port]` or `[v6][:port]`.
pub fn split_authority(authority: &str) -> Result<(String, Option<u16>), String> {
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
    let port: Option<u16> = port.map(|p| p.parse().map_err(|_| bad_port())).transpose()?;
    if port == Some(0) { Err(bad_port()) } else { Ok((host.to_owned(), port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse(text).expect("valid")
    }

    #[test]
    fn takes_addresses_apart() {
        let shop = url("http://127.0.0.1:8101/v1/");
        assert_eq!((shop.host.as_str(), shop.port, shop.prefix.as_str()), ("127.0.0.1", 8101, "/v1"));
        assert_eq!((shop.tls, shop.authority().as_str()), (false, "127.0.0.1:8101"));
        let six = url("http://[::1]:80");
        assert_eq!((six.host.as_str(), six.authority().as_str()), ("::1", "[::1]"));
        assert_eq!(url("http://shop").port, 80);
        let secure = url("HTTPS://shop/a");
        assert_eq!((secure.port, secure.tls, secure.authority().as_str()), (443, true, "shop"));
        assert_eq!(url("https://shop:80").authority(), "shop:80");
    }

    #[test]
    fn a_unix_socket_may_have_a_prefix() {
        let plain = url("unix:/run/app.sock");
        assert_eq!(plain.socket.as_deref(), Some(Path::new("/run/app.sock")));
        assert_eq!((plain.prefix.as_str(), plain.authority().as_str()), ("", "localhost"));
        let prefixed = url("unix:/run/app.sock:/v1/");
        assert_eq!((prefixed.socket, prefixed.prefix), (plain.socket, "/v1".to_owned()));
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        let bad =
            ["", "shop", "ftp://shop", "http://", "http://a:0", "http://a:x", "http://[::1", "http://a b"];
        let more =
            ["http://a/?q", "http://u@a", "http://[zz]:1", "http://[::1]x", "unix:a.sock", "unix:/a:b"];
        for text in bad.iter().chain(&more) {
            assert!(BaseUrl::parse(text).is_err(), "{text}");
        }
        assert!(BaseUrl::parse(&format!("unix:/{}", "x".repeat(107))).is_err());
    }
}
