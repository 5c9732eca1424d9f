//! Redis' protocol (RESP2), as much of it as four commands need. Requests are arrays of texts; an answer
//! is read from what has come so far, so that waiting for it can be given up without losing a byte.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::address::Address;
use crate::limits::{CONNECT, LINE_MAX, PARTS_MAX, REPLY, TEXT_MAX};

pub(crate) type Result<T> = std::io::Result<T>;

/// What Redis says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
    List(Vec<Value>),
    Nothing,
    /// It says no.
    Error(String),
}

/// A connection that is signed in.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    /// What has come and was not read yet.
    come: Vec<u8>,
}

impl Wire {
    pub(crate) async fn connect(address: &Address) -> Result<Self> {
        let place = (&*address.host, address.port);
        let stream = in_time(CONNECT, TcpStream::connect(place)).await?;
        stream.set_nodelay(true)?;
        let mut wire = Self { stream, come: Vec::new() };
        if let Some(password) = &address.password {
            let user = address.user.as_deref();
            let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([&**password]).collect();
            // Its own words could name what was wrong with it.
            wire.ask(&words).await.map_err(|_| refused("does not accept who signs in"))?;
        }
        if address.database != 0 {
            wire.ask(&["SELECT", &address.database.to_string()]).await?;
        }
        Ok(wire)
    }

    /// Asks and waits for the answer; an error is a failure.
    pub(crate) async fn ask(&mut self, words: &[&str]) -> Result<Value> {
        let mut bytes = Vec::new();
        write(&mut bytes, words);
        self.send(&bytes).await?;
        match in_time(REPLY, self.next()).await? {
            Value::Error(words) => Err(refused(&words)),
            value => Ok(value),
        }
    }

    /// Sends what [`write`] has written.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        in_time(REPLY, self.stream.write_all(bytes)).await
    }

    /// The next thing that Redis says. Giving up loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some((value, length)) = read(&self.come, 0)? {
                self.come.drain(..length);
                return Ok(value);
            }
            if self.stream.read_buf(&mut self.come).await? == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "Redis closed the connection"));
            }
        }
    }
}

pub(crate) async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| Error::new(ErrorKind::TimedOut, "Redis did not answer in time");
    timeout(limit, work).await.map_err(late)?
}

pub(crate) fn refused(words: &str) -> Error {
    Error::other(format!("Redis says: {words}"))
}

/// Writes one request.
pub(crate) fn write(bytes: &mut Vec<u8>, words: &[&str]) {
    bytes.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
}

