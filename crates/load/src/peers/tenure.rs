//! Tenure over the network, like every peer: a process of its own, spoken to by its public contract.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::place::{Place, Running};
use tenure_load::wire::{Target, Wire, push_frame};
use tenure_load::{Result, memchr};

/// How often it is looked at whether a fold is over.
const LOOK: Duration = Duration::from_millis(100);

/// A server of our own.
pub(crate) struct Tenure {
    pub(crate) target: Target,
    /// Ends with this.
    pub(crate) running: Running,
}

impl Tenure {
    /// Waits until what was committed is folded, too: it would else be done while the next one is measured.
    pub(crate) async fn settle(&self) -> io::Result<()> {
        let mut wire = self.target.connect().await?;
        loop {
            wire.send(&self.target.request("GET", "/metrics", "")).await?;
            let answer = wire.answer().await?;
            answer.expect(200)?;
            if memchr::memmem::find(answer.body, b"\ntenure_fold_lag_batches 0\n").is_some() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn start(place: &Place, program: &Path, name: &str) -> Result<Self> {
        let folder = place.folder(&format!("tenure-{name}"))?;
        let mut command = tenure_load::server(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data"]).current_dir(&folder);
        let delayed = place.slow_down(&mut command, &folder)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(folder.join("output"))?);
        let mut running = Running { child: command.spawn()?, delayed };
        let stdout = running.child.stdout.take().ok_or("the server has no output")?;
        let mut key = String::new();
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some((_, shown)) = line.split_once("shown only now: ") {
                shown.clone_into(&mut key);
            } else if let Some(host) = line.strip_prefix("Listening on http://") {
                let target = Target { address: host.parse()?, host: host.to_owned(), key };
                return Ok(Self { target, running });
            }
        }
        Err(std::fs::read_to_string(folder.join("output"))?.trim().to_owned().into())
    }
}

/// One caller over keep-alive HTTP.
pub(crate) struct Claims {
    wire: Wire,
    target: Target,
    tail: String,
    claim: Vec<u8>,
}

impl Claims {
    pub(crate) async fn connect(target: &Target) -> io::Result<Self> {
        let (wire, tail) = (target.connect().await?, target.tail());
        Ok(Self { wire, target: target.clone(), tail, claim: Vec::new() })
    }

    pub(crate) async fn claim(&mut self, keys: &[String]) -> io::Result<()> {
        let body = format!(r#"{{"collection":"lock/bench","items":["{}"]}}"#, keys.join("\",\""));
        self.wire.send(&self.target.request("POST", "/v1/claims", &body)).await?;
        let answer = self.wire.answer().await?;
        answer.expect(201)?;
        self.claim = id_of(answer.body).ok_or_else(|| io::Error::other("a claim without an id"))?.to_vec();
        Ok(())
    }

    pub(crate) async fn release(&mut self) -> io::Result<()> {
        let mut request = b"DELETE /v1/claims/".to_vec();
        request.append(&mut self.claim);
        request.extend_from_slice(self.tail.as_bytes());
        self.wire.send(&request).await?;
        self.wire.answer().await?.expect(204)
    }

    /// Items that somebody else holds meanwhile, a hundred to a claim.
    pub(crate) async fn hold(&mut self, keys: &[String]) -> io::Result<()> {
        let claim = |keys: &[String]| {
            let items = keys.join("\",\"");
            format!(r#"{{"op":"acquire","collection":"lock/bench","items":["{items}"],"ttl_ms":36000000}}"#)
        };
        let claims: Vec<String> = keys.chunks(100).map(claim).collect();
        let body = format!(r#"{{"commands":[{}]}}"#, claims.join(","));
        self.wire.send(&self.target.request("POST", "/v1/batch", &body)).await?;
        let answer = self.wire.answer().await?;
        answer.expect(200)?;
        if memchr::memmem::find_iter(answer.body, b"{\"status\":201,").count() == claims.len() {
            return Ok(());
        }
        Err(io::Error::other(
            String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned(),
        ))
    }
}

/// One caller on a socket, with many commands under way.
pub(crate) struct Pipeline {
    wire: Wire,
    out: Vec<u8>,
}

impl Pipeline {
    /// The socket follows a quiet collection: what is measured are the commands, and not the events beside.
    pub(crate) async fn connect(target: &Target) -> io::Result<Self> {
        Ok(Self { wire: target.open_socket("lock/quiet").await?, out: Vec::new() })
    }

    /// Claims these, one command each, and releases them when all are had.
    pub(crate) async fn pipeline(&mut self, keys: &[String]) -> io::Result<()> {
        for (id, key) in keys.iter().enumerate() {
            let command = format!(
                r#"{{"id":{id},"command":{{"op":"acquire","collection":"lock/bench","items":["{key}"]}}}}"#
            );
            push_frame(command.as_bytes(), &mut self.out);
        }
        let mut claims = Vec::with_capacity(keys.len());
        self.answers(keys.len(), b"201", |body| claims.extend(id_of(body).map(<[u8]>::to_vec))).await?;
        for (id, claim) in claims.iter().enumerate() {
            let claim = String::from_utf8_lossy(claim);
            let command = format!(r#"{{"id":{id},"command":{{"op":"release","claim":"{claim}"}}}}"#);
            push_frame(command.as_bytes(), &mut self.out);
        }
        self.answers(claims.len(), b"204", |_| ()).await
    }

    /// Sends what is to be sent and reads so many answers, each with this status.
    async fn answers(&mut self, count: usize, status: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.wire.send(&self.out).await?;
        self.out.clear();
        let mut answered = 0;
        while answered < count {
            let Some(message) = self.wire.message() else {
                self.wire.more().await?;
                continue;
            };
            if !message.starts_with(b"{\"type\":\"reply\",\"id\":") {
                continue;
            }
            let strange = || io::Error::other(String::from_utf8_lossy(message).into_owned());
            let at = memchr::memmem::find(message, b",\"status\":").ok_or_else(strange)? + 10;
            if message.get(at..at + 3) != Some(status) {
                return Err(strange());
            }
            each(message.get(at + 11..).unwrap_or_default());
            answered += 1;
        }
        Ok(())
    }
}

/// The id with which a claim's JSON begins.
fn id_of(claim: &[u8]) -> Option<&[u8]> {
    let id = claim.strip_prefix(b"{\"id\":\"")?;
    Some(&id[..memchr::memchr(b'"', id)?])
}
