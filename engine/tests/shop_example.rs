//! The shop of the benchmarks serves who does it right and refuses, by name, who does not.
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/shop_server.rs"]
mod shop_server;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use towtank_engine::echo;

struct Client {
    stream: TcpStream,
    cookie: String,
}

impl Client {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        std::thread::spawn(move || {
            let mut shop = shop_server::Shop::default();
            echo::serve(listener, move |request, out| shop.answer(request, out))
        });
        Self { stream: TcpStream::connect(address).expect("connect"), cookie: String::new() }
    }

    /// The whole answer; a form is posted when there is one.
    fn ask(&mut self, path: &str, form: Option<&str>) -> String {
        let (method, body) = form.map_or(("GET", ""), |form| ("POST", form));
        let cookie =
            if self.cookie.is_empty() { String::new() } else { format!("cookie: {}\r\n", self.cookie) };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: shop\r\n{cookie}content-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).expect("write");
        let (mut seen, mut buffer) = (String::new(), [0; 4096]);
        loop {
            let n = self.stream.read(&mut buffer).expect("read");
            assert!(n > 0, "closed after {seen:?}");
            seen.push_str(std::str::from_utf8(&buffer[..n]).expect("text"));
            let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
            let length = between(head, "content-length: ", "\r\n").parse::<usize>().expect("a length");
            if body.len() >= length {
                return seen;
            }
        }
    }

    fn arrive(&mut self) {
        let home = self.ask("/", None);
        self.cookie = format!("session={}; currency=USD", between(&home, "set-cookie: session=", ";"));
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from:?} in {text}")).1;
    rest.split(to).next().unwrap_or(rest)
}

fn token(page: &str) -> &str {
    between(page, "name=\"csrf_token\" value=\"", "\"")
}

#[test]
fn a_customer_who_does_it_right_checks_out() {
    let mut client = Client::new();
    client.arrive();
    let product = client.ask("/product/OLJCESPC7Z", None);
    let form = format!("csrf_token={}&product_id=OLJCESPC7Z&quantity=2", token(&product));
    assert!(client.ask("/cart", Some(&form)).starts_with("HTTP/1.1 200"));
    let cart = client.ask("/cart", None);
    assert!(cart.contains("<p>2 items</p>"), "{cart}");
    let form = format!("csrf_token={}&email=someone%40example.com", token(&cart));
    assert!(client.ask("/cart/checkout", Some(&form)).contains("order complete"));
    assert!(client.ask("/setCurrency", Some("currency_code=JPY")).contains("set-cookie: currency=JPY"));
    let counts = client.ask("/counts", None);
    assert_eq!(
        counts.split_once("\r\n\r\n").expect("a body").1,
        "{\"add_to_cart\":1,\"cart\":1,\"checkout\":1,\"currency\":1,\"home_new_session\":1,\"product\":1}"
    );
}

#[test]
fn whoever_does_it_wrong_is_refused_and_counted() {
    let mut client = Client::new();
    assert!(client.ask("/cart", None).starts_with("HTTP/1.1 401"));
    client.cookie = "session=00000000000000ff".to_owned();
    assert!(client.ask("/cart", None).starts_with("HTTP/1.1 401"));
    client.arrive();
    let cart = client.ask("/cart", None);
    let wrong_page = format!("csrf_token={}&product_id=OLJCESPC7Z&quantity=2", token(&cart));
    assert!(client.ask("/cart", Some(&wrong_page)).starts_with("HTTP/1.1 403"));
    let nothing_in_it = format!("csrf_token={}&email=someone%40example.com", token(&cart));
    assert!(client.ask("/cart/checkout", Some(&nothing_in_it)).starts_with("HTTP/1.1 409"));
    assert!(client.ask("/cart", Some("quantity=1")).starts_with("HTTP/1.1 422"));
    assert!(client.ask("/product/NONE", None).starts_with("HTTP/1.1 404"));
    let counts = client.ask("/counts", None);
    for kind in ["no_cookie", "unknown_session", "wrong_token", "empty_cart", "missing_field", "unknown_page"]
    {
        assert!(counts.contains(&format!("\"{kind}\":1")), "{kind} in {counts}");
    }
    client.ask("/counts", Some(""));
    assert!(client.ask("/counts", None).ends_with("{}"));
}
