//! Is everything what it was when it was written, and do the rows follow from the events? What the check of
//! a folder and that of a database share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tenure_core::{Claim, CollectionKey, Fact, Hash, Item, ItemId, Rows, Sealed, Text};

use crate::read::follows;
use crate::{ClaimFilter, ClaimRow, ItemFilter, Snapshot, State};

/// Problems that are told; more are only counted.
const TOLD_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// A data folder whose first start has not ended: there is nothing to look at, and nothing was ever confirmed.
    pub is_unmade: bool,
    /// What is wrong, a sentence each; at most a hundred.
    pub problems: Vec<String>,
    /// How many problems there are.
    pub problem_count: u64,
    /// Collections that were looked at.
    pub collections: u64,
    /// Events whose chain was verified.
    pub events: u64,
    /// Items that were compared with what their events say.
    pub items: u64,
    /// Collections whose oldest events are pruned, so that their rows could not be compared.
    pub pruned: u64,
    /// Events that only the journal has yet.
    pub journal_events: u64,
    /// The newest batch of the journal.
    pub last_batch: u64,
}

impl Report {
    /// Nothing is wrong. There may be nothing at all.
    pub fn is_good(&self) -> bool {
        self.problem_count == 0
    }

    /// Something is wrong.
    pub fn problem(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < TOLD_MAX {
            self.problems.push(problem);
        }
    }
}

/// What nothing that is kept may exceed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) high_water_ms: i64,
    pub(crate) epoch: u64,
}

/// A chain on its way from event to event.
pub(crate) struct Walk<'a> {
    pub(crate) key: &'a CollectionKey,
    pub(crate) bounds: Bounds,
    pub(crate) folded: State,
    /// The last event's number and the hash after it.
    pub(crate) end: Option<(u64, Hash)>,
    /// It began with the collection's first event.
    pub(crate) is_whole: bool,
    pub(crate) problem: Option<String>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(key: &'a CollectionKey, bounds: Bounds) -> Self {
        Self { key, bounds, folded: State::default(), end: None, is_whole: true, problem: None }
    }

    pub(crate) fn start(&mut self, first_seq: u64, before: Hash) {
        match self.end {
            None => {
                self.is_whole = before == Hash::default();
                let seq = if self.is_whole { 0 } else { first_seq - 1 };
                self.end = Some((seq, before));
            }
            Some((seq, hash)) if hash != before => {
                self.fail(format!("the chain of hashes breaks between events {seq} and {first_seq}"));
            }
            Some(_) => {}
        }
    }

    pub(crate) fn event(&mut self, sealed: &Sealed) {
        let (seq, _) = self.end.unwrap_or_default();
        let first_of_pruned = !self.is_whole && sealed.event.seq == seq + 1;
        if !follows(&sealed.event, seq) && !first_of_pruned {
            return self.fail(format!("event {} follows event {seq}", sealed.event.seq));
        }
        if sealed.event.at_ms > self.bounds.high_water_ms {
            let event = sealed.event.seq;
            return self.fail(format!("event {event} is later than the highest time that was committed"));
        }
        if matches!(sealed.event.fact, Fact::Restored { epoch, .. } if epoch > self.bounds.epoch) {
            return self.fail(format!("event {} is of a later epoch than the whole", sealed.event.seq));
        }
        if self.is_whole {
            let knows = |item: &ItemId| self.folded.item(self.key, item).is_some();
            if let Fact::Granted(grant) = &sealed.event.fact
                && grant.items.iter().any(|item| item.status.is_none() && !knows(&item.id))
            {
                return self.fail(format!("event {} grants an item that is not there", sealed.event.seq));
            }
            self.folded.replay(self.key, sealed);
        }
        self.end = Some((sealed.event.seq, sealed.hash));
    }

    pub(crate) fn finish(&mut self, last_seq: u64) {
        if self.end.is_some_and(|(seq, _)| seq != last_seq) {
            self.fail(format!("a chunk of events does not end with event {last_seq}, as it says"));
        }
    }

    pub(crate) fn fail(&mut self, problem: impl std::fmt::Display) {
        self.problem.get_or_insert(format!("{}: {problem}", self.key));
    }
}

/// The rows are what the events say, heartbeats aside: those are not events.
pub(crate) fn compare(
    key: &CollectionKey,
    bounds: Bounds,
    rows: &State,
    snapshot: &Snapshot,
    folded: &State,
    report: &mut Report,
) {
    let expected = folded.items(key, &ItemFilter::default(), usize::MAX - 1).rows;
    let mut expected: BTreeMap<&ItemId, &Arc<Item>> = expected.iter().map(|item| (&item.id, item)).collect();
    for item in &snapshot.items {
        report.items += 1;
        match expected.remove(&item.id) {
            Some(said) if said == item => {}
            Some(_) => report.problem(format!("{key}: item {} is not what its events say", item.id)),
            None => report.problem(format!("{key}: item {} is in no event", item.id)),
        }
    }
    for id in expected.keys() {
        report.problem(format!("{key}: item {id} is missing"));
    }
    let numbers = folded.active_claims(key);
    if numbers != rows.active_claims(key) {
        report.problem(format!("{key}: the active claims are not those that the events say"));
    }
    let all = ClaimFilter { collection: Some(key.clone()), ..ClaimFilter::default() };
    for ClaimRow { claim, .. } in rows.claims(&all, usize::MAX - 1).rows {
        let said = folded.claim(key, claim.number);
        if said.is_none_or(|said| without_beats(&said) != without_beats(&claim)) {
            report.problem(format!("{key}: claim {} is not what its events say", claim.number));
        }
    }
    for ClaimRow { claim, .. } in folded.claims(&all, usize::MAX - 1).rows {
        if claim.blocked_until_ms > bounds.high_water_ms && rows.claim(key, claim.number).is_none() {
            report.problem(format!("{key}: claim {} and its lock delay are missing", claim.number));
        }
    }
    if *key == CollectionKey::policies() {
        compare_policies(rows, folded, report);
    }
}

pub(crate) fn compare_policies(rows: &State, folded: &State, report: &mut Report) {
    let kinds: BTreeSet<Text> = rows.policies().chain(folded.policies()).map(|(kind, _)| kind).collect();
    for kind in kinds {
        if rows.policy(&kind) != folded.policy(&kind) {
            report.problem(format!("the policy of {kind} is not what its events say"));
        }
    }
}

pub(crate) fn without_beats(claim: &Claim) -> Claim {
    Claim { heartbeat_at_ms: 0, acted_at_ms: 0, expires_at_ms: 0, idle: false, ..claim.clone() }
}

/// An item that an active claim took is in that claim, and its token is no older than the claim.
pub(crate) fn check_claims(key: &CollectionKey, snapshot: &Snapshot, report: &mut Report) {
    let claims: HashMap<u64, &Claim> = snapshot.claims.iter().map(|claim| (claim.number, &**claim)).collect();
    for item in &snapshot.items {
        if item.fence < item.claim || item.fence > snapshot.head.seq {
            report.problem(format!("{key}: item {} has token {}, which no grant gave", item.id, item.fence));
        }
        if claims.get(&item.claim).is_some_and(|claim| !claim.items.contains(&item.id)) {
            report.problem(format!("{key}: claim {} does not know of its item {}", item.claim, item.id));
        }
    }
}
