//! The raffle itself, and its grid.

use tenure_apps::raffle::{Counts, NewRaffle, RaffleStatus};

use super::world::{CHECKOUT_MS, SELECTION_MS, World, field, new, taken};
use crate::common::{Office, code, keyed, person};

#[tokio::test]
async fn r05_a_raffle_says_something_sensible() {
    let office = Office::new();
    let (raffles, root) = (office.raffles(), person("root"));
    let wrong: [(&str, NewRaffle); 8] = [
        ("id", NewRaffle { id: Some("a~b".to_owned()), ..new(1) }),
        ("title", NewRaffle { title: " ".to_owned(), ..new(1) }),
        ("numbers", new(0)),
        ("numbers", new(100_001)),
        ("price_minor", NewRaffle { price_minor: 0, ..new(1) }),
        ("currency", NewRaffle { currency: "crc".to_owned(), ..new(1) }),
        ("currency", NewRaffle { currency: "CRCX".to_owned(), ..new(1) }),
        ("draw_at", NewRaffle { draw_at: Some("tomorrow".to_owned()), ..new(1) }),
    ];
    for (name, raffle) in wrong {
        assert_eq!(field(raffles.create(&root, raffle).await), name);
    }
    assert_eq!(code(&raffles.create(&person("ana"), new(1)).await), "forbidden");
    let made = raffles.create(&root, new(10)).await.expect("is made").value;
    assert_eq!((made.status, made.seed_hash), (RaffleStatus::Draft, None));
    assert_eq!(field(raffles.create(&root, new(10)).await), "id", "is taken");
    let unnamed = || NewRaffle { id: None, ..new(10) };
    let root = keyed(&root, "k");
    let first = raffles.create(&root, unnamed()).await.expect("is made").value.id;
    let again = raffles.create(&root, unnamed()).await.expect("was made");
    assert!(again.replayed);
    assert_eq!(again.value.id, first, "a retry finds what was made");
    let page = raffles.list(None, Some(1)).await.expect("reads");
    assert_eq!((page.raffles[0].id.as_str(), page.next.as_deref()), ("navidad", Some("navidad")));
    let page = raffles.list(page.next, Some(1)).await.expect("reads");
    assert_eq!((page.raffles[0].id.as_str(), page.next), (first.as_str(), None));
}

#[tokio::test]
async fn r04_a_raffle_opens_pauses_and_opens_again() {
    let w = World::draft(10).await;
    assert_eq!(code(&w.becomes(RaffleStatus::Paused).await), "wrong_status");
    assert_eq!(code(&w.becomes(RaffleStatus::Drawn).await), "wrong_status");
    w.becomes(RaffleStatus::Active).await.expect("opens");
    let bound = w.raffles.get("navidad").await.expect("reads").seed_hash.expect("is bound at the opening");
    w.becomes(RaffleStatus::Active).await.expect("is so");
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    w.becomes(RaffleStatus::Active).await.expect("opens again");
    let hash = w.raffles.get("navidad").await.expect("reads").seed_hash;
    assert_eq!(hash, Some(bound), "and stays bound to the same seed");
    assert_eq!(code(&w.becomes(RaffleStatus::Draft).await), "wrong_status");
    assert_eq!(code(&w.raffles.get("easter").await), "not_found");
}

/// R15: 100,000 numbers open at once, and the grid still has all of them.
#[tokio::test]
async fn r15_the_grid_has_all_numbers_of_a_large_raffle() {
    let w = World::of(100_000).await;
    assert_eq!(w.office.actions("raffle/navidad").len(), 3, "opening it makes no numbers");
    w.reserve(&w.ana, &[1, 99_999]).await.expect("are free");
    w.reserve(&w.bea, &[100_000]).await.expect("is free");
    w.buy(&w.bea, &[50_000]).await;
    let grid = w.raffles.numbers(&w.ana, "navidad").await.expect("reads");
    assert_eq!(grid.numbers.len(), 100_000);
    assert_eq!(grid.numbers[..3], *"m--");
    assert_eq!(grid.numbers[99_997..], *"-mr");
    assert_eq!(grid.numbers.as_bytes()[49_999], b's');
    assert_eq!(grid.counts, Counts { available: 99_996, reserved: 3, sold: 1 });
    assert_eq!(w.raffles.get("navidad").await.expect("reads").counts, Some(grid.counts));
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    let counts = w.raffles.get("navidad").await.expect("reads").counts;
    assert_eq!(counts, Some(Counts { available: 99_999, reserved: 0, sold: 1 }), "without a sweep");
}

#[tokio::test]
async fn r03_mine_lists_open_and_ended_ones_newest_first() {
    let w = World::new().await;
    let first = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    let second = w.reserve(&w.ana, &[2]).await.expect("is free").id;
    w.reserve(&w.bea, &[3]).await.expect("is free");
    for raffle in [None, Some("navidad".to_owned())] {
        let mine = w.raffles.mine(&w.ana, raffle).await.expect("reads").reservations;
        let ids: Vec<_> = mine.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, [second.as_str(), first.as_str()]);
    }
    assert_eq!(code(&w.raffles.mine(&w.ana, Some("easter".to_owned())).await), "not_found");
}

/// The timers stand still while the server is away, and what was held stays held.
#[tokio::test]
async fn r09_a_restart_frees_nothing_early() {
    let w = World::new().await;
    let id = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.office.pass(SELECTION_MS - 1_000);
    let w = w.restart();
    assert_eq!(taken(w.reserve(&w.bea, &[1]).await), [1]);
    assert_eq!(&*w.get(&id).phase, "selection");
    // It got back the time that the server was away, and no more than both timers.
    w.office.pass(SELECTION_MS + CHECKOUT_MS);
    assert!(w.grid(&w.bea).await.starts_with('-'));
}
