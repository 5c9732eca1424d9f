//! HTTP/1.1 and WebSocket frames by hand: requests are made once and sent again, answers are read no
//! further than the figures need. The generator shares the machine with the server that it measures; a
//! client of the usual sort takes as much of it as the server, and the figures would be the client's.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The server and the key to it.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is called in requests.
    pub host: String,
    /// The API key. Without one nothing is said of it.
    pub key: String,
}

impl Target {
    /// A request's bytes.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let mut text = format!("{method} {path}{}", self.tail());
        if !body.is_empty() {
            text.truncate(text.len() - 2);
            let length = body.len();
            // Writing into a string cannot fail.
            let _ = write!(text, "content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        }
        text.into_bytes()
    }

    /// What follows the path of a request without a body.
    pub fn tail(&self) -> String {
        if self.key.is_empty() {
            return format!(" HTTP/1.1\r\nhost: {}\r\n\r\n", self.host);
        }
        format!(" HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n", self.host, self.key)
    }

    /// A connection to it.
    pub async fn connect(&self) -> io::Result<Wire> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buffer: Vec::with_capacity(4 * 1024), start: 0 })
    }

    /// A socket that follows a collection.
    pub async fn open_socket(&self, collection: &str) -> io::Result<Wire> {
        let mut wire = self.connect().await?;
        let path = format!("/v1/collections/{collection}/ws");
        let mut request = self.request("GET", &path, "");
        request.truncate(request.len() - 2);
        request.extend_from_slice(
            b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
              sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        );
        wire.send(&request).await?;
        let answer = wire.answer().await?;
        answer.expect(101)?;
        Ok(wire)
    }
}

/// A connection, and what was read and not yet used.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
}

/// An answer's status and body.
pub struct Answer<'a> {
    status: u16,
    /// All of it.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// This status, or an error that tells the other.
    pub fn expect(&self, status: u16) -> io::Result<()> {
        if self.status == status {
            return Ok(());
        }
        let body = String::from_utf8_lossy(self.body);
        Err(io::Error::other(format!("the server answered {} {body}", self.status)))
    }
}

impl Wire {
    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next answer.
    pub async fn answer(&mut self) -> io::Result<Answer<'_>> {
        let head = loop {
            match memchr::memmem::find(&self.buffer[self.start..], b"\r\n\r\n") {
                Some(length) => break self.start + length,
                None => self.more().await?,
            }
        };
        let (status, length) =
            head_of(&self.buffer[self.start..head]).ok_or_else(|| io::Error::other("not an HTTP answer"))?;
        let end = length.checked_add(head + 4).ok_or_else(|| io::Error::other("a body without an end"))?;
        while self.buffer.len() < end {
            self.more().await?;
        }
        self.start = end;
        Ok(Answer { status, body: &self.buffer[head + 4..end] })
    }

    /// The next message of a socket, without waiting; pieces count as messages. Pings are not answered: who
    /// reads this way is gone before the server minds.
    pub fn message(&mut self) -> Option<&[u8]> {
        let (from, to) = frame(&self.buffer[self.start..])?;
        let start = self.start;
        self.start += to;
        Some(&self.buffer[start + from..start + to])
    }

    /// Waits for more bytes. What was used makes room.
    pub async fn more(&mut self) -> io::Result<()> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
        } else if self.start > 0 {
            self.buffer.drain(..self.start);
        }
        self.start = 0;
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// The connection by itself, and what was read of it before.
    pub fn into_parts(mut self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.buffer.split_off(self.start))
    }
}

/// Status and length of the body.
fn head_of(head: &[u8]) -> Option<(u16, usize)> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = std::str::from_utf8(lines.next()?.get(9..12)?).ok()?.parse().ok()?;
    let name = b"content-length:";
    let length =
        lines.find(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
    let length = match length {
        Some(line) => std::str::from_utf8(&line[name.len()..]).ok()?.trim().parse().ok()?,
        None => 0,
    };
    Some((status, length))
}

/// Where the payload of a server's frame begins and ends, if all of it is there.
pub fn frame(bytes: &[u8]) -> Option<(usize, usize)> {
    let (from, length) = match *bytes.get(1)? {
        126 => (4, usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]))),
        127 => {
            let length: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
            (10, usize::try_from(u64::from_be_bytes(length)).ok()?)
        }
        short => (2, usize::from(short)),
    };
    let to = length.checked_add(from)?;
    (bytes.len() >= to).then_some((from, to))
}

/// Appends a text frame. A client must mask; a mask of zeros leaves the text as it is.
pub fn push_frame(text: &[u8], into: &mut Vec<u8>) {
    match u16::try_from(text.len()) {
        Ok(short @ 0..126) => into.extend_from_slice(&[0x81, 0x80 | short.to_be_bytes()[1]]),
        Ok(length) => {
            into.extend_from_slice(&[0x81, 0xfe]);
            into.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => unreachable!("the benchmark's messages are short"),
    }
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(text);
}
