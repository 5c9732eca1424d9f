//! The plainest HTTP/1.1 on its way in: a request that has come whole. Whatever else there is (chunks, expectations,
//! upgrades, older versions, mistakes) is not taken, and hyper reads it.
//!
//! A connection says the same headers with each request, but for the length of the body. So the last ones are kept, as
//! they were written and as they were read, and mostly nothing is left to do but to compare.

use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::limits::{BODY_BYTES_MAX, HEADERS_BYTES_MAX};

/// Headers beyond these are unusual.
const HEADERS_PLAIN_MAX: usize = 32;

/// A request, and how much of the buffer it took.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    pub(super) method: &'a Method,
    pub(super) target: &'a str,
    /// All but the body's length, which nobody asks for once it is there.
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
    pub(super) length: usize,
}

/// The headers of a connection's last requests: of one with a body, and of one without.
#[derive(Debug, Default)]
pub(super) struct Heads([Option<Box<Head>>; 2]);

/// Headers, as they were written and as they read.
#[derive(Debug)]
struct Head {
    method: Method,
    headers: HeaderMap,
    /// From the end of the first line to the digits of the body's length; without a body, to the end.
    before: Vec<u8>,
    /// From behind those digits to the end.
    after: Vec<u8>,
    has_length: bool,
}

impl Heads {
    /// The request with which these bytes begin, if it is plain and all there.
    pub(super) fn read<'a>(&'a mut self, bytes: &'a [u8]) -> Option<Plain<'a>> {
        let (index, first) = match self.known(bytes) {
            Some(known) => known,
            None => self.learn(bytes)?,
        };
        let FirstLine { method, target, head_bytes, body_bytes } = first;
        let head = self.0[index].as_mut()?;
        head.method = method;
        let length = head_bytes + body_bytes;
        let body = bytes.get(head_bytes..length)?;
        Some(Plain { method: &head.method, target, headers: &head.headers, body, length })
    }

    /// Which of the known heads this is.
    fn known<'a>(&self, bytes: &'a [u8]) -> Option<(usize, FirstLine<'a>)> {
        let line_bytes = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let (line, rest) = bytes.split_at(line_bytes);
        let line = line.strip_suffix(b" HTTP/1.1\r\n")?;
        let (method, target) = if let Some(target) = line.strip_prefix(b"POST ") {
            (Method::POST, target)
        } else {
            (Method::DELETE, line.strip_prefix(b"DELETE ")?)
        };
        let is_plain = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
        let target = std::str::from_utf8(target).ok().filter(|_| is_plain)?;
        self.0.iter().enumerate().find_map(|(index, head)| {
            let (rest_bytes, body_bytes) = head.as_ref()?.matches(rest)?;
            let head_bytes = line_bytes + rest_bytes;
            let first = FirstLine { method: method.clone(), target, head_bytes, body_bytes };
            (head_bytes <= HEADERS_BYTES_MAX).then_some((index, first))
        })
    }

    /// Reads a head, and keeps it in the place of the last one.
    fn learn<'a>(&mut self, bytes: &'a [u8]) -> Option<(usize, FirstLine<'a>)> {
        // An empty line before it would be taken for its first, and its first for a header.
        if matches!(bytes.first(), Some(b'\r' | b'\n')) {
            return None;
        }
        let mut fields = [httparse::EMPTY_HEADER; HEADERS_PLAIN_MAX];
        let mut head = httparse::Request::new(&mut fields);
        let Ok(httparse::Status::Complete(head_bytes)) = head.parse(bytes) else { return None };
        if head.version != Some(1) || head_bytes > HEADERS_BYTES_MAX {
            return None;
        }
        let method = Method::from_bytes(head.method?.as_bytes()).ok()?;
        let mut headers = HeaderMap::with_capacity(head.headers.len());
        let mut digits = None;
        for field in head.headers.iter() {
            let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
            if name == CONTENT_LENGTH {
                // Twice is for hyper to judge.
                if digits.replace(field.value).is_some() {
                    return None;
                }
                continue;
            }
            let is_hard = [TRANSFER_ENCODING, EXPECT, UPGRADE, TE, TRAILER].contains(&name)
                || (name == CONNECTION && !field.value.eq_ignore_ascii_case(b"keep-alive"));
            if is_hard {
                return None;
            }
            headers.append(name, HeaderValue::from_bytes(field.value).ok()?);
        }
        let (target, body_bytes) = (head.path?, digits.map_or(Some(0), length)?);
        let line_bytes = bytes.iter().position(|byte| *byte == b'\n')? + 1;
        let place = digits.map(|digits| {
            let start = digits.as_ptr().addr() - bytes.as_ptr().addr();
            (start, start + digits.len())
        });
        let (start, end) = place.unwrap_or((head_bytes, head_bytes));
        let (before, after) = (bytes.get(line_bytes..start)?.to_vec(), bytes.get(end..head_bytes)?.to_vec());
        let (index, has_length) = (usize::from(place.is_none()), place.is_some());
        self.0[index] = Some(Box::new(Head { method: method.clone(), headers, before, after, has_length }));
        Some((index, FirstLine { method, target, head_bytes, body_bytes }))
    }
}

