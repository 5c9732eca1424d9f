//! Compares all that two readers can see.

use std::sync::Arc;

use tenure_core::{Claim, ClaimState, CollectionKey, Fact, Policy, Sealed};

use crate::{AuditFilter, ClaimFilter, EventPage, ItemFilter, Reader};

/// Both readers see the same, asked in pages of several sizes.
#[track_caller]
pub fn readers(ours: &dyn Reader, theirs: &dyn Reader) {
    let collections = all_collections(theirs, 1_000);
    assert_eq!(all_collections(ours, 1_000), collections, "collections");
    assert_eq!(all_collections(ours, 3), collections, "collections, three at a time");
    for key in &collections {
        collection(ours, theirs, key);
    }
    for kind in Policy::preset_kinds().chain(["custom", "nothing"]) {
        assert_eq!(ours.policy(kind).expect("reads"), theirs.policy(kind).expect("reads"), "{kind}");
    }
    let audit = all_audit(theirs, &AuditFilter::default(), 10_000);
    assert_eq!(all_audit(ours, &AuditFilter::default(), 10_000), audit, "audit");
    assert_eq!(all_audit(ours, &AuditFilter::default(), 17), audit, "audit, 17 at a time");
    let (a, b) = (ours.stats(), theirs.stats());
    assert_eq!((a.items, a.active_claims), (b.items, b.active_claims), "stats");
}

#[track_caller]
fn collection(ours: &dyn Reader, theirs: &dyn Reader, key: &CollectionKey) {
    assert_eq!(ours.collection(key).expect("reads"), theirs.collection(key).expect("reads"), "{key}: head");
    let items = all_items(theirs, key, 10_000);
    assert_eq!(all_items(ours, key, 10_000), items, "{key}: items");
    assert_eq!(all_items(ours, key, 2), items, "{key}: items, two at a time");
    let held =
        |reader: &dyn Reader| reader.held_items(key, &ItemFilter::default(), 10_000).expect("reads").rows;
    assert_eq!(held(ours), held(theirs), "{key}: items with their claims");
    let events = all_events(theirs, key, 10_000);
    let numbers = |events: &[Arc<Sealed>]| events.iter().map(|sealed| sealed.event.seq).collect::<Vec<_>>();
    assert_eq!(numbers(&all_events(ours, key, 10_000)), numbers(&events), "{key}: event numbers");
    assert_eq!(all_events(ours, key, 10_000), events, "{key}: events");
    assert_eq!(all_events(ours, key, 7), events, "{key}: events, seven at a time");
    let active = ClaimFilter {
        collection: Some(key.clone()),
        state: Some(ClaimState::Active),
        ..ClaimFilter::default()
    };
    let claims = theirs.claims(&active, 10_000).expect("reads").rows;
    assert_eq!(ours.claims(&active, 10_000).expect("reads").rows, claims, "{key}: active claims");
    for sealed in events.iter().filter(|sealed| matches!(sealed.event.fact, Fact::Granted(_))) {
        let number = sealed.event.seq;
        let (a, b) = (ours.claim(key, number).expect("reads"), theirs.claim(key, number).expect("reads"));
        assert_eq!(a.as_deref().map(without_beats), b.as_deref().map(without_beats), "{key}: claim {number}");
    }
    let (a, b) = (ours.snapshot(key).expect("reads"), theirs.snapshot(key).expect("reads"));
    let parts = |snapshot: crate::Snapshot| (snapshot.head, snapshot.items, snapshot.claims);
    assert_eq!(a.map(parts), b.map(parts), "{key}: snapshot");
}

/// An ended claim without what only its heartbeats knew: a store may rebuild it from the events.
fn without_beats(claim: &Claim) -> Claim {
    let mut claim = claim.clone();
    if claim.state != ClaimState::Active {
        (claim.heartbeat_at_ms, claim.acted_at_ms, claim.expires_at_ms, claim.idle) = (0, 0, 0, false);
    }
    claim
}

pub(super) fn all_collections(reader: &dyn Reader, limit: usize) -> Vec<CollectionKey> {
    let mut found: Vec<CollectionKey> = Vec::new();
    loop {
        let page = reader.collections(found.last(), limit).expect("reads");
        found.extend(page.rows.into_iter().map(|(key, _)| key));
        if !page.more {
            return found;
        }
    }
}

pub(super) fn all_items(
    reader: &dyn Reader,
    key: &CollectionKey,
    limit: usize,
) -> Vec<Arc<tenure_core::Item>> {
    let mut found: Vec<Arc<tenure_core::Item>> = Vec::new();
    loop {
        let after = found.last().map(|item| item.id.clone());
        let page = reader.items(key, &ItemFilter { after, ..ItemFilter::default() }, limit).expect("reads");
        found.extend(page.rows);
        if !page.more {
            return found;
        }
    }
}

pub(super) fn all_events(reader: &dyn Reader, key: &CollectionKey, limit: usize) -> Vec<Arc<Sealed>> {
    let mut found: Vec<Arc<Sealed>> = Vec::new();
    loop {
        let since = found.last().map_or(0, |sealed| sealed.event.seq);
        match reader.events(key, since, limit).expect("reads") {
            EventPage::Events(events) if events.is_empty() => return found,
            EventPage::Events(events) => {
                assert!(events.len() <= limit, "a page of {} where {limit} were asked for", events.len());
                found.extend(events);
            }
            EventPage::Resync { first, last } => panic!("{key}: resync {first}..{last} after {since}"),
        }
    }
}

pub(super) fn all_audit(
    reader: &dyn Reader,
    filter: &AuditFilter,
    limit: usize,
) -> Vec<(CollectionKey, Arc<Sealed>)> {
    let mut found: Vec<(CollectionKey, Arc<Sealed>)> = Vec::new();
    loop {
        let before = found.last().map(|(key, sealed)| (sealed.event.at_ms, key.clone(), sealed.event.seq));
        let filter = AuditFilter { before: before.or_else(|| filter.before.clone()), ..filter.clone() };
        let page = reader.audit(&filter, limit).expect("reads");
        found.extend(page.rows);
        if !page.more {
            return found;
        }
    }
}
