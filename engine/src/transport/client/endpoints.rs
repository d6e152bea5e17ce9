//! The instances, the way to each of them, and the choice between them.
use super::names::{Names, Place};
use crate::job::{BaseUrl, Proxy, ProxyKind, Spread, Target};
use crate::journey::Plan;
use crate::rng::Rng;
use rustix::net::SocketAddrUnix;
use rustls::pki_types::ServerName;
use std::ops::Range;

/// All instances, by number.
pub(super) struct Endpoints {
    all: Vec<Endpoint>,
    /// Endpoints of each target.
    ranges: Vec<Range<usize>>,
    /// Where the next turn of each target begins.
    turns: Vec<usize>,
    spread: Spread,
}

struct Endpoint {
    url: BaseUrl,
    route: Route,
    /// Put before every path; with a proxy that is given whole URLs, the beginning of one.
    prefix: String,
    /// What `Host` says.
    authority: String,
    /// What its certificate has to be for.
    server_name: Option<ServerName<'static>>,
    outstanding: u32,
}

/// The way to an instance.
#[derive(Clone)]
pub(super) enum Route {
    /// To a host.
    Direct(Place),
    /// To a Unix socket.
    Unix(SocketAddrUnix),
    /// To a proxy, which is asked for the host.
    Proxy(Place, Ask),
}

/// What a proxy is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Nothing beforehand: requests name the host.
    Nothing,
    /// CONNECT.
    Connect,
    /// SOCKS 5.
    Socks,
}

impl Endpoints {
    pub fn new(plan: &Plan, thread: usize, names: &mut Names) -> Self {
        let (mut all, mut ranges) = (Vec::new(), Vec::new());
        for target in &plan.job.targets {
            let first = all.len();
            all.extend(target.instances.iter().map(|i| Endpoint::new(target, &i.url, names)));
            ranges.push(first..all.len());
        }
        // Threads take turns from different places, or all of them would begin with the first instance.
        let turns = ranges.iter().map(|_| thread).collect();
        Self { all, ranges, turns, spread: plan.job.spread }
    }

    /// The instance for a request that may go to any; none when an idle connection decides.
    pub fn choose(&mut self, target: usize) -> Option<usize> {
        match self.spread {
            Spread::PerConnectionRandom => None,
            Spread::PerRequestRoundRobin => Some(self.turn(target)),
            Spread::LeastOutstanding => {
                let first = self.turn(target);
                let range = self.ranges[target].clone();
                // Ties go round, or the first instance would serve alone when there is little load.
                let order = (first..range.end).chain(range.start..first);
                order.min_by_key(|at| self.all[*at].outstanding)
            }
        }
    }

    fn turn(&mut self, target: usize) -> usize {
        let range = &self.ranges[target];
        let turn = &mut self.turns[target];
        *turn = turn.wrapping_add(1);
        range.start + turn.wrapping_sub(1) % range.len().max(1)
    }

    /// The instance for a new connection.
    pub fn draw(&self, target: usize, rng: &mut Rng) -> usize {
        let range = &self.ranges[target];
        range.start + rng.below(range.len() as u64) as usize
    }

    /// The address of an endpoint.
    pub fn url(&self, endpoint: usize) -> &BaseUrl {
        &self.all[endpoint].url
    }

    /// The way to an endpoint.
    pub fn route(&self, endpoint: usize) -> Route {
        self.all[endpoint].route.clone()
    }

    /// Whether requests to it go to a proxy, which answers in its own name too.
    pub fn is_forwarded(&self, endpoint: usize) -> bool {
        matches!(self.all[endpoint].route, Route::Proxy(_, Ask::Nothing))
    }

    /// What comes before every path.
    pub fn prefix(&self, endpoint: usize) -> &str {
        &self.all[endpoint].prefix
    }

    /// What `Host` says.
    pub fn authority(&self, endpoint: usize) -> &str {
        &self.all[endpoint].authority
    }

    /// The name that the certificate has to be for; none without TLS.
    pub fn server_name(&self, endpoint: usize) -> Option<&ServerName<'static>> {
        self.all[endpoint].server_name.as_ref()
    }

    /// Place of an endpoint among the instances of its target.
    pub fn local(&self, target: usize, endpoint: usize) -> usize {
        endpoint - self.ranges[target].start
    }

    pub fn begin(&mut self, endpoint: usize) {
        self.all[endpoint].outstanding += 1;
    }

    pub fn end(&mut self, endpoint: usize) {
        self.all[endpoint].outstanding -= 1;
    }
}

impl Endpoint {
    fn new(target: &Target, url: &BaseUrl, names: &mut Names) -> Self {
        let name = if url.tls { target.server_name(url) } else { None };
        Self {
            route: route(target.proxy.as_ref(), url, names),
            prefix: prefix(target, url),
            authority: target.authority(url),
            server_name: name.and_then(|name| ServerName::try_from(name).ok()),
            url: url.clone(),
            outstanding: 0,
        }
    }
}

fn route(proxy: Option<&Proxy>, url: &BaseUrl, names: &mut Names) -> Route {
    // That the path fits was checked with the job.
    if let Some(socket) = url.socket.as_ref().and_then(|path| SocketAddrUnix::new(path).ok()) {
        return Route::Unix(socket);
    }
    let Some(proxy) = proxy else { return Route::Direct(names.place(&url.host, url.port)) };
    let ask = match proxy.kind {
        ProxyKind::Socks5 => Ask::Socks,
        ProxyKind::Http if url.tls => Ask::Connect,
        ProxyKind::Http => Ask::Nothing,
    };
    Route::Proxy(names.place(&proxy.host, proxy.port), ask)
}

/// What comes before the path of a request: a proxy that is not asked for a tunnel is given whole URLs.
pub(super) fn prefix(target: &Target, url: &BaseUrl) -> String {
    let whole = !url.tls && target.proxy.as_ref().is_some_and(|proxy| proxy.kind == ProxyKind::Http);
    if whole { format!("http://{}{}", url.authority(), url.prefix) } else { url.prefix.clone() }
}

/// Headers for a proxy that sees the requests themselves.
pub(super) fn proxy_headers<'a>(target: &'a Target, url: &BaseUrl) -> &'a [(String, String)] {
    match &target.proxy {
        Some(proxy) if proxy.kind == ProxyKind::Http && !url.tls => &proxy.headers,
        _ => &[],
    }
}
