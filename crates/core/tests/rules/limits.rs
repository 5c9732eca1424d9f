//! Everything has a limit, at the limit and one past it.

use tenure_core::command::Acquire;
use tenure_core::limits::{
    DATA_BYTES_MAX, ITEMS_PER_CLAIM_MAX, PRINCIPAL_ID_BYTES_MAX, PRINCIPAL_NAME_BYTES_MAX, WAIT_MS_MAX,
};
use tenure_core::{Json, Policy, Principal, Refusal};

use crate::world::{World, items};

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

/// R1
#[test]
fn r01_one_to_ten_distinct_numbers_are_reserved_at_once() {
    let names = numbers(11);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for count in 1..=10 {
        let mut w = World::of("raffle", &names);
        assert_eq!(w.acquire("ana", &names[..count]).claim().items.len(), count);
    }
    let mut w = World::of("raffle", &names);
    let before = w.rows.clone();
    let Refusal::Invalid { field, .. } = w.acquire("ana", &[]).refused() else { panic!() };
    assert_eq!(&*field, "items");
    let limit = Refusal::Limit { limit: "max_items".into(), max: 10 };
    assert_eq!(w.acquire("ana", &names).refused(), limit);
    let Refusal::Invalid { field, .. } = w.acquire("ana", &["1", "2", "1"]).refused() else { panic!() };
    assert_eq!(&*field, "items");
    assert_eq!(w.rows, before);
}

#[test]
fn a_claim_has_at_most_a_hundred_items() {
    let names = numbers(ITEMS_PER_CLAIM_MAX + 1);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut w = World::of("lock", &[]);
    let limit = Refusal::Limit { limit: "max_items".into(), max: 100 };
    assert_eq!(w.acquire("ana", &names).refused(), limit);
    let claim = w.acquire("ana", &names[1..]).claim();
    assert_eq!(w.add("ana", &claim, names[0]).refused(), limit);
}

#[test]
fn a_wait_is_within_the_policys_bound() {
    let mut w = World::under(Policy { max_wait_ms: 5_000, ..Policy::image() }, &["a"]);
    for (wait_ms, code) in [(-1, "invalid"), (0, "ok"), (5_000, "ok"), (5_001, "invalid")] {
        let outcome = w.acquire_as("ana", Acquire { wait_ms: Some(wait_ms), ..items(&["a"]) });
        assert_eq!(outcome.code(), code, "{wait_ms}");
        if let Err(refusal) = outcome.0 {
            let Refusal::Invalid { field, .. } = refusal else { panic!("{refusal:?}") };
            assert_eq!(&*field, "wait_ms");
        }
    }
    assert_eq!(WAIT_MS_MAX, 600_000);
}

#[test]
fn a_principal_has_an_id_and_may_have_a_name() {
    let long_id = "x".repeat(PRINCIPAL_ID_BYTES_MAX + 1);
    let long_name = "x".repeat(PRINCIPAL_NAME_BYTES_MAX + 1);
    let table = [
        ("ana", "Ana", None),
        ("ana", "", None),
        ("ñandú@example.com", "María José", None),
        (&long_id[1..], &long_name[1..], None),
        ("", "Ana", Some("holder.id")),
        (&long_id, "Ana", Some("holder.id")),
        ("a\nb", "Ana", Some("holder.id")),
        ("ana", &long_name, Some("holder.name")),
        ("ana", "A\u{7}", Some("holder.name")),
    ];
    for (id, name, named) in table {
        match (Principal::new(id, name), named) {
            (Ok(principal), None) => assert_eq!((&*principal.id, &*principal.name), (id, name)),
            (Err(Refusal::Invalid { field, .. }), Some(named)) => assert_eq!(&*field, named),
            (other, _) => panic!("{id} {name}: {other:?}"),
        }
    }
}

#[test]
fn a_document_has_at_most_sixty_four_kibibytes() {
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert!(Json::parse(&text(DATA_BYTES_MAX), "data").is_ok());
    let refusal = Json::parse(&text(DATA_BYTES_MAX + 1), "data").unwrap_err();
    assert_eq!(refusal, Refusal::invalid("data", "is larger than 64 KiB"));
    // Space around it does not count.
    assert!(Json::parse(&format!("  {}\n", text(DATA_BYTES_MAX)), "data").is_ok());
}
