//! Hand-made bad histories: each check of the auditor is shown one that it must not let pass.

use std::sync::Arc;

use tenure_core::command::{Acquire, How};
use tenure_core::event::{Completed, End, Grant, GrantedItem, Written};
use tenure_core::{
    Claim, CollectionKey, Command, EndReason, Event, Fact, Hash, ItemId, Policy, Principal, Reply, Sealed,
    SessionId, Status, Text, Verb, decide,
};
use tenure_engine::{Answer, Delivery, Idempotency, Refused};
use tenure_store::memory::Memory;
use tenure_store::{Batch, Entry, Store};

use super::chain::Log;
use super::keys::{Keys, Retry};
use super::ledger::Ledger;
use super::time::Time;
use super::{Asked, Auditor, Check, Seen};

const START_MS: i64 = 1_000_000;

fn broken(check: Check) -> &'static str {
    check.expect_err("the auditor let it pass").invariant
}

fn who(id: &str) -> Principal {
    if id == super::SYSTEM_ID { Principal::system() } else { Principal::new(id, id).unwrap() }
}

fn item(id: &str) -> ItemId {
    ItemId::new(id).unwrap()
}

fn event(seq: u64, at_ms: i64, actor: &str, fact: Fact) -> Event {
    Event { seq, at_ms, actor: who(actor), fact }
}

fn grant(holder: &str, items: &[&str], expires_at_ms: i64) -> Fact {
    let granted = |id: &&str| GrantedItem {
        id: item(id),
        status: None,
        before: Some(Status::new("available").unwrap()),
    };
    Fact::Granted(Grant {
        items: items.iter().map(granted).collect(),
        holder: who(holder),
        session: None,
        phase: Text::from("held"),
        ttl_ms: 1_000,
        expires_at_ms,
        data: None,
        forced: None,
    })
}

fn end(claim: u64, holder: &str, items: &[&str], reason: EndReason, ended_at_ms: i64) -> End {
    End {
        claim,
        reason,
        holder: who(holder),
        items: items.iter().map(|id| item(id)).collect(),
        ended_at_ms,
        blocked_until_ms: 0,
        note: None,
        writes: Vec::new(),
    }
}

fn written(id: &str, status: &str) -> Written {
    Written { id: item(id), version: 2, status: Status::new(status).unwrap(), data: None }
}

/// The books of events, the last of which must break a promise.
fn ledger(events: &[Event]) -> Check {
    let policy = Policy::preset("raffle");
    let mut ledger = Ledger::default();
    let (last, good) = events.split_last().unwrap();
    for event in good {
        ledger.take(event, policy.as_deref()).unwrap();
    }
    ledger.take(last, policy.as_deref())
}

#[test]
fn i1_two_grants_of_one_item_overlap() {
    let check = ledger(&[
        event(1, 0, "ana", grant("ana", &["x"], 1_000)),
        event(2, 10, "bo", grant("bo", &["x"], 1_010)),
    ]);
    assert_eq!(broken(check), "I1");
}

#[test]
fn i2_a_token_comes_back_after_a_deletion() {
    let deleted = Fact::ItemDeleted { before: written("x", "available"), under: None };
    let check = ledger(&[
        event(5, 0, "ana", grant("ana", &["x"], 1_000)),
        event(6, 10, "ana", Fact::Ended(end(5, "ana", &["x"], EndReason::Released, 10))),
        event(7, 20, "ana", deleted),
        event(4, 30, "bo", grant("bo", &["x"], 1_030)),
    ]);
    assert_eq!(broken(check), "I2");
}

#[test]
fn i3_a_claim_shows_a_token_that_it_never_had() {
    let mut ledger = Ledger::default();
    ledger.take(&event(1, 0, "ana", grant("ana", &["x"], 1_000)), None).unwrap();
    let mut bench = Bench::new();
    let claim = bench.acquire("ana", "x");
    let shown = Claim { number: 1, token: 9, since_ms: 0, ..claim };
    assert_eq!(broken(ledger.shown(&shown)), "I3");
}

