//! The machine's clock jumps, under a running server and between two starts, by a second or by ten years. A claim lasts
//! as long as it was said to, by a clock that nobody moves: this process's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
/// A second, a minute, an hour, a day, a year, ten years; each ahead and back.
const OFFSETS_S: [i64; 12] = {
    const YEAR_S: i64 = 365 * 86_400;
    [1, -1, 60, -60, 3_600, -3_600, 86_400, -86_400, YEAR_S, -YEAR_S, 10 * YEAR_S, -10 * YEAR_S]
};
const TTL_MS: u64 = 1_000;
/// The server counts whole milliseconds, and so does not see how far into one it granted.
const GRAIN: Duration = Duration::from_millis(1);
/// How much a crash may prolong a claim: the time since the last mark on disk, and the start.
const CRASH: Duration = Duration::from_secs(3);
/// Servers at once: they wait more than they work.
const SERVERS: usize = 4;

/// Jumps so often.
pub fn run(given: Given<'_>) -> Outcome {
    let library =
        LIBRARIES.iter().find(|path| Path::new(path).exists()).ok_or("libfaketime is not installed")?;
    let plan = plan(usize::try_from(given.count)?, &mut Random::new(given.count));
    let running = std::thread::scope(|scope| {
        let running: Vec<_> = (0..SERVERS)
            .map(|nth| {
                let offsets: Vec<_> = plan.iter().skip(nth).step_by(SERVERS).copied().collect();
                scope.spawn(move || jumping(given, library, nth, &offsets))
            })
            .collect();
        let jumped = running.into_iter().map(|one| one.join().map_err(|_| "a drill panicked")?);
        jumped.sum::<Result<usize, Failure>>()
    })?;
    Ok(format!(
        "jumps to {} offsets of up to ten years, {running} under a running process and each seen by it: no claim was cut \
         short or prolonged",
        OFFSETS_S.len().min(plan.len())
    ))
}

/// All offsets as often as each other, in an order in which no server gets one twice in a row: that would be no jump.
fn plan(count: usize, random: &mut Random) -> Vec<i64> {
    let mut plan: Vec<i64> = Vec::new();
    while plan.len() < count {
        let mut all = OFFSETS_S;
        for left in (1..all.len()).rev() {
            all.swap(left, usize::try_from(random.below(left as u64 + 1)).unwrap_or(0));
        }
        let last = &plan[plan.len().saturating_sub(SERVERS)..];
        if last.iter().zip(&all).all(|(before, after)| before != after) {
            plan.extend(all);
        }
    }
    plan.truncate(count);
    plan
}

