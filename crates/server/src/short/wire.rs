//! The plainest HTTP/1.1 on its way out: an answer that is known whole.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;

use crate::fields::List;

/// An answer that is known whole.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) fields: List,
    pub(super) body: String,
}

/// Appends an answer.
pub(super) fn write(answered: &Answered, is_last: bool, out: &mut Vec<u8>) {
    let Answered { status, fields, body } = answered;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    for (name, value) in fields {
        push_field(name.as_str(), value.as_bytes(), out);
    }
    if *status != StatusCode::NO_CONTENT {
        push_field("content-length", body.len().to_string().as_bytes(), out);
    }
    if is_last {
        push_field("connection", b"close", out);
    }
    with_date(|date| push_field("date", date.as_bytes(), out));
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body.as_bytes());
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
