//! The rows of the table of states that cards go through.

use tenure_apps::payments::{BAC_CREDOMATIC, Charge, Money, NewPayment, SINPE_MOVIL, Signal, State, Trouble};

use super::world::{MINUTE_MS, SECOND_MS, Shop, crc, outcome, token, until};
use crate::common::{code, keyed};

/// – | start; claim valid, no open attempt; same Idempotency-Key → same attempt | created
#[tokio::test]
async fn r19_start_makes_one_attempt_per_key_and_one_at_a_time() {
    let shop = Shop::new().await;
    let ana = &shop.world.ana;
    let reservation_id = shop.reserved(ana).await;
    let new = NewPayment { reservation_id: reservation_id.clone(), provider: BAC_CREDOMATIC.to_owned() };
    let first = shop.payments.start(&keyed(ana, "k"), &new).await.expect("begins");
    let again = shop.payments.start(&keyed(ana, "k"), &new).await.expect("the same");
    assert_eq!((again.replayed, &again.value.id), (true, &first.value.id));
    assert_eq!(again.value.payment_url, first.value.payment_url, "also after a lost answer one can pay");
    assert_eq!(code(&shop.payments.start(ana, &new).await), "wrong_status", "one is open");
    let other = shop.start(&shop.world.bea, &reservation_id, BAC_CREDOMATIC).await;
    assert_eq!(code(&other), "forbidden", "only the owner pays");
    assert_eq!(code(&shop.start(ana, "navidad~nothing", BAC_CREDOMATIC).await), "not_found");
    // What is over is not paid.
    shop.wait(30 * MINUTE_MS).await;
    assert_eq!(code(&shop.start(ana, &reservation_id, BAC_CREDOMATIC).await), "wrong_status");
}

/// created | provider answers / errors | requires_action / failed (claim kept)
#[tokio::test]
async fn r19_created_becomes_requires_action_or_failed_with_the_claim_kept() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    assert_eq!((payment.state, payment.expires_in_ms), (State::RequiresAction, Some(300_000)));
    assert_eq!(token(&payment).len(), 64, "256 bits");
    let page = shop.payments.page(&payment.id, token(&payment)).expect("is shown");
    assert_eq!(page.html.expose(), "<p>the page</p>");
    shop.say(|said| assert_eq!(said.bills[0].amount.major(), "2000.00"));

    let shop = Shop::new().await;
    shop.say(|said| said.start = Err(Trouble::harmless("status", "503")));
    let payment = shop.paying().await;
    assert_eq!((payment.state, payment.reason.as_deref()), (State::Failed, Some("status")));
    assert_eq!(shop.numbers(&payment).await, ("checkout".to_owned(), "rr".to_owned()), "the claim is kept");
    shop.say(|said| said.start = Ok(()));
    let again = shop.start(&shop.world.ana, &payment.reservation_id, BAC_CREDOMATIC).await.expect("again");
    assert_eq!(again.state, State::RequiresAction);
}

/// requires_action | buyer cancels or picks another provider | canceled, after a lookup
#[tokio::test]
async fn r19_requires_action_is_canceled_after_a_lookup() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    let canceled = shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled").value;
    assert_eq!((canceled.state, shop.asked().1), (State::Canceled, 1));
    assert_eq!(shop.numbers(&payment).await.0, "checkout");
    assert_eq!(
        shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("again").value.state,
        State::Canceled
    );
    // Another provider: the first attempt is given up for it.
    let card = shop.start(&shop.world.ana, &payment.reservation_id, BAC_CREDOMATIC).await.expect("again");
    let sinpe = shop.start(&shop.world.ana, &payment.reservation_id, SINPE_MOVIL).await.expect("another");
    assert_eq!((shop.state(&card), sinpe.state), (State::Canceled, State::RequiresAction));
    assert_eq!(shop.asked(), (0, 2, 0));
    assert_eq!(code(&shop.payments.cancel(&shop.world.bea, &sinpe.id).await), "forbidden");

    // The lookup says that it is paid: then it is.
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
    let canceled = shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is answered").value;
    assert_eq!(canceled.state, State::Succeeded);
}

/// requires_action | callback, claim ours and alive | processing
#[tokio::test]
async fn r19_requires_action_is_processing_while_the_provider_charges() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = None);
    let (payments, id, secret) = (shop.payments.clone(), payment.id.clone(), token(&payment).to_owned());
    tokio::spawn(async move { payments.callback(&id, &secret, b"done").await });
    until(|| shop.asked().0 == 1).await;
    assert_eq!(shop.state(&payment), State::Processing);
    assert_eq!(shop.numbers(&payment).await, ("paying".to_owned(), "rr".to_owned()));
}

