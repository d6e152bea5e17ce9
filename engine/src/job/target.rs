//! Targets: where requests go, and over what.
use super::BaseUrl;
use super::url::split_authority;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// A named address that steps go to.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name in journeys and records.
    pub name: String,
    /// Its replicas.
    pub instances: Vec<Instance>,
    /// Headers of every request to it.
    pub headers: Vec<(String, String)>,
    /// What is spoken.
    pub protocol: Protocol,
    /// In `Host`, instead of the authority of the URL.
    pub host: Option<String>,
    /// For `https`.
    pub tls: TlsOptions,
    /// What stands between.
    pub proxy: Option<Proxy>,
    /// Local addresses, which take turns; empty = as the system chooses.
    pub source_addresses: Vec<IpAddr>,
    /// Requests at once on one HTTP/2 connection at most.
    pub max_streams: u32,
    /// Where it stands in the job, for messages.
    pub at: String,
}

/// One replica of a target.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name in the records.
    pub name: String,
    /// Where it listens.
    pub url: BaseUrl,
}

/// What is spoken with a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: by ALPN over TLS, by prior knowledge without.
    Http2,
    /// Whatever ALPN gives.
    Auto,
}

/// Versions of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "they are names")]
pub enum TlsVersion {
    V12,
    V13,
}

/// How `https` is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificates that are trusted, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Certificate of the client, with what leads to its root.
    pub cert_file: Option<PathBuf>,
    /// Key to it.
    pub key_file: Option<PathBuf>,
    /// Asked for by SNI and looked for in the certificate, instead of the host.
    pub server_name: Option<String>,
    /// Any certificate will do.
    pub insecure: bool,
    /// Least version.
    pub min_version: TlsVersion,
    /// Highest version.
    pub max_version: TlsVersion,
    /// Sessions may be resumed.
    pub resumption: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            ca_file: None,
            cert_file: None,
            key_file: None,
            server_name: None,
            insecure: false,
            min_version: TlsVersion::V12,
            max_version: TlsVersion::V13,
            resumption: true,
        }
    }
}

/// What stands between the engine and a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// What it speaks.
    pub kind: ProxyKind,
    /// A name or a literal address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// For the proxy alone.
    pub headers: Vec<(String, String)>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// Requests in absolute form, CONNECT for `https`.
    Http,
    /// RFC 1928, without a password; the proxy resolves names.
    Socks5,
}

/// Whom to ask for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// Empty = those of the system, and its hosts file.
    pub servers: Vec<SocketAddr>,
    /// Longest time of an answer.
    pub timeout_us: u64,
    /// How long an answer holds.
    pub cache: DnsCache,
}

/// How long an answer of a name server holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsCache {
    /// As long as it says itself.
    Ttl,
    /// For the whole run.
    Forever,
    /// For one connection.
    Never,
}

impl Default for Dns {
    fn default() -> Self {
        Self { servers: Vec::new(), timeout_us: 5_000_000, cache: DnsCache::Ttl }
    }
}

impl Target {
    /// What `Host` says of an instance.
    pub fn authority(&self, url: &BaseUrl) -> String {
        self.host.clone().unwrap_or_else(|| url.authority())
    }

    /// What the certificate of an instance has to be for.
    pub fn server_name(&self, url: &BaseUrl) -> Option<String> {
        let host = || self.host.as_deref().and_then(|host| Some(split_authority(host).ok()?.0));
        self.tls.server_name.clone().or_else(host).or_else(|| Some(url.host.clone()))
    }
}
