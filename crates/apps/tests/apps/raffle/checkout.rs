//! R6–R11, R23: amending, checkout, ends.

use tenure_apps::raffle::{Order, ReservationStatus};
use tenure_core::Fact;
use tenure_store::conformance::is_over_postgres;

use super::world::{CHECKOUT_MS, SELECTION_MS, World, field, taken};
use crate::common::{START_MS, code};

#[tokio::test]
async fn r06_numbers_come_and_go_and_the_deadline_stays() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.reserve(&w.bea, &[50]).await.expect("is free");
    w.office.pass(100_000);
    let more = w.raffles.add_number(&w.ana, &id, 2).await.expect("is free").value;
    assert_eq!(more.numbers, [1, 2]);
    assert_eq!(more.total_minor, 200_000);
    assert_eq!(more.expires_at.map(|at| at.0), Some(START_MS + SELECTION_MS), "set by the first number");
    assert_eq!(field(w.raffles.add_number(&w.ana, &id, 2).await), "number_id", "is there already");
    assert_eq!(field(w.raffles.add_number(&w.ana, &id, 0).await), "number_id");
    assert_eq!(field(w.raffles.add_number(&w.ana, &id, 101).await), "number_id");
    assert_eq!(taken(w.raffles.add_number(&w.ana, &id, 50).await), [50]);
    for number in 3..=10 {
        w.raffles.add_number(&w.ana, &id, number).await.expect("is free");
    }
    assert_eq!(code(&w.raffles.add_number(&w.ana, &id, 11).await), "limit", "ten and no more");
    let less = w.raffles.remove_number(&w.ana, &id, 1).await.expect("is there").value;
    assert_eq!(less.numbers, (2..=10).collect::<Vec<_>>());
    assert_eq!(code(&w.raffles.remove_number(&w.ana, &id, 1).await), "not_found");
    assert_eq!(w.grid(&w.ana).await[..2], *"-m", "1 is available again");
    w.reserve_in(&w.bea, "two", &[1]).await.expect("is available");
    w.office.pass(SELECTION_MS - 100_000);
    assert_eq!(code(&w.raffles.add_number(&w.ana, &id, 11).await), "wrong_phase", "not after its end");
    assert_eq!(code(&w.raffles.remove_number(&w.ana, &id, 3).await), "wrong_phase");
    w.office.pass(CHECKOUT_MS);
    assert_eq!(code(&w.raffles.add_number(&w.ana, &id, 11).await), "wrong_status");
}

#[tokio::test]
async fn r06_the_last_number_stays() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    assert_eq!(code(&w.raffles.remove_number(&w.ana, &id, 1).await), "invalid", "cancel it instead");
    assert_eq!(w.get(&id).numbers, [1]);
}

#[tokio::test]
async fn r07_pay_now_begins_checkout_once() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(42_000);
    let paid = w.raffles.move_to_checkout(&w.ana, &id).await.expect("is in selection").value;
    assert_eq!(&*paid.phase, "checkout");
    assert_eq!(paid.expires_at.map(|at| at.0), Some(START_MS + 42_000 + CHECKOUT_MS));
    assert_eq!(paid.checkout_started_at.map(|at| at.0), Some(START_MS + 42_000));
    assert_eq!(code(&w.raffles.move_to_checkout(&w.ana, &id).await), "wrong_phase", "a second time");
    w.office.pass(CHECKOUT_MS);
    assert_eq!(code(&w.raffles.move_to_checkout(&w.ana, &id).await), "wrong_status", "after its end");
}

#[tokio::test]
async fn r08_selection_moves_to_checkout_by_itself() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(SELECTION_MS + 1);
    // Nobody has swept: the reader judges by the deadline.
    let seen = w.get(&id);
    assert_eq!((&*seen.phase, seen.status), ("checkout", ReservationStatus::Pending));
    assert_eq!(
        seen.checkout_started_at.map(|at| at.0),
        Some(START_MS + SELECTION_MS),
        "where selection ended"
    );
    assert_eq!(seen.expires_in_ms, Some(CHECKOUT_MS - 1), "and 300 s run from there");
    assert_eq!(taken(w.reserve(&w.bea, &[1]).await), [1]);
}

#[tokio::test]
async fn r08_when_checkout_began_by_itself_is_still_known_when_it_is_over() {
    let w = World::new().await;
    let began = Some(START_MS + SELECTION_MS);
    let (ana, bea) = (w.reserve(&w.ana, &[1]).await, w.reserve(&w.bea, &[2]).await);
    let (expires, cancelled) = (ana.expect("is free").id, bea.expect("is free").id);
    w.office.pass(SELECTION_MS + 1);
    let gone = w.raffles.cancel(&w.bea, &cancelled).await.expect("is pending").value;
    assert_eq!(gone.checkout_started_at.map(|at| at.0), began, "cancelled in checkout");
    w.office.pass(CHECKOUT_MS);
    let seen = w.get(&expires);
    assert_eq!(seen.status, ReservationStatus::Expired);
    assert_eq!(seen.checkout_started_at.map(|at| at.0), began, "expired in checkout");
    // Whoever gives up while choosing was never there.
    let early = w.reserve(&w.bea, &[3]).await.expect("is free").id;
    let early = w.raffles.cancel(&w.bea, &early).await.expect("is pending").value.id;
    w.office.pass(SELECTION_MS + 1);
    assert_eq!(w.get(&early).checkout_started_at, None);
}

