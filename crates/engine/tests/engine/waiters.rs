//! E5: wait for a lock without polling, first come first served, with a limit; leave by disconnecting.

use tenure_core::{Fact, Refusal, Verb};
use tenure_engine::{Engine, ManualClock, Options, Refused, WAITERS_MAX};

use crate::common::*;

/// Enough other claims that end at the same time as `a`'s, and before it in order, to fill a turn's
/// portion of expiries: `a`'s own end is left for the next turn.
fn backlog(desk: &mut Desk<tenure_store::memory::Memory>) {
    let slips: Vec<Slip> =
        (0..2_100).map(|number| desk.put(acquire("crowd", &[&format!("c{number}")]))).collect();
    desk.run();
    for slip in &slips {
        assert_eq!(code(&desk.answer(slip)), "ok");
    }
}

#[test]
fn e5_waiters_are_served_in_the_order_in_which_they_came() {
    let mut desk = Desk::new();
    let mut held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let slips = ["ben", "cleo", "dan"].map(|who| desk.put(acquire(who, &["a"]).wait(60_000)));
    desk.run();
    assert_eq!(desk.waiting(LOCKS, "a"), 3);
    for (index, slip) in slips.iter().enumerate() {
        desk.ask(release(&held.holder.id, held.number));
        held = claim_of(&desk.answer(slip));
        assert!(slips[index + 1..].iter().all(|later| desk.waits(later)));
    }
    assert_eq!(desk.waiting(LOCKS, "a"), 0);
}

#[test]
fn e5_a_waiter_is_served_in_the_turn_that_frees_and_before_who_comes_later_in_it() {
    let (mut desk, probe) = Desk::probed();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    desk.run();
    let commits = probe.batches().len();
    let freeing = desk.put(release("ana", held.number));
    let cleo = desk.put(acquire("cleo", &["a"]));
    desk.run();
    assert_eq!(code(&desk.answer(&freeing)), "ok");
    assert_eq!(code(&desk.answer(&ben)), "ok");
    assert_eq!(holders(&desk.answer(&cleo)), ["ben"]);
    assert_eq!(probe.batches().len(), commits + 1, "one commit");
}

#[test]
fn a_claim_that_is_free_is_granted_without_waiting() {
    let mut desk = Desk::new();
    assert_eq!(code(&desk.ask(acquire("ana", &["a"]).wait(60_000))), "ok");
}

#[test]
fn a_waiter_for_several_items_gets_all_at_once_and_does_not_block_the_free_ones() {
    let mut desk = Desk::new();
    let a = claim_of(&desk.ask(acquire("ana", &["a"])));
    let b = claim_of(&desk.ask(acquire("ben", &["b"])));
    let both = desk.put(acquire("cleo", &["a", "b"]).wait(60_000));
    desk.run();
    desk.ask(release("ana", a.number));
    assert!(desk.waits(&both));
    let passer = claim_of(&desk.ask(acquire("dan", &["a"])));
    desk.ask(release("ben", b.number));
    assert!(desk.waits(&both), "one of two is not enough");
    desk.ask(release("dan", passer.number));
    assert_eq!(*claim_of(&desk.answer(&both)).items, [item("a"), item("b")]);
}

#[test]
fn a_claim_on_many_items_wakes_the_waiters_of_each() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a", "b", "c"])));
    let slips = ["a", "b", "c"].map(|id| desk.put(acquire(&format!("for-{id}"), &[id]).wait(60_000)));
    desk.run();
    desk.ask(release("ana", held.number));
    assert_eq!(slips.map(|slip| code(&desk.answer(&slip))), ["ok"; 3]);
}

#[test]
fn an_item_taken_out_of_a_claim_wakes_its_waiter() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a", "b"])));
    let ben = desk.put(acquire("ben", &["b"]).wait(60_000));
    desk.run();
    desk.ask(remove_item("ana", held.number, "b"));
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

