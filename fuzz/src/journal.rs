//! A journal that somebody has written into. Whatever is in it, opening ends: with a refusal, or with the state after some
//! of its commits, in order and from the first. A commit that never was is never believed.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, ItemId, Principal, Verb};
use tenure_engine::{Engine, ManualClock, Options as EngineOptions};
use tenure_store::embedded::archive::MemoryArchive;
use tenure_store::embedded::disk::RealDisk;
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::{EventPage, Store};

use crate::Target;

/// Claims in the journal that is spoiled.
const CLAIMS: u64 = 12;
const START_MS: i64 = 1_700_000_000_000;

/// A folder whose journal is written anew for each input.
#[derive(Debug)]
pub struct Journal {
    folder: TempDir,
    segment: PathBuf,
    good: Vec<u8>,
    /// The chain's hash after each event.
    hashes: Vec<[u8; 32]>,
}

impl Journal {
    /// Writes a journal as the server does.
    pub fn new() -> Result<Self, String> {
        let folder = in_memory().map_err(told)?;
        let engine = Engine::start(open(&folder)?, ManualClock::at(START_MS), EngineOptions::default())
            .map_err(told)?;
        let actor = Principal::new("u-1", "Ana").map_err(told)?;
        let collection = key()?;
        for claim in 0..CLAIMS {
            let items = vec![ItemId::new(format!("i{claim}")).map_err(told)?];
            let verb = Verb::Acquire(Acquire { items, ..Acquire::default() });
            let command = Command { collection: collection.clone(), actor: actor.clone(), verb };
            engine.execute_blocking(command).outcome.map_err(told)?;
        }
        let hashes = hashes(&**engine.reader())?;
        engine.stop().map_err(told)?;
        let segment = segments(&folder)?.into_iter().next().ok_or("no journal was written")?;
        let good = fs::read(&segment).map_err(told)?;
        Ok(Self { folder, segment, good, hashes })
    }

    /// How far the good journal has something in it.
    fn used(&self) -> usize {
        self.good.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }
}

impl Target for Journal {
    /// The input says what to write where: pairs of a place and a byte, then bytes that follow the last place.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut spoiled = self.good.clone();
        let used = self.used();
        let (places, rest) = bytes.split_at(bytes.len().min(24) / 3 * 3);
        let mut last = 0;
        for place in places.chunks_exact(3) {
            last = usize::from(u16::from_le_bytes([place[0], place[1]])) % (used + 64);
            spoiled[last] = place[2];
        }
        let end = (last + rest.len()).min(spoiled.len());
        spoiled[last..end].copy_from_slice(&rest[..end - last]);
        for path in segments(&self.folder)? {
            fs::remove_file(path).map_err(told)?;
        }
        fs::write(&self.segment, &spoiled).map_err(told)?;
        let Ok(store) = open(&self.folder) else { return Ok(()) };
        let found = hashes(&*store.reader())?;
        if self.hashes.starts_with(&found) {
            Ok(())
        } else {
            Err(format!(
                "{} events were believed that are not the first of {}",
                found.len(),
                self.hashes.len()
            ))
        }
    }
}

/// Nothing here must outlive a power cut.
fn in_memory() -> std::io::Result<TempDir> {
    let shared = std::path::Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() }
}

fn open(folder: &TempDir) -> Result<Embedded<RealDisk, MemoryArchive>, String> {
    let options = Options {
        segment_bytes: 64 << 10,
        segments_max: 2,
        segments_kept: 1,
        fold: Fold::Manual,
        ..Options::default()
    };
    Embedded::open_with(Arc::new(RealDisk), folder.path(), &options, |_| Ok(MemoryArchive::default()))
        .map_err(told)
}

fn key() -> Result<CollectionKey, String> {
    CollectionKey::new("lock/fuzz").map_err(told)
}

fn hashes(reader: &dyn tenure_store::Reader) -> Result<Vec<[u8; 32]>, String> {
    match reader.events(&key()?, 0, 10_000).map_err(told)? {
        EventPage::Events(events) => Ok(events.iter().map(|sealed| sealed.hash.0).collect()),
        EventPage::Resync { .. } => Ok(Vec::new()),
    }
}

fn segments(folder: &TempDir) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.path().join("journal")).map_err(told)? {
        found.push(entry.map_err(told)?.path());
    }
    found.sort();
    Ok(found)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