/// requires_action | callback after the claim ended | take all items again → processing; else expired, no charge
#[tokio::test]
async fn r19_requires_action_after_the_claim_ended_takes_all_again_or_charges_nothing() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.force_free().await;
    assert_eq!(shop.numbers(&payment).await.1, "--");
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Succeeded);
    assert_eq!(shop.numbers(&payment).await, ("completed".to_owned(), "ss".to_owned()));
    assert_eq!(shop.payments.figures().late, 1);

    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.force_free().await;
    shop.take(&shop.world.bea, "8").await;
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Expired);
    assert_eq!(shop.asked().0, 0, "nothing is charged");
    assert_eq!(shop.numbers(&payment).await.1.chars().next(), Some('-'), "none is taken");
}

/// requires_action | 3DS N/R | failed; retry while time is left
#[tokio::test]
async fn r19_requires_action_with_3ds_n_fails_and_can_be_tried_again() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.signal = Signal::NotAuthenticated { reason: "3ds_n" });
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Failed);
    assert_eq!((shop.asked().0, shop.now(&payment).reason.as_deref()), (0, Some("3ds_n")));
    shop.say(|said| said.signal = Signal::Done);
    let again = shop.start(&shop.world.ana, &payment.reservation_id, BAC_CREDOMATIC).await.expect("again");
    assert_eq!(shop.back(&again).await.expect("is answered"), State::Succeeded);
}

/// requires_action | older than 5 min | expired, after one lookup
#[tokio::test]
async fn r19_requires_action_older_than_five_minutes_expires_after_one_lookup() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.wait(5 * MINUTE_MS - 1).await;
    assert_eq!((shop.state(&payment), shop.asked().1), (State::RequiresAction, 0));
    shop.wait(1).await;
    assert_eq!((shop.state(&payment), shop.asked().1), (State::Expired, 1));
    assert!(shop.payments.page(&payment.id, token(&payment)).is_err(), "the page is gone");
    // The same by a return that comes too late, before anybody looked.
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.pass(5 * MINUTE_MS);
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Expired);
    assert_eq!(shop.asked(), (0, 1, 0));
}

/// processing | approved, amounts match | succeeded, numbers sold
#[tokio::test]
async fn r11_r19_processing_approved_sells_the_numbers() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Succeeded);
    assert_eq!(shop.numbers(&payment).await, ("completed".to_owned(), "ss".to_owned()));
    let paid = shop.now(&payment);
    assert_eq!((paid.paid.map(|paid| paid.minor), paid.txn_id.as_deref()), (Some(200_000), Some("R1")));
    assert_eq!(shop.payments.figures().by_provider, [(BAC_CREDOMATIC.to_owned(), 1, 1)]);
}

/// processing | declined | failed, claim back in checkout
#[tokio::test]
async fn r19_processing_declined_fails_and_goes_back_to_checkout_for_what_is_left() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Declined, None))));
    shop.pass(100 * SECOND_MS);
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Failed);
    let reservation = shop.world.get(&payment.reservation_id);
    assert_eq!((&*reservation.phase, reservation.expires_in_ms), ("checkout", Some(200_000)));
}

/// processing | timeout, 5xx | unknown; numbers stay held; lookup with backoff
#[tokio::test]
async fn r19_processing_without_an_answer_is_unknown_and_looked_up_with_backoff() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.say(|said| {
        said.confirm = Some(Err(Trouble::unclear("timeout", "30 s")));
        said.lookup = Err(Trouble::unclear("status", "500"));
    });
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Unknown);
    assert_eq!(shop.numbers(&payment).await, ("verification".to_owned(), "rr".to_owned()));
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let (before, mut waited) = (shop.asked().1, 0);
        while shop.asked().1 == before {
            shop.wait(SECOND_MS).await;
            waited += 1;
        }
        pauses.push(waited);
    }
    assert_eq!(pauses, [2, 4, 8, 16]);
    assert_eq!(shop.numbers(&payment).await.1, "rr", "nobody else gets them meanwhile");
    assert_eq!(
        code(&shop.start(&shop.world.ana, &payment.reservation_id, SINPE_MOVIL).await),
        "wrong_status"
    );
}

