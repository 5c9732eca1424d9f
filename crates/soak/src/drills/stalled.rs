//! Clients that stall: subscribers that never read, over sockets and streams, and requests that come byte by byte. Whoever
//! behaves beside them must not notice: the p99 of callers, and of those who listen to other events, is at most twice what
//! it is while nobody stalls. A short run shares its machine, and measures once more, and once again, before it calls that
//! broken. Those who listen to the same events are told in turn with all that stall; their figure is
//! shown and not judged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::listening::Listeners;
use super::stalling::Stalled;
use super::{Given, Outcome};
use crate::Failure;
use crate::history::{self, Got, Op};
use crate::http::Caller;
use crate::load::{Load, record};
use crate::server::Server;

const CALLERS: u64 = 4;
/// Taken in turns, alone and beside: the machine is not equally busy all the time, and the median of many spans does not
/// care for one in which it was.
const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_secs(1);
/// How often all of it is measured in a short run before it is broken: each figure is of a hundred answers and some, which a
/// machine that stands still for a moment spoils.
const TRIES_SHORT: usize = 3;
/// Below this a scheduler's whim is more than twice as much.
const NOISE_MS: f64 = 1.0;
/// What subscribers are told of: a document, ten times a second, which some of them don't take.
pub(super) const NEWS: &str = "lock/news";
const NEWS_EVERY: Duration = Duration::from_millis(100);
const NEWS_BYTES: usize = 100;
/// Five times as often, there is something of which nobody who stalls wants to know.
const OTHER_NEWS: &str = "lock/other-news";
const OTHER_NEWS_EVERY: Duration = Duration::from_millis(20);
/// Those who take what they are told, of each.
const LISTENERS: usize = 4;
/// What fills a connection whose other end has room for next to nothing.
const NEWS_UNTIL_FULL: usize = 15;
const FILL_BYTES: usize = 16_000;
/// So many of the figures are judged: the last has too few events, and depends on how many are told.
const JUDGED: usize = 2;
/// Files beside those of the clients.
const OTHER_FILES: u64 = 256;

/// Beside so many.
pub fn run(given: Given<'_>) -> Outcome {
    allow_connections(given.count)?;
    let mut server = Server::new(given.program, given.folder)?;
    server.start()?;
    for news in [NEWS, OTHER_NEWS] {
        put(&mut server.caller(), &format!("/v1/collections/{news}"), &json!({}))?;
    }
    let tries = if given.is_long { 1 } else { TRIES_SHORT };
    let settled = settle(tries, given.bar, |nth| measure(given, &server, nth * ROUNDS))?;
    server.stop()?;
    Ok(settled)
}

/// What was measured, and whether it is as promised.
type Measured = (String, bool);

/// Measures until it is well, so often at most.
fn settle(
    tries: usize,
    bar: &ProgressBar,
    mut measure: impl FnMut(usize) -> Result<Measured, Failure>,
) -> Outcome {
    let mut before = String::new();
    for nth in 1..=tries {
        bar.set_position(0);
        let (said, is_well) = measure(nth - 1)?;
        if is_well {
            return Ok(said + &before);
        }
        if nth == tries {
            return Err((said + &before).into());
        }
        bar.suspend(|| println!("stalled: {said}: more than is promised, measured once more"));
        before = format!("; measured {} times", nth + 1);
    }
    Err("nothing was measured".into())
}

/// Alone and beside those that stall, in turns.
fn measure(given: Given<'_>, server: &Server, first: usize) -> Result<Measured, Failure> {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut reopened = 0;
    for round in first..first + ROUNDS {
        alone.push(worked(given, server, round * 2)?);
        let over = AtomicBool::new(false);
        let figures = std::thread::scope(|scope| {
            let mut stalled = Stalled::connect(server.address, newest(server, NEWS)?, given.count)?;
            // Until nothing more goes into them: what is measured is those that stall, not what it takes to tell so many.
            let mut wire = server.caller();
            for nth in 0..NEWS_UNTIL_FULL {
                tell(&mut wire, NEWS, &format!("f{round}-{nth}"), FILL_BYTES)?;
            }
            let over = &over;
            let keeping = scope.spawn(move || stalled.keep(over).map(|count| (stalled, count)));
            let figures = worked(given, server, round * 2 + 1);
            over.store(true, Ordering::Relaxed);
            let (stalled, count) = keeping.join().map_err(|_| "those that stall panicked")??;
            reopened += count;
            stalled.are_there(server)?;
            figures
        })?;
        beside.push(figures);
        given.bar.inc(given.count / ROUNDS as u64);
    }
    let (said, is_well): (Vec<_>, Vec<_>) = [("answers", 0), ("other events", 1), ("the same events", 2)]
        .map(|(what, nth)| compared(what, median(&alone, nth), median(&beside, nth)))
        .into_iter()
        .unzip();
    let count = given.count;
    let said = format!(
        "p99 of {}; {count} stalled throughout, {reopened} of them cut off and back",
        said.join(", of ")
    );
    Ok((said, !is_well[..JUDGED].contains(&false)))
}

