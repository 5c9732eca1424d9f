//! The rows of the table of states that transfers go through.

use tenure_apps::payments::{PaymentQuery, SINPE_MOVIL, State};

use super::world::{HOUR_MS, MINUTE_MS, Shop, transfer};
use crate::common::{code, person};
use crate::raffle::world::field;

/// requires_action (SINPE) | reference submitted in time | pending_review
#[tokio::test]
async fn r19_a_reference_told_in_time_is_pending_review_for_twelve_hours() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let instructions = payment.instructions.clone().expect("are given");
    let shown = (&*instructions.phone_number, &*instructions.account_holder, &*instructions.amount);
    assert_eq!(shown, ("8888-0000", "Asociación Ejemplo", "₡2,000.00"));
    assert_eq!((instructions.order_code.len(), payment.expires_in_ms), (6, Some(6 * MINUTE_MS)));
    assert!(payment.payment_url.is_none());
    shop.pass(6 * MINUTE_MS - 1);
    let told = transfer("2026-0102 1234.5678", "8888-0001");
    let told = shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("in time").value;
    assert_eq!((told.state, told.expires_in_ms), (State::PendingReview, Some(12 * HOUR_MS)));
    assert_eq!(shop.numbers(&payment).await, ("verification".to_owned(), "rr".to_owned()));
    let shown = shop.now(&payment).transfer.expect("the operator sees it");
    assert_eq!((&*shown.reference, &*shown.payer_phone), ("2026010212345678", "88880001"));
    let to_buyer = shop.payments.get(&shop.world.ana, &payment.id).expect("reads");
    assert!(to_buyer.transfer.is_none() && to_buyer.buyer.is_none());

    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.pass(6 * MINUTE_MS);
    let told = shop.payments.submit(&shop.world.ana, &payment.id, &transfer("1234567890", "88880001")).await;
    assert_eq!(code(&told), "wrong_status", "too late");
    shop.payments.settle_due().await;
    assert_eq!(shop.state(&payment), State::Expired);
}

/// pending_review | approved exact / other amount | succeeded / conflicted
#[tokio::test]
async fn r19_pending_review_is_approved_for_exactly_the_amount() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.payments
        .submit(&shop.world.ana, &payment.id, &transfer("1234567890", "88880001"))
        .await
        .expect("is told");
    let list = shop.payments.list(
        &shop.world.root,
        PaymentQuery { state: Some(State::PendingReview), ..PaymentQuery::default() },
    );
    assert_eq!(list.await.expect("reads").payments.len(), 1);
    assert_eq!(code(&shop.payments.approve(&shop.world.bea, &payment.id, 200_000).await), "forbidden");
    let other = shop.payments.approve(&shop.world.root, &payment.id, 199_999).await.expect("is decided");
    assert_eq!(other.value.state, State::Conflicted);
    assert!(other.value.decided_by.is_none(), "nothing is decided for next time");
    assert_eq!(shop.numbers(&payment).await.1, "rr", "nothing is sold");
    // A slip of the operator's: the bank does show it.
    let exact = shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided");
    assert_eq!(exact.value.state, State::Succeeded);
    assert_eq!(
        (shop.numbers(&payment).await.1, exact.value.decided_by.map(|by| by.id)),
        ("ss".to_owned(), Some("root".to_owned()))
    );
    assert_eq!(exact.value.transfer.expect("stays").reference, "1234567890");
}

/// pending_review | rejected | failed, numbers freed
#[tokio::test]
async fn r19_pending_review_rejected_frees_the_numbers_and_the_reference() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let told = transfer("1234567890", "88880001");
    shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("is told");
    assert_eq!(field(shop.payments.reject(&shop.world.root, &payment.id, "  ").await), "reason");
    let rejected =
        shop.payments.reject(&shop.world.root, &payment.id, "not in the bank").await.expect("is decided");
    assert_eq!((rejected.value.state, rejected.value.reason.as_deref()), (State::Failed, Some("rejected")));
    assert_eq!(shop.numbers(&payment).await, ("ended".to_owned(), "--".to_owned()));
    // It was another's after all: that one can tell it.
    let id = shop.reserved(&shop.world.bea).await;
    let other = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
    let told = shop.payments.submit(&shop.world.bea, &other.id, &told).await.expect("is free again").value;
    assert_eq!(told.state, State::PendingReview);
}