#[test]
fn e5_the_end_of_patience_gives_the_refusal_of_that_moment() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let ben = desk.put(acquire("ben", &["a"]).wait(20_000));
    let cleo = desk.put(acquire("cleo", &["a"]).wait(5_000));
    desk.run();
    assert_eq!(desk.turn.next_ms(), Some(START_MS + 5_000));
    desk.tick(4_999);
    assert!(desk.waits(&cleo));
    desk.tick(1);
    assert_eq!(holders(&desk.answer(&cleo)), ["ana"]);
    desk.ask(release("ana", held.number));
    assert_eq!(code(&desk.answer(&ben)), "ok", "the patient one is not touched by it");
    let dan = desk.put(acquire("dan", &["a"]).wait(1_000));
    desk.run();
    desk.tick(1_000);
    assert_eq!(holders(&desk.answer(&dan)), ["ben"], "who holds now, not who held then");
}

#[test]
fn e5_a_caller_that_leaves_is_out_of_the_queue() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    let cleo = desk.put(acquire("cleo", &["a"]).wait(60_000));
    desk.run();
    ben.leave();
    assert_eq!(desk.waiting(LOCKS, "a"), 1);
    desk.ask(release("ana", held.number));
    assert_eq!(claim_of(&desk.answer(&cleo)).holder.id.as_str(), "cleo");
    let grants = count(&events(&*desk.reader(), LOCKS), |fact| matches!(fact, Fact::Granted(_)));
    assert_eq!(grants, 2, "nothing was granted to who had left");
}

/// I7: also where the last try at the end of patience would have succeeded.
#[test]
fn i07_a_caller_that_left_is_not_granted_at_the_end_of_its_patience() {
    let mut desk = Desk::new();
    backlog(&mut desk);
    desk.ask(acquire("ana", &["a"]));
    let ben = desk.put(acquire("ben", &["a"]).wait(TTL_MS));
    desk.run();
    ben.leave();
    desk.tick(TTL_MS);
    desk.run();
    let to_ben = events(&*desk.reader(), LOCKS).iter().any(
        |sealed| matches!(&sealed.event.fact, Fact::Granted(grant) if grant.holder.id.as_str() == "ben"),
    );
    assert!(!to_ben);
}

/// T5, E5
#[test]
fn nobody_overtakes_a_waiter_at_the_deadline() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    desk.run();
    desk.clock_ms += TTL_MS;
    let cleo = desk.put(acquire("cleo", &["a"]));
    desk.run();
    assert_eq!(code(&desk.answer(&ben)), "ok");
    assert_eq!(holders(&desk.answer(&cleo)), ["ben"]);
}

#[test]
fn nobody_overtakes_a_waiter_whose_item_is_in_a_backlog_of_expiries() {
    let mut desk = Desk::new();
    backlog(&mut desk);
    desk.ask(acquire("ana", &["a"]));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    desk.run();
    desk.clock_ms += TTL_MS;
    let cleo = desk.put(acquire("cleo", &["a"]));
    let report = desk.run();
    assert_eq!(code(&desk.answer(&ben)), "ok");
    assert_eq!(holders(&desk.answer(&cleo)), ["ben"]);
    assert!(report.expired < 2_101, "it was a backlog");
}

#[test]
fn nobody_overtakes_a_waiter_by_adding_the_item_or_in_a_group() {
    let mut desk = Desk::new();
    backlog(&mut desk);
    desk.ask(acquire("ana", &["a", "b"]));
    let others = claim_of(&desk.ask(acquire("cleo", &["x"]).ttl(3_600_000)));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    let dora = desk.put(acquire("dora", &["b"]).wait(60_000));
    desk.run();
    desk.clock_ms += TTL_MS;
    let added = desk.put(add_item("cleo", others.number, "a"));
    let tenure_engine::Request { command, .. } = acquire("emil", &["b"]).into();
    let group = desk.put(Ask::new("emil", Verb::Group(vec![command.verb])));
    desk.run();
    assert_eq!((code(&desk.answer(&ben)), code(&desk.answer(&dora))), ("ok", "ok"));
    assert_eq!(holders(&desk.answer(&added)), ["ben"]);
    assert_eq!(code(&desk.answer(&group)), "held");
}

