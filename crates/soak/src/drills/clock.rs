//! The machine's clock jumps, under a running server and between two starts, by a second or by ten years. A claim lasts
//! as long as it was said to, by a clock that nobody moves: this process's own.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Given, Outcome};
use crate::Failure;
use crate::http::Caller;
use crate::random::Random;
use crate::server::Server;

/// libfaketime of Debian, wherever the machine's kind puts it.
const LIBRARIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
];
const JUMPS_S: &[i64] = &[1, 60, 3_600, 86_400, 365 * 86_400, 10 * 365 * 86_400];
const TTL_MS: u64 = 1_000;
/// The server counts whole milliseconds, and so does not see how far into one it granted.
const GRAIN: Duration = Duration::from_millis(1);
/// I18, and as much again for a machine that is busy with other things.
const LATE: Duration = Duration::from_secs(2);
/// How much a crash may prolong a claim: the time since the last mark on disk, and the start.
const CRASH: Duration = Duration::from_secs(3);
/// A restart that must see the other time, or the drill would prove nothing.
const CONTROL: u64 = 1;
/// Servers at once: they wait more than they work.
const SERVERS: u64 = 4;

/// Jumps so often.
pub fn run(given: Given<'_>) -> Outcome {
    let library =
        LIBRARIES.iter().find(|path| Path::new(path).exists()).ok_or("libfaketime is not installed")?;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..SERVERS)
            .map(|nth| {
                let jumps = given.count / SERVERS + u64::from(nth < given.count % SERVERS);
                scope.spawn(move || jumping(given, library, nth, jumps))
            })
            .collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| "a drill panicked")?)
    })?;
    Ok(format!("{} jumps of up to ten years: no claim was cut short or prolonged", given.count))
}

fn jumping(given: Given<'_>, library: &str, nth: u64, jumps: u64) -> Result<(), Failure> {
    let folder = given.folder.join(nth.to_string());
    fs::create_dir(&folder)?;
    let offset = folder.join("offset");
    fs::write(&offset, "+0")?;
    let mut random = Random::new(nth + 1);
    let mut server = Server::new(given.program, &folder)?;
    server.set("LD_PRELOAD", library);
    server.set("FAKETIME_TIMESTAMP_FILE", &offset.to_string_lossy());
    server.set("FAKETIME_NO_CACHE", "1");
    // What jumps is the wall clock. The machine's own ticking goes on, as it does when an operator sets the time.
    server.set("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    server.set("DONT_FAKE_MONOTONIC", "1");
    server.start()?;
    let kept = claim(&mut server.caller(), "kept", 3_600_000)?;
    let (mut token, mut time) = (kept.token, kept.server_time.clone());
    for round in 0..jumps {
        let mut by = JUMPS_S[usize::try_from(random.below(JUMPS_S.len() as u64))?];
        if random.below(2) == 0 {
            by = -by;
        }
        if round == CONTROL {
            by = JUMPS_S[JUMPS_S.len() - 1];
        }
        let mut wire = server.caller();
        let before = Instant::now();
        let short = claim(&mut wire, "short", TTL_MS)?;
        if short.token <= token {
            return Err(format!("token {} after {token}", short.token).into());
        }
        if short.server_time < time {
            return Err(format!("the server's time ran back from {time} to {}", short.server_time).into());
        }
        time = short.server_time;
        fs::write(&offset, format!("{by:+}"))?;
        let is_restarted = round % 2 == 1;
        if is_restarted {
            server.kill();
            server.start()?;
            wire = server.caller();
        }
        // A restart may give time back, never take it.
        let latest = Instant::now()
            + Duration::from_millis(TTL_MS)
            + LATE
            + if is_restarted { CRASH } else { Duration::ZERO };
        loop {
            let got = try_claim(&mut wire, "short", TTL_MS)?;
            if let Some(next) = got {
                let lasted = before.elapsed();
                if lasted + GRAIN < Duration::from_millis(TTL_MS) {
                    return Err(
                        format!("a jump of {by} s freed a claim of {TTL_MS} ms after {lasted:?}").into()
                    );
                }
                if next.token <= short.token {
                    return Err(format!("token {} after {}", next.token, short.token).into());
                }
                release(&mut wire, &next)?;
                token = next.token;
                break;
            }
            if Instant::now() > latest {
                return Err(format!(
                    "a jump of {by} s kept a claim of {TTL_MS} ms for {:?}",
                    before.elapsed()
                )
                .into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if round == CONTROL {
            let now = claim(&mut wire, "control", TTL_MS)?.server_time;
            if year(&now)? < year(&time)? + 9 {
                return Err(format!("after a start ten years on it is {now}: the clock was not moved").into());
            }
        }
        let still = wire.ask("GET", &format!("/v1/claims/{}", kept.id), None, &Value::Null)?;
        if still.body["state"] != "active" || still.body["token"] != kept.token {
            return Err(format!("a jump of {by} s ended a claim of an hour: {}", still.body).into());
        }
        given.bar.inc(1);
    }
    server.stop()?;
    server.check()
}

fn year(time: &str) -> Result<u32, Failure> {
    Ok(time.split('-').next().unwrap_or_default().parse()?)
}

struct Held {
    id: String,
    token: u64,
    server_time: String,
}

fn claim(wire: &mut Caller, item: &str, ttl_ms: u64) -> Result<Held, Failure> {
    try_claim(wire, item, ttl_ms)?
        .ok_or_else(|| format!("{item} is held by nobody, and is not to be had").into())
}

/// `None` while somebody has it. Each in a session of its own, so that nobody is the holder.
fn try_claim(wire: &mut Caller, item: &str, ttl_ms: u64) -> Result<Option<Held>, Failure> {
    let session =
        format!("s{:?}", Instant::now()).replace(|letter: char| !letter.is_ascii_alphanumeric(), "");
    let body = json!({"collection": "lock/clock", "items": [item], "ttl_ms": ttl_ms, "session": session});
    let answer = wire.ask("POST", "/v1/claims", None, &body)?;
    let text = |name: &str| answer.body[name].as_str().unwrap_or_default().to_owned();
    match answer.status {
        201 => {
            let token = answer.body["token"].as_u64().unwrap_or_default();
            Ok(Some(Held { id: text("id"), token, server_time: text("server_time") }))
        }
        409 => Ok(None),
        status => Err(format!("{status} {}", answer.body).into()),
    }
}

fn release(wire: &mut Caller, held: &Held) -> Result<(), Failure> {
    let answer = wire.ask("DELETE", &format!("/v1/claims/{}", held.id), None, &Value::Null)?;
    if answer.status == 204 { Ok(()) } else { Err(format!("{} {}", answer.status, answer.body).into()) }
}