/// pending_review | TTL | expired
#[tokio::test]
async fn r19_pending_review_that_nobody_decides_expires_with_its_numbers() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.payments
        .submit(&shop.world.ana, &payment.id, &transfer("1234567890", "88880001"))
        .await
        .expect("is told");
    shop.wait(12 * HOUR_MS).await;
    assert_eq!((shop.state(&payment), shop.numbers(&payment).await.1), (State::Expired, "--".to_owned()));
}

/// pending_review | reference used before | submission refused, claim unchanged
#[tokio::test]
async fn r19_a_reference_counts_once_however_it_is_written() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.payments
        .submit(&shop.world.ana, &payment.id, &transfer("AB12345678", "88880001"))
        .await
        .expect("is told");
    let id = shop.world.reserve(&shop.world.bea, &[20]).await.expect("is free").id;
    let other = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
    for same in ["AB12345678", "ab 1234 5678", "AB-12-34-56-78"] {
        let told = shop.payments.submit(&shop.world.bea, &other.id, &transfer(same, "88880002")).await;
        assert_eq!(field(told), "reference", "{same}");
    }
    assert_eq!((shop.state(&other), &*shop.world.get(&id).phase), (State::RequiresAction, "paying"));
    // Also when it was approved.
    shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided");
    let told = shop.payments.submit(&shop.world.bea, &other.id, &transfer("AB12345678", "88880002")).await;
    assert_eq!(field(told), "reference");
    // The same buyer telling the same again is no second transfer.
    let told = shop.payments.submit(&shop.world.bea, &other.id, &transfer("1111111111", "88880002")).await;
    let again = shop.payments.submit(&shop.world.bea, &other.id, &transfer("11111-11111", "88880002")).await;
    assert_eq!(
        (told.expect("is told").value.state, again.expect("the same").value.state),
        (State::PendingReview, State::PendingReview)
    );
}

/// What counts, counts: neither a retry after the approval nor somebody else gets at its reference.
#[tokio::test]
async fn r19_a_reference_that_was_approved_stays_spoken_for_whatever_is_told_again() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let told = transfer("1234567890", "88880001");
    shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("is told");
    shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided");
    let again = shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("the same answer");
    assert_eq!(again.value.state, State::Succeeded);
    let other = shop.payments.submit(&shop.world.ana, &payment.id, &transfer("7777777777", "88880001")).await;
    assert_eq!(code(&other), "wrong_status");
    let id = shop.world.reserve(&shop.world.bea, &[30]).await.expect("is free").id;
    let of_bea = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
    let told = shop.payments.submit(&shop.world.bea, &of_bea.id, &transfer("1234567890", "88880002")).await;
    assert_eq!(field(told), "reference");
    assert!(shop.now(&payment).transfer.is_some());
}

/// A stranger who knows the number of a transfer that nobody compared in time cannot take it over.
#[tokio::test]
async fn r19_a_transfer_that_nobody_compared_in_time_stays_its_payers() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let told = transfer("1234567890", "88880001");
    shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("is told");
    shop.wait(12 * HOUR_MS).await;
    assert_eq!(shop.state(&payment), State::Expired);
    let id = shop.world.reserve(&shop.world.bea, &[30]).await.expect("is free").id;
    let of_bea = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
    let taken = shop.payments.submit(&shop.world.bea, &of_bea.id, &transfer("1234567890", "88880002")).await;
    assert_eq!(field(taken), "reference");
    let found = shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided");
    assert_eq!(found.value.state, State::Succeeded);
}

