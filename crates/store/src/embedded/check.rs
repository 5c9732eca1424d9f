//! Checking a data folder that nobody uses, or a backup. It changes nothing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tenure_core::{CollectionKey, Hash, Sealed};

use super::archive::{self, Inspection, Loaded, Meta, is_labelled, read_events, read_kept};
use super::backup::{Progress, lock_to_read};
use super::disk::RealDisk;
use super::reader::all_of;
use super::recover::JOURNAL_DIR;
use super::unmade::is_unmade;
pub use super::unmade::sentence as unmade_sentence;
use super::{journal, wire};
pub use crate::check::Report;
use crate::check::{Bounds, Walk, check_claims, compare, compare_policies};
use crate::read::follows;
use crate::{Error, State};

/// Checks a data folder. An error means that it could not be checked; damage is in the report.
pub fn check(data_dir: &Path, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let path = data_dir.join(archive::FILE_NAME);
    if !path.is_file() && !is_unmade(data_dir)? {
        let detail = format!("{} is not a data folder: it has no {}", data_dir.display(), archive::FILE_NAME);
        return Err(Error::Unsupported { detail });
    }
    let lock = lock_to_read(data_dir)?;
    if !lock.is_ours() {
        return Err(Error::Owned { path: data_dir.to_owned() });
    }
    let mut report = Report::default();
    if is_unmade(data_dir)? {
        report.is_unmade = true;
        return Ok(report);
    }
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
        Ok((last_batch, events)) => (report.last_batch, report.journal_events) = (last_batch, events),
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

/// Every record's sums and numbers, and that its events go on from the archive's. Answers the newest batch, and how many
/// events the archive does not have.
fn check_journal(dir: &Path, heads: Heads) -> Result<(u64, u64), Error> {
    let Heads { store, folded_through, mut seqs } = heads;
    let mut events = 0;
    let last_batch = journal::verify(&RealDisk, dir, store, folded_through, &mut |number, payload| {
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
                events += 1;
            }
        }
        Ok(())
    })?;
    Ok((last_batch, events))
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
    let bounds = Bounds { high_water_ms: meta.high_water_ms, epoch: meta.epoch };
    let mut walk = Walk::new(key, bounds);
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
        compare(key, bounds, state, &snapshot, &walk.folded, report);
    } else {
        report.pruned += 1;
    }
    Ok(head.seq)
}
