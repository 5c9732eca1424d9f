//! Money that is owed.

use tenure_apps::payments::{BAC_CREDOMATIC, Charge, Payment, SINPE_MOVIL, State, Trouble};

use super::world::{MINUTE_MS, SECOND_MS, Shop, crc, outcome, transfer};
use crate::common::code;

/// Paid, but Bea has one of the numbers.
async fn owed(shop: &Shop) -> Payment {
    let payment = shop.paying().await;
    shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled");
    shop.force_free().await;
    shop.take(&shop.world.bea, "8").await;
    shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
    shop.wait(10 * MINUTE_MS).await;
    payment
}

/// refund_pending | ok / error | refunded / refund_failed, alert
#[tokio::test]
async fn r19_refund_pending_is_refunded_or_fails_and_says_so() {
    let shop = Shop::new().await;
    let payment = owed(&shop).await;
    assert_eq!((shop.state(&payment), shop.refunded()), (State::Refunded, vec![200_000]), "never ×100");
    assert_eq!(shop.payments.figures().refunds_open, 0);

    let shop = Shop::new().await;
    shop.say(|said| said.refund = Err(Trouble::harmless("refused", "58")));
    let payment = owed(&shop).await;
    assert_eq!((shop.state(&payment), shop.payments.figures().refunds_open), (State::RefundFailed, 1));
    shop.say(|said| said.refund = Ok(()));
    let again = shop.payments.refund(&shop.world.root, &payment.id).await.expect("again");
    assert_eq!((again.value.state, shop.payments.figures().refunds_open), (State::Refunded, 0));
    assert_eq!(code(&shop.payments.refund(&shop.world.root, &payment.id).await), "wrong_status");
}

/// An answer that is lost: before it is asked again, the provider is asked whether it was done.
#[tokio::test]
async fn r19_a_refund_whose_answer_was_lost_is_not_made_twice() {
    let shop = Shop::new().await;
    shop.say(|said| said.refund = Err(Trouble::unclear("timeout", "30 s")));
    let payment = owed(&shop).await;
    assert_eq!((shop.state(&payment), shop.refunded().len()), (State::RefundPending, 1));
    shop.say(|said| said.lookup = Ok(outcome(Charge::Refunded, Some(crc(200_000)))));
    shop.wait(5 * SECOND_MS).await;
    assert_eq!((shop.state(&payment), shop.refunded().len()), (State::Refunded, 1));
}

#[tokio::test]
async fn r19_what_was_paid_wrongly_is_given_back_as_it_was_paid() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Approved, Some(crc(20_000_000))))));
    shop.back(&payment).await.expect("is answered");
    let refunded = shop.payments.refund(&shop.world.root, &payment.id).await.expect("is decided");
    assert_eq!((refunded.value.state, shop.refunded()), (State::Refunded, vec![20_000_000]));
    assert_eq!(shop.numbers(&payment).await.1, "--", "the numbers are for others");
}

/// A transfer is given back by a person, who says so.
#[tokio::test]
async fn r19_a_transfer_is_given_back_by_a_person() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.payments
        .submit(&shop.world.ana, &payment.id, &transfer("1234567890", "88880001"))
        .await
        .expect("is told");
    shop.payments.approve(&shop.world.root, &payment.id, 150_000).await.expect("is decided");
    let owed = shop.payments.refund(&shop.world.root, &payment.id).await.expect("is decided");
    assert_eq!((owed.value.state, shop.payments.figures().refunds_open), (State::RefundPending, 1));
    let done = shop.payments.refund(&shop.world.root, &payment.id).await.expect("was done by hand");
    assert_eq!((done.value.state, shop.payments.figures().refunds_open), (State::Refunded, 0));
    assert_eq!(shop.asked().2, 0);
}

/// Who is sold numbers keeps them: they are not given back here.
#[tokio::test]
async fn r11_what_is_sold_is_not_refunded_and_nobody_decides_twice() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.back(&payment).await.expect("is answered");
    let root = &shop.world.root;
    assert_eq!(code(&shop.payments.refund(root, &payment.id).await), "wrong_status");
    assert_eq!(code(&shop.payments.approve(root, &payment.id, 200_000).await), "wrong_status");
    assert_eq!(code(&shop.payments.reject(root, &payment.id, "no").await), "wrong_status");
    assert_eq!(code(&shop.payments.refund(&shop.world.bea, &payment.id).await), "forbidden");
    assert_eq!(code(&shop.payments.refund(root, "navidad~x").await), "not_found");
    assert!(shop.start(&shop.world.ana, &payment.reservation_id, SINPE_MOVIL).await.is_err(), "it is paid");
    assert!(shop.start(&shop.world.ana, &payment.reservation_id, BAC_CREDOMATIC).await.is_err());
}