/// A double click: one transfer, both answers the same, and the reference stays spoken for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r19_the_same_transfer_told_twice_at_once_counts_and_stays() {
    for round in 0..20 {
        let shop = Shop::new().await;
        let payment = shop.sending().await;
        let told = transfer("1234567890", "88880001");
        let tell = || {
            let (payments, ana, id, told) =
                (shop.payments.clone(), shop.world.ana.clone(), payment.id.clone(), told.clone());
            tokio::spawn(async move { payments.submit(&ana, &id, &told).await })
        };
        for one in [tell(), tell()] {
            let one = one.await.expect("ends");
            assert_eq!(one.expect("is told").value.state, State::PendingReview, "round {round}");
        }
        assert!(shop.now(&payment).transfer.is_some(), "round {round}: the operator sees it");
        let id = shop.world.reserve(&shop.world.bea, &[30]).await.expect("is free").id;
        let other = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
        let told =
            shop.payments.submit(&shop.world.bea, &other.id, &transfer("1234567890", "88880002")).await;
        assert_eq!(field(told), "reference", "round {round}");
    }
}

/// Two different transfers told at once for one payment: one is taken, and keeps all that is its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r19_two_transfers_told_at_once_for_one_payment_leave_one_whole() {
    for round in 0..20 {
        let shop = Shop::new().await;
        let payment = shop.sending().await;
        let tell = |reference: &str| {
            let (payments, ana, id) = (shop.payments.clone(), shop.world.ana.clone(), payment.id.clone());
            let told = transfer(reference, "88880001");
            tokio::spawn(async move { payments.submit(&ana, &id, &told).await })
        };
        for one in [tell("1111111111"), tell("2222222222")] {
            let _ = one.await.expect("ends");
        }
        assert_eq!(shop.state(&payment), State::PendingReview, "round {round}");
        let kept = shop.now(&payment).transfer.expect("the one that was taken").reference;
        let id = shop.world.reserve_in(&shop.world.ana, "other", &[30]).await.expect("is free").id;
        let more = shop.start(&shop.world.ana, &id, SINPE_MOVIL).await.expect("begins");
        let told = shop.payments.submit(&shop.world.ana, &more.id, &transfer("3333333333", "88880009")).await;
        assert_eq!(field(told), "payment", "round {round}: a person has one in review");
        let id = shop.world.reserve(&shop.world.bea, &[31]).await.expect("is free").id;
        let of_bea = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
        let told = shop.payments.submit(&shop.world.bea, &of_bea.id, &transfer(&kept, "88880002")).await;
        assert_eq!(field(told), "reference", "round {round}");
    }
}

/// Another transfer for what is being compared is refused, and takes nothing away from the first.
#[tokio::test]
async fn r19_another_transfer_told_for_the_same_payment_changes_nothing() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let ana = &shop.world.ana;
    shop.payments.submit(ana, &payment.id, &transfer("1234567890", "88880001")).await.expect("is told");
    let other = shop.payments.submit(ana, &payment.id, &transfer("9999999999", "88880003")).await;
    assert_eq!(code(&other), "wrong_status");
    // Nor is another amount taken for the same, and thrown away.
    let first = transfer("1234567890", "88880001");
    let corrected = tenure_apps::payments::NewTransfer { amount_minor: first.amount_minor + 1, ..first };
    assert_eq!(code(&shop.payments.submit(ana, &payment.id, &corrected).await), "wrong_status");
    let kept = shop.now(&payment).transfer.expect("the first");
    assert_eq!((&*kept.reference, &*kept.payer_phone), ("1234567890", "88880001"));
    let id = shop.world.reserve(&shop.world.bea, &[30]).await.expect("is free").id;
    let of_bea = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
    let tell = async |told| shop.payments.submit(&shop.world.bea, &of_bea.id, &told).await;
    assert_eq!(field(tell(transfer("1234567890", "88880002")).await), "reference");
    assert_eq!(field(tell(transfer("9999999999", "88880001")).await), "payer_phone");
    // What was not taken is free for whoever has it.
    tell(transfer("9999999999", "88880003")).await.expect("is told");
}

