//! R1–R5: reserving.

use tenure_apps::raffle::{RaffleStatus, ReservationStatus};

use super::world::{SELECTION_MS, World, asked, field, taken};
use crate::common::{START_MS, code, keyed, person};

#[tokio::test]
async fn r01_one_to_ten_distinct_numbers() {
    let w = World::new().await;
    assert_eq!(field(w.reserve(&w.ana, &[]).await), "number_ids");
    let eleven: Vec<u32> = (1..=11).collect();
    assert_eq!(field(w.reserve(&w.ana, &eleven).await), "number_ids");
    assert_eq!(field(w.reserve(&w.ana, &[4, 5, 4]).await), "number_ids[2]");
    assert_eq!(field(w.reserve(&w.ana, &[4, 0]).await), "number_ids[1]");
    assert_eq!(field(w.reserve(&w.ana, &[101]).await), "number_ids[0]");
    assert_eq!(field(w.reserve_in(&w.ana, "", &[1]).await), "session_id");
    let events = w.office.actions("raffle/navidad").len();
    assert_eq!(events, 3, "nothing was left behind");
    let ten = w.reserve(&w.ana, &eleven[..10]).await.expect("ten are allowed");
    assert_eq!(ten.numbers, eleven[..10]);
    assert_eq!((ten.status, &*ten.phase), (ReservationStatus::Pending, "selection"));
    assert_eq!((ten.user_id.as_str(), ten.session_id.as_str()), ("ana", "tab"));
}

#[tokio::test]
async fn r02_all_or_nothing_and_the_answer_names_what_was_not_available() {
    let w = World::new().await;
    w.reserve(&w.bea, &[3, 5]).await.expect("are free");
    w.buy(&w.bea, &[9]).await;
    assert_eq!(taken(w.reserve(&w.ana, &[2, 3, 4, 5, 9]).await), [3, 5, 9]);
    assert_eq!(w.grid(&w.ana).await[..10], *"--r-r---s-");
    let refusal = w.reserve(&w.ana, &[2, 3]).await.expect_err("3 is held");
    assert_eq!(refusal.to_string(), "not available: 3", "nobody learns whose it is");
    w.reserve(&w.ana, &[2, 4]).await.expect("the others are free");
}

#[tokio::test]
async fn r03_a_session_gets_its_open_reservation_back() {
    let w = World::new().await;
    let first = w.raffles.reserve(&w.ana, &asked("tab", &[1, 2])).await.expect("are free").value;
    assert!(first.is_new);
    w.office.pass(5_000);
    let events = w.office.actions("raffle/navidad").len();
    let again = w.raffles.reserve(&w.ana, &asked("tab", &[7, 8])).await.expect("has one").value;
    assert!(!again.is_new);
    assert_eq!(again.reservation.id, first.reservation.id);
    assert_eq!(again.reservation.numbers, [1, 2], "whatever was asked for");
    assert_eq!(again.reservation.expires_at, first.reservation.expires_at, "the timer goes on");
    assert_eq!(w.office.actions("raffle/navidad").len(), events, "and nothing happened");
    let other = w.reserve_in(&w.ana, "tab-2", &[7]).await.expect("another tab has none");
    assert_ne!(other.id, first.reservation.id);
    // The same name of a tab is another person's own.
    assert_eq!(taken(w.reserve(&w.bea, &[1]).await), [1]);
    w.raffles.cancel(&w.ana, &first.reservation.id).await.expect("is pending");
    let next = w.raffles.reserve(&w.ana, &asked("tab", &[9])).await.expect("are free").value;
    assert!(next.is_new, "an ended one is not given back");
}

#[tokio::test]
async fn r03_a_retry_under_the_same_key_gets_the_same_reservation() {
    let w = World::new().await;
    let ana = keyed(&w.ana, "k1");
    let first = w.raffles.reserve(&ana, &asked("tab", &[1, 2])).await.expect("are free");
    let again = w.raffles.reserve(&ana, &asked("tab", &[1, 2])).await.expect("was decided");
    assert!(again.replayed && again.value.is_new);
    assert_eq!(again.value.reservation.id, first.value.reservation.id);
    let w = w.restart();
    let again = w.raffles.reserve(&ana, &asked("tab", &[1, 2])).await.expect("was decided");
    assert_eq!(again.value.reservation.id, first.value.reservation.id, "also across a restart");
}