/// What differs from one request to the next.
struct FirstLine<'a> {
    method: Method,
    target: &'a str,
    head_bytes: usize,
    body_bytes: usize,
}

impl Head {
    /// How many of these bytes are this head, and how long the body is.
    fn matches(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let rest = bytes.strip_prefix(&*self.before)?;
        if !self.has_length {
            return Some((self.before.len(), 0));
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = rest.split_at(digits);
        let body_bytes = length(digits)?;
        rest.starts_with(&self.after)
            .then_some((self.before.len() + digits.len() + self.after.len(), body_bytes))
    }
}

/// A body's length, if it is one that is taken.
fn length(digits: &[u8]) -> Option<usize> {
    let is_plain = !digits.is_empty() && digits.len() <= 6 && digits.iter().all(u8::is_ascii_digit);
    let length = std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()?;
    (length <= BODY_BYTES_MAX).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /v1/claims HTTP/1.1\r\nhost: a\r\nContent-Length: 2\r\n";

    #[test]
    fn a_whole_plain_request_is_read_and_what_follows_is_left() {
        let text = format!("{HEAD}Connection: Keep-Alive\r\n\r\n{{}}GET / HT");
        let mut heads = Heads::default();
        // The second time it is known.
        for _ in 0..2 {
            let plain = heads.read(text.as_bytes()).expect("it is plain");
            assert_eq!((plain.method, plain.target, plain.body), (&Method::POST, "/v1/claims", &b"{}"[..]));
            assert_eq!(plain.length, text.len() - "GET / HT".len());
            assert_eq!(plain.headers["host"], "a");
        }
    }

    #[test]
    fn a_head_that_is_known_reads_as_it_does_anew() {
        let known = ["host: a\r\ncontent-length:  2 \r\nx: 1\r\n\r\n{}", "host: a\r\nx: 1\r\n\r\n"];
        let lines = ["POST /v1/claims HTTP/1.1", "DELETE /v1/claims/lock~a~1 HTTP/1.1", "GET / HTTP/1.1"];
        let rest = [
            known[0],
            known[1],
            "host: a\r\ncontent-length:  12 \r\nx: 1\r\n\r\n{\"long\":\"er\"}",
            "host: a\r\ncontent-length:  2 \r\nx: 1\r\n\r\n{",
            "host: a\r\ncontent-length:  +2 \r\nx: 1\r\n\r\n{}",
            "host: a\r\ncontent-length:   \r\nx: 1\r\n\r\n{}",
            "host: a\r\ncontent-length:  2 \r\nx: 1\r\nte: trailers\r\n\r\n{}",
            "host: a\r\ncontent-length:  2 \r\nx: 2\r\n\r\n{}",
            "host: a\r\nx: 1\r\nexpect: 100-continue\r\n\r\n",
            "host: b\r\nx: 1\r\n\r\n",
        ];
        let lines = lines.into_iter().chain([
            "POST  /v1/claims HTTP/1.1",
            "POST /v1/claims HTTP/1.0",
            "POST /v1/cl\u{e4}ims HTTP/1.1",
        ]);
        for text in lines.flat_map(|line| rest.map(|rest| format!("{line}\r\n{rest}"))) {
            let mut heads = Heads::default();
            for rest in known {
                assert!(heads.read(format!("POST / HTTP/1.1\r\n{rest}").as_bytes()).is_some());
            }
            let (mut anew, told) = (Heads::default(), heads.read(text.as_bytes()));
            assert_eq!(format!("{told:?}"), format!("{:?}", anew.read(text.as_bytes())), "{text}");
        }
    }

    #[test]
    fn an_empty_line_before_a_request_teaches_nothing() {
        let mut heads = Heads::default();
        assert!(heads.read(format!("\r\n{HEAD}\r\n{{}}").as_bytes()).is_none());
        assert!(heads.read(format!("POST / HTTP/1.1\r\n{HEAD}\r\n{{}}").as_bytes()).is_none());
    }

    #[test]
    fn whatever_is_not_plain_is_left_to_hyper() {
        let check = |text: &str| assert!(Heads::default().read(text.as_bytes()).is_none(), "{text}");
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