/// Freed by an administrator while numbers were chosen: nobody ever was in checkout, however late somebody looks.
#[tokio::test]
async fn r08_a_reservation_that_was_freed_in_selection_was_never_in_checkout() {
    let w = World::new().await;
    let (chosen, paid) = (w.reserve(&w.ana, &[1, 2]).await, w.reserve_in(&w.bea, "late", &[3]).await);
    let (chosen, paid) = (chosen.expect("are free").id, paid.expect("is free").id);
    w.office.pass(SELECTION_MS - 1);
    w.force_free(1).await;
    w.reserve_in(&w.bea, "one", &[1]).await.expect("is available");
    w.office.pass(2);
    w.force_free(3).await;
    let began = |id: &str| w.get(id).checkout_started_at.map(|at| at.0);
    assert_eq!((began(&chosen), began(&paid)), (None, Some(START_MS + SELECTION_MS)), "one was, one was not");
    assert_eq!(
        (w.status(&chosen), w.status(&paid)),
        (ReservationStatus::Expired, ReservationStatus::Expired)
    );
    // Others have all their numbers now. The first of them came before checkout could begin.
    w.reserve_in(&w.bea, "two", &[2, 3]).await.expect("are available");
    assert_eq!((began(&chosen), began(&paid)), (None, Some(START_MS + SELECTION_MS)));
}

/// Selection lasted longer by as much as nobody could choose.
#[tokio::test]
async fn r08_checkout_began_later_where_the_server_was_away() {
    const AWAY_MS: i64 = 100_000;
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(AWAY_MS);
    let w = w.restart();
    // See e07_r19 in payments/crash.rs.
    let away_ms = if is_over_postgres() { 0 } else { AWAY_MS };
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    let seen = w.get(&id);
    assert_eq!(seen.status, ReservationStatus::Expired);
    assert_eq!(seen.checkout_started_at.map(|at| at.0), Some(START_MS + away_ms + SELECTION_MS));
}

#[tokio::test]
async fn r09_at_the_end_of_checkout_the_numbers_are_available() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2, 3]).await.expect("are free").id;
    w.office.pass(SELECTION_MS + CHECKOUT_MS - 1);
    assert_eq!(w.status(&id), ReservationStatus::Pending, "a millisecond before");
    w.office.pass(1);
    let seen = w.get(&id);
    assert_eq!((seen.status, &*seen.phase, seen.expires_at), (ReservationStatus::Expired, "ended", None));
    assert_eq!(w.grid(&w.ana).await[..3], *"---", "availability waits for no sweeper");
    w.reserve(&w.bea, &[3]).await.expect("is available");
    let expiries = w.office.events("raffle/navidad").into_iter().filter_map(|event| match event.fact {
        Fact::Ended(end) => Some(end.items.len()),
        _ => None,
    });
    assert_eq!(expiries.collect::<Vec<_>>(), [3], "one event with all its numbers");
    assert_eq!(w.status(&id), ReservationStatus::Expired, "whoever has a number of it now");
}

#[tokio::test]
async fn r23_a_sweep_by_hand_answers_the_count() {
    let w = World::new().await;
    w.reserve(&w.ana, &[1]).await.expect("is free");
    w.reserve(&w.bea, &[2]).await.expect("is free");
    w.office.pass(1_000);
    w.reserve_in(&w.bea, "two", &[3]).await.expect("is free");
    assert_eq!(w.raffles.expire(&w.root).await.expect("sweeps").expired, 0);
    w.office.pass(SELECTION_MS + CHECKOUT_MS - 1_000);
    assert_eq!(w.raffles.expire(&w.root).await.expect("sweeps").expired, 2, "the third has a second left");
    assert_eq!(w.raffles.expire(&w.root).await.expect("sweeps").expired, 0, "once each");
    assert_eq!(code(&w.raffles.expire(&w.ana).await), "forbidden");
}

#[tokio::test]
async fn r10_cancel_only_while_pending() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    assert_eq!(code(&w.raffles.cancel(&w.bea, &id).await), "forbidden");
    let cancelled = w.raffles.cancel(&w.ana, &id).await.expect("is pending").value;
    assert_eq!((cancelled.status, &*cancelled.phase), (ReservationStatus::Cancelled, "ended"));
    assert_eq!(w.grid(&w.ana).await[..2], *"--");
    assert_eq!(code(&w.raffles.cancel(&w.ana, &id).await), "wrong_status", "a second time");
    let sold = w.buy(&w.ana, &[3]).await;
    assert_eq!(code(&w.raffles.cancel(&w.ana, &sold).await), "wrong_status", "what is sold");
    let late = w.reserve(&w.ana, &[4]).await.expect("is free").id;
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    assert_eq!(code(&w.raffles.cancel(&w.ana, &late).await), "wrong_status", "what ran out");
    assert_eq!(w.status(&late), ReservationStatus::Expired);
}

