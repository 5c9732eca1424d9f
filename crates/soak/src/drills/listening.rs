//! Sockets that listen and take what they are told: each must hear of everything, and soon.

use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::stalling::{socket, subscribe};
use crate::Failure;

/// Longer than any news takes.
const PATIENCE: Duration = Duration::from_secs(5);

/// All of them, each with a thread of its own, so that nobody waits for another.
pub(super) struct Listeners {
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    heard: Receiver<(String, Instant)>,
}

impl Listeners {
    /// To a collection, from this event on.
    pub(super) fn connect(
        server: SocketAddr,
        (news, since): (&str, u64),
        count: usize,
    ) -> Result<Self, Failure> {
        let (sender, heard) = channel();
        let mut listeners = Self { streams: Vec::new(), threads: Vec::new(), heard };
        for _ in 0..count {
            let mut stream = TcpStream::connect(server)?;
            subscribe(&mut stream, news, &socket(since))?;
            listeners.streams.push(stream.try_clone()?);
            let sender = sender.clone();
            listeners.threads.push(std::thread::spawn(move || {
                // It ends when the connection does.
                let _ = listen(BufReader::new(stream), &sender);
            }));
        }
        Ok(listeners)
    }

    /// How long each of this news took to each of them.
    pub(super) fn heard(self, told: &[(String, Instant)]) -> Result<Vec<Duration>, Failure> {
        let (mut took, begun) = (Vec::new(), Instant::now());
        let expected = told.len() * self.streams.len();
        while took.len() < expected {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let Ok((item, at)) = self.heard.recv_timeout(left) else {
                return Err(
                    format!("{} of {expected} times somebody was told of an event", took.len()).into()
                );
            };
            // What fills those that stall is told to everybody.
            if let Some((_, since)) = told.iter().find(|(known, _)| *known == item) {
                took.push(at.duration_since(*since));
            }
        }
        Ok(took)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Passes on what it is told of, until the connection ends.
fn listen(mut stream: BufReader<TcpStream>, heard: &Sender<(String, Instant)>) -> std::io::Result<()> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line)?;
    }
    let mut message = Vec::new();
    loop {
        let is_whole = frame(&mut stream, &mut message)?;
        if !is_whole {
            continue;
        }
        let at = Instant::now();
        let said: Value = serde_json::from_slice(&message).unwrap_or_default();
        message.clear();
        if let Some(item) = said["event"]["items"][0].as_str()
            && heard.send((item.to_owned(), at)).is_err()
        {
            return Ok(());
        }
    }
}

/// Appends a frame's content; whether its message is whole. A server's frames are not masked.
fn frame(stream: &mut impl Read, message: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let length = match head[1] & 0x7f {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length)?;
            u64::from(u16::from_be_bytes(length))
        }
        127 => {
            let mut length = [0; 8];
            stream.read_exact(&mut length)?;
            u64::from_be_bytes(length)
        }
        length => u64::from(length),
    };
    stream.take(length).read_to_end(message)?;
    Ok(head[0] & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_pieces_is_read_whole() {
        let long = [b'x'; 300];
        let bytes = [&[0x01, 2][..], b"ab", &[0x80, 126, 1, 44], &long].concat();
        let (mut stream, mut message) = (bytes.as_slice(), Vec::new());
        assert!(!frame(&mut stream, &mut message).expect("a piece"));
        assert!(frame(&mut stream, &mut message).expect("the rest"));
        assert_eq!((message.len(), &message[..3]), (302, &b"abx"[..]));
    }
}
