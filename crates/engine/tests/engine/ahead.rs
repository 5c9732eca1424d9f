//! While one commit is made safe the next is decided: on its rows, after its answers, and never without it.

use tenure_engine::{Delivery, From};
use tenure_store::embedded::{Embedded, Fold, Options};

use crate::common::*;

/// Ana's claim is under way; Ben wants the same, Cleo something else, and Ana asks again with her key.
fn under_way<S: tenure_store::Store>(desk: &mut Desk<S>) -> [Slip; 4] {
    let ana = desk.put(acquire("ana", &["a"]).keyed("k", 1));
    desk.decide();
    assert!(desk.begin());
    let ben = desk.put(acquire("ben", &["a"]));
    let cleo = desk.put(acquire("cleo", &["b"]));
    desk.decide();
    let again = desk.put(acquire("ana", &["a"]).keyed("k", 1));
    desk.decide();
    [ana, ben, cleo, again]
}

fn is_decided_on_top_and_answered_after<S: tenure_store::Store>(mut desk: Desk<S>) {
    assert_eq!(code(&desk.ask(create(LOCKS))), "ok");
    let mut feed = desk.subscribe(LOCKS, From::Event { epoch: 1, seq: 1 });
    let [ana, ben, cleo, again] = under_way(&mut desk);
    assert!([&ana, &ben, &cleo, &again].iter().all(|slip| desk.waits(slip)), "nothing is safe yet");
    assert_eq!(events(&*desk.reader(), LOCKS).len(), 1, "nothing is shown");
    assert!(matches!(feed.try_next(), Ok(None)), "nobody is told");

    desk.complete().expect("it succeeds");
    let claim = claim_of(&desk.answer(&ana));
    assert!([&ben, &cleo, &again].iter().all(|slip| desk.waits(slip)));
    assert_eq!(events(&*desk.reader(), LOCKS).len(), 2);
    assert!(matches!(feed.try_next(), Ok(Some(Delivery::Events(told))) if told.len() == 1));

    assert!(desk.begin());
    desk.complete().expect("it succeeds");
    assert_eq!(holders(&desk.answer(&ben)), ["ana"]);
    let other = claim_of(&desk.answer(&cleo));
    assert_eq!(other.number, claim.number + 1);
    let again = desk.answer(&again);
    assert!(again.replayed && claim_of(&again) == claim);
    assert_gap_free(&events(&*desk.reader(), LOCKS), 0);
}

#[test]
fn i06_what_is_decided_while_a_commit_is_under_way_sees_it_and_is_answered_after_it() {
    is_decided_on_top_and_answered_after(Desk::probed().0);
}

#[test]
fn i06_the_same_over_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let store = Embedded::open(folder.path(), &options).expect("opens");
    is_decided_on_top_and_answered_after(Desk::open(store, START_MS));
}

#[test]
fn i11_when_a_commit_fails_nothing_that_was_decided_on_top_of_it_has_happened() {
    for (fail, said) in [(Fail::Full, "no_room"), (Fail::Sync, "stopped")] {
        let (mut desk, probe) = Desk::probed();
        assert_eq!(code(&desk.ask(create(LOCKS))), "ok");
        probe.fail(&[fail]);
        let slips = under_way(&mut desk);
        let ended = desk.complete();
        assert_eq!(ended.is_err(), said == "stopped");
        for slip in &slips {
            assert_eq!(code(&desk.answer(slip)), said);
        }
        assert_eq!(events(&*desk.reader(), LOCKS).len(), 1);
        if ended.is_ok() {
            // Not even in memory: what they had been given is free.
            assert!(!desk.begin());
            assert_eq!(code(&desk.ask(acquire("ben", &["a", "b"]))), "ok");
            assert_gap_free(&events(&*desk.reader(), LOCKS), 0);
        }
    }
}

/// The one who waits began to while the claim was under way that never came to be.
#[test]
fn i07_who_began_to_wait_on_top_of_a_commit_that_failed_is_told() {
    let (mut desk, probe) = Desk::probed();
    assert_eq!(code(&desk.ask(create(LOCKS))), "ok");
    probe.fail(&[Fail::Full]);
    desk.put(acquire("ana", &["a"]));
    desk.decide();
    assert!(desk.begin());
    let ben = desk.put(acquire("ben", &["a"]).wait(5_000));
    desk.decide();
    assert_eq!(desk.waiting(LOCKS, "a"), 1);
    desk.complete().expect("room is a passing trouble");
    assert_eq!(code(&desk.answer(&ben)), "no_room");
    assert_eq!(desk.waiting(LOCKS, "a"), 0);
}

/// What ended in a commit that failed still has its deadline.
#[test]
fn i18_a_deadline_outlives_a_release_that_failed() {
    let (mut desk, probe) = Desk::probed();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"]).ttl(1_000)));
    probe.fail(&[Fail::Full]);
    desk.put(release("ana", claim.number));
    desk.decide();
    assert!(desk.begin());
    desk.put(acquire("ben", &["b"]));
    desk.decide();
    desk.complete().expect("room is a passing trouble");
    assert_eq!(desk.tick(1_500).expired, 1);
}

/// Its grant is under way, its release is decided on top, and only the grant comes to be: nothing that lies about may have
/// been tidied away as if neither or both had.
#[test]
fn i18_a_deadline_outlives_a_release_that_failed_on_top_of_its_grant() {
    let (mut desk, probe) = Desk::probed();
    let take = |who, n| acquire(who, &[&format!("{who}-{n}")]).ttl(600_000);
    // Nearly so many that are over that their timers are swept.
    for _ in 0..12 {
        let taken: Vec<_> = (0..800).map(|n| desk.put(take("ana", n))).collect();
        desk.run();
        for slip in taken {
            let claim = claim_of(&desk.answer(&slip));
            desk.put(release("ana", claim.number));
        }
        desk.run();
    }
    let before = claim_of(&desk.ask(take("dora", 0))).number;
    let ben = desk.put(acquire("ben", &["b"]).ttl(300_000));
    desk.decide();
    assert!(desk.begin());
    desk.put(release("ben", before + 1));
    (0..800).for_each(|n| drop(desk.put(take("cleo", n))));
    desk.decide();
    (0..800).for_each(|n| drop(desk.put(release("cleo", before + 3 + n))));
    desk.decide();
    // And now they are.
    desk.decide();
    desk.complete().expect("it succeeds");
    assert_eq!(code(&desk.answer(&ben)), "ok");
    probe.fail(&[Fail::Full]);
    assert!(desk.begin());
    desk.complete().expect("room is a passing trouble");
    // Those that are over come to their deadlines, too, some in each turn.
    let expired: usize = (0..9).map(|_| desk.tick(60_000).expired).sum();
    assert_eq!(expired, 1, "it was never released");
}

/// The store fails for good while something is on its way to it.
#[test]
fn i11_whoever_is_decided_or_under_way_when_the_engine_ends_is_told() {
    let (mut desk, probe) = Desk::probed();
    let slips = under_way(&mut desk);
    probe.fail_loads(&[Fail::Sync]);
    let dora = desk.put(acquire("dora", &["c"]));
    assert!(desk.try_decide().is_err());
    desk.dismiss();
    for slip in slips.iter().chain([&dora]) {
        assert_eq!(code(&desk.answer(slip)), "stopped");
    }
}
