//! The cookies of a session (RFC 6265, sections 5.3 and 5.4).
use super::cookie::SetCookie;
use crate::journey::Fields;

/// Cookies of a session at most; the oldest goes when another comes.
const MAX_COOKIES: usize = 128;
/// Name and value of a cookie at most; a larger one is ignored, as browsers do.
const MAX_COOKIE_BYTES: usize = 4096;
/// All cookies of a session at most, domains and paths included.
const MAX_JAR_BYTES: usize = 64 * 1024;
/// Of a session cookie, and of those that outlive every run.
const NEVER: u64 = u64::MAX;

/// Whom a request goes to, as far as cookies care. Ports do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    host: Box<[u8]>,
    is_address: bool,
    is_secure: bool,
}

/// Where a request goes: its path is in two parts, that of the target and its own, of which the query is no part.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    site: &'a Site,
    prefix: &'a [u8],
    path: &'a [u8],
}

impl<'a> Place<'a> {
    /// A path with its query; `prefix` stands before it.
    pub fn new(site: &'a Site, prefix: &'a str, path: &'a str) -> Self {
        let end = memchr::memchr2(b'?', b'#', path.as_bytes()).unwrap_or(path.len());
        Self { site, prefix: prefix.as_bytes(), path: &path.as_bytes()[..end] }
    }
}

impl Site {
    /// `host` is a name or a literal address, without brackets and port.
    pub fn new(host: &str, is_secure: bool) -> Self {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        Self { host: host.into_bytes().into(), is_address, is_secure }
    }

    /// Section 5.1.3.
    fn matches_domain(&self, domain: &[u8]) -> bool {
        let Some(start) = self.host.len().checked_sub(domain.len()) else { return false };
        if !self.host[start..].eq_ignore_ascii_case(domain) {
            return false;
        }
        start == 0 || (!self.is_address && self.host[start - 1] == b'.')
    }
}

/// Section 5.1.4, for a path in two parts: the prefix of the site and the rest of the request's.
fn matches_path(wanted: &[u8], (prefix, path): (&[u8], &[u8])) -> bool {
    let length = prefix.len() + path.len();
    if wanted.len() > length {
        return false;
    }
    let in_prefix = wanted.len().min(prefix.len());
    if wanted[..in_prefix] != prefix[..in_prefix] || wanted[in_prefix..] != path[..wanted.len() - in_prefix] {
        return false;
    }
    let next = |at: usize| if at < prefix.len() { prefix[at] } else { path[at - prefix.len()] };
    wanted.len() == length || wanted.ends_with(b"/") || next(wanted.len()) == b'/'
}

/// A cookie; its texts lie one after the other: name, value, domain, path.
#[derive(Clone, Debug)]
struct Cookie {
    text: Box<[u8]>,
    value_at: u16,
    domain_at: u16,
    path_at: u16,
    host_only: bool,
    secure: bool,
    /// Cookies are numbered as they come.
    number: u32,
    expires_ns: u64,
}

impl Cookie {
    fn name(&self) -> &[u8] {
        &self.text[..usize::from(self.value_at)]
    }

    fn value(&self) -> &[u8] {
        &self.text[usize::from(self.value_at)..usize::from(self.domain_at)]
    }

    fn domain(&self) -> &[u8] {
        &self.text[usize::from(self.domain_at)..usize::from(self.path_at)]
    }

    fn path(&self) -> &[u8] {
        &self.text[usize::from(self.path_at)..]
    }

    fn goes_to(&self, to: Place<'_>, now_ns: u64) -> bool {
        let Place { site, prefix, path } = to;
        let host =
            if self.host_only { *self.domain() == *site.host } else { site.matches_domain(self.domain()) };
        host && self.expires_ns > now_ns
            && (site.is_secure || !self.secure)
            && matches_path(self.path(), (prefix, path))
    }
}

/// The cookies of a session. An empty one holds no memory.
#[derive(Clone, Debug, Default)]
pub struct Jar {
    /// In the order in which they are sent: longer paths first, then older ones.
    cookies: Vec<Cookie>,
    next: u32,
    bytes: usize,
}

impl Jar {
    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Number of cookies, those included whose time is over.
    pub fn len(&self) -> usize {
        self.cookies.len()
    }

