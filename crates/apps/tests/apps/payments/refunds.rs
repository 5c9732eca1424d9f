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
    let again = shop.payments.refund(&shop.world.root, &payment.id, None).await.expect("again");
    assert_eq!((again.value.state, shop.payments.figures().refunds_open), (State::Refunded, 0));
    assert_eq!(code(&shop.payments.refund(&shop.world.root, &payment.id, None).await), "wrong_status");
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

/// While the provider takes its time, neither the settler nor an operator asks it a second time; whoever asked
/// may be gone, and then it is asked whether it was done.
#[tokio::test]
async fn r19_a_refund_under_way_is_not_asked_for_again() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Approved, Some(crc(100))))));
    shop.back(&payment).await.expect("is answered");
    assert_eq!(shop.state(&payment), State::Conflicted);
    let (payments, root, id) = (shop.payments.clone(), shop.world.root.clone(), payment.id.clone());
    shop.say(|said| said.refund = Err(Trouble::unclear("timeout", "never")));
    // The lookup before it is answered, the refund is not.
    let asking = tokio::spawn(async move { payments.refund(&root, &id, None).await });
    asking.await.expect("ends").expect("is on record");
    assert_eq!((shop.state(&payment), shop.refunded().len()), (State::RefundPending, 1));
    shop.say(|said| (said.is_hung, said.lookups) = (true, 0));
    // The settler takes its turn, and is not answered either.
    shop.pass(5 * SECOND_MS);
    let payments = shop.payments.clone();
    let hung = tokio::spawn(async move { payments.settle_due().await });
    super::world::until(|| shop.asked().1 == 1).await;
    hung.abort();
    let _ = hung.await;
    shop.say(|said| said.is_hung = false);
    shop.payments.recover(false).await.expect("reads");
    shop.payments.refund(&shop.world.root, &payment.id, None).await.expect("is answered");
    shop.wait(30 * SECOND_MS).await;
    assert_eq!((shop.asked().1, shop.refunded().len()), (1, 1), "somebody else's turn");
    shop.say(|said| said.lookup = Ok(outcome(Charge::Refunded, Some(crc(100)))));
    shop.payments.recover(false).await.expect("reads");
    shop.wait(90 * SECOND_MS).await;
    assert_eq!((shop.state(&payment), shop.refunded().len()), (State::Refunded, 1));
}

/// Whoever puts it on record asks, and the settler lets them.
#[tokio::test]
async fn r19_the_settler_does_not_ask_beside_whoever_owes_it() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Approved, Some(crc(100))))));
    shop.back(&payment).await.expect("is answered");
    shop.say(|said| (said.is_hung, said.lookups) = (true, 0));
    let (payments, root, id) = (shop.payments.clone(), shop.world.root.clone(), payment.id.clone());
    let asking = tokio::spawn(async move { payments.refund(&root, &id, None).await });
    super::world::until(|| shop.asked().1 == 1).await;
    shop.say(|said| said.is_hung = false);
    shop.payments.recover(false).await.expect("reads");
    shop.wait(30 * SECOND_MS).await;
    assert_eq!((shop.state(&payment), shop.refunded().len()), (State::RefundPending, 0));
    asking.abort();
}

/// What the provider cannot be asked about is not paid a second time: a person looks.
#[tokio::test]
async fn r19_a_refund_that_may_have_been_made_waits_for_a_lookup() {
    let shop = Shop::new().await;
    shop.say(|said| said.refund = Err(Trouble::unclear("timeout", "502")));
    let payment = owed(&shop).await;
    shop.say(|said| said.lookup = Err(Trouble::unclear("status", "500")));
    for _ in 0..10 {
        shop.wait(10 * MINUTE_MS).await;
    }
    assert_eq!(shop.refunded().len(), 1, "asked once");
    let failed = shop.now(&payment);
    assert_eq!((failed.state, failed.reason.as_deref()), (State::RefundFailed, Some("unclear")));
    // Not even for an operator; who has looked, and sent it by hand, says so.
    shop.payments.refund(&shop.world.root, &payment.id, None).await.expect("is answered");
    assert_eq!((shop.state(&payment), shop.refunded().len()), (State::RefundPending, 1));
    assert_eq!(
        code(&shop.payments.refund(&shop.world.root, &payment.id, Some("2026")).await),
        "wrong_status"
    );
    for _ in 0..10 {
        shop.wait(10 * MINUTE_MS).await;
    }
    let sent = shop.payments.refund(&shop.world.root, &payment.id, Some("2026")).await.expect("is told");
    assert_eq!((sent.value.state, shop.payments.figures().refunds_open), (State::Refunded, 0));
}

#[tokio::test]
async fn r19_what_was_paid_wrongly_is_given_back_as_it_was_paid() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Approved, Some(crc(20_000_000))))));
    shop.back(&payment).await.expect("is answered");
    let refunded = shop.payments.refund(&shop.world.root, &payment.id, None).await.expect("is decided");
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
    let owed = shop.payments.refund(&shop.world.root, &payment.id, None).await.expect("is decided");
    assert_eq!((owed.value.state, shop.payments.figures().refunds_open), (State::RefundPending, 1));
    // A double click, a retry: nobody has sent anything yet.
    let again = shop.payments.refund(&shop.world.root, &payment.id, None).await.expect("is answered");
    assert_eq!((again.value.state, shop.payments.figures().refunds_open), (State::RefundPending, 1));
    let blank = shop.payments.refund(&shop.world.root, &payment.id, Some(" ")).await;
    assert_eq!(crate::raffle::world::field(blank), "sent_reference");
    let sent = shop.payments.refund(&shop.world.root, &payment.id, Some("2026999")).await;
    let done = sent.expect("was done by hand");
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
    assert_eq!(code(&shop.payments.refund(root, &payment.id, None).await), "wrong_status");
    assert_eq!(code(&shop.payments.approve(root, &payment.id, 200_000).await), "wrong_status");
    assert_eq!(code(&shop.payments.reject(root, &payment.id, "no").await), "wrong_status");
    assert_eq!(code(&shop.payments.refund(&shop.world.bea, &payment.id, None).await), "forbidden");
    assert_eq!(code(&shop.payments.refund(root, "navidad~x", None).await), "not_found");
    assert!(shop.start(&shop.world.ana, &payment.reservation_id, SINPE_MOVIL).await.is_err(), "it is paid");
    assert!(shop.start(&shop.world.ana, &payment.reservation_id, BAC_CREDOMATIC).await.is_err());
}
