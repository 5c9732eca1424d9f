//! What the tests share: short words for commands, a desk that drives turns by hand, and a store that
//! can be blocked and broken.

mod ask;
mod desk;
mod probe;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::refusal::Why;
use tenure_core::{Claim, CollectionKey, Fact, ItemId, Principal, Refusal, Reply, Sealed};
use tenure_engine::{Answer, Refused};
use tenure_store::{EventPage, Reader};

pub(crate) use ask::*;
pub(crate) use desk::{Desk, START_MS, Slip};
pub(crate) use probe::{Fail, Hold, Probe, ProbeStore};

/// Where most tests work: plain locks, made by claiming them, 30 s, waits up to 60 s.
pub(crate) const LOCKS: &str = "lock/main";
pub(crate) const TTL_MS: i64 = 30_000;

pub(crate) fn key(text: &str) -> CollectionKey {
    CollectionKey::new(text).expect("a test's key")
}

pub(crate) fn item(text: &str) -> ItemId {
    ItemId::new(text).expect("a test's item")
}

pub(crate) fn person(id: &str) -> Principal {
    Principal::new(id, id.to_uppercase()).expect("a test's person")
}

/// `ok`, or the refusal's code.
pub(crate) fn code(answer: &Answer) -> &'static str {
    match &answer.outcome {
        Ok(_) => "ok",
        Err(refused) => refused.code(),
    }
}

#[track_caller]
pub(crate) fn claim_of(answer: &Answer) -> Arc<Claim> {
    match &answer.outcome {
        Ok(
            Reply::Acquired { claim, .. }
            | Reply::Claim { claim }
            | Reply::Beat { claim, .. }
            | Reply::Freed { claim: Some(claim) },
        ) => claim.clone(),
        other => panic!("no claim in {other:?}"),
    }
}

/// The ids of those who hold what a refusal names.
#[track_caller]
pub(crate) fn holders(answer: &Answer) -> Vec<String> {
    let Err(Refused::Rule(Refusal::Held { items })) = &answer.outcome else {
        panic!("not refused as held: {answer:?}")
    };
    items
        .iter()
        .filter_map(|unavailable| match &unavailable.why {
            Why::Held { holder, .. } => Some(holder.id.to_string()),
            _ => None,
        })
        .collect()
}

/// All committed events of a collection, which must be numbered without gaps.
#[track_caller]
pub(crate) fn events(reader: &dyn Reader, collection: &str) -> Vec<Arc<Sealed>> {
    let page = reader.events(&key(collection), 0, usize::MAX).expect("events can be read");
    let EventPage::Events(events) = page else { panic!("events from 1 are retained") };
    assert_gap_free(&events, 0);
    events
}

/// What happened, as the audit log names it.
pub(crate) fn actions(events: &[Arc<Sealed>]) -> Vec<&'static str> {
    events.iter().map(|sealed| sealed.event.fact.action()).collect()
}

pub(crate) fn count(events: &[Arc<Sealed>], test: fn(&Fact) -> bool) -> usize {
    events.iter().filter(|sealed| test(&sealed.event.fact)).count()
}

#[track_caller]
pub(crate) fn assert_gap_free(events: &[Arc<Sealed>], after: u64) {
    let numbers: Vec<u64> = events.iter().map(|sealed| sealed.event.seq).collect();
    let expected: Vec<u64> = (after + 1..).take(events.len()).collect();
    assert_eq!(numbers, expected, "numbered without gaps");
}

/// A bound on a test that would otherwise hang; never how long something takes.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(15), future).await.expect("it happens at all")
}
