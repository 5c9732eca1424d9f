//! Group commit: take what waits, one commit, answer all; no added delay when idle.

use std::time::Duration;

use tenure_engine::{Answer, BATCH_MAX, Engine, ManualClock, Options, ReplyTo};
use tokio::sync::oneshot;

use crate::common::*;

fn start(probe: &Probe, linger: Duration) -> Engine {
    let options = Options { linger, ..Options::default() };
    Engine::start(probe.store(), ManualClock::at(START_MS), options).expect("the engine starts")
}

fn submit(engine: &Engine, ask: Ask) -> oneshot::Receiver<Answer> {
    let (sender, receiver) = oneshot::channel();
    engine.submit(ask.into(), ReplyTo::Once(sender));
    receiver
}

fn answer(receiver: oneshot::Receiver<Answer>) -> Answer {
    receiver.blocking_recv().expect("every request is answered")
}

/// Holds the engine inside a commit, so that what is submitted meanwhile waits together.
fn busy(engine: &Engine, probe: &Probe) -> (oneshot::Receiver<Answer>, Hold) {
    let hold = probe.hold();
    let opener = submit(engine, acquire("opener", &["opener"]).of("lock/opener"));
    probe.wait_held();
    (opener, hold)
}

/// T6
#[test]
fn t06_of_many_simultaneous_claims_one_wins_and_the_others_learn_who_in_one_commit() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::ZERO);
    let (opener, hold) = busy(&engine, &probe);
    let names: Vec<String> = (0..200).map(|number| format!("p{number}")).collect();
    let callers: Vec<_> = names.iter().map(|name| submit(&engine, acquire(name, &["a"]))).collect();
    assert_eq!(engine.queued(), 200);
    drop(hold);
    let answers: Vec<Answer> = callers.into_iter().map(answer).collect();
    assert_eq!(code(&answer(opener)), "ok");

    assert_eq!(code(&answers[0]), "ok", "who came first wins");
    for refused in &answers[1..] {
        assert_eq!(holders(refused), ["p0"]);
    }
    // The losers' refusals leave no entry: one commit for the opener, one with the one grant.
    assert_eq!(probe.batches(), [1, 1]);
}

/// J4
#[test]
fn j04_of_two_simultaneous_deliveries_exactly_one_runs() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::ZERO);
    for ask in [create("analysis/lab"), put_item("scan").of("analysis/lab")] {
        assert_eq!(code(&engine.execute_blocking(ask)), "ok");
    }
    let (opener, hold) = busy(&engine, &probe);
    let deliveries = ["w1", "w2"].map(|who| submit(&engine, acquire(who, &["scan"]).of("analysis/lab")));
    drop(hold);
    drop(opener);
    let [first, second] = deliveries.map(answer);
    assert_eq!((code(&first), code(&second)), ("ok", "held"));
}

/// R20: from real threads, with nothing but their own haste to order them.
#[test]
fn r20_a_hundred_buyers_of_the_same_three_numbers_give_one_success_and_99_refusals() {
    let probe = Probe::default();
    let engine = start(&probe, Options::default().linger);
    for ask in raffle("raffle/r", &["1", "2", "3"]) {
        assert_eq!(code(&engine.execute_blocking(ask)), "ok");
    }
    let buyers: Vec<_> = (0..100)
        .map(|number| {
            let engine = engine.clone();
            std::thread::spawn(move || {
                let ask = acquire(&format!("p{number}"), &["1", "2", "3"]).of("raffle/r");
                engine.execute_blocking(ask)
            })
        })
        .collect();
    let answers: Vec<Answer> = buyers.into_iter().map(|buyer| buyer.join().expect("no panic")).collect();
    let won: Vec<&Answer> = answers.iter().filter(|answer| code(answer) == "ok").collect();
    assert_eq!(won.len(), 1);
    let winner = claim_of(won[0]).holder.id.to_string();
    for lost in answers.iter().filter(|answer| code(answer) != "ok") {
        assert_eq!(holders(lost), [&*winner, &winner, &winner], "each number's holder is named");
    }
}

#[test]
fn everything_that_waits_is_in_one_commit() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::ZERO);
    let (opener, hold) = busy(&engine, &probe);
    let callers: Vec<_> =
        (0..300).map(|number| submit(&engine, acquire("ana", &[&format!("i{number}")]))).collect();
    drop(hold);
    for caller in callers {
        assert_eq!(code(&answer(caller)), "ok");
    }
    drop(opener);
    assert_eq!(probe.batches(), [1, 300]);
}

