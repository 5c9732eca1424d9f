//! The session cookie. `__Host-` ties it to this very host over TLS; on a plain loopback connection, where a
//! browser would refuse that, it has another name, which is good nowhere else.

use axum::http::header::{COOKIE, HOST};
use axum::http::{HeaderMap, HeaderValue};

use super::secret::Secret;
use crate::front::Client;

const SECURE: &str = "__Host-tenure";
const LOOPBACK: &str = "tenure";

/// The header that a page must add to what it changes. Another site's page cannot.
pub const CSRF_HEADER: &str = "x-tenure-csrf";

/// The cookie's value, if the request has one that counts here.
pub(crate) fn read(headers: &HeaderMap, client: &Client) -> Option<Secret> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let is_plain = is_plain_loopback(headers, client);
    pairs
        .find(|(name, _)| *name == SECURE || is_plain && *name == LOOPBACK)
        .map(|(_, value)| Secret::new(value))
}

/// The header that sets the cookie for this client.
pub(crate) fn set(headers: &HeaderMap, client: &Client, secret: &Secret, age_ms: i64) -> HeaderValue {
    line(headers, client, secret.expose(), age_ms / 1_000)
}

/// The header that takes it away.
pub(crate) fn clear(headers: &HeaderMap, client: &Client) -> HeaderValue {
    line(headers, client, "", 0)
}

fn line(headers: &HeaderMap, client: &Client, value: &str, age_s: i64) -> HeaderValue {
    let (name, secure) =
        if is_plain_loopback(headers, client) { (LOOPBACK, "") } else { (SECURE, "; Secure") };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}{secure}");
    let mut line = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""));
    line.set_sensitive(true);
    line
}

/// A browser on this machine that speaks to us without TLS and without anybody in between.
fn is_plain_loopback(headers: &HeaderMap, client: &Client) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
    });
    let is_local_name = name.eq_ignore_ascii_case("localhost")
        || name.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    !client.is_tls && client.address.is_loopback() && is_local_name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &'static str, cookie: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        headers.insert(COOKIE, HeaderValue::from_static(cookie));
        headers
    }

    fn client(address: &str, is_tls: bool) -> Client {
        Client { address: address.parse().unwrap(), is_tls }
    }

    #[test]
    fn e8_the_cookie_is_host_bound_and_secure_except_on_plain_loopback() {
        let secret = Secret::new("abc");
        let check = |host, address, is_tls, expected: &str| {
            let line = set(&headers(host, ""), &client(address, is_tls), &secret, 60_000);
            assert_eq!(line.to_str().unwrap(), expected, "{host} {address} {is_tls}");
        };
        let plain = "tenure=abc; Path=/; HttpOnly; SameSite=Strict; Max-Age=60";
        let secure = "__Host-tenure=abc; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure";
        check("localhost:8080", "127.0.0.1", false, plain);
        check("127.0.0.1:8080", "127.0.0.1", false, plain);
        check("[::1]:8080", "::1", false, plain);
        check("localhost:8080", "127.0.0.1", true, secure);
        check("tenure.example", "127.0.0.1", false, secure);
        check("localhost", "10.0.0.7", false, secure);
    }

    #[test]
    fn the_unbound_name_counts_on_plain_loopback_alone() {
        let check = |host, address, cookie, expected: Option<&str>| {
            let read = read(&headers(host, cookie), &client(address, false));
            assert_eq!(read.as_ref().map(Secret::expose), expected);
        };
        check("localhost", "127.0.0.1", "a=1; tenure=x", Some("x"));
        check("tenure.example", "10.0.0.7", "tenure=x", None);
        check("tenure.example", "10.0.0.7", "tenure=x; __Host-tenure=y", Some("y"));
        check("localhost", "127.0.0.1", "atenure=x", None);
    }
}