fn compared(what: &str, alone: f64, beside: f64) -> (String, bool) {
    (format!("{what} {alone:.2} ms alone, {beside:.2} ms beside"), beside <= (2.0 * alone).max(NOISE_MS))
}

/// For this process and the server that it starts.
fn allow_connections(count: u64) -> Result<(), Failure> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < count + OTHER_FILES) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count + OTHER_FILES), ..limit })
            .map_err(|_| format!("{count} connections are more than this system allows: ulimit -Hn"))?;
    }
    Ok(())
}

/// The p99 of what callers asked and of what listeners were told of each news, in milliseconds.
fn worked(given: Given<'_>, server: &Server, round: usize) -> Result<[f64; 3], Failure> {
    let load = Load::new(server.address, &format!("lock/stalled-{round}"));
    let listen = |news| Listeners::connect(server.address, (news, newest(server, news)?), LISTENERS);
    let (of_other, of_same) = (listen(OTHER_NEWS)?, listen(NEWS)?);
    let (other, same) = load.beside(CALLERS, || {
        let (mut wire, begun) = (server.caller(), Instant::now());
        let (mut other, mut same) = (Vec::new(), Vec::new());
        while begun.elapsed() < SPAN {
            let due = NEWS_EVERY * u32::try_from(same.len())?;
            let (news, told) =
                if begun.elapsed() >= due { (NEWS, &mut same) } else { (OTHER_NEWS, &mut other) };
            let (item, at) = (format!("n{round}-{}", told.len()), Instant::now());
            tell(&mut wire, news, &item, NEWS_BYTES)?;
            told.push((item, at));
            std::thread::sleep(OTHER_NEWS_EVERY);
        }
        Ok((other, same))
    })?;
    let (other, same) = (of_other.heard(&other)?, of_same.heard(&same)?);
    let ops = load.so_far();
    history::check(&ops, &record(&mut server.caller(), &load.collection)?, Some(given.late()))?;
    let answered = |op: &&Op| op.got != Got::Nothing;
    let asked = ops.iter().filter(answered).map(|op| Duration::from_nanos(op.answered - op.asked)).collect();
    Ok([asked, other, same].map(p99_ms))
}

fn tell(wire: &mut Caller, news: &str, item: &str, bytes: usize) -> Result<(), Failure> {
    let text = json!({"data": {"text": "x".repeat(bytes)}});
    put(wire, &format!("/v1/collections/{news}/items/{item}"), &text)
}

fn put(wire: &mut Caller, path: &str, body: &Value) -> Result<(), Failure> {
    let answer = wire.ask("PUT", path, None, body)?;
    if answer.status / 100 == 2 {
        Ok(())
    } else {
        Err(format!("{path}: {} {}", answer.status, answer.body).into())
    }
}

/// The number of the newest event.
fn newest(server: &Server, news: &str) -> Result<u64, Failure> {
    let answer = server.caller().ask("GET", &format!("/v1/collections/{news}"), None, &Value::Null)?;
    answer.body["seq"].as_u64().ok_or_else(|| format!("{} {}", answer.status, answer.body).into())
}

fn p99_ms(mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let at = (took.len() * 99 / 100).min(took.len().saturating_sub(1));
    took.get(at).copied().unwrap_or_default().as_secs_f64() * 1_000.0
}

fn median(spans: &[[f64; 3]], nth: usize) -> f64 {
    let mut values: Vec<_> = spans.iter().map(|figures| figures[nth]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_long_is_allowed_and_more_is_not_beyond_the_noise() {
        assert!(compared("answers", 2.0, 4.0).1);
        assert!(!compared("answers", 2.0, 4.1).1);
        assert!(compared("answers", 0.2, 1.0).1);
        assert!(!compared("answers", 0.2, 1.1).1);
    }

    #[test]
    fn a_figure_is_broken_when_it_is_so_each_time() {
        let bar = ProgressBar::hidden();
        let measured = |tries, verdicts: &[bool]| {
            let mut verdicts = verdicts.iter();
            settle(tries, &bar, |nth| {
                Ok((format!("of {nth}"), *verdicts.next().expect("not measured again")))
            })
        };
        assert_eq!(measured(3, &[true]).expect("well"), "of 0");
        assert_eq!(measured(3, &[false, false, true]).expect("well"), "of 2; measured 3 times");
        let broken = measured(3, &[false; 3]).expect_err("never well").to_string();
        assert_eq!(broken, "of 2; measured 3 times");
        assert_eq!(measured(1, &[false]).expect_err("a long run is strict").to_string(), "of 0");
    }

    #[test]
    fn one_busy_span_is_not_the_figure() {
        assert!((median(&[[1.0; 3], [9.0; 3], [2.0; 3]], 0) - 2.0).abs() < f64::EPSILON);
        let took = (1..=200).map(Duration::from_millis).collect();
        assert!((p99_ms(took) - 199.0).abs() < f64::EPSILON);
    }
}