/// The one whose patience ends gets a last try, but not ahead of who came before it.
#[test]
fn nobody_overtakes_a_waiter_by_running_out_of_patience() {
    let mut desk = Desk::new();
    backlog(&mut desk);
    desk.ask(acquire("ana", &["a"]));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    let cleo = desk.put(acquire("cleo", &["a"]).wait(TTL_MS));
    desk.run();
    desk.tick(TTL_MS);
    assert_eq!(code(&desk.answer(&ben)), "ok");
    assert_eq!(holders(&desk.answer(&cleo)), ["ben"]);
}

#[test]
fn the_first_waiter_is_served_even_when_its_patience_ends_at_that_very_moment() {
    for crowded in [false, true] {
        let mut desk = Desk::new();
        if crowded {
            backlog(&mut desk);
        }
        desk.ask(acquire("ana", &["a"]));
        let ben = desk.put(acquire("ben", &["a"]).wait(TTL_MS));
        let cleo = desk.put(acquire("cleo", &["a"]).wait(60_000));
        desk.run();
        desk.tick(TTL_MS);
        assert_eq!(code(&desk.answer(&ben)), "ok");
        assert!(desk.waits(&cleo));
    }
}

#[test]
fn a_claim_that_expires_by_itself_wakes_its_waiter() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    desk.run();
    desk.tick(TTL_MS);
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

