//! The draw.

use tenure_apps::raffle::{Draw, Order, RaffleStatus, Raffles, Seeds, pick};

use super::world::World;
use crate::common::{code, person};

async fn drawn() -> (World, Draw) {
    let w = World::new().await;
    w.buy(&w.ana, &[42, 7]).await;
    w.buy(&w.bea, &[13]).await;
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    let draw = w.raffles.draw(&w.root, "navidad").await.expect("is drawn").value;
    (w, draw)
}

#[tokio::test]
async fn a_draw_can_be_done_again_by_anyone() {
    let (w, draw) = drawn().await;
    assert_eq!(draw.sold, [7, 13, 42], "in order");
    assert!(draw.sold.contains(&draw.winner));
    assert_eq!(draw.verify(), Ok(()));
    assert_eq!(w.raffles.drawn("navidad").await.expect("reads"), draw);
    let raffle = w.raffles.get("navidad").await.expect("reads");
    assert_eq!((raffle.status, raffle.winner), (RaffleStatus::Drawn, Some(draw.winner)));
    assert_eq!(raffle.seed_hash.as_deref(), Some(&*draw.seed_hash), "what was bound at the opening");
    let wrong = |change: fn(&mut Draw)| {
        let mut draw = draw.clone();
        change(&mut draw);
        draw.verify().is_err()
    };
    assert!(wrong(|draw| draw.winner = 1));
    assert!(wrong(|draw| draw.seed = "00".repeat(32)));
    assert!(wrong(|draw| draw.seed = "é".repeat(32)));
    assert!(wrong(|draw| draw.seed_hash = "00".repeat(32)));
    assert!(wrong(|draw| draw.sold.push(43)));
    assert!(wrong(|draw| draw.sold.reverse()));
}

#[tokio::test]
async fn nobody_draws_twice_or_too_early() {
    let w = World::draft(100).await;
    assert_eq!(code(&w.raffles.draw(&w.root, "navidad").await), "wrong_status", "a draft");
    w.becomes(RaffleStatus::Active).await.expect("opens");
    assert_eq!(code(&w.raffles.draw(&w.root, "navidad").await), "wrong_status", "while it is open");
    let open = w.reserve(&w.ana, &[1]).await.expect("is free").id;
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    let why = async || w.raffles.draw(&w.root, "navidad").await.expect_err("is refused").to_string();
    assert!(why().await.contains("reservations are open"), "somebody may still pay");
    w.raffles.cancel(&w.ana, &open).await.expect("is pending");
    assert!(why().await.contains("nothing is sold"));
    w.step(&open, Order::retake).await.expect("nobody has it");
    w.step(&open, Order::sell).await.expect("is ours");
    assert_eq!(code(&w.raffles.draw(&w.ana, "navidad").await), "forbidden");
    assert_eq!(code(&w.raffles.drawn("navidad").await), "not_found");
    let first = w.raffles.draw(&w.root, "navidad").await.expect("is drawn").value;
    assert_eq!(first.winner, 1);
    assert_eq!(code(&w.raffles.draw(&w.root, "navidad").await), "wrong_status", "a second time");
    for status in [RaffleStatus::Active, RaffleStatus::Paused, RaffleStatus::Draft] {
        assert_eq!(code(&w.becomes(status).await), "wrong_status", "it is over");
    }
    assert_eq!(w.raffles.drawn("navidad").await.expect("reads"), first);
}

#[tokio::test]
async fn a_draw_that_must_wait_says_for_which_reservations() {
    let w = World::new().await;
    let mut ids = Vec::new();
    for number in 1..=7 {
        let buyer = person(&format!("buyer-{number}"));
        ids.push(w.reserve(&buyer, &[number]).await.expect("is free").id);
    }
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    let why = async || w.raffles.draw(&w.root, "navidad").await.expect_err("is refused").to_string();
    let (first, two) = (ids[..5].join(", "), ids[..2].join(", "));
    let open = format!("reservations are open: {first} and 2 more; wait for them, or cancel them");
    assert_eq!(why().await, format!("raffle navidad is paused: {open}"));
    for id in &ids[2..] {
        w.raffles.cancel(&w.root, id).await.expect("is pending");
    }
    assert!(why().await.contains(&format!("are open: {two}; wait")), "all of a few");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_draws_at_once_one_is_made() {
    let w = World::new().await;
    w.buy(&w.ana, &[1, 2, 3]).await;
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    let draws = (0..10).map(|_| {
        let (raffles, root) = (w.raffles.clone(), w.root.clone());
        tokio::spawn(async move { code(&raffles.draw(&root, "navidad").await) })
    });
    let mut codes = Vec::new();
    for draw in draws.collect::<Vec<_>>() {
        codes.push(draw.await.expect("ends"));
    }
    codes.sort_unstable();
    assert_eq!(codes[0], "ok");
    assert!(codes[1..].iter().all(|code| *code == "wrong_status"), "{codes:?}");
}

/// Before the draw the seed is nowhere: neither in an event nor in a row.
#[tokio::test]
async fn the_seed_is_kept_nowhere_before_the_draw() {
    let (w, draw) = drawn().await;
    let events = w.office.events("raffle/navidad");
    let has_seed = |text: &str| text.contains(&draw.seed);
    let told = events.iter().filter(|event| has_seed(&serde_json::to_string(event).expect("serialises")));
    let told: Vec<u64> = told.map(|event| event.seq).collect();
    assert_eq!(told, [events.last().expect("some").seq], "only the draw itself says it");
    assert!(!has_seed(&format!("{:?}", w.raffles)), "nor does the application print what it comes from");
}

/// A server that has lost its secret cannot make the seed, and says so instead of drawing with another.
#[tokio::test]
async fn another_secret_draws_nothing() {
    let w = World::new().await;
    w.buy(&w.ana, &[1]).await;
    w.becomes(RaffleStatus::Paused).await.expect("pauses");
    let other = Raffles::new(w.office.desk.clone(), Seeds::new([6; 32]));
    assert_eq!(code(&other.draw(&w.root, "navidad").await), "wrong_status");
    w.raffles.draw(&w.root, "navidad").await.expect("the one that it was opened with does");
}

#[test]
fn each_sold_number_is_as_likely_as_any_other() {
    assert_eq!(pick(&[0; 32], &[]), None);
    assert_eq!(pick(&[0; 32], &[5]), Some(5));
    let sold = [3, 5, 8];
    let mut count = [0_i32; 3];
    for round in 0..3_000_u32 {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&round.to_be_bytes());
        let winner = pick(&seed, &sold).expect("one wins");
        count[sold.iter().position(|number| *number == winner).expect("is sold")] += 1;
    }
    assert!(count.iter().all(|count| (900..=1_100).contains(count)), "{count:?}");
}

/// The rule does not change: whoever wrote it down once gets the same number for ever.
#[test]
fn the_rule_of_the_draw_is_for_ever() {
    let seed = [7; 32];
    let sold: Vec<u32> = (1..=1_000).collect();
    assert_eq!(pick(&seed, &sold), Some(WINNER));
}

/// Of seed 07 × 32 and the numbers 1 to 1,000, computed apart from this code.
const WINNER: u32 = 298;
