//! A connection's bytes, as the server's own reader of heads takes them. What it takes must read the same to another
//! reader: where the two differ, one request hides in another. It parses a head that is new with the same library; what is
//! doubted here is what it does with one that it knows, with lengths, and with the list of headers. What it does not take
//! is hyper's.

use axum::http::{HeaderMap, Method};
use httparse::Status;

use crate::Target;

/// More than the server's own reader takes.
const HEADERS_MAX: usize = 100;
/// What hyper alone does.
const HARD: [&str; 5] = ["transfer-encoding", "expect", "upgrade", "te", "trailer"];

/// A new connection for each input.
#[derive(Debug)]
pub struct Head;

impl Target for Head {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        // Twice: what was learned the first time is known the second.
        taken(&[bytes, bytes].concat()).map(drop)
    }
}

/// How many requests are taken, each as the other reader reads it.
fn taken(bytes: &[u8]) -> Result<usize, String> {
    let mut count = 0;
    tenure_server::read_heads(bytes, |request, line, headers, body| {
        count += 1;
        judge(request, line, headers, body).map_err(|broken| format!("request {count}: {broken}"))
    })?;
    Ok(count)
}

fn judge(
    request: &[u8],
    (method, target): (&Method, &str),
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(), String> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut other = httparse::Request::new(&mut fields);
    let head_bytes = match other.parse(request) {
        Ok(Status::Complete(head_bytes)) => head_bytes,
        Ok(Status::Partial) => return Err("its head ends later".to_owned()),
        Err(error) => return Err(format!("it is none: {error}")),
    };
    let line = (other.method, other.path, other.version);
    if line != (Some(method.as_str()), Some(target), Some(1)) {
        return Err(format!("{method} {target} is {line:?}"));
    }
    let mut expected: Vec<_> =
        other.headers.iter().map(|field| (field.name.to_ascii_lowercase(), field.value)).collect();
    if let Some((name, _)) = expected.iter().find(|(name, _)| HARD.contains(&name.as_str())) {
        return Err(format!("{name} is not for it"));
    }
    let is_kept = |value: &[u8]| value.eq_ignore_ascii_case(b"keep-alive");
    if expected.iter().any(|(name, value)| name == "connection" && !is_kept(value)) {
        return Err("the connection is not to be kept".to_owned());
    }
    let lengths: Vec<_> = expected.extract_if(.., |(name, _)| name == "content-length").collect();
    let body_bytes = match &lengths[..] {
        [] => 0,
        [(_, digits)] => decimal(digits).ok_or("the body's length is no number")?,
        _ => return Err(format!("{} lengths of the body", lengths.len())),
    };
    if request.len() != head_bytes + body_bytes || body != &request[head_bytes..] {
        let took = request.len();
        return Err(format!("{took} bytes and a body of {} are {head_bytes} and {body_bytes}", body.len()));
    }
    let mut read: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes())).collect();
    // Only among those of one name does the order mean anything.
    read.sort_by(|one, two| one.0.cmp(&two.0));
    expected.sort_by(|one, two| one.0.cmp(&two.0));
    if read == expected { Ok(()) } else { Err(format!("{read:?} is {expected:?}")) }
}

/// By hand: a parser of numbers takes a sign, too.
fn decimal(digits: &[u8]) -> Option<usize> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    let add = |sum: usize, byte| sum.checked_mul(10)?.checked_add(digit(byte)?);
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the target would see nothing.
    #[test]
    fn whatever_is_plain_in_the_corpus_is_taken() {
        let expected = [
            ("bare", 2),
            ("body-is-a-request", 2),
            ("changed", 3),
            ("chunked", 1),
            ("claim", 1),
            ("close", 1),
            ("empty-line", 1),
            ("expect", 0),
            ("nested", 0),
            ("odd", 2),
            ("old", 0),
            ("pipelined", 5),
            ("release", 1),
            ("short", 1),
            ("two-lengths", 1),
        ];
        let corpus = crate::corpus("head").unwrap();
        assert_eq!(corpus.len(), expected.len());
        for (bytes, (name, count)) in corpus.iter().zip(expected) {
            assert_eq!(taken(bytes), Ok(count), "{name}");
        }
    }
}
