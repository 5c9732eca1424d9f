//! How much one person may have, over all tabs and devices.

use tenure_apps::Refusal;
use tenure_apps::raffle::{Limits, ReservationStatus};

use super::world::{CHECKOUT_MS, SELECTION_MS, World};
use crate::common::code;

const HOUR_MS: i64 = 3_600_000;

async fn world(limits: Limits) -> World {
    let mut w = World::new().await;
    w.raffles = w.raffles.clone().with_limits(limits);
    w
}

#[tokio::test]
async fn r24_open_reservations_are_limited_over_all_tabs() {
    let w = World::new().await;
    let mut first = None;
    for (index, tab) in ["a", "b", "c"].iter().enumerate() {
        let number = u32::try_from(index).expect("small") + 1;
        let made = w.reserve_in(&w.ana, tab, &[number]).await.expect("is free").id;
        first = first.or(Some(made));
    }
    let refusal = w.reserve_in(&w.ana, "d", &[9]).await.expect_err("three are open");
    assert!(matches!(refusal, Refusal::Limit { limit: "open_reservations", max: 3 }), "{refusal:?}");
    w.reserve_in(&w.ana, "b", &[9]).await.expect("a tab that has one gets it back all the same");
    w.reserve_in(&w.bea, "d", &[9]).await.expect("others have their own");
    w.raffles.cancel(&w.ana, &first.expect("one")).await.expect("is pending");
    w.reserve_in(&w.ana, "d", &[10]).await.expect("two are open");
}

#[tokio::test]
async fn r24_numbers_of_one_raffle_are_limited_held_and_bought() {
    let w = world(Limits { numbers: 5, ..Limits::default() }).await;
    w.buy(&w.ana, &[1, 2]).await;
    let held = w.reserve(&w.ana, &[3, 4]).await.expect("four").id;
    let refusal = w.reserve_in(&w.ana, "two", &[5, 6]).await.expect_err("six");
    assert!(matches!(refusal, Refusal::Limit { limit: "numbers_per_buyer", max: 5 }), "{refusal:?}");
    w.raffles.add_number(&w.ana, &held, 5).await.expect("five");
    assert_eq!(code(&w.raffles.add_number(&w.ana, &held, 6).await), "limit");
    w.raffles.remove_number(&w.ana, &held, 3).await.expect("is there");
    w.raffles.add_number(&w.ana, &held, 6).await.expect("five");
    assert_eq!(code(&w.reserve_in(&w.ana, "two", &[7]).await), "limit");
    w.reserve(&w.bea, &[7, 8, 9, 10, 11]).await.expect("others have their own");
}

/// Two tabs at the same moment do not both find the last room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r24_two_tabs_at_once_do_not_pass_a_limit_together() {
    for round in 0..20 {
        let w = world(Limits { numbers: 10, ..Limits::default() }).await;
        let (one, two) = tokio::join!(
            w.reserve_in(&w.ana, "one", &[1, 2, 3, 4, 5, 6]),
            w.reserve_in(&w.ana, "two", &[11, 12, 13, 14, 15, 16]),
        );
        let codes = [code(&one), code(&two)];
        assert!(codes == ["ok", "limit"] || codes == ["limit", "ok"], "{round}: {codes:?}");
    }
}

#[tokio::test]
async fn r24_who_holds_and_abandons_has_to_wait() {
    let w = World::new().await;
    for round in 0..6 {
        let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
        w.office.pass(10_000);
        if round % 2 == 0 {
            w.raffles.cancel(&w.ana, &id).await.expect("is pending");
        } else {
            w.office.pass(SELECTION_MS + CHECKOUT_MS);
            assert_eq!(w.status(&id), ReservationStatus::Expired);
        }
    }
    // Three of them took a whole timer each: the first began 45 minutes and a minute ago.
    let gone_ms = 3 * (SELECTION_MS + CHECKOUT_MS) + 60_000;
    let Err(Refusal::TooOften { limit, max, wait_ms }) = w.reserve(&w.ana, &[2]).await else {
        panic!("six were abandoned");
    };
    assert_eq!((limit, max, wait_ms), ("abandoned_reservations", 6, HOUR_MS - gone_ms));
    w.reserve(&w.bea, &[2]).await.expect("others need not");
    w.office.pass(wait_ms - 1);
    assert_eq!(code(&w.reserve(&w.ana, &[3]).await), "rate_limited");
    w.office.pass(1);
    w.reserve(&w.ana, &[3]).await.expect("the first is an hour ago");
}

#[tokio::test]
async fn r24_who_pays_need_not_wait() {
    let w = World::new().await;
    for number in 1..=20 {
        w.buy(&w.ana, &[number]).await;
    }
    w.reserve(&w.ana, &[21]).await.expect("nothing was abandoned");
}