#[test]
fn i4_an_item_is_freed_before_its_deadline_or_within_its_lock_delay() {
    let granted = event(1, 0, "ana", grant("ana", &["x"], 1_000));
    let early = Fact::Ended(end(1, "ana", &["x"], EndReason::Expired, 900));
    assert_eq!(broken(ledger(&[granted.clone(), event(2, 900, "system", early)])), "I4");
    let delayed = End { blocked_until_ms: 5_000, ..end(1, "ana", &["x"], EndReason::Expired, 1_000) };
    let ended = event(2, 1_000, "system", Fact::Ended(delayed));
    assert_eq!(broken(ledger(&[granted, ended, event(3, 4_999, "bo", grant("bo", &["x"], 6_000))])), "I4");
}

#[test]
fn i6_somebody_else_or_somebody_late_acts_under_a_claim() {
    let granted = event(1, 0, "ana", grant("ana", &["x"], 1_000));
    let released = |at_ms| Fact::Ended(end(1, "ana", &["x"], EndReason::Released, at_ms));
    assert_eq!(broken(ledger(&[granted.clone(), event(2, 10, "bo", released(10))])), "I6");
    assert_eq!(broken(ledger(&[granted.clone(), event(2, 1_000, "ana", released(1_000))])), "I6");
    let put = Fact::ItemPut { write: written("x", "available"), before: None, under: None };
    assert_eq!(broken(ledger(&[granted, event(2, 10, "bo", put)])), "I6");
}

#[test]
fn i8_a_claim_ends_for_some_of_its_items_or_loses_one() {
    let granted = event(1, 0, "ana", grant("ana", &["x", "y"], 1_000));
    let half = Fact::Ended(end(1, "ana", &["x"], EndReason::Released, 10));
    assert_eq!(broken(ledger(&[granted.clone(), event(2, 10, "ana", half)])), "I8");
    let deleted = Fact::ItemDeleted { before: written("y", "available"), under: None };
    assert_eq!(broken(ledger(&[granted, event(2, 10, "bo", deleted)])), "I8");
}

#[test]
fn i9_what_is_sold_is_granted_again() {
    let sold = Completed { write: written("x", "sold"), before: written("x", "available") };
    let completed = End { writes: vec![sold], ..end(1, "ana", &["x"], EndReason::Completed, 10) };
    let check = ledger(&[
        event(1, 0, "ana", grant("ana", &["x"], 1_000)),
        event(2, 10, "ana", Fact::Ended(completed)),
        event(3, 20, "bo", grant("bo", &["x"], 1_020)),
    ]);
    assert_eq!(broken(check), "I9");
}

#[test]
fn i10_a_claim_ends_twice_or_completes_too_late() {
    let granted = event(1, 0, "ana", grant("ana", &["x"], 1_000));
    let released = Fact::Ended(end(1, "ana", &["x"], EndReason::Released, 10));
    let again = Fact::Ended(end(1, "ana", &["x"], EndReason::Expired, 1_000));
    let check = ledger(&[granted.clone(), event(2, 10, "ana", released), event(3, 1_000, "system", again)]);
    assert_eq!(broken(check), "I10");
    let late = Fact::Ended(end(1, "ana", &["x"], EndReason::Completed, 1_000));
    assert_eq!(broken(ledger(&[granted, event(2, 1_000, "ana", late)])), "I10");
}

fn key_id() -> super::keys::KeyId {
    (CollectionKey::new("lock/a").unwrap(), Text::from("ana"), Text::from("k1"))
}

fn judge(keys: &mut Keys, fingerprint: Hash, answer: &Answer) -> Check {
    match keys.judge(&key_id(), fingerprint, START_MS, answer) {
        Retry::Judged(check) => check,
        Retry::First => Ok(()),
    }
}

#[test]
fn i11_i13_i16_a_key_is_answered_otherwise_misused_or_carried_out_twice() {
    let mut keys = Keys::default();
    let first = Hash([1; 32]);
    keys.keep(key_id(), first, START_MS, &Ok(Reply::Done), (true, true));
    let answer = |outcome, replayed| Answer { server_time_ms: START_MS, outcome, replayed };
    let other = answer(Ok(Reply::Freed { claim: None }), true);
    assert_eq!(broken(judge(&mut keys, first, &other)), "I11");
    assert_eq!(broken(judge(&mut keys, Hash([2; 32]), &answer(Ok(Reply::Done), true))), "I13");
    assert_eq!(broken(judge(&mut keys, first, &answer(Ok(Reply::Done), false))), "I16");
    judge(&mut keys, Hash([2; 32]), &answer(Err(Refused::KeyReused), false)).unwrap();
    judge(&mut keys, first, &answer(Ok(Reply::Done), true)).unwrap();
}

