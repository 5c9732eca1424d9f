//! What comes after the end: reloads, late charges, and numbers that are taken again.

use std::sync::Arc;

use tenure_apps::payments::{Charge, State, Trouble};
use tenure_apps::raffle::Order;
use tenure_core::{CollectionKey, Command, Policy, Verb};

use super::world::{MINUTE_MS, Shop, crc, outcome, until};
use crate::common::{code, keyed};

/// A buyer who reloads the return page asks out of turn; the last look stays where it was.
#[tokio::test]
async fn r19_a_reload_does_not_use_up_the_last_look() {
    for answer in [Ok(outcome(Charge::Absent, None)), Err(Trouble::unclear("status", "500"))] {
        let shop = Shop::new().await;
        let payment = shop.paying().await;
        shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled");
        shop.say(|said| (said.lookup, said.lookups) = (answer, 0));
        for _ in 0..20 {
            shop.back(&payment).await.expect("is answered");
        }
        assert_eq!(shop.asked().1, 1, "however often somebody reloads");
        for _ in 0..20 {
            shop.pass(6_000);
            shop.back(&payment).await.expect("is answered");
        }
        shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
        shop.wait(10 * MINUTE_MS).await;
        assert_eq!((shop.state(&payment), &*shop.numbers(&payment).await.1), (State::Succeeded, "ss"));
    }
}

/// Numbers that are taken again for a late payment are those that were paid: none comes in, none goes.
#[tokio::test]
async fn r19_numbers_taken_again_cannot_be_changed() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled");
    shop.pass(16 * MINUTE_MS);
    let (id, ana, raffles) = (&payment.reservation_id, &shop.world.ana, &shop.world.raffles);
    shop.world.step(id, Order::retake).await.expect("are free");
    assert_eq!(shop.world.get(id).phase, "selection");
    assert_eq!(code(&raffles.add_number(ana, id, 50).await), "wrong_phase");
    assert_eq!(code(&raffles.remove_number(ana, id, 7).await), "wrong_phase");
    assert_eq!(shop.world.get(id).numbers, [7, 8]);
}

/// A gateway that hangs after a restart holds up nothing but its own.
#[tokio::test]
async fn r19_after_a_restart_what_hangs_holds_up_nothing_else() {
    let shop = Shop::new().await;
    shop.say(|said| said.confirm = Some(Err(Trouble::unclear("timeout", "30 s"))));
    let first = shop.paying().await;
    shop.back(&first).await.expect("is answered");
    let id = shop.world.reserve(&shop.world.bea, &[20]).await.expect("is free").id;
    let second = shop.start(&shop.world.bea, &id, "bac_credomatic").await.expect("begins");
    shop.back(&second).await.expect("is answered");
    assert_eq!((shop.state(&first), shop.state(&second)), (State::Unknown, State::Unknown));
    shop.say(|said| (said.is_hung, said.lookups) = (true, 0));
    assert_eq!(shop.payments.recover(true).await.expect("reads"), 2);
    let mut running = tokio::task::JoinSet::new();
    shop.payments.settle_beside(&mut running);
    until(|| shop.asked().1 == 2).await;
    // The next tick does not ask a second time, and has room for others.
    shop.pass(10 * MINUTE_MS);
    shop.payments.recover(false).await.expect("reads");
    shop.payments.settle_beside(&mut running);
    assert_eq!((shop.asked().1, running.len()), (2, 2));
    shop.say(|said| said.is_hung = false);
    running.shutdown().await;
}

/// However short an operator makes `paying`: the numbers are kept while the provider charges.
#[tokio::test]
async fn r19_a_charge_is_covered_whatever_is_left_of_paying() {
    let shop = Shop::new().await;
    let mut policy = Policy::raffle();
    policy.phases[2].ttl_ms = 20_000;
    let verb = Verb::SetPolicy { kind: "raffle".into(), policy: Arc::new(policy) };
    let (collection, actor) = (CollectionKey::policies(), shop.world.root.principal.clone());
    let set = shop.world.office.engine.execute(Command { collection, actor, verb }).await;
    set.outcome.expect("is a good policy");
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = None);
    let (payments, id, token) =
        (shop.payments.clone(), payment.id.clone(), super::world::token(&payment).to_owned());
    let charging = tokio::spawn(async move { payments.callback(&id, &token, b"done").await });
    until(|| shop.asked().0 == 1).await;
    shop.pass(45_000);
    assert_eq!(shop.numbers(&payment).await, ("verification".to_owned(), "rr".to_owned()));
    charging.abort();
}

/// The second return finds the first one charging, however long that takes.
#[tokio::test]
async fn r19_a_return_while_another_charges_charges_nothing() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = None);
    let back = || {
        let (payments, id) = (shop.payments.clone(), payment.id.clone());
        let token = super::world::token(&payment).to_owned();
        tokio::spawn(async move { payments.callback(&id, &token, b"done").await })
    };
    let (first, second) = (back(), back());
    until(|| first.is_finished() || second.is_finished()).await;
    assert_eq!((shop.asked().0, shop.state(&payment)), (1, State::Processing));
    first.abort();
    second.abort();
}

/// Enough for every card in a wallet, and no place to try stolen ones.
#[tokio::test]
async fn r24_attempts_for_one_reservation_are_limited() {
    let shop = Shop::new().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Declined, None))));
    let first = shop.paying().await;
    shop.back(&first).await.expect("is answered");
    for _ in 1..10 {
        let next =
            shop.start(&shop.world.ana, &first.reservation_id, "bac_credomatic").await.expect("begins");
        shop.back(&next).await.expect("is answered");
    }
    let over = shop.start(&shop.world.ana, &first.reservation_id, "bac_credomatic").await;
    assert_eq!((code(&over), shop.asked().0), ("limit", 10));
}

/// I13: the key of a cancel is kept with what it did, the operator's apart from the buyer's.
#[tokio::test]
async fn r19_a_cancel_under_a_key_is_repeated_not_made_again() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    for who in [&shop.world.ana, &shop.world.root] {
        let who = keyed(who, "k");
        let first = shop.payments.cancel(&who, &payment.id).await.expect("is canceled");
        assert_eq!((first.value.state, first.replayed), (State::Canceled, false));
    }
    let again = shop.payments.cancel(&keyed(&shop.world.ana, "k"), &payment.id).await.expect("is repeated");
    assert_eq!((again.value.state, again.replayed), (State::Canceled, true));
}