#[test]
fn the_end_of_a_lock_delay_wakes_waiters() {
    let mut desk = Desk::new();
    desk.ask(set_policy("slow", |policy| policy.lock_delay_ms = 5_000));
    desk.ask(acquire("ana", &["a"]).of("slow/s"));
    let ben = desk.put(acquire("ben", &["a"]).of("slow/s").wait(60_000));
    desk.run();
    desk.tick(TTL_MS);
    assert!(desk.waits(&ben));
    assert_eq!(desk.turn.next_ms(), Some(START_MS + TTL_MS + 5_000));
    desk.tick(4_999);
    assert!(desk.waits(&ben));
    desk.tick(1);
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

/// I18: its timer is the oldest of ten thousand that nobody needs, and due in the turn that sweeps them.
#[test]
fn i18_the_end_of_a_lock_delay_wakes_waiters_beside_a_pile_of_old_deadlines() {
    let mut desk = Desk::new();
    desk.ask(set_policy("slow", |policy| policy.lock_delay_ms = 5_000));
    let ana = claim_of(&desk.ask(acquire("ana", &["a"]).of("slow/x")));
    desk.tick(ana.expires_at_ms - desk.clock_ms);
    let ben = desk.put(acquire("ben", &["a"]).of("slow/x").wait(60_000));
    // All of them in one turn: the next one's sweep is the first.
    let claims: Vec<Slip> = (0..10_001)
        .map(|index| {
            let claim = desk.put(acquire("cleo", &["b"]).ttl(3_600_000));
            desk.put(release("cleo", 2 + 2 * index));
            claim
        })
        .collect();
    desk.tick(4_999);
    assert!(claims.iter().all(|slip| code(&desk.answer(slip)) == "ok"));
    assert!(desk.waits(&ben), "the delay runs");
    desk.tick(1);
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

#[test]
fn the_end_of_a_lock_delay_wakes_waiters_that_came_after_a_restart() {
    let mut desk = Desk::new();
    desk.ask(set_policy("slow", |policy| policy.lock_delay_ms = 5_000));
    desk.ask(acquire("ana", &["a"]).of("slow/s"));
    desk.tick(TTL_MS);
    let now_ms = desk.clock_ms;
    let (mut desk, _) = desk.restart(now_ms);
    let ben = desk.put(acquire("ben", &["a"]).of("slow/s").wait(60_000));
    desk.run();
    assert!(desk.waits(&ben));
    assert_eq!(desk.turn.next_ms(), Some(now_ms + 5_000));
    desk.tick(5_000);
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

#[test]
fn nobody_overtakes_a_waiter_at_the_end_of_a_lock_delay_in_a_backlog() {
    let mut desk = Desk::new();
    desk.ask(set_policy("slow", |policy| policy.lock_delay_ms = 5_000));
    desk.ask(acquire("ana", &["a"]).of("slow/s"));
    let ben = desk.put(acquire("ben", &["a"]).of("slow/s").wait(60_000));
    desk.run();
    desk.tick(5_000);
    // These end at the same moment as the delay, and their numbers are lower.
    let slips: Vec<Slip> =
        (0..2_100).map(|number| desk.put(acquire("crowd", &["x"]).of(&format!("lock/c{number}")))).collect();
    desk.run();
    for slip in &slips {
        desk.answer(slip);
    }
    desk.tick(TTL_MS - 5_000);
    assert!(desk.waits(&ben), "ana's claim has ended, the delay runs");
    desk.clock_ms += 5_000;
    let cleo = desk.put(acquire("cleo", &["a"]).of("slow/s"));
    desk.run();
    assert_eq!(code(&desk.answer(&ben)), "ok");
    assert_eq!(holders(&desk.answer(&cleo)), ["ben"]);
}

#[test]
fn a_granted_waiter_that_could_not_be_told_gives_the_claim_back() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    let cleo = desk.put(acquire("cleo", &["a"]).wait(60_000));
    desk.run();
    // Ben is there when it is decided and gone when the answer is handed over.
    let mut answers = Vec::new();
    let freeing = desk.put(release("ana", held.number));
    let pending = tenure_engine::Pending { request: release("ana", held.number).into(), ticket: freeing };
    desk.turn.run(desk.clock_ms, vec![pending], &mut answers).expect("runs");
    let granted = answers.iter().find(|done| done.if_gone.is_some()).expect("ben's answer");
    let errand = granted.if_gone.clone().expect("just found");
    assert_eq!(claim_of(&granted.answer).holder.id.as_str(), "ben");
    assert_eq!(errand.actor.id.as_str(), "ben");
    drop(ben);
    assert_eq!(code(&desk.ask(*errand)), "ok");
    assert_eq!(code(&desk.answer(&cleo)), "ok", "the next in the queue has it");
}

#[test]
fn a_keyed_waiter_that_could_not_be_told_keeps_the_claim_for_its_retry() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    desk.put(acquire("ben", &["a"]).wait(60_000).keyed("k", 1));
    desk.run();
    let mut answers = Vec::new();
    let ticket = desk.put(release("ana", held.number));
    let pending = tenure_engine::Pending { request: release("ana", held.number).into(), ticket };
    desk.turn.run(desk.clock_ms, vec![pending], &mut answers).expect("runs");
    assert!(answers.iter().all(|done| done.if_gone.is_none()));
    let retry = desk.ask(acquire("ben", &["a"]).wait(60_000).keyed("k", 1));
    assert!(retry.replayed);
    assert_eq!(claim_of(&retry).holder.id.as_str(), "ben");
}

#[tokio::test]
async fn e5_dropping_the_future_leaves_the_queue() {
    let engine = Engine::start(Probe::default().store(), ManualClock::at(START_MS), Options::default())
        .expect("starts");
    let held = claim_of(&engine.execute(acquire("ana", &["a"])).await);
    {
        let mut waiting = std::pin::pin!(engine.execute(acquire("ben", &["a"]).wait(60_000)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        // Answered in a later turn than the one that took ben's request.
        engine.execute(heartbeat("ana", held.number)).await;
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    engine.execute(release("ana", held.number)).await;
    let cleo = engine.execute(acquire("cleo", &["a"])).await;
    assert_eq!(code(&cleo), "ok");
}

#[tokio::test]
async fn e5_a_waiter_of_the_running_engine_is_woken_by_a_release() {
    let engine = Engine::start(Probe::default().store(), ManualClock::at(START_MS), Options::default())
        .expect("starts");
    let held = claim_of(&engine.execute(acquire("ana", &["a"])).await);
    let waiting = engine.execute(acquire("ben", &["a"]).wait(60_000));
    let freeing = engine.execute(release("ana", held.number));
    let (ben, _) = soon(async { tokio::join!(waiting, freeing) }).await;
    assert_eq!(code(&ben), "ok");
}

#[test]
fn a_wait_beyond_the_policys_limit_or_below_zero_is_refused() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    for wait_ms in [60_001, -1] {
        let answer = desk.ask(acquire("ben", &["a"]).wait(wait_ms));
        let Err(Refused::Rule(Refusal::Invalid { field, .. })) = &answer.outcome else {
            panic!("{answer:?}")
        };
        assert_eq!(&**field, "wait_ms");
    }
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]).wait(0))), "held", "no wait: answered at once");
}