#[tokio::test]
async fn r04_the_raffle_must_exist_and_be_active() {
    let w = World::draft(100).await;
    assert_eq!(code(&w.reserve(&w.ana, &[1]).await), "wrong_status");
    w.becomes(RaffleStatus::Active).await.expect("opens");
    w.reserve(&w.ana, &[1]).await.expect("is active");
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    assert_eq!(code(&w.reserve(&w.bea, &[2]).await), "wrong_status");
    for unknown in ["easter", "", "../navidad", "a b"] {
        let mut asked = asked("tab", &[1]);
        asked.raffle_id = unknown.to_owned();
        assert_eq!(code(&w.raffles.reserve(&w.ana, &asked).await), "not_found", "{unknown:?}");
    }
    assert_eq!(code(&w.reserve(&person("vera"), &[2]).await), "forbidden");
}

#[tokio::test]
async fn r05_the_total_is_whole_minor_units_frozen_at_the_reservation() {
    let w = World::new().await;
    let held = w.reserve(&w.ana, &[1, 2, 3]).await.expect("are free");
    assert_eq!((held.price_minor, held.total_minor, &*held.currency), (100_000, 300_000, "CRC"));
    let json = serde_json::to_value(&held).expect("serialises");
    assert_eq!(json["total_minor"], serde_json::json!(300_000));
    assert!(json["total_minor"].is_u64(), "never a float");
    assert_eq!(json["expires_in_ms"], serde_json::json!(SELECTION_MS));
    assert_eq!(json["selection_started_at"], "2026-01-02T03:04:05.678Z");
    assert_eq!(held.server_time.0, START_MS);
}

/// R2: another tab of the same person has a number as much as anybody.
#[tokio::test]
async fn r02_numbers_of_ones_own_other_tab_are_taken_too() {
    let w = World::new().await;
    w.reserve_in(&w.ana, "tab-1", &[1, 2]).await.expect("are free");
    assert_eq!(taken(w.reserve_in(&w.ana, "tab-2", &[1]).await), [1]);
    assert_eq!(taken(w.reserve_in(&w.ana, "tab-2", &[3, 2, 1]).await), [1, 2]);
    let events = w.office.actions("raffle/navidad").len();
    for _ in 0..10 {
        assert_eq!(
            taken(w.reserve_in(&w.ana, "tab-2", &[2]).await),
            [2],
            "and it is no abandoned reservation"
        );
    }
    assert_eq!(w.office.actions("raffle/navidad").len(), events);
    w.reserve_in(&w.ana, "tab-2", &[3]).await.expect("is free");
}

/// R3: the timer of a session's reservation runs while the raffle is paused, so its page still finds it.
#[tokio::test]
async fn r03_a_session_gets_its_reservation_back_while_the_raffle_is_paused() {
    let w = World::new().await;
    let first = w.reserve(&w.ana, &[1, 2]).await.expect("are free");
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    let again = w.raffles.reserve(&w.ana, &asked("tab", &[1, 2])).await.expect("has one").value;
    assert_eq!((again.is_new, again.reservation.id), (false, first.id));
}

/// E4: the key of a request that was answered with the session's reservation keeps that answer.
#[tokio::test]
async fn e04_a_key_that_got_the_sessions_reservation_gets_it_again() {
    let w = World::new().await;
    let first = w.reserve(&w.ana, &[1, 2]).await.expect("are free");
    let ana = keyed(&w.ana, "k1");
    for _ in 0..2 {
        let again = w.raffles.reserve(&ana, &asked("tab", &[3])).await.expect("has one");
        assert_eq!((again.value.is_new, &again.value.reservation.id), (false, &first.id));
    }
    w.raffles.cancel(&w.ana, &first.id).await.expect("is pending");
    let again = w.raffles.reserve(&ana, &asked("tab", &[3])).await.expect("was decided");
    assert!(again.replayed && !again.value.is_new);
    assert_eq!(again.value.reservation.id, first.id, "a retry makes no new one");
}

/// A raffle in a currency that nobody can pay is not made.
#[tokio::test]
async fn r05_the_currency_is_one_that_can_be_paid() {
    let w = World::new().await;
    let zzz =
        tenure_apps::raffle::NewRaffle { currency: "ZZZ".to_owned(), id: None, ..super::world::new(10) };
    assert_eq!(field(w.raffles.create(&w.root, zzz).await), "currency");
}
