//! JSON → [`Target`] and [`Dns`].
use super::cursor::{Node, Object};
use super::steps_request::headers;
use super::target::{Dns, DnsCache, Instance, Protocol, Proxy, ProxyKind, Target, TlsOptions, TlsVersion};
use super::url::{BaseUrl, split_authority};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Streams at once on one HTTP/2 connection, unless the target says otherwise: what most servers allow.
const MAX_STREAMS: u64 = 100;
/// A name server listens here.
const DNS_PORT: u16 = 53;
/// Times in a row have 32 bits.
const MAX_DNS_TIMEOUT_US: u64 = 600_000_000;

pub fn read(o: &Object<'_>, folder: &Path) -> Vec<Target> {
    let entries = o.entries();
    if entries.is_empty() || entries.len() > 255 {
        o.problem(format!("{} targets; allowed: 1 to 255", entries.len()));
    }
    let mut names = BTreeSet::new();
    let targets: Vec<_> =
        entries.iter().filter_map(|(name, node)| read_target(name, node, &mut names, folder)).collect();
    if names.len() > 4096 {
        o.problem(format!("{} instances; at most 4096 are allowed", names.len()));
    }
    targets
}

const PROTOCOLS: &[(&str, Protocol)] =
    &[("http1", Protocol::Http1), ("http2", Protocol::Http2), ("auto", Protocol::Auto)];

fn read_target(name: &str, node: &Node<'_>, names: &mut BTreeSet<String>, folder: &Path) -> Option<Target> {
    let mut o = node.object()?;
    let nodes = o.required("instances").and_then(|n| n.filled_array());
    let mut instances = Vec::new();
    for node in nodes.iter().flatten() {
        let Some(instance) = node.object().and_then(read_instance) else { continue };
        if !names.insert(instance.name.clone()) {
            node.problem(format!("a second instance named \"{}\"", instance.name));
        }
        instances.push(instance);
    }
    let own_headers = o.optional("headers").map_or(Some(Vec::new()), |n| headers(&n));
    let protocol = o.optional("protocol").map_or(Some(Protocol::default()), |n| n.choice(PROTOCOLS));
    let host = o.optional("host").map(|n| read_host(&n));
    let tls_given = o.optional("tls");
    let has_tls = tls_given.is_some();
    let tls = tls_given.map_or(Some(TlsOptions::default()), |n| n.object().and_then(|o| read_tls(o, folder)));
    let proxy = o.optional("proxy").map(|n| n.object().and_then(read_proxy));
    let sources = o.optional("source_addresses").map_or(Some(Vec::new()), |n| read_sources(&n));
    let streams = o.optional("max_streams").map_or(Some(MAX_STREAMS), |n| n.integer(1, 1_000_000));
    check_schemes(&o, &instances, protocol, has_tls, proxy.is_some());
    check_sources(&o, &instances, proxy.as_ref().and_then(Option::as_ref), sources.as_deref().unwrap_or(&[]));
    let at = o.path.clone();
    o.finish();
    let complete = nodes.is_some_and(|nodes| !nodes.is_empty() && nodes.len() == instances.len());
    let target = Target {
        name: name.to_owned(),
        instances,
        headers: own_headers?,
        protocol: protocol?,
        host: host.flatten(),
        tls: tls?,
        proxy: proxy.flatten(),
        source_addresses: sources?,
        max_streams: streams? as u32,
        at,
    };
    complete.then_some(target)
}

/// What is asked for has to fit the URLs.
fn check_schemes(
    o: &Object<'_>,
    instances: &[Instance],
    protocol: Option<Protocol>,
    has_tls: bool,
    has_proxy: bool,
) {
    if has_tls && !instances.iter().any(|i| i.url.tls) {
        o.problem_at("tls", "no instance has an https URL");
    }
    if protocol == Some(Protocol::Auto) && !instances.iter().all(|i| i.url.tls) {
        o.problem_at("protocol", "\"auto\" needs https URLs: without TLS nothing is negotiated");
    }
    if has_proxy && instances.iter().any(|i| i.url.socket.is_some()) {
        o.problem_at("proxy", "a Unix socket is not reached through a proxy");
    }
    let plain = instances.iter().any(|i| !i.url.tls);
    if has_proxy && plain && protocol == Some(Protocol::Http2) {
        o.problem_at("proxy", "HTTP/2 through a proxy needs https URLs");
    }
}

/// Where it is known already that there is no way from a source address to an instance.
fn check_sources(o: &Object<'_>, instances: &[Instance], proxy: Option<&Proxy>, sources: &[IpAddr]) {
    if sources.is_empty() {
        return;
    }
    if let Some(unix) = instances.iter().find(|i| i.url.socket.is_some()) {
        let message = format!("\"{}\" is a Unix socket, which is reached from no address", unix.name);
        o.problem_at("source_addresses", message);
    }
    let met = proxy.map_or_else(
        || instances.iter().map(|i| (i.name.as_str(), i.url.host.as_str())).collect(),
        |proxy| vec![("the proxy", proxy.host.as_str())],
    );
    for (name, host) in met {
        let Ok(to) = host.parse::<IpAddr>() else { continue };
        if !sources.iter().any(|from| from.is_ipv4() == to.is_ipv4()) {
            let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
            o.problem_at(
                "source_addresses",
                format!("none is of {family}, as {to} is, the address of {name}"),
            );
        }
    }
}

