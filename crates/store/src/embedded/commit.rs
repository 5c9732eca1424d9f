//! The writer's face of the embedded store.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Rows};

use super::archive::{Archive, ArchiveReader, KeptPlace, SqliteArchive, read_kept};
use super::disk::{Disk, RealDisk};
use super::fold::{Folder, Pending};
use super::journal::{Journal, Room};
use super::kept::Lookup;
use super::live::Live;
use super::options::{Faults, Options};
use super::reader::EmbeddedReader;
use super::writer::Writer;
use super::{recover, wire, writer};
use crate::{Batch, Done, Error, Kept, Reader, ReplyKey, Store, View, Want};

/// A store in a folder of this process's own.
pub struct Embedded<D: Disk = RealDisk, A: Archive = SqliteArchive> {
    /// `None` while the writer has it.
    pub(super) journal: Option<Journal<D>>,
    /// Joined before the folder's lock is let go of.
    pub(super) writer: Option<Writer<D>>,
    /// What was begun and is not over, with its bytes.
    pub(super) begun: Option<(Batch, u64)>,
    /// Dropped before the folder's lock: the archive is closed while the folder is still ours.
    pub(super) folder: Folder<A>,
    pub(super) live: Arc<RwLock<Live>>,
    /// The writer's own, open from the start: it waits for nobody who reads, nor for a descriptor.
    pub(super) archive: A::Reader,
    /// Everybody else's.
    pub(super) readers: A::Reader,
    pub(super) journal_bytes: Arc<AtomicU64>,
    /// The newest batch.
    pub(super) last: u64,
    pub(super) batch_bytes_max: u64,
    pub(super) faults: Faults,
    pub(super) dir: PathBuf,
    pub(super) _lock: D::Lock,
}

impl Embedded {
    /// Opens a data folder, or makes one: takes its lock, reads the archive, replays the journal.
    pub fn open(dir: &Path, options: &Options) -> Result<Self, Error> {
        Self::open_with(Arc::new(RealDisk), dir, options, |dir| {
            super::moving::refuse_marked(dir)?;
            SqliteArchive::open_with(dir, options)
        })
    }
}

impl<D: Disk, A: Archive> Embedded<D, A> {
    /// The same on another disk and with another archive, which is opened once the folder is locked.
    pub fn open_with(
        disk: Arc<D>,
        dir: &Path,
        options: &Options,
        open_archive: impl FnOnce(&Path) -> Result<A, Error>,
    ) -> Result<Self, Error> {
        recover::open(disk, dir, options, open_archive)
    }

    /// Moves up to so many committed batches into the archive, now and on this thread. Answers how many.
    pub fn fold_now(&self, max_batches: u64) -> Result<u64, Error> {
        self.folder.fold_now(max_batches)
    }

    /// The number of the newest batch, which counts from 1.
    pub fn last_batch(&self) -> u64 {
        self.last
    }