#[tokio::test]
async fn r10_an_administrator_cancels_anybodys_and_the_log_says_so() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    let cancelled = w.raffles.cancel(&w.root, &id).await.expect("may").value;
    assert_eq!(cancelled.status, ReservationStatus::Cancelled);
    assert!(w.office.actions("raffle/navidad").contains(&"LOCK_FORCE_RELEASE"));
    w.reserve(&w.bea, &[1, 2]).await.expect("are available");
}

#[tokio::test]
async fn r11_what_is_paid_is_sold_for_ever() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    w.step(&id, |order| order.pay(None)).await.expect("is pending");
    w.step(&id, Order::sell).await.expect("is ours");
    let sold = w.get(&id);
    assert_eq!((sold.status, &*sold.phase), (ReservationStatus::Confirmed, "completed"));
    assert_eq!(w.grid(&w.ana).await[..3], *"bb-");
    assert_eq!(w.grid(&w.bea).await[..3], *"ss-");
    assert_eq!(code(&w.step(&id, Order::sell).await), "wrong_status", "only while pending");
    w.office.pass(365 * 24 * 3_600 * 1_000);
    assert_eq!(w.status(&id), ReservationStatus::Confirmed);
    let refusal = w.reserve(&w.bea, &[1]).await;
    assert_eq!(taken(refusal), [1]);
    let w = w.restart();
    assert_eq!(w.status(&id), ReservationStatus::Confirmed, "also after a restart");
    assert_eq!(taken(w.reserve(&w.bea, &[2]).await), [2]);
}

#[tokio::test]
async fn r11_what_ran_out_is_not_sold() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    assert_eq!(code(&w.step(&id, Order::sell).await), "wrong_status");
    assert_eq!(w.grid(&w.ana).await[..1], *"-");
}

#[tokio::test]
async fn only_the_owner_and_an_administrator_see_or_change_it() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    let before = w.office.actions("raffle/navidad").len();
    assert_eq!(code(&w.raffles.get_reservation(&w.bea, &id)), "forbidden");
    assert_eq!(code(&w.raffles.add_number(&w.bea, &id, 3).await), "forbidden");
    assert_eq!(code(&w.raffles.remove_number(&w.bea, &id, 1).await), "forbidden");
    assert_eq!(code(&w.raffles.move_to_checkout(&w.bea, &id).await), "forbidden");
    assert_eq!(code(&w.raffles.get_reservation(&w.root, &id)), "ok");
    assert_eq!(code(&w.raffles.get_reservation(&w.ana, "navidad~x")), "not_found");
    assert_eq!(code(&w.raffles.get_reservation(&w.ana, "nothing")), "not_found");
    assert_eq!(w.office.actions("raffle/navidad").len(), before);
}

/// Its owner or an administrator changes a reservation; the latter by name, and under the owner's limits.
#[tokio::test]
async fn r07_an_administrator_changes_a_reservation_and_the_event_says_so() {
    let w = World::new().await;
    let held = w.reserve(&w.ana, &[1, 2]).await.expect("are free");
    let added = w.raffles.add_number(&w.root, &held.id, 3).await.expect("may").value;
    assert_eq!((added.numbers, &*added.user_id), (vec![1, 2, 3], "ana"));
    let written = |w: &World| {
        let events = w.office.events("raffle/navidad");
        let puts = events.iter().rev().filter_map(|event| match &event.fact {
            Fact::ItemPut { write, .. } if write.id.as_str().starts_with("reservation-") => {
                Some(format!("{write:?}"))
            }
            _ => None,
        });
        puts.into_iter().next().expect("was written")
    };
    assert!(written(&w).contains("amended_by") && written(&w).contains("root"), "{}", written(&w));
    w.raffles.remove_number(&w.root, &held.id, 2).await.expect("may");
    let own = w.raffles.add_number(&w.ana, &held.id, 4).await.expect("is hers").value;
    assert_eq!(own.numbers, [1, 3, 4]);
    assert!(!written(&w).contains("amended_by"));
    let paid = w.raffles.move_to_checkout(&w.root, &held.id).await.expect("may").value;
    assert_eq!(paid.phase, "checkout");
    assert_eq!(code(&w.raffles.add_number(&w.bea, &held.id, 5).await), "forbidden");
    let open = w.raffles.open_reservations(&w.root, "navidad".to_owned()).await.expect("reads");
    assert_eq!(open.reservations.iter().map(|open| &*open.id).collect::<Vec<_>>(), [&*held.id]);
    assert_eq!(code(&w.raffles.open_reservations(&w.ana, "navidad".to_owned()).await), "forbidden");
    w.raffles.cancel(&w.root, &held.id).await.expect("may");
    assert!(
        w.raffles
            .open_reservations(&w.root, "navidad".to_owned())
            .await
            .expect("reads")
            .reservations
            .is_empty()
    );
}
