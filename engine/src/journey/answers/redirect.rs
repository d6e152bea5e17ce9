//! Where a redirect leads, and what is sent there (RFC 9110, section 15.4).
use super::jar::Site;
use crate::job::{BaseUrl, Instance, Target};
use crate::journey::{Fields, Outgoing};
use url::Url;

/// The addresses of the targets of a job: a redirect leads to one of these, or nowhere.
#[derive(Clone, Debug, Default)]
pub struct Places {
    all: Vec<Vec<Place>>,
    sites: Vec<Site>,
}

/// An address by which a target may be named; the first of each is what its servers know themselves by.
#[derive(Clone, Debug)]
struct Place {
    origin: Origin,
    prefix: String,
}

/// Scheme, host, port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    tls: bool,
    host: String,
    port: u16,
}

/// Where a redirect leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the target.
    pub target: usize,
    /// Path and query, with the prefix of the target.
    pub path: String,
}

impl Places {
    /// Of all targets, in their order.
    pub fn new(targets: &[Target]) -> Self {
        let all: Vec<_> = targets.iter().map(Place::all).collect();
        let site = |places: &Vec<Place>| {
            places.first().map_or_else(|| Site::new("", false), |p| Site::new(&p.origin.host, p.origin.tls))
        };
        Self { sites: all.iter().map(site).collect(), all }
    }

    /// What a target is for cookies: the name that its servers know themselves by, whichever of them answers.
    pub fn site(&self, target: usize) -> &Site {
        &self.sites[target]
    }

    /// What stands before the paths of a target; of several instances the first's.
    pub fn prefix(&self, target: usize) -> &str {
        self.all[target].first().map_or("", |place| &place.prefix)
    }

    /// Where `location` leads from a request for `path`, which includes the prefix; none if that is no target.
    pub fn locate(&self, target: usize, path: &str, location: &[u8]) -> Option<Hop> {
        let from = &self.all.get(target)?.first()?.origin;
        let base = Url::parse(&format!("{}://{}{path}", from.scheme(), from.authority())).ok()?;
        let to = base.join(std::str::from_utf8(location).ok()?).ok()?;
        let origin = Origin::of(&to)?;
        let path = to.query().map_or_else(|| to.path().to_owned(), |query| format!("{}?{query}", to.path()));
        let is_here = |places: &Vec<Place>| places.iter().any(|place| place.origin == origin);
        if is_here(&self.all[target]) {
            return Some(Hop { target, path });
        }
        // Of several targets at the same address that with the longest prefix is meant.
        let fits = |place: &Place| {
            let fits = place.origin == origin && under(&path, &place.prefix);
            fits.then_some(place.prefix.len())
        };
        let longest = |places: &Vec<Place>| places.iter().filter_map(fits).max();
        let mut found: Option<(usize, usize)> = None;
        for (target, length) in
            self.all.iter().enumerate().filter_map(|(t, places)| Some((t, longest(places)?)))
        {
            found = found.filter(|(_, best)| *best >= length).or(Some((target, length)));
        }
        found.map(|(target, _)| Hop { target, path })
    }
}

/// Whether a path is within a prefix.
fn under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}

impl Place {
    fn all(target: &Target) -> Vec<Self> {
        let named = |instance: &Instance| {
            let BaseUrl { tls, prefix, .. } = &instance.url;
            let scheme = if *tls { "https" } else { "http" };
            let url = Url::parse(&format!("{scheme}://{}", target.host.as_ref()?)).ok()?;
            Some(Self { origin: Origin::of(&url)?, prefix: prefix.clone() })
        };
        let placed = |instance: &Instance| {
            let BaseUrl { host, port, prefix, tls, .. } = &instance.url;
            let origin = Origin { tls: *tls, host: host.to_ascii_lowercase(), port: *port };
            Self { origin, prefix: prefix.clone() }
        };
        let instances = &target.instances;
        instances.iter().filter_map(named).chain(instances.iter().map(placed)).collect()
    }
}

impl Origin {
    fn of(url: &Url) -> Option<Self> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let host = url.host_str()?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        Some(Self { tls, host: host.to_owned(), port: url.port_or_known_default()? })
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The address that an answer redirects to, if it does.
pub fn location(status: u16, fields: &Fields) -> Option<&[u8]> {
    if matches!(status, 301 | 302 | 303 | 307 | 308) { fields.get(b"location") } else { None }
}

/// What is sent after a redirect: `request` as it is, or as a GET without a body; headers that are `private` stay.
pub fn follow(request: &Outgoing, status: u16, hop: &Hop, private: impl Fn(&[u8]) -> bool) -> Outgoing {
    let keeps_body = matches!(status, 307 | 308) || request.method == "HEAD";
    let stays = |name: &[u8]| {
        let is_of_body = !keeps_body && name.get(..8).is_some_and(|n| n.eq_ignore_ascii_case(b"content-"));
        !is_of_body && !private(name)
    };
    let mut headers = Fields::default();
    for (name, value) in request.headers.iter().filter(|(name, _)| stays(name)) {
        headers.push(name, value);
    }
    Outgoing {
        method: if keeps_body { request.method.clone() } else { "GET".to_owned() },
        path: hop.path.clone(),
        is_whole: true,
        headers,
        body: if keeps_body { request.body.clone() } else { crate::journey::Body::default() },
    }
}

/// Whether a header is for one host alone.
pub fn is_credential(name: &[u8]) -> bool {
    let names = [&b"authorization"[..], b"proxy-authorization", b"cookie", b"host"];
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