    /// The newest batch that the archive has.
    pub fn folded_through(&self) -> u64 {
        self.folder.folded_through()
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The most that one batch may have, in its encoded bytes.
    pub fn batch_bytes_max(&self) -> u64 {
        self.batch_bytes_max
    }

    fn journal(&mut self) -> Result<&mut Journal<D>, Error> {
        self.journal.as_mut().ok_or_else(writer::gone)
    }

    /// Encodes a batch and finds it a place. Answers its bytes.
    fn stage(&mut self, batch: &Batch) -> Result<u64, Error> {
        self.folder.check()?;
        let journal = self.journal.as_mut().ok_or_else(writer::gone)?;
        journal.stage(|record| wire::encode(batch, record))?;
        let bytes = journal.staged_bytes();
        while let Room::AfterFoldOf(number) = journal.make_room(self.folder.folded_through())? {
            self.folder.fold_through(number)?;
        }
        self.journal_bytes.store(journal.bytes(), Ordering::Relaxed);
        Ok(bytes)
    }

    /// A batch is safe: readers see it, and it waits to be folded.
    fn show(&mut self, number: u64, batch: Batch, bytes: u64) {
        self.last = number;
        if !self.faults.show_before_sync {
            self.live.write().apply(number, &batch);
        }
        if !self.faults.fold_before_sync {
            self.folder.push(Pending::new(number, batch, bytes));
        }
    }

    /// Reads a reply that only the archive has, and none behind it: in what earlier builds wrote, the last of a chunk may have
    /// megabytes.
    fn find_kept(&self, key: &ReplyKey, place: KeptPlace, at_ms: i64) -> Result<Option<Arc<Kept>>, Error> {
        let data = self.archive.kept(place)?.unwrap_or_default();
        for reply in read_kept(&data) {
            let (archived, kept) = reply.map_err(|error| damaged_kept(&error))?;
            // A key may be used again after its day, and stand there twice.
            if archived == *key && kept.at_ms == at_ms {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }
}

impl<D: Disk, A: Archive> Store for Embedded<D, A> {
    type View<'a>
        = EmbeddedView<'a>
    where
        Self: 'a;

    fn load(&mut self, wants: &[Want]) -> Result<EmbeddedView<'_>, Error> {
        // Here and not in the view: here it can fail.
        let mut kept = Found::new();
        loop {
            let live = self.live.read();
            let archived = not_here(&live, wants, &kept);
            if archived.is_empty() {
                return Ok(EmbeddedView { live, kept });
            }
            // A large one takes milliseconds, and a fold that waited for the lock would keep all readers waiting. It may take
            // another answer out of memory meanwhile, so it is looked again under the view's own lock.
            drop(live);
            for (key, place, at_ms) in archived {
                kept.insert(key.clone(), self.find_kept(key, place, at_ms)?);
            }
        }
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let bytes = self.stage(&batch)?;
        let expected = self.last + 1;
        if self.faults.show_before_sync {
            self.live.write().apply(expected, &batch);
        }
        if self.faults.fold_before_sync {
            self.folder.fold_early(Pending::new(expected, batch.clone(), bytes))?;
        }
        let number = self.journal()?.write()?;
        self.show(number, batch, bytes);
        Ok(())
    }

    fn begin(&mut self, batch: Batch, done: Done) -> Result<(), Error> {
        let bytes = self.stage(&batch)?;
        match (&self.writer, self.journal.take()) {
            (Some(writer), Some(journal)) => writer.begin(journal, done)?,
            // Nobody else writes: it is written when it is waited for.
            (_, journal) => {
                self.journal = journal;
                done();
            }
        }
        self.begun = Some((batch, bytes));
        Ok(())
    }

    fn complete(&mut self) -> Result<(), Error> {
        let Some((batch, bytes)) = self.begun.take() else { return Ok(()) };
        let written = match (&mut self.journal, &self.writer) {
            (None, Some(writer)) => {
                let (journal, written) = writer.end()?;
                self.journal = Some(journal);
                written
            }
            _ => self.journal()?.write(),
        };
        self.show(written?, batch, bytes);
        Ok(())
    }

    fn overlaps(&self) -> bool {
        self.faults == Faults::default()
    }

    fn high_water_ms(&self) -> i64 {
        self.live.read().high_water_ms
    }

    fn epoch(&self) -> u64 {
        self.live.read().epoch
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(EmbeddedReader {
            live: self.live.clone(),
            archive: self.readers.clone(),
            journal_bytes: self.journal_bytes.clone(),
        })
    }

    fn close(&mut self) -> Result<(), Error> {
        self.folder.close()
    }
}

impl<D: Disk, A: Archive> fmt::Debug for Embedded<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Wanted replies that only the archive had. What it has lost is not looked for twice.
type Found = HashMap<ReplyKey, Option<Arc<Kept>>>;

/// The replies that are wanted, not in memory, and not looked for yet.
fn not_here<'a>(live: &Live, wants: &'a [Want], found: &Found) -> Vec<(&'a ReplyKey, KeptPlace, i64)> {
    let keys = wants.iter().filter_map(|want| want.reply.as_ref());
    let archived = keys.filter_map(|key| match live.kept.lookup(key) {
        Lookup::Archived(place, at_ms) if !found.contains_key(key) => Some((key, place, at_ms)),
        _ => None,
    });
    archived.collect()
}

/// What a batch reads: the rows under a read lock, so that readers go on beside it.
#[derive(Debug)]
pub struct EmbeddedView<'a> {
    live: RwLockReadGuard<'a, Live>,
    kept: Found,
}