/// J2
#[test]
fn j02_a_grant_is_decided_afresh_so_a_finished_item_is_refused_to_those_who_waited() {
    let mut desk = Desk::new();
    desk.ask(create("analysis/lab"));
    desk.ask(put_item("scan").of("analysis/lab"));
    let held = claim_of(&desk.ask(acquire("w1", &["scan"]).of("analysis/lab")));
    let slips = ["w2", "w3"].map(|who| desk.put(acquire(who, &["scan"]).of("analysis/lab").wait(60_000)));
    desk.run();
    desk.ask(complete("w1", held.number, "READY").of("analysis/lab"));
    assert_eq!(slips.map(|slip| code(&desk.answer(&slip))), ["finished"; 2]);
}

/// R3: a session that got a claim elsewhere meanwhile is given that one; the number stays free for the
/// next in the queue.
#[test]
fn r03_a_waiter_that_is_given_its_other_claim_does_not_use_up_the_item() {
    let mut desk = Desk::new();
    for ask in raffle("raffle/r", &["1", "2"]) {
        desk.ask(ask);
    }
    let held = claim_of(&desk.ask(acquire("ana", &["1"]).of("raffle/r").session("s1")));
    let ben = desk.put(acquire("ben", &["1"]).of("raffle/r").session("s2").wait(60_000));
    let cleo = desk.put(acquire("cleo", &["1"]).of("raffle/r").session("s3").wait(60_000));
    desk.run();
    let other = claim_of(&desk.ask(acquire("ben", &["2"]).of("raffle/r").session("s2")));
    desk.ask(release("ana", held.number).of("raffle/r"));
    assert_eq!(claim_of(&desk.answer(&ben)).number, other.number);
    assert_eq!(*claim_of(&desk.answer(&cleo)).items, [item("1")]);
}

#[test]
fn waiters_have_a_limit_and_those_who_left_make_room() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let slips: Vec<Slip> =
        (0..WAITERS_MAX).map(|_| desk.put(acquire("crowd", &["a"]).wait(60_000))).collect();
    desk.run();
    assert_eq!(desk.waiting(LOCKS, "a"), WAITERS_MAX);
    assert_eq!(desk.ask(acquire("ben", &["a"]).wait(60_000)).outcome, Err(Refused::Overloaded));
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]))), "held", "who does not wait is answered as ever");
    slips.iter().for_each(Slip::leave);
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    desk.run();
    assert!(desk.waits(&ben));
    desk.ask(release("ana", held.number));
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

#[test]
fn a_stop_tells_everyone_who_waits() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    for who in ["ben", "cleo"] {
        desk.put(acquire(who, &["a"]).wait(60_000));
    }
    desk.run();
    let (_, told) = desk.restart(START_MS);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(_, answer)| answer.outcome == Err(Refused::Stopped)));
}