/// One reference by two users at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r19_one_reference_by_two_people_at_once_is_taken_once() {
    for round in 0..60 {
        let shop = Shop::new().await;
        let mut told = Vec::new();
        for (who, number, phone) in [("ana", 20, "88880001"), ("bea", 21, "88880002")] {
            let who = person(who);
            let id = shop.world.reserve(&who, &[number]).await.expect("is free").id;
            let payment = shop.start(&who, &id, SINPE_MOVIL).await.expect("begins");
            let (payments, sent) = (shop.payments.clone(), transfer("1234567890", phone));
            told.push((
                payment.clone(),
                tokio::spawn(async move { payments.submit(&who, &payment.id, &sent).await }),
            ));
        }
        let mut states = Vec::new();
        for (payment, told) in told {
            let _ = told.await.expect("ends");
            states.push(shop.state(&payment));
        }
        let taken = states.iter().filter(|state| **state == State::PendingReview).count();
        assert_eq!(taken, 1, "round {round}: {states:?}");
    }
}

/// At most one open transfer per person and per phone.
#[tokio::test]
async fn r19_a_person_and_a_phone_have_one_transfer_in_review() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.payments
        .submit(&shop.world.ana, &payment.id, &transfer("1111111111", "88880001"))
        .await
        .expect("is told");
    let id = shop.world.reserve_in(&shop.world.ana, "other", &[20]).await.expect("is free").id;
    let second = shop.start(&shop.world.ana, &id, SINPE_MOVIL).await.expect("begins");
    let told = shop.payments.submit(&shop.world.ana, &second.id, &transfer("2222222222", "88880009")).await;
    assert_eq!(field(told), "payment", "the same person");
    let id = shop.world.reserve(&shop.world.bea, &[21]).await.expect("is free").id;
    let third = shop.start(&shop.world.bea, &id, SINPE_MOVIL).await.expect("begins");
    let told =
        shop.payments.submit(&shop.world.bea, &third.id, &transfer("3333333333", "+506 8888-0001")).await;
    assert_eq!(field(told), "payer_phone", "the same phone, however it is written");
    shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided");
    let told = shop.payments.submit(&shop.world.ana, &second.id, &transfer("2222222222", "88880001")).await;
    assert_eq!(told.expect("nothing is open any more").value.state, State::PendingReview);
}

/// Nobody approves their own.
#[tokio::test]
async fn r19_nobody_approves_their_own() {
    let shop = Shop::new().await;
    let root = shop.world.root.clone();
    let id = shop.world.reserve(&root, &[20]).await.expect("is free").id;
    let payment = shop.start(&root, &id, SINPE_MOVIL).await.expect("begins");
    shop.payments.submit(&root, &payment.id, &transfer("1111111111", "88880001")).await.expect("is told");
    assert_eq!(code(&shop.payments.approve(&root, &payment.id, 100_000).await), "forbidden");
    assert_eq!(code(&shop.payments.reject(&root, &payment.id, "no").await), "forbidden");
    assert_eq!(shop.state(&payment), State::PendingReview);
}

/// A decision is written in the decider's name before anything comes of it; a crash in between loses nothing.
#[tokio::test]
async fn r19_a_decision_survives_a_crash_and_names_who_made_it() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.payments
        .submit(&shop.world.ana, &payment.id, &transfer("1111111111", "88880001"))
        .await
        .expect("is told");
    shop.world.office.crash_after(0, true);
    assert!(shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.is_err());
    let shop = shop.restart().await;
    shop.payments.settle_due().await;
    assert_eq!((shop.state(&payment), shop.numbers(&payment).await.1), (State::Succeeded, "ss".to_owned()));
    let events = shop.world.office.events("raffle/navidad");
    assert!(events.iter().any(|event| &*event.actor.id == "root"
        && event.fact.items().iter().any(|item| item.as_str().starts_with("attempt-"))));
}