/// Reads one answer and how many bytes it took; `None` while it is not whole.
fn read(bytes: &[u8], depth: usize) -> Result<Option<(Value, usize)>> {
    let strange = || Error::new(ErrorKind::InvalidData, "what answers is no Redis");
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() > LINE_MAX { Err(strange()) } else { Ok(None) };
    };
    // However it came: a line is no longer than one that is waited for.
    if end >= LINE_MAX {
        return Err(strange());
    }
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| strange())?;
    let (mark, line) = line.split_at_checked(1).ok_or_else(strange)?;
    let number = || line.parse::<i64>().map_err(|_| strange());
    let whole = end + 2;
    match mark {
        "+" => Ok(Some((Value::Text(line.to_owned()), whole))),
        "-" => Ok(Some((Value::Error(line.to_owned()), whole))),
        ":" => Ok(Some((Value::Number(number()?), whole))),
        "$" | "*" if number()? == -1 => Ok(Some((Value::Nothing, whole))),
        "$" => {
            let length = usize::try_from(number()?).ok().filter(|length| *length <= TEXT_MAX);
            let length = length.ok_or_else(strange)?;
            let Some(text) = bytes.get(whole..whole + length + 2) else { return Ok(None) };
            let text = text.strip_suffix(b"\r\n").ok_or_else(strange)?;
            let text = std::str::from_utf8(text).map_err(|_| strange())?;
            Ok(Some((Value::Text(text.to_owned()), whole + length + 2)))
        }
        // Nothing that is asked for is a list of lists.
        "*" if depth == 0 => {
            let count = usize::try_from(number()?).ok().filter(|count| *count <= PARTS_MAX);
            let mut parts = Vec::new();
            let mut at = whole;
            for _ in 0..count.ok_or_else(strange)? {
                let Some((part, length)) = read(&bytes[at..], depth + 1)? else { return Ok(None) };
                parts.push(part);
                at += length;
            }
            Ok(Some((Value::List(parts), at)))
        }
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e09_answers_are_read_wherever_they_are_cut() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (bytes, expected) in [
            ("+OK\r\n", text("OK")),
            (":-7\r\n", Value::Number(-7)),
            ("-ERR no\r\n", Value::Error("ERR no".to_owned())),
            ("$-1\r\n", Value::Nothing),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("*2\r\n:1\r\n$0\r\n\r\n", Value::List(vec![Value::Number(1), text("")])),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes.as_bytes()[..cut], 0).unwrap(), None, "{bytes:?} cut at {cut}");
            }
            let more = format!("{bytes}+more\r\n");
            assert_eq!(read(more.as_bytes(), 0).unwrap(), Some((expected, bytes.len())));
        }
    }

    /// What is no Redis, or says too much, is refused and never waited for.
    #[test]
    fn e09_what_is_no_redis_is_refused() {
        let long = "x".repeat(LINE_MAX + 1);
        for bytes in [
            "HTTP/1.1 400\r\n",
            "$65537\r\n",
            "*9\r\n",
            "*1\r\n*0\r\n",
            "$2\r\nabc\r\n",
            ":x\r\n",
            "\r\n",
            &long,
        ] {
            assert!(read(bytes.as_bytes(), 0).is_err(), "{bytes:.20?}");
        }
    }

    /// E9: a spoiled answer is the same answer wherever it is cut, or is waited for, or is refused; and nothing is taken
    /// that is longer than anything that is asked for.
    #[test]
    fn e9_spoiled_answers_are_read_the_same_wherever_they_are_cut_or_refused() {
        fn is_short(value: &Value) -> bool {
            match value {
                Value::Text(text) => text.len() <= TEXT_MAX,
                Value::Error(words) => words.len() <= LINE_MAX,
                Value::List(parts) => parts.len() <= PARTS_MAX && parts.iter().all(is_short),
                Value::Number(_) | Value::Nothing => true,
            }
        }
        let corpus = [
            "+OK\r\n".to_owned(),
            ":-7\r\n:8\r\n".to_owned(),
            "*-1\r\n$-1\r\n".to_owned(),
            "*3\r\n$7\r\nmessage\r\n$12\r\ntenure:hints\r\n$9\r\nlock/a 17\r\n".to_owned(),
            "*2\r\n:1\r\n$4\r\na\r\nb\r\n".to_owned(),
            format!("-ERR {}\r\n", "no ".repeat(330)),
        ];
        let judged = tenure_spoil::spoiled(&corpus.map(String::into_bytes), |bytes| {
            let whole = read(bytes, 0);
            for quarter in 0..4 {
                let cut = bytes.len() * quarter / 4;
                let is_right = match (&whole, read(&bytes[..cut], 0)) {
                    (Ok(Some((value, length))), Ok(Some(found))) => {
                        found == (value.clone(), *length) && *length <= cut
                    }
                    (Ok(Some((_, length))), Ok(None)) => *length > cut,
                    (Ok(None), found) => matches!(found, Ok(None)),
                    (Err(_), found) => !matches!(found, Ok(Some(_))),
                    (Ok(Some(_)), Err(_)) => false,
                };
                if !is_right {
                    return Err(format!("cut at {cut} it is something else than {whole:?}"));
                }
            }
            match whole {
                Ok(Some((value, _))) if !is_short(&value) => {
                    Err("it is longer than anything may be".to_owned())
                }
                Err(error) if error.kind() != ErrorKind::InvalidData => Err(error.to_string()),
                Ok(Some(_)) => Ok(true),
                Ok(None) | Err(_) => Ok(false),
            }
        });
        assert!(judged.reaches_both(), "{judged:?}");
    }
}
