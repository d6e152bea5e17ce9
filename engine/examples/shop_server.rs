//! The shop of the benchmark: cookies, forms with a hidden token, and a count of every client that does it wrong.
//!
//! `cargo run --release --example shop_server`; ends with its stdin. Prints `{"event": "serving", "port": n}`.
//!
//! One thread, like the nginx of the other scenarios, and cheap enough not to be what is measured. A session begins
//! with the first page (`set-cookie: session`); everything else needs its cookie. Each form holds a hidden `csrf_token`,
//! a function of session and page, that must come back with it; a checkout needs something in the cart. Whatever is not
//! so is answered with 4xx and counted by kind: `GET /counts` gives the counts as JSON and `POST /counts` clears them.
#![allow(clippy::print_stdout, missing_docs)]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use towtank_engine::echo::{Request, respond, serve};

const PRODUCTS: [&str; 9] = [
    "0PUK6V6EV0",
    "1YMWWN1N4O",
    "2ZYFJ3GM2N",
    "66VCHSJNUP",
    "6E92ZMYYFZ",
    "9SIQT8TOJO",
    "L9ECAV7KIM",
    "LS4PSXUNUM",
    "OLJCESPC7Z",
];
const CURRENCIES: [&str; 6] = ["EUR", "USD", "JPY", "CAD", "GBP", "TRY"];
/// Text around what matters, so that pages have the size of small pages.
const FILLER: &str = "<p>Vintage lenses, city bikes and terrariums, made by hand and sent by post.</p>\n";

/// Why a request is refused: status line, and the name under which it is counted.
type Refusal = (&'static str, &'static str);

