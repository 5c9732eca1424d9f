//! What a client sends over an open socket: whole streams of frames, spoiled as bytes. The server runs its own handshake,
//! reader and session over a connection in memory.
//!
//! `frames` reads the same bytes by the letter of RFC 6455, and so knows which messages arrived whole and where the stream
//! breaks a rule. Each of those messages is answered once, a broken stream is closed with a code for what is broken, and a
//! stream that merely ends is let go. What brought no whole message changes nothing.
//!
//! The first byte says who it is that sends the rest: somebody whom the handshake made known, or somebody who says so in
//! the first message, and otherwise is not let in.

mod corpus;
mod frames;

use std::fmt::Write;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tenure_core::CollectionKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::Target;
use crate::served::{Served, told};
use frames::{End, Sent, Told};

/// A server collects what commands leave behind; after so many streams it is another one.
const STREAMS_EACH: usize = 1_000;
/// Both directions hold a whole stream, so that only the server can be what waits.
const LINE_BYTES: usize = 1 << 20;
/// Never so late, but on a machine that does much else: it is there to find what hangs.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The first byte of a stream that says who it is.
const SAYS_HELLO: u8 = b'h';
/// Codes for who is not let in: 4000 and the status.
const REFUSED: std::ops::Range<u16> = 4400..4500;

/// Sockets of somebody who may use locks and nothing else.
pub struct Sockets {
    served: Served,
    key: String,
    /// The first server's key, which the corpus was made with. All keys are equally long.
    first_key: String,
    /// What such a person cannot change.
    others: String,
    left: usize,
}

impl Sockets {
    /// With something to lose.
    pub fn new() -> Result<Self, String> {
        let served = Served::new()?;
        let subject = json!({"id": "ana", "name": "Ana"});
        let key = json!({"name": "k", "subject": subject, "role": "editor", "kinds": ["lock"]});
        let key = served.ask("POST", "/v1/keys", &key)?;
        let key = key["key"].as_str().ok_or("no key was made")?.to_owned();
        served.ask("PUT", "/v1/collections/lock/quiet", &json!({}))?;
        served.ask("PUT", "/v1/collections/task/x", &json!({}))?;
        served.ask("PUT", "/v1/collections/task/x/items/b", &json!({"data": 1}))?;
        served.ask("POST", "/v1/claims", &json!({"collection": "task/x", "items": ["b"]}))?;
        let others = others(&served)?;
        Ok(Self { served, first_key: key.clone(), key, others, left: STREAMS_EACH })
    }

    /// What the server says to these bytes, until it has ended.
    fn exchange(&self, bytes: &[u8], sent: &Sent, hello: Hello) -> Result<Told, String> {
        let is_known = hello == Hello::Needless;
        let who = if is_known { format!("authorization: Bearer {}\r\n", self.key) } else { String::new() };
        let head = format!(
            "GET /v1/collections/lock/quiet/ws HTTP/1.1\r\nhost: localhost\r\n{who}connection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let service = TowerToHyperService::new(self.served.router.clone());
        let answers = sent.messages.len() - usize::from(hello.is_said());
        // Whoever breaks a rule, or is not let in, waits for the close; all others for their answers, and leave.
        let is_closed = matches!(sent.end, End::Broken(_) | End::Left) || hello == Hello::Wrong;
        self.served.runtime.block_on(async {
            let (mut ours, theirs) = tokio::io::duplex(LINE_BYTES);
            let connection = http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
            let served = tokio::spawn(connection.with_upgrades());
            let heard = tokio::time::timeout(ANSWER_MAX, async {
                // The server may have closed before it has all gone out.
                let _ = ours.write_all(&[head.as_bytes(), bytes].concat()).await;
                hear(&mut ours, |told| told.close.is_some() || (!is_closed && told.answers() >= answers))
                    .await
            });
            let told = heard.await.map_err(|_| format!("nothing came of it in {ANSWER_MAX:?}"))??;
            served.await.map_err(crate::served::told)?.map_err(crate::served::told)?;
            Ok::<_, String>(told)
        })
    }

    /// The stream is answered as it has to be.
    fn judge(&self, bytes: &[u8], says_hello: bool) -> Result<(), String> {
        let sent = frames::sent(bytes);
        let hello = if says_hello { self.hello(&sent) } else { Hello::Needless };
        let before = self.seq()?;
        let told = self.exchange(bytes, &sent, hello)?;
        let answers = told.answers();
        let expected = sent.messages.len() - usize::from(hello.is_said());
        if answers < expected {
            // Commands of a socket that is closed are carried out all the same. What is asked after them is answered after them.
            let _ = self.served.ask("POST", "/v1/claims/lock~a~1/heartbeat", &json!({"token": 1}));
        }
        match (&sent.end, &told.close) {
            (_, Some(code)) if hello == Hello::Unclear && REFUSED.contains(code) => {}
            _ if answers > expected => return Err(format!("{answers} answers to {expected} messages")),
            // Those who are not let in are told nothing but that.
            _ if hello == Hello::Wrong => match told.close {
                Some(code) if REFUSED.contains(&code) && told.texts.is_empty() => {}
                _ => return Err(format!("no hello, and yet {told:?}")),
            },
            (End::Broken(codes), Some(code)) if codes.contains(code) => {}
            (End::Broken(codes), close) => {
                return Err(format!("closed with {close:?}, not one of {codes:?}"));
            }
            (End::Cut(codes), Some(code)) if codes.contains(code) => {}
            (End::Left, None) => return Err("its farewell is not answered".to_owned()),
            (End::Cut(_) | End::Open, Some(close)) => {
                return Err(format!("closed with {close:?} for no reason"));
            }
            (End::Cut(_) | End::Open, None) if answers < expected => {
                return Err(format!("{answers} answers to {expected} messages"));
            }
            (End::Left, Some(_)) | (End::Cut(_) | End::Open, None) => {}
        }
        told.check()?;
        let is_idle = sent.messages.is_empty() || hello == Hello::Wrong;
        if is_idle && self.seq()? != before {
            return Err("something changed, and nothing was asked".to_owned());
        }
        Ok(())
    }

    /// Whether the first message says who it is.
    fn hello(&self, sent: &Sent) -> Hello {
        let Some(first) = sent.messages.first() else { return Hello::None };
        if *first == hello_of(&self.key) {
            return Hello::Said;
        }
        let said = serde_json::from_str::<Value>(first).is_ok_and(|value| value["key"] == self.key.as_str());
        // Much of what still names the key is a hello, too.
        if said { Hello::Unclear } else { Hello::Wrong }
    }

    /// Everything that locks have changed so far.
    fn seq(&self) -> Result<[u64; 2], String> {
        let mut seq = [0, 0];
        for (seq, key) in seq.iter_mut().zip(["lock/a", "lock/quiet"]) {
            let key = CollectionKey::new(key).map_err(told)?;
            let found = self.served.engine.reader().collection(&key).map_err(told)?;
            *seq = found.map_or(0, |collection| collection.seq);
        }
        Ok(seq)
    }

    /// A new socket works, and what is none of hers is as it was.
    fn is_well(&self) -> Result<(), String> {
        let ask = r#"{"id":1,"command":{"op":"acquire","collection":"lock/well","items":["w"]}}"#;
        let bytes = [corpus::text(&hello_of(&self.key)), corpus::text(ask)].concat();
        let told = self.exchange(&bytes, &frames::sent(&bytes), Hello::Said)?;
        if !told.texts.iter().any(|text| text["type"] == "reply" && text["status"] == 201) {
            return Err(format!("a new claim is answered {told:?}"));
        }
        if others(&self.served)? == self.others {
            Ok(())
        } else {
            Err("what the key does not cover has changed".to_owned())
        }
    }
}

/// What a socket that nobody knows yet says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hello {
    /// The handshake said it.
    Needless,
    /// Nothing.
    None,
    Said,
    Wrong,
    Unclear,
}

