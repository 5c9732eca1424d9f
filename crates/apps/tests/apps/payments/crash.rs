//! A crash between any two steps is repaired at the start, by asking the provider.

use tenure_apps::payments::{BAC_CREDOMATIC, Charge, State};
use tenure_apps::raffle::ReservationStatus;
use tenure_store::conformance::is_over_postgres;

use super::world::{SECOND_MS, Shop, crc, outcome, token, until};
use crate::common::{code, keyed};

/// The process dies while the provider charges, or before it is asked.
async fn died_in_processing() -> (Shop, tenure_apps::payments::Payment) {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = None);
    let (payments, id, secret) = (shop.payments.clone(), payment.id.clone(), token(&payment).to_owned());
    let returning = tokio::spawn(async move { payments.callback(&id, &secret, b"done").await });
    until(|| shop.asked().0 == 1).await;
    returning.abort();
    (shop, payment)
}

/// Crash between (a) and (b), or in (b): the provider knows whether it charged.
#[tokio::test]
async fn r19_a_crash_between_a_and_b_is_settled_by_a_lookup_at_the_start() {
    let (shop, payment) = died_in_processing().await;
    shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
    let shop = shop.restart().await;
    assert_eq!(shop.state(&payment), State::Succeeded);
    assert_eq!(shop.numbers(&payment).await.1, "ss");
    assert_eq!(shop.asked().0, 1, "nobody charges again");

    let (shop, payment) = died_in_processing().await;
    let shop = shop.restart().await;
    assert_eq!(shop.state(&payment), State::Unknown, "a charge may still be on its way");
    shop.wait(62 * SECOND_MS).await;
    assert_eq!(shop.state(&payment), State::Failed);
    assert_eq!(shop.asked().0, 1, "nobody charges again");
    let again = shop.start(&shop.world.ana, &payment.reservation_id, BAC_CREDOMATIC).await.expect("again");
    assert_eq!(again.state, State::RequiresAction);
}

/// Crash between (b) and (c), with the outcome written or not: it is charged, and sold once.
#[tokio::test]
async fn r19_a_crash_between_b_and_c_is_settled_by_a_lookup_at_the_start() {
    for is_kept in [false, true] {
        let shop = Shop::new().await;
        let payment = shop.paying().await;
        // (a) is written, (c) is where the power goes.
        shop.world.office.crash_after(1, is_kept);
        assert!(shop.back(&payment).await.is_err());
        shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
        let shop = shop.restart().await;
        assert_eq!(shop.state(&payment), State::Succeeded, "kept: {is_kept}");
        assert_eq!((shop.numbers(&payment).await.1, shop.asked().0), ("ss".to_owned(), 1));
        assert_eq!(shop.refunded(), Vec::<i64>::new());
    }
}

/// Crash before the money that is owed was given back: it is on record, and given back once.
#[tokio::test]
async fn r19_a_crash_before_a_refund_gives_the_money_back_once() {
    for commits in 1..=3 {
        let shop = Shop::new().await;
        let payment = shop.paying().await;
        shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled");
        shop.force_free().await;
        shop.take(&shop.world.bea, "8").await;
        shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
        shop.world.office.crash_after(commits - 1, true);
        shop.pass(600 * SECOND_MS);
        shop.payments.settle_due().await;
        let was_refunded = !shop.refunded().is_empty();
        if was_refunded {
            shop.say(|said| said.lookup = Ok(outcome(Charge::Refunded, Some(crc(200_000)))));
        }
        let shop = shop.restart().await;
        // Whoever was asking has a minute and a half; only then does another.
        shop.wait(90 * SECOND_MS).await;
        assert_eq!((shop.state(&payment), shop.refunded()), (State::Refunded, vec![200_000]), "{commits}");
    }
}

/// A server that died while it asked for a page: the attempt fails, and another can begin.
#[tokio::test]
async fn r19_an_attempt_that_never_began_is_failed_after_a_minute() {
    let shop = Shop::new().await;
    let reservation = shop.reserved(&shop.world.ana).await;
    shop.world.office.crash_after(0, true);
    assert!(shop.start(&shop.world.ana, &reservation, BAC_CREDOMATIC).await.is_err());
    let shop = shop.restart().await;
    assert!(shop.start(&shop.world.ana, &reservation, BAC_CREDOMATIC).await.is_err(), "one is open");
    shop.wait(60 * SECOND_MS).await;
    let again = shop.start(&shop.world.ana, &reservation, BAC_CREDOMATIC).await.expect("again");
    assert_eq!(again.state, State::RequiresAction);
}

/// The answer to its first commit was lost, and its buyer asks another node, which has not read everything anew since: a
/// retry shows that it is there, it can be given up at once, and ends by itself.
#[tokio::test]
async fn r19_a_payment_that_did_not_begin_is_given_up_by_its_buyer_or_by_time() {
    for is_canceled in [true, false] {
        let shop = Shop::new().await;
        let reservation = shop.reserved(&shop.world.ana).await;
        let ana = keyed(&shop.world.ana, "once");
        shop.world.office.crash_after(0, true);
        assert!(shop.start(&ana, &reservation, BAC_CREDOMATIC).await.is_err());
        let shop = shop.elsewhere();
        let again = shop.start(&ana, &reservation, BAC_CREDOMATIC).await.expect("the same");
        assert_eq!(again.state, State::Created);
        let another = shop.start(&shop.world.ana, &reservation, BAC_CREDOMATIC).await;
        assert_eq!(code(&another), "wrong_status", "one is open");
        let ended = if is_canceled {
            let canceled = shop.payments.cancel(&shop.world.ana, &again.id).await.expect("is canceled");
            assert_eq!(canceled.value.state, State::Canceled);
            State::Canceled
        } else {
            shop.wait(60 * SECOND_MS).await;
            State::Failed
        };
        assert_eq!(shop.state(&again), ended);
        let same = shop.start(&ana, &reservation, BAC_CREDOMATIC).await.expect("the same");
        assert_eq!((same.id, same.state), (again.id, ended), "one key, one outcome");
        let fresh = shop.start(&shop.world.ana, &reservation, BAC_CREDOMATIC).await.expect("another");
        assert_eq!(fresh.state, State::RequiresAction);
    }
}

/// A server that was away took nobody's time: what was left of checkout is still left.
#[tokio::test]
async fn e07_r19_time_that_the_server_was_away_is_not_the_buyers() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.pass(3_600 * SECOND_MS);
    let shop = shop.restart().await;
    shop.payments.settle_due().await;
    assert_eq!((shop.state(&payment), shop.asked().1), (State::Expired, 1), "the page is over");
    let reservation = shop.world.get(&payment.reservation_id);
    if is_over_postgres() {
        // A node that comes back cannot know whether others went on meanwhile, and time with them: nothing is given
        // back, as docs/guarantees.md says.
        assert_eq!(reservation.status, ReservationStatus::Expired);
        return;
    }
    assert_eq!((&*reservation.phase, reservation.expires_in_ms), ("checkout", Some(300_000)));
}