fn read_instance(mut o: Object<'_>) -> Option<Instance> {
    let name = o.required("name").and_then(|n| n.name());
    let url = o.required("url").and_then(|n| {
        let text = n.str()?;
        BaseUrl::parse(text).map_err(|message| n.problem(message)).ok()
    });
    o.finish();
    Some(Instance { name: name?, url: url? })
}

fn read_host(node: &Node<'_>) -> Option<String> {
    let text = node.str()?;
    if text.bytes().any(|b| b <= b' ' || b >= 0x7f || b"/?#@".contains(&b)) {
        node.problem(format!("\"{text}\" is no host; expected a name or an address, and a port if need be"));
        return None;
    }
    split_authority(text).map_err(|message| node.problem(message)).ok()?;
    Some(text.to_owned())
}

fn read_tls(mut o: Object<'_>, folder: &Path) -> Option<TlsOptions> {
    let default = TlsOptions::default();
    let mut file = |key| o.optional(key).map(|n| read_path(&n, folder));
    let (ca, cert, key) = (file("ca_file"), file("cert_file"), file("key_file"));
    if cert.is_some() != key.is_some() {
        o.problem("cert_file and key_file go together");
    }
    let server_name = o.optional("server_name").map(|n| read_server_name(&n));
    let insecure = o.optional("insecure").map_or(Some(default.insecure), |n| n.truth());
    let resumption = o.optional("resumption").map_or(Some(default.resumption), |n| n.truth());
    let versions = [("1.2", TlsVersion::V12), ("1.3", TlsVersion::V13)];
    let min = o.optional("min_version").map_or(Some(default.min_version), |n| n.choice(&versions));
    let max = o.optional("max_version").map_or(Some(default.max_version), |n| n.choice(&versions));
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        o.problem("min_version is above max_version");
    }
    o.finish();
    Some(TlsOptions {
        ca_file: ca.flatten(),
        cert_file: cert.flatten(),
        key_file: key.flatten(),
        server_name: server_name.flatten(),
        insecure: insecure?,
        min_version: min?,
        max_version: max?,
        resumption: resumption?,
    })
}

fn read_server_name(node: &Node<'_>) -> Option<String> {
    let text = node.name()?;
    if rustls::pki_types::ServerName::try_from(text.as_str()).is_err() {
        node.problem(format!("\"{text}\" is neither a host name nor an address"));
        return None;
    }
    Some(text)
}

/// Relative paths belong to the folder of the job.
fn read_path(node: &Node<'_>, folder: &Path) -> Option<PathBuf> {
    Some(folder.join(node.name()?))
}

fn read_proxy(mut o: Object<'_>) -> Option<Proxy> {
    let url = o.required("url").and_then(|n| {
        let text = n.str()?;
        proxy_url(text).map_err(|message| n.problem(message)).ok()
    });
    let headers = o.optional("headers").map_or(Some(Vec::new()), |n| {
        if url.as_ref().is_some_and(|(kind, ..)| *kind == ProxyKind::Socks5) {
            n.problem("a SOCKS proxy takes no headers");
        }
        headers(&n)
    });
    o.finish();
    let (kind, host, port) = url?;
    Some(Proxy { kind, host, port, headers: headers? })
}

fn proxy_url(text: &str) -> Result<(ProxyKind, String, u16), String> {
    let expected = "expected http://host:port or socks5://host:port";
    let (scheme, rest) = text.split_once("://").ok_or(format!("\"{text}\" is no URL; {expected}"))?;
    let (kind, port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (ProxyKind::Http, 80),
        "socks5" => (ProxyKind::Socks5, 1080),
        _ => return Err(format!("scheme \"{scheme}\" of a proxy is not supported; {expected}")),
    };
    if rest.contains('@') {
        return Err("no credentials in the URL; an http proxy takes a proxy-authorization header".into());
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.bytes().any(|b| b <= b' ' || b >= 0x7f || b"/?#".contains(&b)) {
        return Err(format!("\"{text}\" is more than an address; {expected}"));
    }
    let (host, given) = split_authority(authority)?;
    Ok((kind, host, given.unwrap_or(port)))
}

fn read_sources(node: &Node<'_>) -> Option<Vec<IpAddr>> {
    let address = |node: Node<'_>| {
        let text = node.str()?;
        text.parse().map_err(|_| node.problem(format!("\"{text}\" is no IP address"))).ok()
    };
    node.filled_array()?.into_iter().map(address).collect()
}

pub fn read_dns(mut o: Object<'_>) -> Option<Dns> {
    let default = Dns::default();
    let server = |node: Node<'_>| {
        let text = node.str()?;
        let plain = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DNS_PORT));
        let found = text.parse().ok().or_else(plain);
        if found.is_none() {
            node.problem(format!("\"{text}\" is no address of a name server; expected IP or IP:port"));
        }
        found
    };
    let servers = o
        .optional("servers")
        .map_or(Some(Vec::new()), |n| n.filled_array()?.into_iter().map(server).collect());
    let timeout =
        o.optional("timeout_us").map_or(Some(default.timeout_us), |n| n.integer(1, MAX_DNS_TIMEOUT_US));
    let caches = [("ttl", DnsCache::Ttl), ("forever", DnsCache::Forever), ("never", DnsCache::Never)];
    let cache = o.optional("cache").map_or(Some(default.cache), |n| n.choice(&caches));
    o.finish();
    Some(Dns { servers: servers?, timeout_us: timeout?, cache: cache? })
}