#[derive(Default)]
pub struct Shop {
    carts: HashMap<u64, u32>,
    sessions: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Shop {
    pub fn answer(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        let path = request.path.split('?').next().unwrap_or_default();
        if path == "/counts" {
            return self.own_counts(request, out);
        }
        let result = match (request.method, path) {
            ("GET", "/") => Ok(self.home(request, out)),
            ("POST", "/setCurrency") => self.currency(request, out),
            ("GET", "/cart") => self.cart(request, out),
            ("POST", "/cart") => self.add(request, out),
            ("POST", "/cart/checkout") => self.checkout(request, out),
            ("GET", _) => self.product(request, path, out),
            _ => Err(("404 Not Found", "unknown_page")),
        };
        let kind = result.unwrap_or_else(|(status, kind)| {
            respond(out, status, "", kind.as_bytes());
            kind
        });
        *self.counts.entry(kind).or_default() += 1;
    }

    fn own_counts(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        if request.method == "POST" {
            self.counts.clear();
        }
        let body = serde_json::to_vec(&self.counts).unwrap_or_default();
        respond(out, "200 OK", "content-type: application/json\r\n", &body);
    }

    /// The session of the cookie, which must be one of ours.
    fn session(&self, request: &Request<'_>) -> Result<u64, Refusal> {
        let cookies = request.header("cookie").ok_or(("401 Unauthorized", "no_cookie"))?;
        let text = cookies.split(';').find_map(|pair| pair.trim().strip_prefix("session="));
        let session = text.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        match session {
            Some(session) if self.carts.contains_key(&session) => Ok(session),
            _ => Err(("401 Unauthorized", "unknown_session")),
        }
    }

    fn home(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> &'static str {
        let known = self.session(request).is_ok();
        let mut headers = HTML.to_owned();
        if !known {
            self.sessions += 1;
            let session = mix(self.sessions);
            self.carts.insert(session, 0);
            let _ = write!(headers, "set-cookie: session={session:016x}; Path=/; HttpOnly\r\n");
            headers.push_str("set-cookie: currency=USD; Path=/\r\n");
        }
        let links = PRODUCTS.map(|id| format!("<a href=\"/product/{id}\">{id}</a>\n")).concat();
        respond(out, "200 OK", &headers, page(&links, 24).as_bytes());
        if known { "home" } else { "home_new_session" }
    }

    fn currency(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<&'static str, Refusal> {
        self.session(request)?;
        let code = field(request, "currency_code")?;
        if !CURRENCIES.contains(&code) {
            return Err(("422 Unprocessable Content", "unknown_currency"));
        }
        let headers = format!("{HTML}set-cookie: currency={code}; Path=/\r\n");
        respond(out, "200 OK", &headers, page(code, 2).as_bytes());
        Ok("currency")
    }

    fn product(&self, request: &Request<'_>, path: &str, out: &mut Vec<u8>) -> Result<&'static str, Refusal> {
        let session = self.session(request)?;
        let id = path.strip_prefix("/product/").filter(|id| PRODUCTS.contains(id));
        let id = id.ok_or(("404 Not Found", "unknown_page"))?;
        let form = format!(
            "<form method=\"post\" action=\"/cart\">\n\
             <input type=\"hidden\" name=\"csrf_token\" value=\"{:016x}\"/>\n\
             <input type=\"hidden\" name=\"product_id\" value=\"{id}\"/>\n\
             <select name=\"quantity\"><option>1</option><option>5</option></select>\n</form>\n",
            token(session, "/cart")
        );
        respond(out, "200 OK", HTML, page(&form, 16).as_bytes());
        Ok("product")
    }

    fn add(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<&'static str, Refusal> {
        let session = self.session(request)?;
        posted_token(request, session, "/cart")?;
        let known = PRODUCTS.contains(&field(request, "product_id")?);
        let quantity = field(request, "quantity")?.parse::<u32>().unwrap_or(0);
        if !known || !(1..=10).contains(&quantity) {
            return Err(("422 Unprocessable Content", "wrong_field"));
        }
        let count = self.carts.entry(session).or_default();
        *count = count.saturating_add(quantity);
        respond(out, "200 OK", HTML, page("added", 2).as_bytes());
        Ok("add_to_cart")
    }

    fn cart(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<&'static str, Refusal> {
        let session = self.session(request)?;
        let form = format!(
            "<p>{} items</p>\n<form method=\"post\" action=\"/cart/checkout\">\n\
             <input type=\"hidden\" name=\"csrf_token\" value=\"{:016x}\"/>\n\
             <input type=\"email\" name=\"email\"/>\n</form>\n",
            self.carts[&session],
            token(session, "/cart/checkout")
        );
        respond(out, "200 OK", HTML, page(&form, 12).as_bytes());
        Ok("cart")
    }

    fn checkout(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<&'static str, Refusal> {
        let session = self.session(request)?;
        posted_token(request, session, "/cart/checkout")?;
        if field(request, "email")? != "someone%40example.com" {
            return Err(("422 Unprocessable Content", "wrong_field"));
        }
        match self.carts.insert(session, 0) {
            Some(items) if items > 0 => {
                respond(out, "200 OK", HTML, page("order complete", 8).as_bytes());
                Ok("checkout")
            }
            _ => Err(("409 Conflict", "empty_cart")),
        }
    }
}

const HTML: &str = "content-type: text/html; charset=utf-8\r\n";

fn page(content: &str, fillers: usize) -> String {
    format!("<!doctype html>\n<title>Shop</title>\n{}{content}{FILLER}", FILLER.repeat(fillers))
}

/// splitmix64's finaliser.
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn token(session: u64, form: &str) -> u64 {
    form.bytes().fold(session, |hash, byte| mix(hash ^ u64::from(byte)))
}

fn posted_token(request: &Request<'_>, session: u64, form: &str) -> Result<(), Refusal> {
    let given = u64::from_str_radix(field(request, "csrf_token")?, 16);
    if given == Ok(token(session, form)) { Ok(()) } else { Err(("403 Forbidden", "wrong_token")) }
}

/// A field of a URL-encoded form, as it was sent.
fn field<'a>(request: &Request<'a>, name: &str) -> Result<&'a str, Refusal> {
    let form = request
        .header("content-type")
        .is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"));
    let body = std::str::from_utf8(request.body).ok().filter(|_| form);
    let pairs = body.ok_or(("415 Unsupported Media Type", "not_a_form"))?.split('&');
    let value = pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    value.map(|(_, value)| value).ok_or(("422 Unprocessable Content", "missing_field"))
}

fn main() -> std::io::Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{{\"event\": \"serving\", \"port\": {}}}", listener.local_addr()?.port());
    let mut shop = Shop::default();
    serve(listener, move |request, out| shop.answer(request, out))
}
