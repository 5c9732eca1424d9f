//! A commit has a size: what does not fit waits for the next, and what could never fit is refused.

use tenure_core::command::{ItemWrite, PutItem};
use tenure_core::{Expect, Json, Verb};
use tenure_engine::{Engine, ManualClock, Options, ReplyTo};
use tokio::sync::oneshot;

use crate::common::*;

/// An atomic group of documents of about 60 KB each.
fn documents(prefix: &str, count: usize) -> Ask {
    let data = Json::parse(&format!("\"{}\"", "x".repeat(60_000)), "data").expect("valid");
    let put = |number| {
        let write =
            ItemWrite { item: item(&format!("{prefix}-{number}")), status: None, data: Some(data.clone()) };
        Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None })
    };
    Ask::new("ana", Verb::Group((0..count).map(put).collect()))
}

#[test]
fn what_does_not_fit_into_a_commit_waits_for_the_next() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(create(LOCKS));
    let slips: Vec<Slip> = (0..6).map(|number| desk.put(documents(&format!("d{number}"), 100))).collect();
    desk.run();
    assert_eq!(desk.turn.next_ms(), Some(desk.clock_ms), "the rest is due at once");
    desk.run();
    for slip in &slips {
        assert_eq!(code(&desk.answer(slip)), "ok");
    }
    assert_eq!(probe.batches(), [1, 3, 3]);
}

#[test]
fn a_group_that_fits_into_no_commit_is_refused_and_changes_nothing() {
    let mut desk = Desk::new();
    desk.ask(create(LOCKS));
    assert_eq!(code(&desk.ask(documents("d", 200))), "limit");
    assert_eq!(events(&*desk.reader(), LOCKS).len(), 1, "only the collection");
}

/// Half of a journal segment: what a commit may reach with its last command.
const COMMIT_MAX: usize = 32 << 20;

fn large() -> Json {
    Json::parse(&format!("\"{}\"", "x".repeat(60_000)), "data").expect("valid")
}

/// A claim with a large document, which every reply about it shows.
fn large_claim(desk: &mut Desk<ProbeStore>, id: &str) -> u64 {
    claim_of(&desk.ask(acquire("ana", &[id]).data(large()))).number
}

#[test]
fn kept_replies_count_too() {
    let (mut desk, probe) = Desk::probed();
    let claim = large_claim(&mut desk, "a");
    let beat = |number: usize| heartbeat("ana", claim).keyed(&format!("k{number}"), 1);
    let slips: Vec<Slip> = (0..1_000).map(|number| desk.put(beat(number))).collect();
    for _ in 0..10 {
        desk.run();
    }
    for slip in &slips {
        assert_eq!(code(&desk.answer(slip)), "ok");
    }
    assert!(probe.largest() <= COMMIT_MAX, "{}", probe.largest());
}

#[test]
fn a_group_whose_reply_fits_into_no_commit_is_refused() {
    let (mut desk, probe) = Desk::probed();
    let claim = large_claim(&mut desk, "a");
    let beats = vec![Verb::Heartbeat { claim, token: claim, idle_ms: None }; 900];
    for keyed in [true, false] {
        let ask = Ask::new("ana", Verb::Group(beats.clone()));
        let ask = if keyed { ask.keyed("k", 1) } else { ask };
        assert_eq!(code(&desk.ask(ask)), "limit", "with a key and without");
    }
    assert!(probe.largest() <= COMMIT_MAX, "{}", probe.largest());
}

/// Many claims of many long names end at once, and everyone who waits for them brings a large document.
#[test]
fn ends_and_waiters_fill_a_commit_too_and_nobody_overtakes_the_rest() {
    let (mut desk, probe) = Desk::probed();
    let names: Vec<String> = (0..700).map(|number| format!("{number:03}{}", "n".repeat(200))).collect();
    for hundred in names.chunks(100) {
        let items: Vec<&str> = hundred.iter().map(String::as_str).collect();
        desk.ask(acquire("ana", &items));
    }
    let wait = |name: &String| acquire("ben", &[name]).data(large()).wait(60_000);
    let slips: Vec<Slip> = names.iter().map(|name| desk.put(wait(name))).collect();
    desk.run();
    desk.clock_ms += TTL_MS;
    let late: Vec<Slip> = names.iter().map(|name| desk.put(acquire("cleo", &[name]))).collect();
    desk.run();
    assert!(slips.iter().any(|slip| desk.waits(slip)), "not all of them fit");
    assert_eq!(desk.turn.next_ms(), Some(desk.clock_ms), "the rest is due at once");
    for _ in 0..10 {
        desk.run();
    }
    for (slip, late) in slips.iter().zip(&late) {
        assert_eq!(code(&desk.answer(slip)), "ok");
        assert_eq!(holders(&desk.answer(late)), ["ben"]);
    }
    assert!(probe.largest() <= COMMIT_MAX, "{}", probe.largest());
}

