//! Checking a data folder that nobody uses, or a backup: is everything what it was when it was written,
//! and do the rows follow from the events? It changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use tenure_core::{Claim, CollectionKey, Fact, Hash, Item, ItemId, Rows, Sealed};

use super::archive::{self, Inspection, Loaded, Meta, is_labelled, read_events, read_kept};
use super::backup::Progress;
use super::disk::RealDisk;
use super::reader::all_of;
use super::recover::{JOURNAL_DIR, lock};
use super::{journal, wire};
use crate::read::follows;
use crate::{ClaimFilter, ClaimRow, Error, ItemFilter, Snapshot, State};

/// Problems that are told; more are only counted.
const TOLD_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
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
    /// The newest batch of the journal.
    pub last_batch: u64,
}

impl Report {
    /// Nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < TOLD_MAX {
            self.problems.push(problem);
        }
    }
}

/// Checks a data folder. An error means that it could not be checked; damage is in the report.
pub fn check(data_dir: &Path, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let path = data_dir.join(archive::FILE_NAME);
    if !path.is_file() {
        let detail = format!("{} is not a data folder: it has no {}", data_dir.display(), archive::FILE_NAME);
        return Err(Error::Unsupported { detail });
    }
    let _lock = lock(&RealDisk, data_dir)?;
    let mut report = Report::default();
    let inspected =
        Inspection::open(&path).and_then(|archive| check_archive(&archive, &mut report, progress));
    let heads = match inspected {
        Ok(heads) => heads,
        Err(error @ Error::Corrupt { .. }) => {
            report.problem(error.to_string());
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    match check_journal(&data_dir.join(JOURNAL_DIR), heads) {
        Ok(last_batch) => report.last_batch = last_batch,
        Err(error @ Error::Corrupt { .. }) => report.problem(error.to_string()),
        Err(error) => return Err(error),
    }
    Ok(report)
}

/// Where the archive ends.
struct Heads {
    store: u64,
    folded_through: u64,
    /// Each collection's newest event.
    seqs: HashMap<CollectionKey, u64>,
}

/// Every record's sums and numbers, and that its events go on from the archive's.
fn check_journal(dir: &Path, heads: Heads) -> Result<u64, Error> {
    let Heads { store, folded_through, mut seqs } = heads;
    journal::verify(&RealDisk, dir, store, folded_through, &mut |number, payload| {
        let damaged = |detail: String| Error::Corrupt {
            path: dir.to_owned(),
            detail: format!("batch {number}: {detail}"),
        };
        let batch = wire::decode(payload).map_err(|error| damaged(error.to_string()))?;
        for entry in batch.entries {
            let key = CollectionKey::new(entry.collection).map_err(|refusal| damaged(refusal.to_string()))?;
            let seq = seqs.entry(key).or_default();
            for bytes in entry.events {
                let sealed = Sealed::read(&Hash::default(), bytes.to_vec());
                let event = sealed.map_err(|error| damaged(error.to_string()))?.event;
                if !follows(&event, *seq) {
                    let key = entry.collection;
                    return Err(damaged(format!("event {} of {key} follows event {seq}", event.seq)));
                }
                *seq = event.seq;
            }
        }
        Ok(())
    })
}

fn check_archive(
    archive: &Inspection,
    report: &mut Report,
    progress: &mut Progress<'_>,
) -> Result<Heads, Error> {
    for line in archive.integrity()? {
        report.problem(format!("SQLite says of the archive: {line}"));
    }
    let strays = archive.strays()?;
    if strays > 0 {
        report.problem(format!("{strays} rows of the archive belong to no collection"));
    }
    let mut unreadable = None;
    let loaded = archive.load(&mut |_, data| {
        unreadable = unreadable.take().or_else(|| read_kept(data).find_map(Result::err));
    })?;
    if let Some(error) = unreadable {
        report.problem(format!("a kept reply cannot be read: {error}"));
    }
    let Loaded { meta, state } = loaded;
    let keys: Vec<CollectionKey> =
        state.collections(None, usize::MAX - 1).rows.into_iter().map(|(key, _)| key).collect();
    if !keys.contains(&CollectionKey::policies()) {
        compare_policies(&state, &State::default(), report);
    }
    let mut seqs = HashMap::new();
    let total = keys.len() as u64;
    for (done, key) in (0..).zip(keys) {
        progress(done, total);
        let seq = check_collection(archive, &meta, &state, &key, report)?;
        seqs.insert(key, seq);
    }
    progress(total, total);
    Ok(Heads { store: meta.store, folded_through: meta.folded_through, seqs })
}

/// Walks a collection's chain from its oldest event to its head, folding it on the way.
fn check_collection(
    archive: &Inspection,
    meta: &Meta,
    state: &State,
    key: &CollectionKey,
    report: &mut Report,
) -> Result<u64, Error> {
    report.collections += 1;
    let snapshot = state.snapshot(key, 0).expect("a listed collection is there");
    let mut walk = Walk { key, meta, folded: State::default(), end: None, is_whole: true, problem: None };
    archive.chunks(&all_of(key), &mut |_, chunk| {
        walk.start(chunk.first_seq, chunk.before);
        let mut events = Vec::new();
        for sealed in read_events(chunk.before, chunk.data) {
            match sealed {
                Ok(sealed) => {
                    walk.event(&sealed);
                    events.push(Arc::new(sealed));
                }
                Err(error) => walk.fail(error),
            }
            if walk.problem.is_some() {
                return Ok(false);
            }
            report.events += 1;
        }
        walk.finish(chunk.last_seq);
        if !is_labelled(&chunk, &events) {
            let first = chunk.first_seq;
            report.problem(format!("{key}: a search would not have found its events from {first} on"));
        }
        Ok(walk.problem.is_none())
    })?;
    let head = &snapshot.head;
    if walk.problem.is_none() && walk.end != Some((head.seq, head.hash)) {
        let end = walk.end.map_or(0, |(seq, _)| seq);
        walk.fail(format!("its events end with {end} and another hash than its head's, {}", head.seq));
    }
    check_claims(key, &snapshot, report);
    if let Some(problem) = walk.problem {
        report.problem(problem);
    } else if walk.is_whole {
        compare(key, meta, state, &snapshot, &walk.folded, report);
    } else {
        report.pruned += 1;
    }
    Ok(head.seq)
}

/// A chain on its way from event to event.
struct Walk<'a> {
    key: &'a CollectionKey,
    meta: &'a Meta,
    folded: State,
    /// The last event's number and the hash after it.
    end: Option<(u64, Hash)>,
    /// It began with the collection's first event.
    is_whole: bool,
    problem: Option<String>,
}

impl Walk<'_> {
    fn start(&mut self, first_seq: u64, before: Hash) {
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

    fn event(&mut self, sealed: &Sealed) {
        let (seq, _) = self.end.unwrap_or_default();
        let first_of_pruned = !self.is_whole && sealed.event.seq == seq + 1;
        if !follows(&sealed.event, seq) && !first_of_pruned {
            return self.fail(format!("event {} follows event {seq}", sealed.event.seq));
        }
        if sealed.event.at_ms > self.meta.high_water_ms {
            let event = sealed.event.seq;
            return self.fail(format!("event {event} is later than the highest time that was committed"));
        }
        if matches!(sealed.event.fact, Fact::Restored { epoch, .. } if epoch > self.meta.epoch) {
            return self.fail(format!("event {} is of a later epoch than the archive", sealed.event.seq));
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

    fn finish(&mut self, last_seq: u64) {
        if self.end.is_some_and(|(seq, _)| seq != last_seq) {
            self.fail(format!("a chunk of events does not end with event {last_seq}, as it says"));
        }
    }

    fn fail(&mut self, problem: impl std::fmt::Display) {
        self.problem.get_or_insert(format!("{}: {problem}", self.key));
    }
}

/// The rows are what the events say, heartbeats aside: those are not events.
fn compare(
    key: &CollectionKey,
    meta: &Meta,
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
        if claim.blocked_until_ms > meta.high_water_ms && rows.claim(key, claim.number).is_none() {
            report.problem(format!("{key}: claim {} and its lock delay are missing", claim.number));
        }
    }
    if *key == CollectionKey::policies() {
        compare_policies(rows, folded, report);
    }
}

fn compare_policies(rows: &State, folded: &State, report: &mut Report) {
    let kinds: BTreeSet<Arc<str>> = rows.policies().chain(folded.policies()).map(|(kind, _)| kind).collect();
    for kind in kinds {
        if rows.policy(&kind) != folded.policy(&kind) {
            report.problem(format!("the policy of {kind} is not what its events say"));
        }
    }
}

fn without_beats(claim: &Claim) -> Claim {
    Claim { heartbeat_at_ms: 0, acted_at_ms: 0, expires_at_ms: 0, idle: false, ..claim.clone() }
}

/// An item that an active claim took is in that claim, and its token is no older than the claim.
fn check_claims(key: &CollectionKey, snapshot: &Snapshot, report: &mut Report) {
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