    /// Writes the value of the Cookie header for a request; nothing if there are none for it.
    pub fn write(&self, to: Place<'_>, now_ns: u64, out: &mut Vec<u8>) {
        let start = out.len();
        for cookie in self.cookies.iter().filter(|c| c.goes_to(to, now_ns)) {
            if out.len() > start {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(cookie.name());
            out.push(b'=');
            out.extend_from_slice(cookie.value());
        }
    }

    /// Takes in what an answer sets; `unix_s` gives the time of day, where a cookie has a date.
    pub fn take_in(&mut self, fields: &Fields, from: Place<'_>, now_ns: u64, unix_s: impl Fn() -> i64) {
        for line in fields.all(b"set-cookie") {
            if let Some(cookie) = SetCookie::parse(line) {
                self.set(&cookie, from, now_ns, &unix_s);
            }
        }
    }

    fn set(&mut self, cookie: &SetCookie<'_>, from: Place<'_>, now_ns: u64, unix_s: &impl Fn() -> i64) {
        if cookie.name.len() + cookie.value.len() > MAX_COOKIE_BYTES {
            return;
        }
        let site = from.site;
        let domain = cookie.domain.unwrap_or(&site.host);
        // There is no list of public suffixes here, but a name without a dot in it is certainly one.
        let is_suffix = domain.len() < site.host.len() && !domain.contains(&b'.');
        if is_suffix || !site.matches_domain(domain) {
            return;
        }
        let made = Cookie::new(cookie, domain, from);
        let old = self.cookies.iter().position(|old| old.is_same(&made));
        let expires_ns = expiry(cookie, now_ns, unix_s);
        if expires_ns <= now_ns {
            if let Some(at) = old {
                self.remove(at);
            }
            return;
        }
        let made = Cookie { expires_ns, ..made };
        self.bytes += made.text.len();
        if let Some(at) = old {
            // A cookie that is set again keeps its place.
            let number = self.cookies[at].number;
            self.bytes -= self.cookies[at].text.len();
            self.cookies[at] = Cookie { number, ..made };
        } else {
            let before = |c: &Cookie| c.path().len() >= made.path().len();
            let at = self.cookies.partition_point(before);
            self.cookies.insert(at, Cookie { number: self.next, ..made });
            self.next = self.next.wrapping_add(1);
        }
        self.make_room(now_ns);
    }

    fn make_room(&mut self, now_ns: u64) {
        if self.cookies.len() <= MAX_COOKIES && self.bytes <= MAX_JAR_BYTES {
            return;
        }
        let bytes = &mut self.bytes;
        self.cookies.retain(|c| {
            let stays = c.expires_ns > now_ns;
            *bytes -= if stays { 0 } else { c.text.len() };
            stays
        });
        while self.cookies.len() > MAX_COOKIES || self.bytes > MAX_JAR_BYTES {
            let age = |c: &Cookie| self.next.wrapping_sub(c.number);
            let Some(oldest) = (0..self.cookies.len()).max_by_key(|at| age(&self.cookies[*at])) else {
                return;
            };
            self.remove(oldest);
        }
    }

    fn remove(&mut self, at: usize) {
        self.bytes -= self.cookies.remove(at).text.len();
    }
}

impl Cookie {
    fn new(cookie: &SetCookie<'_>, domain: &[u8], from: Place<'_>) -> Self {
        let mut text = Vec::with_capacity(cookie.name.len() + cookie.value.len() + domain.len() + 16);
        text.extend_from_slice(cookie.name);
        let value_at = text.len() as u16;
        text.extend_from_slice(cookie.value);
        let domain_at = text.len() as u16;
        text.extend(domain.iter().take(255).map(u8::to_ascii_lowercase));
        let path_at = text.len() as u16;
        if let Some(path) = cookie.path {
            text.extend_from_slice(path);
        } else {
            // Section 5.1.4: up to the last slash, but never less than one.
            text.extend_from_slice(from.prefix);
            text.extend_from_slice(from.path);
            let path = &text[usize::from(path_at)..];
            let end = memchr::memrchr(b'/', path).filter(|_| path.starts_with(b"/")).unwrap_or(0);
            text.truncate(usize::from(path_at) + end);
            if end == 0 {
                text.push(b'/');
            }
        }
        Self {
            text: text.into_boxed_slice(),
            value_at,
            domain_at,
            path_at,
            host_only: cookie.domain.is_none(),
            secure: cookie.secure,
            number: 0,
            expires_ns: NEVER,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.name() == other.name() && self.domain() == other.domain() && self.path() == other.path()
    }
}

/// On the clock of the reactor. Max-Age has precedence.
fn expiry(cookie: &SetCookie<'_>, now_ns: u64, unix_s: impl Fn() -> i64) -> u64 {
    let left_s = cookie.max_age_s.or_else(|| Some(cookie.expires_unix_s?.saturating_sub(unix_s())));
    let left_s = match left_s {
        None => return NEVER,
        Some(left_s) => u64::try_from(left_s).unwrap_or(0),
    };
    if left_s == 0 { 0 } else { now_ns.saturating_add(left_s.saturating_mul(1_000_000_000)) }
}

#[cfg(test)]
#[path = "jar_tests.rs"]
mod tests;
