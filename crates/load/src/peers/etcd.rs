//! etcd as people lock with it: a lease, a transaction that puts the keys if none is there, and the end of
//! the lease, which deletes them. Spoken to in JSON over keep-alive HTTP, through the gateway that etcd itself
//! has; that costs etcd more than gRPC would, and the summary says so.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use super::place::{Place, Running, free_port, wait_for};
use tenure_load::Result;
use tenure_load::wire::{Target, Wire};

/// A server of our own.
pub(crate) struct Etcd {
    pub(crate) port: u16,
    /// Ends with this.
    pub(crate) running: Running,
}

impl Etcd {
    pub(crate) fn start(place: &Place, program: Option<&PathBuf>) -> Result<Self> {
        let (port, peers) = (free_port()?, free_port()?);
        let folder = place.folder(&format!("etcd-{port}"))?;
        let mut command = Command::new(program.cloned().unwrap_or_else(|| "etcd".into()));
        let (clients, peers) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        command.arg("--data-dir").arg(folder.join("data")).args([
            "--listen-client-urls",
            &clients,
            "--advertise-client-urls",
            &clients,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &format!("default={peers}"),
            "--log-level",
            "error",
        ]);
        let mut running = place.start_traced(command, &folder)?;
        wait_for(port, &mut running)?;
        Ok(Self { port, running })
    }
}

/// One caller.
pub(crate) struct Leases {
    wire: Wire,
    target: Target,
    lease: String,
}

impl Leases {
    pub(crate) async fn connect(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let target = Target { address, host: address.to_string(), key: String::new() };
        Ok(Self { wire: target.connect().await?, target, lease: String::new() })
    }

    pub(crate) async fn claim(&mut self, keys: &[String], value: &str) -> io::Result<()> {
        let granted = self.ask("/v3/lease/grant", r#"{"TTL":60}"#).await?;
        let lease = field(&granted, "\"ID\":\"").ok_or_else(|| strange(&granted))?;
        let (mut compare, mut put) = (String::new(), String::new());
        for key in keys {
            let comma = if compare.is_empty() { "" } else { "," };
            let (key, value) = (base64(key.as_bytes()), base64(value.as_bytes()));
            // Writing into a string cannot fail.
            let _ = write!(compare, r#"{comma}{{"key":"{key}","target":"CREATE","create_revision":"0"}}"#);
            let _ = write!(
                put,
                r#"{comma}{{"request_put":{{"key":"{key}","value":"{value}","lease":"{lease}"}}}}"#
            );
        }
        let done = self.ask("/v3/kv/txn", &format!(r#"{{"compare":[{compare}],"success":[{put}]}}"#)).await?;
        self.lease = lease;
        if done.contains("\"succeeded\":true") { Ok(()) } else { Err(strange(&done)) }
    }

    pub(crate) async fn release(&mut self) -> io::Result<()> {
        let body = format!(r#"{{"ID":"{}"}}"#, std::mem::take(&mut self.lease));
        self.ask("/v3/lease/revoke", &body).await.map(drop)
    }

    async fn ask(&mut self, path: &str, body: &str) -> io::Result<String> {
        self.wire.send(&self.target.request("POST", path, body)).await?;
        let answer = self.wire.answer().await?;
        answer.expect(200)?;
        Ok(String::from_utf8_lossy(answer.body).into_owned())
    }
}

fn strange(answer: &str) -> io::Error {
    io::Error::other(format!("etcd answered {answer}"))
}

fn field(text: &str, name: &str) -> Option<String> {
    let rest = &text[text.find(name)? + name.len()..];
    Some(rest[..rest.find('"')?].to_owned())
}

/// As its JSON wants keys and values.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().enumerate().fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_the_gateway_wants_them() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(field(r#"{"header":{},"ID":"75","TTL":"60"}"#, "\"ID\":\"").as_deref(), Some("75"));
    }
}
