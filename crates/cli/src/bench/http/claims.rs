//! Claims over keep-alive connections, each waiting for its answer before it asks again: of one item, of
//! ten, and a thousand commands in one request.

use std::fmt::Write;
use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use memchr::memmem;

use super::run::Step;
use crate::bench::load::micros;
use tenure_load::wire::{Target, Wire};

/// Requests that a caller has ready; the same items come again after so many.
const READY: usize = 64;
/// Commands in a batch.
const BATCH: usize = 1_000;

/// Claims, releases, claims the next.
pub(crate) struct Claims {
    wire: Wire,
    ready: Vec<Vec<u8>>,
    next: usize,
    tail: String,
    claim: Option<Vec<u8>>,
}

impl Claims {
    pub(crate) async fn connect(
        target: &Target,
        collection: &str,
        caller: usize,
        per_claim: usize,
    ) -> io::Result<Self> {
        let request = |round: usize| {
            let items: Vec<_> = (0..per_claim).map(|item| format!("\"c{caller}-{round}-{item}\"")).collect();
            let body = format!(r#"{{"collection":"{collection}","items":[{}]}}"#, items.join(","));
            target.request("POST", "/v1/claims", &body)
        };
        let ready = (0..READY).map(request).collect();
        Ok(Self { wire: target.connect().await?, ready, next: 0, tail: target.tail(), claim: None })
    }

    async fn ask(&mut self) -> io::Result<()> {
        if let Some(mut request) = self.claim.take() {
            request.extend_from_slice(self.tail.as_bytes());
            self.wire.send(&request).await?;
            return self.wire.answer().await?.expect(204);
        }
        self.wire.send(&self.ready[self.next]).await?;
        self.next = (self.next + 1) % READY;
        let answer = self.wire.answer().await?;
        answer.expect(201)?;
        let mut request = b"DELETE /v1/claims/".to_vec();
        request
            .extend_from_slice(id_of(answer.body).ok_or_else(|| io::Error::other("a claim without an id"))?);
        self.claim = Some(request);
        Ok(())
    }
}

impl Step for Claims {
    async fn step(&mut self, latency: &mut Histogram<u64>) -> io::Result<u64> {
        let asked = Instant::now();
        self.ask().await?;
        latency.saturating_record(micros(asked.elapsed()));
        Ok(1)
    }

    async fn finish(&mut self) -> io::Result<()> {
        if self.claim.is_some() { self.ask().await } else { Ok(()) }
    }
}

/// A thousand claims in one request, then their releases in another.
pub(crate) struct Batches {
    wire: Wire,
    target: Target,
    claims: Vec<u8>,
    releases: Option<Vec<u8>>,
}

impl Batches {
    pub(crate) async fn connect(target: &Target, collection: &str, caller: usize) -> io::Result<Self> {
        let command = |item: usize| {
            format!(r#"{{"op":"acquire","collection":"{collection}","items":["b{caller}-{item}"]}}"#)
        };
        let commands: Vec<_> = (0..BATCH).map(command).collect();
        let claims = target.request("POST", "/v1/batch", &batch(&commands.join(",")));
        Ok(Self { wire: target.connect().await?, target: target.clone(), claims, releases: None })
    }

    async fn ask(&mut self) -> io::Result<()> {
        if let Some(releases) = self.releases.take() {
            self.wire.send(&releases).await?;
            let answer = self.wire.answer().await?;
            answer.expect(200)?;
            return all(answer.body, b"{\"status\":204,");
        }
        self.wire.send(&self.claims).await?;
        let answer = self.wire.answer().await?;
        answer.expect(200)?;
        all(answer.body, b"{\"status\":201,")?;
        let mut commands = String::with_capacity(answer.body.len() / 4);
        for at in memmem::find_iter(answer.body, b"{\"id\":\"") {
            let id = id_of(&answer.body[at..]).and_then(|id| std::str::from_utf8(id).ok()).unwrap_or("");
            let comma = if commands.is_empty() { "" } else { "," };
            // Writing into a string cannot fail. A holder has an id, too; only a claim's has a wave in it.
            if id.contains('~') {
                let _ = write!(commands, r#"{comma}{{"op":"release","claim":"{id}"}}"#);
            }
        }
        self.releases = Some(self.target.request("POST", "/v1/batch", &batch(&commands)));
        Ok(())
    }
}

impl Step for Batches {
    async fn step(&mut self, latency: &mut Histogram<u64>) -> io::Result<u64> {
        let asked = Instant::now();
        self.ask().await?;
        latency.saturating_record(micros(asked.elapsed()));
        Ok(BATCH as u64)
    }

    async fn finish(&mut self) -> io::Result<()> {
        if self.releases.is_some() { self.ask().await } else { Ok(()) }
    }
}

fn batch(commands: &str) -> String {
    format!(r#"{{"commands":[{commands}]}}"#)
}

/// Each command of a batch was answered like this.
fn all(body: &[u8], answer: &[u8]) -> io::Result<()> {
    if memmem::find_iter(body, answer).count() == BATCH {
        return Ok(());
    }
    let start = String::from_utf8_lossy(&body[..body.len().min(300)]);
    Err(io::Error::other(format!("not every command of a batch succeeded: {start}")))
}

/// The id with which a claim's JSON begins.
pub(crate) fn id_of(claim: &[u8]) -> Option<&[u8]> {
    let id = claim.strip_prefix(b"{\"id\":\"")?;
    Some(&id[..memchr::memchr(b'"', id)?])
}
