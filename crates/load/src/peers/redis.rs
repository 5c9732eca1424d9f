//! Redis as people lock with it: `SET NX PX` with a value of one's own, and a script that deletes what
//! still has that value.

use std::io;
use std::process::Command;

use super::place::{Place, Running, free_port, wait_for};
use super::resp::{Reply, Resp, command};
use tenure_load::Result;

/// Deletes each key that still has this value.
const RELEASE: &str = "local n = 0 for _, k in ipairs(KEYS) do if redis.call('GET', k) == ARGV[1] then \
     n = n + redis.call('DEL', k) end end return n";
/// Takes all keys or none.
const CLAIM: &str = "for _, k in ipairs(KEYS) do if redis.call('EXISTS', k) == 1 then return 0 end end \
     for _, k in ipairs(KEYS) do redis.call('SET', k, ARGV[1], 'PX', ARGV[2]) end return #KEYS";
const LEASE_MS: &str = "60000";

/// A server of our own.
pub(crate) struct Redis {
    pub(crate) port: u16,
    /// Ends with this.
    pub(crate) running: Running,
}

impl Redis {
    /// `appendfsync` is `always`, `everysec` or `no`.
    pub(crate) fn start(place: &Place, appendfsync: &str) -> Result<Self> {
        let port = free_port()?;
        let folder = place.folder(&format!("redis-{appendfsync}-{port}"))?;
        let mut command = Command::new("redis-server");
        command.args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            appendfsync,
        ]);
        // A rewrite in the middle of a round would be measured as Redis's own pace.
        command.args(["--auto-aof-rewrite-percentage", "0", "--port", &port.to_string()]);
        command.arg("--dir").arg(&folder);
        let mut running = place.start(command, &folder)?;
        wait_for(port, &mut running)?;
        Ok(Self { port, running })
    }
}

/// How several keys are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// One `SET NX PX` after the other.
    OneByOne,
    /// One script for all.
    Script,
}

/// One caller.
pub(crate) struct Locks {
    resp: Resp,
    how: How,
    keys: Vec<String>,
    value: String,
    claim_sha: String,
    release_sha: String,
}

impl Locks {
    pub(crate) async fn connect(port: u16, how: How) -> io::Result<Self> {
        let mut resp = Resp::connect(port).await?;
        let claim_sha = load(&mut resp, CLAIM).await?;
        let release_sha = load(&mut resp, RELEASE).await?;
        Ok(Self { resp, how, keys: Vec::new(), value: String::new(), claim_sha, release_sha })
    }

    pub(crate) async fn claim(&mut self, keys: Vec<String>, value: String) -> io::Result<()> {
        (self.keys, self.value) = (keys, value);
        match self.how {
            How::OneByOne => {
                for key in &self.keys {
                    expect(&self.resp.ask(&set(key, &self.value)).await?, &Reply::Text("OK".to_owned()))?;
                }
                Ok(())
            }
            How::Script => {
                let request = script(&self.claim_sha, &self.keys, &[&self.value, LEASE_MS]);
                let count = i64::try_from(self.keys.len()).unwrap_or(0);
                expect(&self.resp.ask(&request).await?, &Reply::Number(count))
            }
        }
    }

    pub(crate) async fn release(&mut self) -> io::Result<()> {
        let keys = std::mem::take(&mut self.keys);
        match self.how {
            How::OneByOne => {
                for key in &keys {
                    let request = script(&self.release_sha, std::slice::from_ref(key), &[&self.value]);
                    expect(&self.resp.ask(&request).await?, &Reply::Number(1))?;
                }
                Ok(())
            }
            How::Script => {
                let count = i64::try_from(keys.len()).unwrap_or(0);
                expect(
                    &self.resp.ask(&script(&self.release_sha, &keys, &[&self.value])).await?,
                    &Reply::Number(count),
                )
            }
        }
    }

    /// So many keys at once in each direction, one command each, as `redis-benchmark -P` does.
    pub(crate) async fn pipeline(&mut self, keys: &[String], value: &str) -> io::Result<()> {
        let claims: Vec<u8> = keys.iter().flat_map(|key| set(key, value)).collect();
        self.resp.send(&claims).await?;
        for _ in keys {
            expect(&self.resp.reply().await?, &Reply::Text("OK".to_owned()))?;
        }
        let release = |key| script(&self.release_sha, std::slice::from_ref(key), &[value]);
        let releases: Vec<u8> = keys.iter().flat_map(release).collect();
        self.resp.send(&releases).await?;
        for _ in keys {
            expect(&self.resp.reply().await?, &Reply::Number(1))?;
        }
        Ok(())
    }

    /// Keys that somebody else holds meanwhile.
    pub(crate) async fn hold(&mut self, keys: &[String]) -> io::Result<()> {
        let claims: Vec<u8> =
            keys.iter().flat_map(|key| command(&["SET", key, "somebody", "NX", "PX", "36000000"])).collect();
        self.resp.send(&claims).await?;
        for _ in keys {
            self.resp.reply().await?;
        }
        Ok(())
    }
}

async fn load(resp: &mut Resp, script: &str) -> io::Result<String> {
    match resp.ask(&command(&["SCRIPT", "LOAD", script])).await? {
        Reply::Text(sha) => Ok(sha),
        other => Err(io::Error::other(format!("Redis did not load a script: {other:?}"))),
    }
}

fn set(key: &str, value: &str) -> Vec<u8> {
    command(&["SET", key, value, "NX", "PX", LEASE_MS])
}

fn script(sha: &str, keys: &[String], arguments: &[&str]) -> Vec<u8> {
    let count = keys.len().to_string();
    let words = ["EVALSHA", sha, &count].into_iter().chain(keys.iter().map(String::as_str));
    command(&words.chain(arguments.iter().copied()).collect::<Vec<_>>())
}

fn expect(reply: &Reply, wanted: &Reply) -> io::Result<()> {
    if reply == wanted {
        return Ok(());
    }
    Err(io::Error::other(format!("Redis answered {reply:?} and not {wanted:?}")))
}
