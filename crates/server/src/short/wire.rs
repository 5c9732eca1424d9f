//! The plainest HTTP/1.1: a request that has come whole, an answer that is known whole. Whatever else there is
//! (chunks, expectations, upgrades, older versions, mistakes) is not taken, and hyper reads it.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::limits::{BODY_BYTES_MAX, HEADERS_BYTES_MAX};

/// Headers beyond these are unusual.
const HEADERS_PLAIN_MAX: usize = 32;

/// A request, and how much of the buffer it took.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    pub(super) method: Method,
    pub(super) target: &'a str,
    pub(super) headers: HeaderMap,
    pub(super) body: &'a [u8],
    pub(super) length: usize,
}

/// The request with which these bytes begin, if it is plain and all there.
pub(super) fn read(bytes: &[u8]) -> Option<Plain<'_>> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_PLAIN_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(head_bytes)) = head.parse(bytes) else { return None };
    if head.version != Some(1) || head_bytes > HEADERS_BYTES_MAX {
        return None;
    }
    let method = Method::from_bytes(head.method?.as_bytes()).ok()?;
    let mut headers = HeaderMap::with_capacity(head.headers.len());
    let mut body_bytes = None;
    for field in head.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if name == CONTENT_LENGTH {
            // Twice is for hyper to judge.
            if body_bytes.replace(length(field.value)?).is_some() {
                return None;
            }
        } else if [TRANSFER_ENCODING, EXPECT, UPGRADE, TE, TRAILER].contains(&name)
            || (name == CONNECTION && !field.value.eq_ignore_ascii_case(b"keep-alive"))
        {
            return None;
        }
        headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
    }
    let length = head_bytes + body_bytes.unwrap_or(0);
    let body = bytes.get(head_bytes..length)?;
    Some(Plain { method, target: head.path?, headers, body, length })
}

/// A body's length, if it is one that is taken.
fn length(digits: &[u8]) -> Option<usize> {
    let is_plain = !digits.is_empty() && digits.len() <= 6 && digits.iter().all(u8::is_ascii_digit);
    let length = std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()?;
    (length <= BODY_BYTES_MAX).then_some(length)
}

/// Appends an answer.
pub(super) fn write(parts: &Parts, body: &[u8], is_last: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(parts.status.canonical_reason().unwrap_or("").as_bytes());
    for (name, value) in &parts.headers {
        push_field(name.as_str(), value.as_bytes(), out);
    }
    if parts.status != StatusCode::NO_CONTENT {
        push_field("content-length", body.len().to_string().as_bytes(), out);
    }
    if is_last {
        push_field("connection", b"close", out);
    }
    with_date(|date| push_field("date", date.as_bytes(), out));
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

fn push_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
}

thread_local! {
    /// The second that was last asked for, and how it reads.
    static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// What a `Date` says now. It is for caches alone; no deadline goes by it.
fn with_date(use_it: impl FnOnce(&str)) {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    DATE.with_borrow_mut(|(known, text)| {
        if *known != second || text.is_empty() {
            *known = second;
            *text = httpdate::fmt_http_date(now);
        }
        use_it(text);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /v1/claims HTTP/1.1\r\nhost: a\r\nContent-Length: 2\r\n";

    #[test]
    fn a_whole_plain_request_is_read_and_what_follows_is_left() {
        let text = format!("{HEAD}Connection: Keep-Alive\r\n\r\n{{}}GET / HT");
        let plain = read(text.as_bytes()).expect("it is plain");
        assert_eq!((plain.method, plain.target, plain.body), (Method::POST, "/v1/claims", &b"{}"[..]));
        assert_eq!(plain.length, text.len() - "GET / HT".len());
        assert_eq!(plain.headers["host"], "a");
    }

    #[test]
    fn whatever_is_not_plain_is_left_to_hyper() {
        let check = |text: &str| assert!(read(text.as_bytes()).is_none(), "{text}");
        check("");
        check("POST /v1/claims HTTP/1.1\r\nhost: a\r\n");
        check(&format!("{HEAD}\r\n{{"));
        check(&format!("{HEAD}content-length: 2\r\n\r\n{{}}"));
        check(&format!("{HEAD}transfer-encoding: chunked\r\n\r\n{{}}"));
        check(&format!("{HEAD}expect: 100-continue\r\n\r\n{{}}"));
        check(&format!("{HEAD}connection: close\r\n\r\n{{}}"));
        check(&format!("{HEAD}connection: upgrade\r\nupgrade: websocket\r\n\r\n{{}}"));
        check(&format!("{HEAD}folded: a\r\n b\r\n\r\n{{}}"));
        check("POST /v1/claims HTTP/1.0\r\n\r\n");
        check("POST /v1/claims HTTP/1.1\r\ncontent-length: +2\r\n\r\n{}");
        let large = " ".repeat(BODY_BYTES_MAX + 1);
        check(&format!("POST /v1/claims HTTP/1.1\r\ncontent-length: {}\r\n\r\n{large}", large.len()));
        let many = "x: 1\r\n".repeat(40);
        check(&format!("{HEAD}{many}\r\n{{}}"));
        let long = "a".repeat(HEADERS_BYTES_MAX);
        check(&format!("{HEAD}x: {long}\r\n\r\n{{}}"));
    }
}