/// Tells how many jumps happened under a running process.
fn jumping(given: Given<'_>, library: &str, nth: usize, offsets: &[i64]) -> Result<usize, Failure> {
    let folder = given.folder.join(nth.to_string());
    fs::create_dir(&folder)?;
    let clock = Clock { file: folder.join("offset") };
    clock.set(0)?;
    let mut server = Server::new(given.program, &folder)?;
    server.set("LD_PRELOAD", library);
    server.set("FAKETIME_TIMESTAMP_FILE", &clock.file.to_string_lossy());
    server.set("FAKETIME_NO_CACHE", "1");
    // What jumps is the wall clock. The machine's own ticking goes on, as it does when an operator sets the time.
    server.set("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    server.set("DONT_FAKE_MONOTONIC", "1");
    server.start()?;
    let kept = claim(&mut server.caller(), "kept", 3_600_000)?;
    let (mut token, mut time) = (kept.token, kept.server_time.clone());
    let (mut offset, mut running) = (0, 0);
    for (round, by) in offsets.iter().copied().enumerate() {
        let mut wire = server.caller();
        let before = Instant::now();
        let short = claim(&mut wire, "short", TTL_MS)?;
        short.was_made_at(offset)?;
        if short.token <= token {
            return Err(format!("token {} after {token}", short.token).into());
        }
        if short.server_time < time {
            return Err(format!("the server's time ran back from {time} to {}", short.server_time).into());
        }
        time.clone_from(&short.server_time);
        clock.set(by)?;
        let is_restarted = round % 2 == 1;
        if is_restarted {
            server.kill();
            server.start()?;
            wire = server.caller();
        } else {
            running += 1;
        }
        // The control: whoever answers now does so under another time than before.
        claim(&mut wire, &format!("control-{round}"), TTL_MS)?.was_made_at(by)?;
        offset = by;
        // A restart may give time back, never take it.
        let latest = Instant::now()
            + Duration::from_millis(TTL_MS)
            + given.late()
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
        let still = wire.ask("GET", &format!("/v1/claims/{}", kept.id), None, &Value::Null)?;
        if still.body["state"] != "active" || still.body["token"] != kept.token {
            return Err(format!("a jump of {by} s ended a claim of an hour: {}", still.body).into());
        }
        given.bar.inc(1);
    }
    server.stop()?;
    server.check()?;
    Ok(running)
}

/// How far the server's wall clock is off.
struct Clock {
    file: PathBuf,
}

impl Clock {
    /// In one step: a file that is half written would be another time.
    fn set(&self, offset_s: i64) -> Result<(), Failure> {
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{offset_s:+}"))?;
        Ok(fs::rename(&new, &self.file)?)
    }
}

struct Held {
    id: String,
    token: u64,
    server_time: String,
    /// What the answer's `Date` says. It is the wall clock's, which nothing else in an answer is.
    date: Option<SystemTime>,
    /// This process's own time, before asking and after the answer.
    between: [SystemTime; 2],
}

impl Held {
    /// Whoever answered has a wall clock that is so far off. To the second, since that is how a `Date` reads.
    fn was_made_at(&self, offset_s: i64) -> Result<(), Failure> {
        let second = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            Err(_) => 0,
        };
        let date = self.date.map(second).ok_or("an answer without a Date")?;
        let [from, to] = self.between.map(|time| second(time) + offset_s);
        if (from..=to).contains(&date) {
            Ok(())
        } else {
            Err(format!(
                "its clock should be {offset_s} s off and is {} s off: it was not moved",
                date - from + offset_s
            )
            .into())
        }
    }
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
    let asked = SystemTime::now();
    let answer = wire.ask("POST", "/v1/claims", None, &body)?;
    let between = [asked, SystemTime::now()];
    let text = |name: &str| answer.body[name].as_str().unwrap_or_default().to_owned();
    match answer.status {
        201 => {
            let token = answer.body["token"].as_u64().unwrap_or_default();
            let (id, server_time) = (text("id"), text("server_time"));
            Ok(Some(Held { id, token, server_time, date: answer.date, between }))
        }
        409 => Ok(None),
        status => Err(format!("{status} {}", answer.body).into()),
    }
}

fn release(wire: &mut Caller, held: &Held) -> Result<(), Failure> {
    let answer = wire.ask("DELETE", &format!("/v1/claims/{}", held.id), None, &Value::Null)?;
    if answer.status == 204 { Ok(()) } else { Err(format!("{} {}", answer.status, answer.body).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_is_one_and_every_offset_occurs() {
        for (count, seed) in [(20, 20), (1_000, 1_000), (1_000, 1)] {
            let plan = plan(count, &mut Random::new(seed));
            assert_eq!(plan.len(), count);
            assert!(OFFSETS_S.iter().all(|offset| plan[..OFFSETS_S.len()].contains(offset)));
            for nth in 0..SERVERS {
                let own: Vec<_> =
                    std::iter::once(0).chain(plan.iter().skip(nth).step_by(SERVERS).copied()).collect();
                assert!(own.windows(2).all(|pair| pair[0] != pair[1]), "{own:?}");
            }
        }
    }

    #[test]
    fn an_answer_under_another_clock_is_noticed() {
        let now = UNIX_EPOCH + Duration::from_millis(1_000_900);
        let between = [now, now + Duration::from_millis(50)];
        let made = |seconds| Held {
            id: String::new(),
            token: 1,
            server_time: String::new(),
            date: Some(UNIX_EPOCH + Duration::from_secs(seconds)),
            between,
        };
        assert!(made(1_001).was_made_at(1).is_ok());
        assert!(made(1_000).was_made_at(1).is_err());
        assert!(made(1_000).was_made_at(-1).is_err());
        assert!(made(1_060).was_made_at(60).is_ok());
    }
}
