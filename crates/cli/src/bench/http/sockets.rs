//! Commands on WebSockets, without waiting for their answers.

use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;

use super::claims::id_of;
use super::run::Step;
use crate::bench::load::micros;
use tenure_load::wire::{Target, Wire, push_frame};

/// Commands of one socket in flight. The server reads 1,024 ahead.
const IN_FLIGHT: usize = 256;

/// Claims and releases of as many items as may be in flight, each as soon as its answer is there.
pub(crate) struct Pipeline {
    wire: Wire,
    slots: Vec<Slot>,
    out: Vec<u8>,
    started: bool,
}

struct Slot {
    claim: Vec<u8>,
    is_held: bool,
    asked: Instant,
}

impl Pipeline {
    /// The socket follows a quiet collection: what is measured are the commands, and not the events beside.
    pub(crate) async fn connect(target: &Target, collection: &str, caller: usize) -> io::Result<Self> {
        let wire = target.open_socket(&format!("{collection}-quiet")).await?;
        let slot = |number: usize| {
            let command = format!(
                r#"{{"id":{number},"command":{{"op":"acquire","collection":"{collection}","items":["s{caller}-{number}"]}}}}"#
            );
            Slot { claim: command.into_bytes(), is_held: false, asked: Instant::now() }
        };
        let slots = (0..IN_FLIGHT).map(slot).collect();
        Ok(Self { wire, slots, out: Vec::new(), started: false })
    }
}

impl Step for Pipeline {
    async fn step(&mut self, latency: &mut Histogram<u64>) -> io::Result<u64> {
        if std::mem::replace(&mut self.started, true) {
            self.wire.more().await?;
        } else {
            for slot in &mut self.slots {
                push_frame(&slot.claim, &mut self.out);
                slot.asked = Instant::now();
            }
        }
        let mut answered = 0;
        let now = Instant::now();
        while let Some(message) = self.wire.message() {
            let Some(reply) = message.strip_prefix(b"{\"type\":\"reply\",\"id\":") else { continue };
            let (number, status, body) =
                read_reply(reply).ok_or_else(|| io::Error::other("a strange reply"))?;
            let slot = self.slots.get_mut(number).ok_or_else(|| io::Error::other("nobody asked that"))?;
            if status != if slot.is_held { b"204" } else { b"201" } {
                return Err(io::Error::other(String::from_utf8_lossy(reply).into_owned()));
            }
            slot.is_held = !slot.is_held;
            if slot.is_held {
                let id = id_of(body).ok_or_else(|| io::Error::other("a claim without an id"))?;
                let mut release =
                    format!(r#"{{"id":{number},"command":{{"op":"release","claim":""#).into_bytes();
                release.extend_from_slice(id);
                release.extend_from_slice(b"\"}}");
                push_frame(&release, &mut self.out);
            } else {
                push_frame(&slot.claim, &mut self.out);
            }
            latency.saturating_record(micros(now - slot.asked));
            slot.asked = now;
            answered += 1;
        }
        self.wire.send(&self.out).await?;
        self.out.clear();
        Ok(answered)
    }

    /// What is held runs out by itself.
    async fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `17,"status":201,"body":{…}}`
fn read_reply(reply: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let comma = memchr::memchr(b',', reply)?;
    let number = std::str::from_utf8(&reply[..comma]).ok()?.parse().ok()?;
    let rest = reply[comma..].strip_prefix(b",\"status\":")?;
    let body = rest.get(3..)?.strip_prefix(b",\"body\":")?;
    Some((number, &rest[..3], body))
}
