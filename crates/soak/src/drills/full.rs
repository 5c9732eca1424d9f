//! A disk without room: refusals that leave no trace, reads that go on, and work again when there is room. On a small file
//! system in memory, which takes root to mount.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Given, Outcome};
use crate::Failure;
use crate::history::{self, Got};
use crate::http::{Answer, Caller};
use crate::load::{Load, record};
use crate::server::Server;

/// Room for the journal and an archive of all that is written. Something else takes what is left of it, until it is full.
const ROOM_MB: u64 = 768;
/// Large documents fill a disk sooner than claims.
const DOCUMENT: usize = 60_000;
/// What it takes to come back once there is room.
const BACK: Duration = Duration::from_secs(20);

/// Fills it so often, each time another one: what is written meanwhile stays, and would fill it by itself.
pub fn run(given: Given<'_>) -> Outcome {
    let mut refused = 0;
    for round in 0..given.count {
        refused += fill_one(given, round)?;
        given.bar.inc(1);
    }
    if refused == 0 {
        return Err("nobody was refused: the disk was never full".into());
    }
    Ok(format!(
        "full {} times: {refused} requests refused without a trace, reads went on, work went on after it",
        given.count
    ))
}

/// Tells how many requests were refused.
fn fill_one(given: Given<'_>, round: u64) -> Result<usize, Failure> {
    let at = given.folder.join(format!("disk-{round}"));
    let disk = Disk::mount(&at)?;
    // The log, too, is on the disk that fills up.
    let mut server = Server::new(given.program, disk.0)?;
    server.start()?;
    let load = Load::new(server.address, &format!("lock/full-{round}"));
    load.beside(4, || {
        let mut wire = server.caller();
        let ballast = disk.0.join("ballast");
        claim(&mut wire, &format!("before-{round}"))?;
        fill(&ballast)?;
        // Filling may take longer than the server keeps a connection on which nobody asks.
        wire = server.caller();
        let text = "x".repeat(DOCUMENT);
        let mut last = 0;
        for nth in 0..20_000 {
            let path = format!("/v1/collections/lock/filler/items/d{round}-{nth}");
            let answer = wire.ask("PUT", &path, None, &json!({"data": {"text": text}}))?;
            last = answer.status;
            if last == 507 {
                break;
            }
            if last != 200 && last != 201 {
                return Err(format!("a document without room: {last} {}", answer.body).into());
            }
        }
        if last != 507 {
            return Err("the disk never was full".into());
        }
        let read =
            wire.ask("GET", &format!("/v1/collections/{}/items", load.collection), None, &Value::Null)?;
        if read.status != 200 {
            return Err(format!("reading without room: {} {}", read.status, read.body).into());
        }
        fs::remove_file(&ballast)?;
        let begun = Instant::now();
        loop {
            let answer = claim(&mut wire, &format!("after-{round}"))?;
            if answer.status == 201 || answer.status == 200 {
                break;
            }
            if begun.elapsed() > BACK {
                return Err(format!("room is back, and it answers {} {}", answer.status, answer.body).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    })?;
    let ops = load.so_far();
    let refused = ops.iter().filter(|op| op.got == Got::Full).count();
    // Nobody can write down that a claim is over while there is no room.
    history::check(&ops, &record(&mut server.caller(), &load.collection)?, None)?;
    server.stop()?;
    server.check()?;
    Ok(refused)
}

fn claim(wire: &mut Caller, item: &str) -> Result<Answer, Failure> {
    Ok(wire.ask("POST", "/v1/claims", None, &json!({"collection": "lock/filler", "items": [item]}))?)
}

/// Takes all the room that is left.
fn fill(path: &Path) -> Result<(), Failure> {
    let mut file = fs::File::create(path)?;
    let block = vec![0_u8; 64 << 10];
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    Ok(())
}

/// Gone when it is dropped.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn mount(at: &'a Path) -> Result<Self, Failure> {
        fs::create_dir(at)?;
        let size = format!("size={ROOM_MB}m");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tenure-drill"]).arg(at).output();
        let why = match mounted {
            Ok(output) if output.status.success() => return Ok(Self(at)),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        Err(Failure::Skipped(format!("needs to mount a tmpfs: {why}")))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}