impl Hello {
    /// It is taken for one, or may be.
    fn is_said(self) -> bool {
        matches!(self, Self::Said | Self::Unclear)
    }
}

fn hello_of(key: &str) -> String {
    format!(r#"{{"type":"hello","key":"{key}"}}"#)
}

/// Reads until this holds, leaves, and reads to the end.
async fn hear(ours: &mut DuplexStream, is_enough: impl Fn(&Told) -> bool) -> Result<Told, String> {
    let (mut bytes, mut has_left) = (Vec::new(), false);
    loop {
        let count = ours.read_buf(&mut bytes).await.map_err(told)?;
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let told = match head_end {
            Some(end) if bytes.starts_with(b"HTTP/1.1 101") => frames::told(&bytes[end + 4..])?,
            Some(_) => return Err(format!("no socket: {}", bytes.escape_ascii())),
            None if count == 0 => return Err("the server said nothing".to_owned()),
            None => continue,
        };
        if count == 0 {
            return if told.is_whole { Ok(told) } else { Err("it ends within a message".to_owned()) };
        }
        if !has_left && is_enough(&told) {
            has_left = true;
            ours.shutdown().await.map_err(crate::served::told)?;
        }
    }
}

/// Everything that locks are not.
fn others(served: &Served) -> Result<String, String> {
    let reader = served.engine.reader();
    let mut all = String::new();
    for (key, collection) in reader.collections(None, 10_000).map_err(told)?.rows {
        if key.kind() != "lock" {
            let rows = reader.snapshot(&key).map_err(told)?;
            writeln!(all, "{key} {collection:?} {rows:?}").map_err(told)?;
        }
    }
    Ok(all)
}

impl Target for Sockets {
    fn corpus(&self) -> Option<Vec<Vec<u8>>> {
        let hello = hello_of(&self.first_key);
        let (one, two) = hello.split_at(20);
        let mut hellos =
            vec![[corpus::frame(0x01, one.as_bytes()), corpus::frame(0x80, two.as_bytes())].concat()];
        let streams = corpus::streams();
        hellos.extend(streams.iter().map(|stream| [corpus::text(&hello), stream.clone()].concat()));
        let known = streams.into_iter().map(|stream| [&b"."[..], &stream].concat());
        Some(known.chain(hellos.into_iter().map(|stream| [&[SAYS_HELLO][..], &stream].concat())).collect())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.left == 0 {
            self.is_well()?;
            let first_key = std::mem::take(&mut self.first_key);
            *self = Self { first_key, ..Self::new()? };
        }
        self.left -= 1;
        let (from, to) = (self.first_key.as_bytes(), self.key.as_bytes());
        let (who, bytes) = bytes.split_first().unwrap_or((&SAYS_HELLO, bytes));
        let mut bytes = bytes.to_vec();
        for at in 0..=bytes.len().saturating_sub(from.len()) {
            if bytes[at..].starts_with(from) {
                bytes[at..at + from.len()].copy_from_slice(to);
            }
        }
        self.judge(&bytes, *who == SAYS_HELLO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the target would see nothing.
    #[test]
    fn the_streams_of_the_corpus_are_carried_out_and_the_server_is_well_after_them() {
        for who in [b'.', SAYS_HELLO] {
            let mut sockets = Sockets::new().unwrap();
            let before = sockets.seq().unwrap();
            for bytes in sockets.corpus().unwrap().iter().filter(|bytes| bytes[0] == who) {
                sockets.take(bytes).unwrap();
            }
            let after = sockets.seq().unwrap();
            assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
            sockets.is_well().unwrap();
        }
    }
}