/// unknown | lookup: approved / absent / too often | succeeded / failed / review by a person
#[tokio::test]
async fn r19_unknown_is_settled_by_lookups_or_by_a_person() {
    let unknown = async || {
        let shop = Shop::new().await;
        let payment = shop.paying().await;
        shop.say(|said| said.confirm = Some(Err(Trouble::unclear("timeout", "30 s"))));
        assert_eq!(shop.back(&payment).await.expect("is answered"), State::Unknown);
        (shop, payment)
    };
    let (shop, payment) = unknown().await;
    shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
    shop.wait(2 * SECOND_MS).await;
    assert_eq!(shop.state(&payment), State::Succeeded);
    assert_eq!(shop.numbers(&payment).await.1, "ss");

    // Not there is believed only once a charge cannot be on its way any more.
    let (shop, payment) = unknown().await;
    shop.wait(2 * SECOND_MS).await;
    assert_eq!(shop.state(&payment), State::Unknown);
    shop.wait(60 * SECOND_MS).await;
    assert_eq!(shop.state(&payment), State::Failed);
    assert_eq!(shop.numbers(&payment).await.0, "checkout");

    let (shop, payment) = unknown().await;
    shop.say(|said| said.lookup = Err(Trouble::unclear("status", "500")));
    for _ in 0..12 {
        shop.wait(5 * MINUTE_MS).await;
    }
    assert_eq!(shop.state(&payment), State::PendingReview);
    assert_eq!(shop.numbers(&payment).await.1, "rr", "the numbers are kept for the decision");
    let approved = shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided");
    assert_eq!(approved.value.state, State::Succeeded);
}

/// any open | amount or currency differs | conflicted; never sold by itself
#[tokio::test]
async fn r19_another_amount_or_currency_is_conflicted_and_sells_nothing() {
    let usd = Money { currency: tenure_apps::payments::Currency::new("USD").expect("known"), ..crc(200_000) };
    for paid in [Some(crc(20_000_000)), Some(crc(199_999)), Some(usd), None] {
        let shop = Shop::new().await;
        let payment = shop.paying().await;
        shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Approved, paid))));
        assert_eq!(shop.back(&payment).await.expect("is answered"), State::Conflicted, "{paid:?}");
        assert_eq!(shop.numbers(&payment).await, ("verification".to_owned(), "rr".to_owned()));
        for _ in 0..20 {
            shop.wait(MINUTE_MS).await;
        }
        assert_eq!(shop.state(&payment), State::Conflicted, "nothing comes of it by itself");
    }
}

/// succeeded | the same callback again | nothing, same answer
#[tokio::test]
async fn r19_succeeded_and_the_same_callback_again_is_the_same_answer() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Succeeded);
    let commits = shop.world.office.commits();
    assert_eq!(shop.back(&payment).await.expect("the same"), State::Succeeded);
    assert_eq!((shop.asked(), shop.world.office.commits()), ((1, 0, 0), commits));
}

/// failed, expired, canceled | lookup says paid | numbers free → succeeded; else paid_unassigned → refund_pending
#[tokio::test]
async fn r19_an_unpaid_end_that_was_paid_after_all_gets_its_numbers_or_its_money() {
    for end in [State::Failed, State::Expired, State::Canceled] {
        for are_free in [true, false] {
            let shop = Shop::new().await;
            let payment = shop.paying().await;
            match end {
                State::Failed => {
                    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Declined, None))));
                    shop.back(&payment).await.expect("is answered");
                }
                State::Expired => shop.wait(5 * MINUTE_MS).await,
                _ => drop(shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled")),
            }
            assert_eq!(shop.state(&payment), end);
            shop.pass(9 * MINUTE_MS);
            assert_eq!(shop.numbers(&payment).await.1, "--", "{end:?}");
            if !are_free {
                shop.take(&shop.world.bea, "8").await;
            }
            shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
            shop.wait(MINUTE_MS).await;
            if are_free {
                assert_eq!(shop.state(&payment), State::Succeeded, "{end:?}");
                assert_eq!(shop.numbers(&payment).await.1, "ss");
            } else {
                assert_eq!(
                    (shop.state(&payment), shop.refunded()),
                    (State::Refunded, vec![200_000]),
                    "{end:?}"
                );
                assert_eq!(shop.now(&payment).reason.as_deref(), Some("numbers_gone"));
            }
        }
    }
}

