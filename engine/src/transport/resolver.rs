//! Name resolution on a thread of its own: a load thread never waits for it.
use super::reactor::Bell;
use crate::job::{Dns, DnsCache};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A question that is not answered is repeated so often before its time is over.
const REPEATS: u32 = 2;

/// Asks; one for the whole run.
#[derive(Clone)]
pub struct Resolver(UnboundedSender<Query>);

/// Where the answers for one load thread arrive.
pub struct Mailbox {
    answers: Mutex<Vec<Answer>>,
    bell: Arc<Bell>,
}

struct Query {
    number: u64,
    host: String,
    port: u16,
    mailbox: Arc<Mailbox>,
}

/// What became of a question.
#[derive(Debug)]
pub struct Answer {
    /// The number that it was asked under.
    pub number: u64,
    /// Empty if the name has no address. IPv4 comes first.
    pub addresses: Vec<SocketAddr>,
    /// How long it holds, from now on.
    pub valid_ns: u64,
    /// Why there are no addresses.
    pub failure: Option<String>,
}

impl Resolver {
    /// Starts the thread; it ends when the last copy of this is gone.
    pub fn start(dns: &Dns) -> io::Result<Self> {
        let (sender, queries) = unbounded_channel::<Query>();
        let dns = dns.clone();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(answer_all(&dns, queries)),
                Err(error) => refuse_all(queries, &format!("no resolver: {error}")),
            }
        };
        std::thread::Builder::new().name("resolver".into()).spawn(serve)?;
        Ok(Self(sender))
    }

    /// The answer will come to `mailbox`.
    pub fn ask(&self, number: u64, host: &str, port: u16, mailbox: &Arc<Mailbox>) {
        let query = Query { number, host: host.to_owned(), port, mailbox: Arc::clone(mailbox) };
        if let Err(lost) = self.0.send(query) {
            lost.0.refuse("the resolver has ended".into());
        }
    }
}

impl Query {
    fn refuse(self, why: String) {
        let answer = Answer { number: self.number, addresses: Vec::new(), valid_ns: 0, failure: Some(why) };
        self.mailbox.put(answer);
    }
}

fn refuse_all(mut queries: UnboundedReceiver<Query>, why: &str) {
    while let Some(query) = queries.blocking_recv() {
        query.refuse(why.to_owned());
    }
}

async fn answer_all(dns: &Dns, mut queries: UnboundedReceiver<Query>) {
    let timeout = Duration::from_micros(dns.timeout_us);
    // Only when it is needed: most runs have literal addresses.
    let mut resolver = None;
    while let Some(query) = queries.recv().await {
        match resolver.get_or_insert_with(|| build(dns)) {
            Ok(resolver) => {
                tokio::spawn(answer(resolver.clone(), query, timeout));
            }
            Err(why) => query.refuse(why.clone()),
        }
    }
}

async fn answer(resolver: TokioResolver, query: Query, timeout: Duration) {
    // A name with a dot at its end is complete: no search domain is tried.
    let lookup = match tokio::time::timeout(timeout, resolver.lookup_ip(query.host.as_str())).await {
        Ok(Ok(lookup)) => lookup,
        Ok(Err(error)) => {
            let why = format!("{}: {error}", query.host);
            return query.refuse(why);
        }
        Err(_) => {
            let why = format!("{}: no answer within {} ms", query.host, timeout.as_millis());
            return query.refuse(why);
        }
    };
    let mut addresses: Vec<_> = lookup.iter().map(|ip| SocketAddr::new(ip, query.port)).collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.dedup();
    if addresses.is_empty() {
        let why = format!("{}: the name has no address", query.host);
        return query.refuse(why);
    }
    let valid = lookup.valid_until().saturating_duration_since(Instant::now());
    let valid_ns = u64::try_from(valid.as_nanos()).unwrap_or(u64::MAX);
    query.mailbox.put(Answer { number: query.number, addresses, valid_ns, failure: None });
}

fn build(dns: &Dns) -> Result<TokioResolver, String> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = if dns.servers.is_empty() {
        // Without a configuration there is still the hosts file.
        TokioResolver::builder_tokio().unwrap_or_else(|_| {
            TokioResolver::builder_with_config(ResolverConfig::from_name_servers(Vec::new()), provider)
        })
    } else {
        let servers = dns.servers.iter().map(name_server).collect();
        TokioResolver::builder_with_config(ResolverConfig::from_name_servers(servers), provider)
    };
    configure(builder.options_mut(), dns);
    builder.build().map_err(|error| format!("no resolver: {error}"))
}

fn configure(options: &mut ResolverOpts, dns: &Dns) {
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    if dns.servers.is_empty() {
        options.use_hosts_file = ResolveHosts::Always;
    } else {
        // Those that were named, and nothing else.
        options.use_hosts_file = ResolveHosts::Never;
        options.attempts = REPEATS as usize;
        options.timeout = Duration::from_micros(dns.timeout_us) / (REPEATS + 1);
    }
    if dns.cache == DnsCache::Never {
        options.cache_size = 0;
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let at = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    NameServerConfig::new(address.ip(), true, vec![at(ConnectionConfig::udp()), at(ConnectionConfig::tcp())])
}

impl Mailbox {
    /// Rings `bell` for every answer.
    pub fn new(bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::default(), bell })
    }

    fn put(&self, answer: Answer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        self.bell.ring();
    }

    /// All that has arrived.
    pub fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