/// The rest of a commit that had no room is not lost with the commit after it.
#[test]
fn waiters_that_did_not_fit_are_offered_it_again_after_a_failure() {
    let (mut desk, probe) = Desk::probed();
    let names: Vec<String> = (0..400).map(|number| format!("{number:03}")).collect();
    for hundred in names.chunks(100) {
        let items: Vec<&str> = hundred.iter().map(String::as_str).collect();
        desk.ask(acquire("ana", &items));
    }
    for name in &names {
        desk.put(acquire("ben", &[name]).data(large()).wait(60_000));
    }
    let last = desk.put(acquire("cleo", &["399"]).wait(60_000));
    desk.run();
    desk.tick(TTL_MS);
    probe.fail(&[Fail::Full]);
    desk.tick(1_000);
    desk.tick(1_000);
    assert_eq!(code(&desk.answer(&last)), "ok", "who came before it was refused with the commit");
}

/// After a crash all that was overdue ends before the rest is given its time back.
#[test]
fn what_was_overdue_at_a_crash_is_ended_in_commits_that_fit() {
    let (mut desk, probe) = Desk::probed();
    let name = "n".repeat(240);
    for claim in 0..1_600 {
        let names: Vec<String> = (0..100).map(|number| format!("{claim}-{number}-{name}")).collect();
        let items: Vec<&str> = names.iter().map(String::as_str).collect();
        desk.put(acquire("ana", &items));
        if claim % 400 == 399 {
            desk.run();
        }
    }
    let live = claim_of(&desk.ask(acquire("ben", &["b"]).ttl(3_600_000)));
    desk.clock_ms += TTL_MS;
    // The highest committed time is past their deadlines, and the crash comes before the timers.
    let at_ms = desk.clock_ms;
    let store = desk.turn.store_mut();
    tenure_store::Store::commit(store, tenure_store::Batch { at_ms, entries: Vec::new() }).expect("commits");
    let mut desk = desk.crash(at_ms + 1_000_000).expect("starts");
    assert!(probe.largest() <= COMMIT_MAX, "{}", probe.largest());
    assert_eq!(desk.reader().stats().active_claims, 1);
    let resumed = claim_of(&desk.ask(heartbeat("ben", live.number)));
    assert!(resumed.expires_at_ms >= live.expires_at_ms + 1_000_000);
}

#[test]
fn a_graceful_stop_finishes_what_did_not_fit_into_a_commit() {
    let probe = Probe::default();
    let engine = Engine::start(probe.store(), ManualClock::at(START_MS), Options::default()).expect("starts");
    engine.execute_blocking(create(LOCKS));
    let hold = probe.hold();
    let submit = |ask: Ask| {
        let (sender, receiver) = oneshot::channel();
        engine.submit(ask.into(), ReplyTo::Once(sender));
        receiver
    };
    let opener = submit(acquire("opener", &["o"]));
    probe.wait_held();
    let receivers: Vec<_> = (0..6).map(|number| submit(documents(&format!("d{number}"), 100))).collect();
    let stopping = std::thread::spawn({
        let engine = engine.clone();
        move || engine.stop()
    });
    drop(hold);
    stopping.join().expect("no panic").expect("stops");
    for receiver in std::iter::once(opener).chain(receivers) {
        assert_eq!(code(&receiver.blocking_recv().expect("answered")), "ok");
    }
}

/// A request that waits for the next commit may be a retry whose reply is only in the archive.
#[test]
fn the_kept_replies_of_those_who_did_not_fit_are_wanted_again() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(create(LOCKS));
    for number in 0..6 {
        desk.put(documents(&format!("d{number}"), 100).keyed(&format!("k{number}"), 1));
    }
    desk.run();
    probe.take_wanted();
    desk.run();
    let wanted: Vec<String> = probe.take_wanted().iter().map(|reply| reply.key.to_string()).collect();
    assert!(wanted.contains(&"k5".to_owned()), "{wanted:?}");
}