/// succeeded | a late "failed" | ignored, logged
#[tokio::test]
async fn r19_succeeded_ignores_a_late_failure() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.back(&payment).await.expect("is answered");
    shop.say(|said| {
        said.signal = Signal::NotAuthenticated { reason: "3ds_n" };
        said.lookup = Ok(outcome(Charge::Declined, None));
    });
    assert_eq!(shop.back(&payment).await.expect("the same"), State::Succeeded);
    shop.wait(20 * MINUTE_MS).await;
    assert_eq!((shop.state(&payment), shop.numbers(&payment).await.1), (State::Succeeded, "ss".to_owned()));
}

/// any | wrong token, another order's token, replay | 404 or 409, logged, no change
#[tokio::test]
async fn r19_a_wrong_token_changes_nothing() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    let other = shop.world.reserve(&shop.world.bea, &[20]).await.expect("is free").id;
    let other = shop.start(&shop.world.bea, &other, BAC_CREDOMATIC).await.expect("begins");
    let commits = shop.world.office.commits();
    for wrong in ["", "x", token(&other), &token(&payment).to_uppercase(), &token(&payment)[1..]] {
        let called = shop.payments.callback(&payment.id, wrong, b"done").await;
        assert_eq!(
            (code(&called), code(&shop.payments.page(&payment.id, wrong))),
            ("not_found", "not_found")
        );
    }
    let called = shop.payments.callback("navidad~nothing", token(&payment), b"done").await;
    assert_eq!(code(&called), "not_found");
    assert_eq!(code(&shop.payments.callback(&payment.id, token(&payment), b"rubbish").await), "invalid");
    assert_eq!((shop.world.office.commits(), shop.asked().0), (commits, 0));
    assert_eq!(shop.state(&payment), State::RequiresAction);
}

/// order paid | a second attempt also paid | paid_unassigned → refund_pending
#[tokio::test]
async fn r19_a_second_attempt_that_is_also_paid_is_given_back() {
    let shop = Shop::new().await;
    let first = shop.paying().await;
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Declined, None))));
    assert_eq!(shop.back(&first).await.expect("is answered"), State::Failed);
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Approved, Some(crc(200_000))))));
    let second = shop.start(&shop.world.ana, &first.reservation_id, BAC_CREDOMATIC).await.expect("again");
    assert_eq!(shop.back(&second).await.expect("is answered"), State::Succeeded);
    shop.say(|said| said.lookup = Ok(outcome(Charge::Approved, Some(crc(200_000)))));
    shop.wait(10 * MINUTE_MS).await;
    assert_eq!((shop.state(&first), shop.refunded()), (State::Refunded, vec![200_000]));
    assert_eq!(shop.now(&first).reason.as_deref(), Some("already_paid"));
    assert_eq!((shop.state(&second), shop.numbers(&first).await.1), (State::Succeeded, "ss".to_owned()));
}

/// Two simultaneous callbacks → one charge.
#[tokio::test]
async fn r19_two_callbacks_at_once_charge_once() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    let (one, other) = tokio::join!(shop.back(&payment), shop.back(&payment));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!((shop.asked().0, shop.state(&payment)), (1, State::Succeeded));
}

/// Paying with a second left is covered by the provider's time, once: trying again is not.
#[tokio::test]
async fn r07_r18_the_deadline_is_extended_once_to_cover_the_gateway() {
    let shop = Shop::new().await;
    let ana = &shop.world.ana;
    let id = shop.reserved(ana).await;
    shop.world.raffles.move_to_checkout(ana, &id).await.expect("in checkout");
    shop.pass(299 * SECOND_MS);
    let payment = shop.start(ana, &id, BAC_CREDOMATIC).await.expect("with a second left");
    assert_eq!(shop.world.get(&id).expires_in_ms, Some(360_000));
    shop.pass(100 * SECOND_MS);
    shop.say(|said| said.confirm = Some(Ok(outcome(Charge::Declined, None))));
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Failed);
    // Its own time was over long ago.
    shop.pass(1);
    assert_eq!(shop.numbers(&payment).await, ("ended".to_owned(), "--".to_owned()));
    assert_eq!(code(&shop.start(ana, &id, BAC_CREDOMATIC).await), "wrong_status");

    // Starting and canceling again and again gains nothing.
    let shop = Shop::new().await;
    let id = shop.reserved(&shop.world.ana).await;
    for _ in 0..6 {
        let Ok(payment) = shop.start(&shop.world.ana, &id, BAC_CREDOMATIC).await else { break };
        shop.pass(55 * SECOND_MS);
        shop.payments.cancel(&shop.world.ana, &payment.id).await.expect("is canceled");
    }
    shop.pass(1);
    assert_eq!(&*shop.world.get(&id).phase, "ended", "after the five minutes of checkout");
}
