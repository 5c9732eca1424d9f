//! R20 on the engine: many at once, and crashes.

use std::collections::BTreeSet;

use tenure_apps::raffle::{NewRaffle, NewReservation, Order, PatchRaffle, RaffleStatus, ReservationStatus};
use tenure_core::{EndReason, Fact};

use super::world::{World, asked, new, taken};
use crate::common::{code, keyed, person};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r20_a_hundred_users_on_the_same_three_numbers_give_one_and_ninety_nine() {
    let w = World::new().await;
    let asked: Vec<_> = (0..100)
        .map(|user| {
            let (raffles, who) = (w.raffles.clone(), person(&format!("u{user}")));
            tokio::spawn(async move { raffles.reserve(&who, &asked("tab", &[11, 12, 13])).await })
        })
        .collect();
    let mut won = 0;
    for asked in asked {
        match asked.await.expect("ends") {
            Ok(_) => won += 1,
            refused => assert_eq!(taken(refused), [11, 12, 13], "each learns of all"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(w.grid(&w.root).await.matches('r').count(), 3);
}

/// A payment that is confirmed twice, at once and from two places, sells once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_two_confirmations_at_once_sell_once() {
    for _ in 0..20 {
        let w = World::new().await;
        let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
        let (one, two) = tokio::join!(w.step(&id, Order::sell), w.step(&id, Order::sell));
        let mut codes = [code(&one), code(&two)];
        codes.sort_unstable();
        assert!(codes == ["ok", "wrong_status"] || codes == ["lost", "ok"], "{codes:?}");
        let sold =
            w.office.events("raffle/navidad").into_iter().filter(
                |event| matches!(&event.fact, Fact::Ended(end) if end.reason == EndReason::Completed),
            );
        assert_eq!(sold.count(), 1);
    }
}

/// Cancelled or sold, never both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r10_cancel_and_confirm_at_once_end_one_way() {
    for _ in 0..20 {
        let w = World::new().await;
        let id = w.reserve(&w.ana, &[1, 2]).await.expect("are free").id;
        let (sold, cancelled) = tokio::join!(w.step(&id, Order::sell), w.raffles.cancel(&w.ana, &id));
        assert_ne!(sold.is_ok(), cancelled.is_ok());
        let (status, cells) = if sold.is_ok() {
            (ReservationStatus::Confirmed, "bb")
        } else {
            (ReservationStatus::Cancelled, "--")
        };
        assert_eq!(w.status(&id), status);
        assert_eq!(w.grid(&w.ana).await[..2], *cells);
    }
}

/// The process dies at each commit of a purchase: what a retry under the same key finds is one reservation,
/// and a number is never sold without its reservation.
#[tokio::test]
async fn r20_a_crash_at_any_commit_leaves_one_reservation_or_none() {
    for kept in [false, true] {
        let w = World::new().await;
        let ana = keyed(&w.ana, "k");
        w.office.crash_after(0, kept);
        assert!(w.raffles.reserve(&ana, &asked("tab", &[1, 2])).await.is_err());
        let w = w.restart();
        let reserved = w.raffles.reserve(&ana, &asked("tab", &[1, 2])).await.expect("was decided, or is now");
        assert_eq!(reserved.replayed, kept);
        let id = reserved.value.reservation.id;
        let mine = w.raffles.mine(&w.ana, None).await.expect("reads").reservations;
        assert_eq!(mine.iter().map(|one| &one.id).collect::<BTreeSet<_>>(), BTreeSet::from([&id]));
        w.office.crash_after(0, kept);
        assert!(w.step(&id, Order::sell).await.is_err());
        let w = w.restart();
        let status = if kept { ReservationStatus::Confirmed } else { ReservationStatus::Pending };
        assert_eq!(w.status(&id), status);
        assert_eq!(w.grid(&w.ana).await[..2], *if kept { "bb" } else { "mm" });
    }
}

/// R4: what is reserved while somebody pauses the raffle is reserved before the pause, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r04_nothing_is_reserved_after_a_pause() {
    let (w, mut refused) = (World::new().await, 0);
    for round in 0..300 {
        // A raffle of its own, and not an office: over PostgreSQL that would be a new database.
        let raffle_id = format!("rifa-{round}");
        let becomes = async |status| w.raffles.patch(&w.root, &raffle_id, &PatchRaffle { status }).await;
        let made = NewRaffle { id: Some(raffle_id.clone()), ..new(100) };
        w.raffles.create(&w.root, made).await.expect("is made");
        becomes(RaffleStatus::Active).await.expect("opens");
        let asked = (0..4).map(|user| {
            let (raffles, who) = (w.raffles.clone(), person(&format!("u{user}")));
            let wanted = NewReservation { raffle_id: raffle_id.clone(), ..asked("tab", &[user + 1]) };
            tokio::spawn(async move { raffles.reserve(&who, &wanted).await.is_ok() })
        });
        let asked: Vec<_> = asked.collect();
        becomes(RaffleStatus::Paused).await.expect("pauses");
        for asked in asked {
            refused += usize::from(!asked.await.expect("ends"));
        }
        let events = w.office.events(&format!("raffle/{raffle_id}"));
        let is_pause =
            |fact: &Fact| matches!(fact, Fact::ItemPut { write, .. } if write.status.as_str() == "paused");
        let after = events.iter().skip_while(|event| !is_pause(&event.fact));
        let late = after.filter(|event| matches!(event.fact, Fact::Granted(_))).count();
        assert_eq!(late, 0);
    }
    assert!(refused > 0, "some came too late");
}