#[test]
fn a_batch_is_bounded_and_the_rest_keeps_its_order() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::ZERO);
    let (opener, hold) = busy(&engine, &probe);
    let total = 2 * BATCH_MAX + 5;
    let callers: Vec<_> =
        (0..total).map(|number| submit(&engine, acquire("ana", &[&format!("i{number}")]))).collect();
    drop(hold);
    let numbers: Vec<u64> = callers.into_iter().map(|caller| claim_of(&answer(caller)).number).collect();
    drop(opener);
    assert_eq!(probe.batches(), [1, BATCH_MAX, BATCH_MAX, 5]);
    assert!(numbers.is_sorted(), "granted in the order in which they came");
}

/// With a linger that outlasts any test: if one caller's request waited for company it would hang.
#[tokio::test]
async fn a_single_caller_is_never_delayed_for_company() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::from_hours(1));
    for number in 0..20 {
        let answer = soon(engine.execute(acquire("ana", &[&format!("i{number}")]))).await;
        assert_eq!(code(&answer), "ok");
    }
    assert_eq!(probe.batches(), [1; 20], "each in a commit of its own");
}

#[test]
fn callers_who_were_answered_together_share_the_next_commit_too() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::from_hours(1));
    let (opener, hold) = busy(&engine, &probe);
    let pair = ["a", "b"].map(|id| submit(&engine, acquire("ana", &[id])));
    drop(hold);
    drop((opener, pair.map(answer)));
    let third = submit(&engine, acquire("ana", &["c"]));
    let fourth = submit(&engine, acquire("ana", &["d"]));
    assert_eq!([answer(third), answer(fourth)].each_ref().map(code), ["ok", "ok"]);
    assert_eq!(probe.batches(), [1, 2, 2]);
}

#[test]
fn commands_of_one_turn_see_each_other() {
    let (mut desk, probe) = Desk::probed();
    let first = desk.put(acquire("ana", &["a"]));
    let second = desk.put(acquire("ben", &["a"]));
    // The collection's creation is event 1, the grant 2.
    let third = desk.put(release("ana", 2));
    let fourth = desk.put(acquire("cleo", &["a", "b"]));
    let report = desk.run();
    assert_eq!((report.answered, report.committed), (4, 3));
    assert_eq!(claim_of(&desk.answer(&first)).number, 2);
    assert_eq!(holders(&desk.answer(&second)), ["ana"]);
    assert_eq!(code(&desk.answer(&third)), "ok");
    let cleo = claim_of(&desk.answer(&fourth));
    assert!(cleo.token > 2, "E1: a later grant has a greater token");
    assert_eq!(probe.batches(), [3]);
    assert_eq!(
        actions(&events(&*desk.reader(), LOCKS)),
        ["collection_created", "claim_granted", "claim_released", "claim_granted"]
    );
}

#[test]
fn a_turn_that_changes_nothing_commits_nothing() {
    let (mut desk, probe) = Desk::probed();
    assert_eq!(code(&desk.ask(heartbeat("ana", 7))), "not_found");
    desk.run();
    assert!(probe.batches().is_empty());
    assert_eq!(desk.turn.next_ms(), None, "and no turn is due by itself");
}

#[test]
fn collections_do_not_wait_for_each_other_in_a_turn() {
    let mut desk = Desk::new();
    let slips = ["lock/a", "lock/b"].map(|collection| desk.put(acquire("ana", &["x"]).of(collection)));
    desk.run();
    let numbers = slips.map(|slip| claim_of(&desk.answer(&slip)).number);
    assert_eq!(numbers, [2, 2], "each collection has its own numbers");
}

#[test]
fn a_pipelined_caller_gets_every_answer_under_its_own_number() {
    let probe = Probe::default();
    let engine = start(&probe, Duration::ZERO);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for tag in 0..10 {
        let ask = acquire("ana", &[&format!("i{tag}")]);
        engine.submit(ask.into(), ReplyTo::Tagged(tag, sender.clone()));
    }
    let tags: Vec<u64> = (0..10).map(|_| receiver.blocking_recv().expect("ten answers").0).collect();
    assert_eq!(tags, (0..10).collect::<Vec<u64>>());
}