#[test]
fn i14_i17_numbers_have_a_gap_or_the_chain_is_broken() {
    let key = CollectionKey::new("lock/a").unwrap();
    let first = Sealed::new(&Hash::default(), event(1, 0, "ana", Fact::CollectionCreated));
    let third = Sealed::new(&first.hash, event(3, 0, "ana", Fact::CollectionCreated));
    let forged = Sealed::new(&Hash([7; 32]), event(2, 0, "ana", Fact::CollectionCreated));
    let mut altered = Sealed::new(&first.hash, event(2, 0, "ana", Fact::CollectionCreated));
    altered.event.actor = who("bo");
    let mut log = Log::default();
    log.add(&key, Arc::new(first)).unwrap();
    assert_eq!(broken(log.add(&key, Arc::new(third))), "I14");
    assert_eq!(broken(log.add(&key, Arc::new(forged))), "I17");
    assert_eq!(broken(log.add(&key, Arc::new(altered))), "I17");
}

#[test]
fn time_runs_backwards_across_a_start_or_within_a_process() {
    let mut time = Time::default();
    time.started(0, START_MS).unwrap();
    time.turned(5, START_MS + 5).unwrap();
    time.marked(true, true);
    assert_eq!(broken(time.clone().started(10, START_MS)), "time");
    assert_eq!(broken(time.turned(6, START_MS + 4)), "time");
}

