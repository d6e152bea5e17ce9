//! Name resolution on a thread of its own: a load thread never waits for it.
use super::reactor::Bell;
use crate::job::{Dns, DnsCache};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// A question that is not answered is repeated so often before its time is over.
const REPEATS: u32 = 2;
/// Once a name has addresses of one family, an answer about the other may take so much longer (the resolution delay of
/// RFC 8305): some name servers never give one.
const OTHER_FAMILY: Duration = Duration::from_millis(50);
/// Aliases that are followed to tell why a name has no address.
const ALIASES: usize = 16;

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

/// One resolver for each family: what a name server does not say of one must not keep what it said of the other.
#[derive(Clone)]
struct Families([TokioResolver; 2]);

/// Addresses, and until when they hold.
type Found = (Vec<IpAddr>, Instant);

impl Families {
    /// Asks for both families at once.
    async fn look_up(&self, host: &str) -> Result<Found, String> {
        let mut asked = JoinSet::new();
        for resolver in &self.0 {
            let (resolver, host) = (resolver.clone(), host.to_owned());
            // A name with a dot at its end is complete: no search domain is tried.
            asked.spawn(async move { resolver.lookup_ip(host).await });
        }
        let mut found: Option<Found> = None;
        let mut failures = Vec::new();
        while !asked.is_empty() {
            let patience = if found.is_some() { OTHER_FAMILY } else { Duration::MAX };
            let Ok(Some(Ok(answer))) = tokio::time::timeout(patience, asked.join_next()).await else { break };
            match answer {
                Ok(lookup) => {
                    let (mut all, mut until) = found.unwrap_or((Vec::new(), lookup.valid_until()));
                    all.extend(lookup.iter());
                    until = until.min(lookup.valid_until());
                    found = Some((all, until));
                }
                Err(error) => failures.push(error),
            }
        }
        match found.filter(|(all, _)| !all.is_empty()) {
            Some(found) => Ok(found),
            None => Err(self.why_not(host, &failures).await),
        }
    }

    /// Why a name has no address, in words.
    async fn why_not(&self, host: &str, failures: &[NetError]) -> String {
        let code = |error: &NetError| match error {
            NetError::Dns(DnsError::NoRecordsFound(none)) => Some(none.response_code),
            _ => None,
        };
        if let Some(error) = failures.iter().find(|error| code(error).is_none()) {
            return error.to_string();
        }
        let aliases = self.aliases(host).await;
        let chain = aliases.join(" -> ");
        if failures.iter().any(|error| code(error) == Some(ResponseCode::NXDomain)) {
            if aliases.is_empty() {
                "there is no such name (NXDOMAIN)".into()
            } else {
                format!("it is an alias of a name that is not there (NXDOMAIN): {chain}")
            }
        } else if aliases.is_empty() {
            "the name is there, but has no address".into()
        } else if aliases[..aliases.len() - 1].contains(&aliases[aliases.len() - 1]) {
            format!("its aliases go in a circle (CNAME): {chain}")
        } else {
            format!("it is an alias of a name without an address: {chain}")
        }
    }

    /// The chain of aliases that begins with a name, up to the first that comes again; empty if it is none.
    async fn aliases(&self, host: &str) -> Vec<String> {
        let mut chain = vec![host.trim_end_matches('.').to_owned()];
        while chain.len() <= ALIASES {
            let last = format!("{}.", chain[chain.len() - 1]);
            let Ok(lookup) = self.0[0].lookup(last, RecordType::CNAME).await else { break };
            let target = lookup.answers().iter().find_map(|record| match &record.data {
                RData::CNAME(alias) => Some(alias.0.to_utf8().trim_end_matches('.').to_lowercase()),
                _ => None,
            });
            let Some(target) = target else { break };
            let again = chain.contains(&target);
            chain.push(target);
            if again {
                break;
            }
        }
        if chain.len() > 1 { chain } else { Vec::new() }
    }
}

async fn answer(resolver: Families, query: Query, timeout: Duration) {
    let (found, valid_until) = match tokio::time::timeout(timeout, resolver.look_up(&query.host)).await {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => {
            let why = format!("{}: {why}", query.host);
            return query.refuse(why);
        }
        Err(_) => {
            let why = format!("{}: no answer within {} ms", query.host, timeout.as_millis());
            return query.refuse(why);
        }
    };
    let mut addresses: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, query.port)).collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.dedup();
    let valid = valid_until.saturating_duration_since(Instant::now());
    let valid_ns = u64::try_from(valid.as_nanos()).unwrap_or(u64::MAX);
    query.mailbox.put(Answer { number: query.number, addresses, valid_ns, failure: None });
}

fn build(dns: &Dns) -> Result<Families, String> {
    Ok(Families([build_for(dns, LookupIpStrategy::Ipv4Only)?, build_for(dns, LookupIpStrategy::Ipv6Only)?]))
}

fn build_for(dns: &Dns, family: LookupIpStrategy) -> Result<TokioResolver, String> {
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
    builder.options_mut().ip_strategy = family;
    configure(builder.options_mut(), dns);
    builder.build().map_err(|error| format!("no resolver: {error}"))
}

fn configure(options: &mut ResolverOpts, dns: &Dns) {
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
