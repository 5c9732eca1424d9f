//! Redis's protocol by hand: commands are made once and sent again, replies are read no further than needed.

use std::io;

use tenure_load::memchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection.
pub(crate) struct Resp {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
}

/// A reply: a status or a text, a number, or nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    Number(i64),
    Nothing,
}

impl Resp {
    pub(crate) async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4 * 1024), start: 0 })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a command and reads its reply.
    pub(crate) async fn ask(&mut self, bytes: &[u8]) -> io::Result<Reply> {
        self.send(bytes).await?;
        self.reply().await
    }

    /// The next reply. Redis's own errors are errors.
    pub(crate) async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some((reply, used)) = read(&self.buffer[self.start..])? {
                self.start += used;
                return Ok(reply);
            }
            if self.start == self.buffer.len() {
                self.buffer.clear();
            } else {
                self.buffer.drain(..self.start);
            }
            self.start = 0;
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The first reply of these bytes and its length, if all of it is there.
fn read(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    let Some(end) = memchr::memchr(b'\n', bytes) else { return Ok(None) };
    let strange = || io::Error::other("a strange reply of Redis");
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| strange())?.trim_end();
    let (kind, rest) = line.split_at_checked(1).ok_or_else(strange)?;
    let number = || rest.parse::<i64>().map_err(|_| strange());
    match kind {
        "+" => Ok(Some((Reply::Text(rest.to_owned()), end + 1))),
        "-" => Err(io::Error::other(format!("Redis answered {rest}"))),
        ":" => Ok(Some((Reply::Number(number()?), end + 1))),
        "$" => {
            let Ok(length) = usize::try_from(number()?) else { return Ok(Some((Reply::Nothing, end + 1))) };
            let from = end + 1;
            if bytes.len() < from + length + 2 {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&bytes[from..from + length]).into_owned();
            Ok(Some((Reply::Text(text), from + length + 2)))
        }
        _ => Err(strange()),
    }
}

/// A command's bytes.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_or_not_yet() {
        assert_eq!(command(&["GET", "é"]), b"*2\r\n$3\r\nGET\r\n$2\r\n\xc3\xa9\r\n");
        assert_eq!(read(b"+OK\r\n:7\r\n").unwrap(), Some((Reply::Text("OK".to_owned()), 5)));
        assert_eq!(read(b":7\r\n").unwrap(), Some((Reply::Number(7), 4)));
        assert_eq!(read(b"$-1\r\n").unwrap(), Some((Reply::Nothing, 5)));
        assert_eq!(read(b"$3\r\nabc\r\n").unwrap(), Some((Reply::Text("abc".to_owned()), 9)));
        assert_eq!(read(b"$3\r\nab").unwrap(), None);
        assert_eq!(read(b"+O").unwrap(), None);
        assert!(read(b"-ERR no\r\n").unwrap_err().to_string().contains("ERR no"));
        assert!(read(b"?\r\n").is_err());
    }
}