/// An honest server in memory, to be made dishonest in one point.
struct Bench {
    store: Memory,
    auditor: Auditor,
    key: CollectionKey,
    real_ms: i64,
    next: u64,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            store: Memory::default(),
            auditor: Auditor::default(),
            key: CollectionKey::new("lock/a").unwrap(),
            real_ms: 0,
            next: 1,
        };
        bench.start().unwrap();
        bench
    }

    fn start(&mut self) -> Check {
        self.auditor.started(self.real_ms, START_MS + self.real_ms, &*self.store.reader())
    }

    fn verb_acquire(items: &[&str], wait_ms: Option<i64>) -> Verb {
        let items = items.iter().map(|id| item(id)).collect();
        // Everyone has one session, so that who asks again comes again.
        let session = SessionId::new("only").ok();
        Verb::Acquire(Acquire { items, session, wait_ms, ..Acquire::default() })
    }

    fn ask(&mut self, actor: &str, verb: Verb) -> u64 {
        let id = self.next;
        self.next += 1;
        let command = Command { collection: self.key.clone(), actor: who(actor), verb };
        self.auditor.asked(Asked {
            id,
            real_ms: self.real_ms,
            first_real_ms: self.real_ms,
            command,
            idempotency: None,
        });
        id
    }

    /// Decides and commits as the server would.
    fn carry_out(&mut self, request: u64) -> Answer {
        let command = self.auditor.asked[&request].command.clone();
        let server_time_ms = START_MS + self.real_ms;
        let view = self.store.load(&[]).unwrap();
        let decision = decide(&view, &command, server_time_ms);
        drop(view);
        let outcome = decision.map(|decision| {
            let entry = Entry {
                collection: command.collection.clone(),
                events: decision.events,
                beats: decision.beats,
                changed: decision.changed,
                kept: None,
            };
            self.store.commit(Batch { at_ms: server_time_ms, entries: vec![entry] }).unwrap();
            decision.reply
        });
        Answer { server_time_ms, outcome: outcome.map_err(Refused::Rule), replayed: false }
    }

    fn seen(&self, delivered: &[u64], answers: Vec<(u64, Answer)>) -> Seen {
        Seen {
            real_ms: self.real_ms,
            server_ms: START_MS + self.real_ms,
            delivered: delivered.iter().map(|id| (*id, *id)).collect(),
            gone: Vec::new(),
            answers,
            died: false,
            fault: false,
            quiet: false,
        }
    }

    fn judge(&mut self, seen: &Seen) -> Check {
        self.auditor.turn(seen, &*self.store.reader())
    }

    fn acquire(&mut self, actor: &str, id: &str) -> Claim {
        let request = self.ask(actor, Self::verb_acquire(&[id], None));
        let answer = self.carry_out(request);
        self.judge(&self.seen(&[request], vec![(request, answer.clone())])).unwrap();
        match answer.outcome {
            Ok(Reply::Acquired { claim, .. }) => (*claim).clone(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_honest_history_passes() {
    let mut bench = Bench::new();
    bench.acquire("ana", "x");
    let request = bench.ask("bo", Bench::verb_acquire(&["x"], None));
    let refused = bench.carry_out(request);
    assert!(refused.outcome.is_err());
    bench.judge(&bench.seen(&[request], vec![(request, refused)])).unwrap();
    bench.auditor.finish(&*bench.store.reader()).unwrap();
}

#[test]
fn i5_a_client_relies_on_its_claim_for_longer_than_the_server() {
    let mut bench = Bench::new();
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    bench.real_ms += 10;
    let answer = bench.carry_out(request);
    bench.judge(&bench.seen(&[request], vec![(request, answer.clone())])).unwrap();
    bench.auditor.learned(bench.real_ms, request, &answer).unwrap();
    let early = Answer { server_time_ms: answer.server_time_ms - 11, ..answer };
    assert_eq!(broken(bench.auditor.learned(bench.real_ms, request, &early)), "I5");
}

#[test]
fn i7_somebody_who_has_left_is_granted() {
    let mut bench = Bench::new();
    let held = bench.acquire("ana", "x");
    let waiter = bench.ask("bo", Bench::verb_acquire(&["x"], Some(5_000)));
    bench.judge(&bench.seen(&[waiter], Vec::new())).unwrap();
    let release = bench.ask("ana", Verb::Release { claim: held.number });
    let answers = vec![(release, bench.carry_out(release)), (waiter, bench.carry_out(waiter))];
    let seen = Seen { gone: vec![waiter], ..bench.seen(&[release], answers) };
    assert_eq!(broken(bench.judge(&seen)), "I7");
}

#[test]
fn fcfs_somebody_who_came_later_is_served_first() {
    let mut bench = Bench::new();
    let held = bench.acquire("ana", "x");
    let waiter = bench.ask("bo", Bench::verb_acquire(&["x"], Some(5_000)));
    bench.judge(&bench.seen(&[waiter], Vec::new())).unwrap();
    let release = bench.ask("ana", Verb::Release { claim: held.number });
    let late = bench.ask("cy", Bench::verb_acquire(&["x"], None));
    let answers = vec![(release, bench.carry_out(release)), (late, bench.carry_out(late))];
    assert_eq!(broken(bench.judge(&bench.seen(&[release, late], answers))), "fcfs");
}

#[test]
fn i11_an_answer_is_given_and_the_crash_takes_it_back() {
    let mut bench = Bench::new();
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    let lost = Memory::default();
    let kept = std::mem::replace(&mut bench.store, lost);
    let answer = bench.carry_out(request);
    bench.store = kept;
    let seen = Seen { died: true, fault: true, ..bench.seen(&[request], vec![(request, answer)]) };
    bench.judge(&seen).unwrap();
    assert_eq!(broken(bench.start()), "I11");
}

#[test]
fn i11_a_refused_request_leaves_a_trace() {
    let mut bench = Bench::new();
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    let answer = Answer { outcome: Err(Refused::NoRoom), ..bench.carry_out(request) };
    let seen = Seen { fault: true, ..bench.seen(&[request], vec![(request, answer)]) };
    assert_eq!(broken(bench.judge(&seen)), "I14");
}

#[test]
fn i12_an_answer_is_not_that_of_any_serial_order() {
    let mut bench = Bench::new();
    bench.acquire("ana", "x");
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    let mut answer = bench.carry_out(request);
    if let Ok(Reply::Acquired { how, .. }) = &mut answer.outcome {
        *how = How::Existing;
    }
    assert_eq!(broken(bench.judge(&bench.seen(&[request], vec![(request, answer)]))), "I12");
}

/// J4: the answer of the session that holds, given to another one of the same principal.
#[test]
fn i12_a_claim_that_is_exclusive_to_a_session_is_given_to_another() {
    let mut bench = Bench::new();
    bench.acquire("ana", "x");
    let own = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    let answer = bench.carry_out(own);
    assert!(answer.outcome.is_ok());
    let session = SessionId::new("another").ok();
    let acquire = Acquire { items: vec![item("x")], session, ..Acquire::default() };
    let other = bench.ask("ana", Verb::Acquire(acquire));
    assert_eq!(broken(bench.judge(&bench.seen(&[other], vec![(other, answer)]))), "I12");
}

#[test]
fn i12_a_request_is_decided_before_it_was_sent() {
    let mut bench = Bench::new();
    bench.real_ms = 50;
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    bench.real_ms = 40;
    let answer = bench.carry_out(request);
    assert_eq!(broken(bench.judge(&bench.seen(&[request], vec![(request, answer)]))), "I12");
}

#[test]
fn i14_rows_are_not_what_the_events_say() {
    let mut bench = Bench::new();
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    let answer = bench.carry_out(request);
    let view = bench.store.load(&[]).unwrap();
    let mut changed = decide(&view, &bench.auditor.asked[&request].command, START_MS + 9).unwrap().changed;
    drop(view);
    changed.collection = None;
    let entry =
        Entry { collection: bench.key.clone(), events: Vec::new(), beats: Vec::new(), changed, kept: None };
    bench.store.commit(Batch { at_ms: START_MS, entries: vec![entry] }).unwrap();
    assert_eq!(broken(bench.judge(&bench.seen(&[request], vec![(request, answer)]))), "I14");
}

#[test]
fn i15_a_follower_from_nowhere_is_not_told() {
    let mut bench = Bench::new();
    bench.acquire("ana", "x");
    let key = bench.key.clone();
    bench.auditor.follows(1, &key, Some(500), true);
    assert_eq!(broken(bench.auditor.delivered(1, &Delivery::Events(Vec::new()), false)), "I15");
    bench.auditor.follows(1, &key, Some(1), false);
    assert_eq!(broken(bench.auditor.delivered(1, &Delivery::Resync, false)), "I15");
}

#[test]
fn i14_a_follower_misses_an_event_or_hears_of_one_that_never_was() {
    let mut bench = Bench::new();
    bench.acquire("ana", "x");
    let key = bench.key.clone();
    let log: Vec<_> = bench.auditor.log.of(&key).to_vec();
    bench.auditor.follows(1, &key, Some(0), false);
    let gap = Delivery::Events(vec![log[1].clone()]);
    assert_eq!(broken(bench.auditor.delivered(1, &gap, false)), "I14");
    let invented = Sealed::new(&log[1].hash, event(3, START_MS, "ana", Fact::CollectionCreated));
    bench.auditor.follows(1, &key, Some(2), false);
    assert_eq!(broken(bench.auditor.delivered(1, &Delivery::Events(vec![Arc::new(invented)]), false)), "I14");
    bench.auditor.follows(2, &key, Some(1), false);
    bench.auditor.unfollows(1);
    assert_eq!(broken(bench.auditor.finish(&*bench.store.reader())), "I14");
}

#[test]
fn i18_a_claim_runs_out_and_nobody_is_told() {
    let mut bench = Bench::new();
    let claim = bench.acquire("ana", "x");
    bench.real_ms = claim.expires_at_ms - START_MS + 1_000;
    assert_eq!(broken(bench.judge(&bench.seen(&[], Vec::new()))), "I18");
    assert_eq!(broken(bench.auditor.all_over()), "I18");
}

#[test]
fn i18_somebody_waits_for_what_is_free() {
    let mut bench = Bench::new();
    let held = bench.acquire("ana", "x");
    let waiter = bench.ask("bo", Bench::verb_acquire(&["x"], Some(5_000)));
    bench.judge(&bench.seen(&[waiter], Vec::new())).unwrap();
    let release = bench.ask("ana", Verb::Release { claim: held.number });
    let answer = bench.carry_out(release);
    bench.judge(&bench.seen(&[release], vec![(release, answer)])).unwrap();
    bench.real_ms += 1_000;
    assert_eq!(broken(bench.judge(&bench.seen(&[], Vec::new()))), "I18");
}

#[test]
fn resume_a_live_claim_loses_the_time_while_the_server_was_away() {
    let mut bench = Bench::new();
    bench.acquire("ana", "x");
    bench.real_ms += 3_000;
    assert_eq!(broken(bench.start()), "resume");
}

#[test]
fn a_key_that_nobody_used_is_not_replayed() {
    let mut bench = Bench::new();
    let request = bench.ask("ana", Bench::verb_acquire(&["x"], None));
    let answer = Answer { replayed: true, ..bench.carry_out(request) };
    assert_eq!(broken(bench.judge(&bench.seen(&[request], vec![(request, answer.clone())]))), "I11");
    let fingerprint = Hash([3; 32]);
    let _ = Idempotency { key: Text::from("k"), fingerprint };
    let mut keys = Keys::default();
    assert_eq!(broken(judge(&mut keys, fingerprint, &answer)), "I11");
}