/// Fields that are wrong are named.
#[tokio::test]
async fn r19_a_transfer_is_checked_by_field() {
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let submit = async |change: &dyn Fn(&mut tenure_apps::payments::NewTransfer)| {
        let mut told = transfer("1234567890", "88880001");
        change(&mut told);
        field(shop.payments.submit(&shop.world.ana, &payment.id, &told).await)
    };
    assert_eq!(submit(&|told| told.reference = "12345".into()).await, "reference");
    assert_eq!(submit(&|told| told.reference = "x".repeat(61)).await, "reference");
    assert_eq!(submit(&|told| told.reference = "123456é".into()).await, "reference");
    assert_eq!(submit(&|told| told.payer_phone = "123".into()).await, "payer_phone");
    assert_eq!(submit(&|told| told.payer_phone = "8888000x".into()).await, "payer_phone");
    assert_eq!(submit(&|told| told.amount_minor = 0).await, "amount_minor");
    assert_eq!(submit(&|told| told.payer_name = Some(" ".into())).await, "payer_name");
    assert_eq!(submit(&|told| told.payer_bank = Some("x".repeat(101))).await, "payer_bank");
    assert_eq!(submit(&|told| told.reference = format!("123456{}", " ".repeat(60))).await, "reference");
    let at = "2026-01-02 03:04:05";
    assert_eq!(submit(&|told| told.transferred_at = Some(at.into())).await, "transferred_at");
    assert_eq!(submit(&|told| told.transferred_at = Some("yesterday".into())).await, "transferred_at");
    let mut told = transfer("1234567890", "88880001");
    told.transferred_at = Some("2026-01-02T03:04:05-06:00".into());
    shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("as clocks in Costa Rica say it");
    let card = Shop::new().await;
    let payment = card.paying().await;
    assert_eq!(
        field(card.payments.submit(&card.world.ana, &payment.id, &transfer("1234567890", "88880001")).await),
        "provider"
    );
}

/// Nobody looked within twelve hours, and then the money is found: the numbers if they are free, else it goes back.
#[tokio::test]
async fn r19_a_transfer_found_after_its_time_gets_its_numbers_or_its_money() {
    for are_free in [true, false] {
        let shop = Shop::new().await;
        let payment = shop.sending().await;
        let told = transfer("1234567890", "88880001");
        shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("is told");
        shop.wait(12 * HOUR_MS).await;
        assert_eq!(shop.state(&payment), State::Expired);
        if !are_free {
            shop.take(&shop.world.bea, "8").await;
        }
        let found =
            shop.payments.approve(&shop.world.root, &payment.id, 200_000).await.expect("is decided").value;
        let (state, numbers) = if are_free { (State::Succeeded, "ss") } else { (State::RefundPending, "-m") };
        assert_eq!((found.state, &*shop.numbers(&payment).await.1), (state, numbers));
        assert_eq!(shop.payments.figures().refunds_open, u64::from(!are_free));
    }
    // Told again for another reservation, it counts there and nowhere else.
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    let told = transfer("1234567890", "88880001");
    shop.payments.submit(&shop.world.ana, &payment.id, &told).await.expect("is told");
    shop.wait(12 * HOUR_MS).await;
    let again = shop.sending().await;
    shop.payments.submit(&shop.world.ana, &again.id, &told).await.expect("is told again");
    assert_eq!(code(&shop.payments.approve(&shop.world.root, &payment.id, 200_000).await), "wrong_status");
    let found = shop.payments.approve(&shop.world.root, &again.id, 200_000).await.expect("is decided");
    assert_eq!(found.value.state, State::Succeeded);
    // What nobody ever told is not approved.
    let shop = Shop::new().await;
    let payment = shop.sending().await;
    shop.wait(6 * MINUTE_MS).await;
    assert_eq!(code(&shop.payments.approve(&shop.world.root, &payment.id, 200_000).await), "wrong_status");
}
