//! What payments do to a reservation.

use tenure_apps::raffle::{Order, RaffleStatus, ReservationStatus};

use super::world::{CHECKOUT_MS, SELECTION_MS, World, taken};
use crate::common::{START_MS, code};

const PAYING_MS: i64 = 360_000;

#[tokio::test]
async fn r19_paying_keeps_the_numbers_longer_and_comes_back_with_the_time_that_was_left() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    w.raffles.move_to_checkout(&w.ana, &id).await.expect("is in selection");
    w.office.pass(CHECKOUT_MS - 40_000);
    w.step(&id, |order| order.pay(None)).await.expect("is ours");
    let paying = w.get(&id);
    assert_eq!((&*paying.phase, paying.expires_in_ms), ("paying", Some(PAYING_MS)));
    assert_eq!(paying.checkout_started_at.map(|at| at.0), Some(START_MS), "is kept");
    assert_eq!(code(&w.raffles.cancel(&w.ana, &id).await), "wrong_phase", "not while somebody is charged");
    w.office.pass(100_000);
    let left_ms = w.raffles.order(&id).expect("reads").checkout_left_ms();
    assert_eq!(left_ms, Some(40_000));
    w.step(&id, |order| order.back(40_000)).await.expect("is ours");
    let back = w.get(&id);
    assert_eq!((&*back.phase, back.expires_in_ms), ("checkout", Some(40_000)));
    w.raffles.cancel(&w.ana, &id).await.expect("now it can be given up");
}

#[tokio::test]
async fn r18_paying_from_selection_goes_through_checkout() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(7_000);
    w.step(&id, |order| order.pay(None)).await.expect("is ours");
    let paying = w.get(&id);
    assert_eq!(&*paying.phase, "paying");
    assert_eq!(paying.checkout_started_at.map(|at| at.0), Some(START_MS + 7_000));
    assert_eq!(w.raffles.order(&id).expect("reads").checkout_left_ms(), Some(CHECKOUT_MS));
}

#[tokio::test]
async fn r19_verification_lasts_half_a_day_and_ends_either_way() {
    let w = World::new().await;
    let [yes, no, late] = [1, 2, 3].map(|number| [number]);
    let mut ids = Vec::new();
    for (index, numbers) in [yes, no, late].iter().enumerate() {
        let id = w.reserve_in(&w.ana, &format!("tab-{index}"), numbers).await.expect("is free").id;
        w.step(&id, |order| order.verify(None)).await.expect("is ours");
        ids.push(id);
    }
    w.office.pass(11 * 3_600_000);
    w.step(&ids[0], Order::sell).await.expect("approved");
    w.step(&ids[1], Order::give_up).await.expect("rejected");
    assert_eq!(w.status(&ids[2]), ReservationStatus::Pending);
    w.office.pass(3_600_000);
    let states = ids.iter().map(|id| w.status(id)).collect::<Vec<_>>();
    let expected = [ReservationStatus::Confirmed, ReservationStatus::Cancelled, ReservationStatus::Expired];
    assert_eq!(states, expected);
    assert_eq!(w.grid(&w.ana).await[..4], *"b---");
}

#[tokio::test]
async fn r19_a_late_payment_takes_all_numbers_again_or_none() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    assert_eq!(code(&w.step(&id, Order::retake).await), "wrong_phase", "it holds them");
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    w.step(&id, Order::retake).await.expect("nobody has them");
    assert_eq!(w.status(&id), ReservationStatus::Pending);
    assert_eq!(w.grid(&w.ana).await[..2], *"mm");
    w.step(&id, |order| order.pay(None)).await.expect("is ours");
    w.step(&id, Order::sell).await.expect("is ours");
    assert_eq!(w.status(&id), ReservationStatus::Confirmed);
    assert_eq!(code(&w.step(&id, Order::retake).await), "wrong_phase", "it is sold");

    let late = w.reserve(&w.ana, &[3, 4]).await.expect("are free").id;
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    w.reserve(&w.bea, &[4, 5]).await.expect("are available");
    assert_eq!(taken(w.step(&late, Order::retake).await), [4]);
    assert_eq!(w.status(&late), ReservationStatus::Expired, "and 3 is not taken alone");
    assert_eq!(w.grid(&w.ana).await[..5], *"bb-rr");
}

#[tokio::test]
async fn r19_a_late_payment_does_not_take_the_buyers_own_newer_reservation() {
    let w = World::new().await;
    let late = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    let newer = w.reserve(&w.ana, &[1, 2, 3]).await.expect("are available").id;
    assert_eq!(taken(w.step(&late, Order::retake).await), [1, 2]);
    assert_eq!(w.status(&newer), ReservationStatus::Pending);
    assert_eq!(w.get(&newer).numbers, [1, 2, 3]);
}

#[tokio::test]
async fn r19_what_is_cancelled_can_be_paid_late_and_a_drawn_raffle_takes_nothing() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.raffles.cancel(&w.ana, &id).await.expect("is pending");
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    w.step(&id, Order::retake).await.expect("nobody has it");
    assert_eq!(w.status(&id), ReservationStatus::Pending);
    w.step(&id, Order::sell).await.expect("is ours");
    w.becomes(RaffleStatus::Active).await.expect("opens again");
    let late = w.reserve(&w.ana, &[2]).await.expect("is free").id;
    w.raffles.cancel(&w.ana, &late).await.expect("is pending");
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    w.raffles.draw(&w.root, "navidad").await.expect("is drawn");
    assert_eq!(code(&w.step(&late, Order::retake).await), "wrong_status");
}
