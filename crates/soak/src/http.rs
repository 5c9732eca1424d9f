//! HTTP/1.1 as far as a drill needs it: one connection, one question at a time. An own few lines, so that what
//! counts as "answered" is decided here and by no library that tries again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use serde_json::Value;

/// Longer than any answer takes; who waits longer has not been answered.
const PATIENCE: Duration = Duration::from_secs(10);

/// A caller's connection, made when it is needed.
#[derive(Debug)]
pub struct Caller {
    address: SocketAddr,
    key: String,
    wire: Option<BufReader<TcpStream>>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body; `null` where there is none.
    pub body: Value,
    /// When it was made, by the wall clock of whoever made it, to the second.
    pub date: Option<SystemTime>,
}

impl Caller {
    /// Nothing is sent yet.
    pub fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: key.to_owned(), wire: None }
    }

    /// Asks once. An error means that nobody knows what became of it.
    pub fn ask(&mut self, method: &str, path: &str, once: Option<&str>, body: &Value) -> io::Result<Answer> {
        let answer = self.try_ask(method, path, once, body);
        if answer.is_err() {
            self.wire = None;
        }
        answer
    }

    fn try_ask(&mut self, method: &str, path: &str, once: Option<&str>, body: &Value) -> io::Result<Answer> {
        let wire = match &mut self.wire {
            Some(wire) => wire,
            none => none.insert(BufReader::new(connect(self.address)?)),
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let once = once.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: tenure\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             {once}content-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        wire.get_mut().write_all(request.as_bytes())?;
        read(wire)
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn json_or_text(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

fn read(wire: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let mut line = String::new();
    let (mut status, mut date) = (None, None);
    let mut length = 0;
    loop {
        line.clear();
        if wire.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if status.is_none() {
            status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
            if status.is_none() {
                return Err(io::ErrorKind::InvalidData.into());
            }
        } else if text.is_empty() {
            break;
        } else if let Some((name, value)) = text.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
            } else if name.eq_ignore_ascii_case("date") {
                date = httpdate::parse_http_date(value.trim()).ok();
            }
        }
    }
    let mut body = vec![0; length];
    wire.read_exact(&mut body)?;
    // What is not JSON is text: whether it is ready.
    let body = if body.is_empty() { Value::Null } else { json_or_text(&body) };
    Ok(Answer { status: status.unwrap_or_default(), body, date })
}
