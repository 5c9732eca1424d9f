//! The audit chain and the names of what happened. Every other test verifies its own chain too.

use tenure_core::event::End;
use tenure_core::{ClaimState, EndReason, Event, Fact, Hash, Sealed};

use crate::world::{World, complete, person, put, t};

fn story() -> World {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(10).put("ana", put("a", r#"{"x":1}"#)).granted();
    w.at(20).complete("ana", complete(&claim, "done")).granted();
    w
}

/// The newest hash of a log, computed from its events.
fn head(events: &[Event]) -> Hash {
    events.iter().fold(Hash::default(), |previous, event| Sealed::new(&previous, event.clone()).hash)
}

/// E3, I17
#[test]
fn e03_the_head_holds_the_chain_of_everything_that_happened() {
    use tenure_core::Rows;
    let w = story();
    let events: Vec<_> = w.log.iter().map(|(_, sealed)| sealed.event.clone()).collect();
    let collection = w.rows.collection(&w.key).unwrap();
    assert_eq!((collection.hash, collection.seq), (head(&events), events.len() as u64));
}

/// E3, I17
#[test]
fn e03_a_changed_dropped_or_reordered_event_breaks_the_chain() {
    let w = story();
    let events: Vec<_> = w.log.iter().map(|(_, sealed)| sealed.event.clone()).collect();
    let good = head(&events);
    for index in 0..events.len() {
        let mut changed = events.clone();
        changed[index].at_ms += 1;
        assert_ne!(head(&changed), good);
        let mut changed = events.clone();
        changed[index].actor = person("mallory");
        assert_ne!(head(&changed), good);
        let mut dropped = events.clone();
        dropped.remove(index);
        assert_ne!(head(&dropped), good);
        let mut swapped = events.clone();
        swapped.swap(index, (index + 1) % events.len());
        assert_ne!(head(&swapped), good);
    }
}

#[test]
fn e03_kept_bytes_read_back_as_the_event_and_its_hash() {
    let w = story();
    let mut previous = Hash::default();
    for (_, sealed) in &w.log {
        let read = Sealed::read(&previous, sealed.bytes.clone()).unwrap();
        assert_eq!(read, **sealed);
        for cut in 0..sealed.bytes.len() {
            assert!(Sealed::read(&previous, sealed.bytes[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        previous = sealed.hash;
    }
    assert_eq!(previous.to_string().len(), 64);
    assert_eq!(format!("{previous:?}"), previous.to_string());
}

/// The kept form is for ever: this hash was computed once, and a change of it is a change of every
/// chain that exists.
#[test]
fn the_kept_form_of_an_event_does_not_change() {
    let event = Event { seq: 1, at_ms: t(0), actor: person("ana"), fact: Fact::CollectionCreated };
    let sealed = Sealed::new(&Hash::default(), event);
    assert_eq!(sealed.bytes, [1, 0x80, 0x89, 0x7a, 3, b'a', b'n', b'a', 3, b'A', b'n', b'a', 0]);
    let next = Event { seq: 2, at_ms: t(1), actor: person("ana"), fact: Fact::Resumed { shift_ms: 5 } };
    let next = Sealed::new(&sealed.hash, next);
    assert_eq!(next.bytes[next.bytes.len() - 2..], [11, 10]);
}

/// T22, E3: who, what, when, why, before, after, in the words of the audit log.
#[test]
fn t22_every_change_is_in_the_audit_log_under_its_name() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.add("ana", &claim, "2").granted();
    w.remove("ana", &claim, "1").granted();
    w.nudge("beto", &claim, None).granted();
    w.advance("ana", &claim).granted();
    w.cancel("ana", &claim).granted();
    w.delete("root", "1").granted();
    let log: Vec<_> = w.log[3..].iter().map(|(_, sealed)| &sealed.event).collect();
    let told: Vec<_> = log.iter().map(|event| (&*event.actor.id, event.fact.action())).collect();
    assert_eq!(
        told,
        [
            ("ana", "claim_granted"),
            ("ana", "item_added"),
            ("ana", "item_removed"),
            ("beto", "release_requested"),
            ("ana", "claim_advanced"),
            ("ana", "claim_cancelled"),
            ("root", "item_deleted"),
        ]
    );
    let items: Vec<Vec<&str>> =
        log.iter().map(|event| event.fact.items().iter().map(|id| id.as_str()).collect()).collect();
    assert_eq!(
        items,
        [vec!["1"], vec!["2"], vec!["1"], vec![], vec![], vec!["2"], vec!["1"]],
        "the items that each speaks of"
    );
}

#[test]
fn each_end_has_its_state_its_word_and_its_name_in_the_log() {
    use ClaimState::{Cancelled, Completed, Expired, Released, Revoked};
    let table = [
        (EndReason::Released, Released, "released", "claim_released", false),
        (EndReason::Completed, Completed, "completed", "claim_completed", false),
        (EndReason::Expired, Expired, "expired", "claim_expired", true),
        (EndReason::Idle, Expired, "idle", "claim_expired", true),
        (EndReason::MaxHold, Expired, "max_hold", "claim_expired", true),
        (EndReason::Cancelled, Cancelled, "cancelled", "claim_cancelled", false),
        (EndReason::ForceReleased, Revoked, "force_released", "LOCK_FORCE_RELEASE", true),
        (EndReason::TakenOver, Revoked, "taken_over", "claim_taken_over", false),
    ];
    for (reason, state, word, action, unclean) in table {
        assert_eq!((reason.state(), reason.as_str(), reason.is_unclean()), (state, word, unclean));
        assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{word}\""));
        let end = End {
            claim: 1,
            reason,
            holder: person("ana"),
            items: [].into(),
            ended_at_ms: 0,
            blocked_until_ms: 0,
            note: None,
            writes: Vec::new(),
        };
        assert_eq!(Fact::Ended(end).action(), action);
    }
}