impl Rows for EmbeddedView<'_> {
    fn epoch(&self) -> u64 {
        self.live.epoch
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.live.state.policy(kind)
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.live.state.collection(key)
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.live.state.item(key, id)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.live.state.claim(key, number)
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.live.state.barring(key, number)
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        self.live.state.claims_of(key, holder_id)
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        self.live.state.active_claims(key)
    }
}

impl View for EmbeddedView<'_> {
    fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        match self.live.kept.lookup(key) {
            Lookup::Here(kept) => Some(kept),
            Lookup::Archived(..) => self.kept.get(key).cloned().flatten(),
            Lookup::Unknown => None,
        }
    }
}

fn damaged_kept(error: &postcard::Error) -> Error {
    let detail = format!("a kept reply cannot be read: {error}");
    Error::Corrupt { path: super::archive::FILE_NAME.into(), detail }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use tenure_core::{Changed, Hash, Reply, Text};

    use super::*;
    use crate::Entry;
    use crate::embedded::Fold;
    use crate::embedded::archive::{ChunkAsk, Group, Loaded, MemoryArchive, VisitChunk};

    /// An archive that looks whether somebody could write while a reply is read.
    #[derive(Clone, Default)]
    struct Watched {
        archive: MemoryArchive,
        live: Arc<OnceLock<Arc<RwLock<Live>>>>,
    }

    impl Archive for Watched {
        type Reader = Self;

        fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
            self.archive.load(kept)
        }

        fn fold(&mut self, group: &Group) -> Result<(), Error> {
            self.archive.fold(group)
        }

        fn reader(&self) -> Self {
            self.clone()
        }

        fn close(&mut self) -> Result<(), Error> {
            Ok(())
        }
    }

    impl ArchiveReader for Watched {
        fn chunks(&self, ask: &ChunkAsk<'_>, visit: &mut VisitChunk<'_>) -> Result<(), Error> {
            self.archive.chunks(ask, visit)
        }

        fn kept(&self, place: KeptPlace) -> Result<Option<Vec<u8>>, Error> {
            let is_free = self.live.get().is_none_or(|live| live.try_write().is_some());
            assert!(is_free, "a fold would wait for the archive, and all readers for the fold");
            self.archive.kept(place)
        }
    }

    #[test]
    fn nobody_waits_while_a_kept_reply_is_read_from_the_archive() {
        let dir = tempfile::tempdir().unwrap();
        let archive = Watched::default();
        let options = Options { fold: Fold::Manual, kept_values_max: 0, ..Options::default() };
        let opened = Embedded::open_with(Arc::new(RealDisk), dir.path(), &options, |_| Ok(archive.clone()));
        let mut store = opened.unwrap();
        assert!(archive.live.set(store.live.clone()).is_ok());
        let collection = CollectionKey::new("lock/a").unwrap();
        let keys = ["first", "second"].map(|key| ReplyKey {
            collection: collection.clone(),
            principal: Text::from("ana"),
            key: Text::from(key),
        });
        let entries = keys.clone().map(|key| Entry {
            collection: collection.clone(),
            events: Vec::new(),
            beats: Vec::new(),
            changed: Changed::default(),
            kept: Some((
                key,
                Arc::new(Kept { fingerprint: Hash::default(), at_ms: 1, outcome: Ok(Reply::Done) }),
            )),
        });
        store.commit(Batch { at_ms: 1, entries: entries.to_vec() }).unwrap();
        assert_eq!(store.fold_now(1).unwrap(), 1);
        let want = |key: &ReplyKey| Want {
            collection: collection.clone(),
            items: Vec::new(),
            claims: Vec::new(),
            holder: None,
            reply: Some(key.clone()),
        };
        let view = store.load(&keys.each_ref().map(want)).unwrap();
        assert!(keys.iter().all(|key| view.kept(key).is_some()));
    }
}
