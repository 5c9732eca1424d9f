//! Opening a data folder: its lock, the archive's rows, the journal's tail.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::RwLock;
use tenure_core::{CollectionKey, Fact, Refusal, Rows, Sealed, Text, fold};

use super::archive::{Archive, ArchiveReader, Group, GroupRows, KeptPlace, Recorder};
use super::commit::Embedded;
use super::disk::Disk;
use super::fold::Folder;
use super::journal::{self, io_error};
use super::kept::KeptIndex;
use super::live::Live;
use super::options::{Faults, Fold, Options};
use super::wire::{self, EntryIn};
use super::writer::Writer;
use crate::limits::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::read::follows;
use crate::{Error, ReplyKey};

/// The journal's folder in the data folder.
pub(crate) const JOURNAL_DIR: &str = "journal";
/// The file whose lock says who owns the data folder.
pub(crate) const LOCK_NAME: &str = "lock";

pub(super) fn open<D: Disk, A: Archive>(
    disk: Arc<D>,
    dir: &Path,
    options: &Options,
    open_archive: impl FnOnce(&Path) -> Result<A, Error>,
) -> Result<Embedded<D, A>, Error> {
    check_options(options)?;
    let journal_dir = dir.join(JOURNAL_DIR);
    for folder in [dir, &journal_dir] {
        disk.create_dir(folder).map_err(|source| io_error(folder, "make", source))?;
    }
    let lock = lock(&*disk, dir)?;
    let mut archive = open_archive(dir)?;
    let mut kept = KeptIndex::new(options.kept_max, options.kept_values_max);
    let mut unreadable = None;
    let loaded = archive.load(&mut |place, data| {
        if let Err(error) = kept.load(place, data) {
            unreadable = Some(error);
        }
    })?;
    if let Some(error) = unreadable {
        let detail = format!("a kept reply cannot be read: {error}");
        return Err(Error::Corrupt { path: dir.join(super::archive::FILE_NAME), detail });
    }
    let meta = loaded.meta;
    let mut live = Live::new(loaded.state, kept, options);
    live.high_water_ms = meta.high_water_ms;
    live.epoch = meta.epoch;
    live.last = meta.folded_through;
    live.folded_through = meta.folded_through;
    let mut replay = Replay { live, group: Group::default(), faults: options.faults(), current: None };
    let mut bytes = 0;
    let journal = journal::open(
        disk,
        &journal_dir,
        meta.store,
        meta.folded_through,
        options,
        &mut |number, payload| {
            // A long tail is folded on the way, so that it never has to be in memory whole. Without the newest batch:
            // that one may not be safe in the journal yet, and the archive must not be ahead of it.
            if bytes > options.segment_bytes {
                bytes = 0;
                replay.fold(&mut archive)?;
            }
            replay.batch(number, payload)?;
            bytes += payload.len() as u64;
            Ok(())
        },
    )?;
    replay.put_back();
    let Replay { mut live, group, .. } = replay;
    live.kept.trim(live.high_water_ms);
    live.forget_ended(usize::MAX);
    let live = Arc::new(RwLock::new(live));
    let (reader, readers) = (archive.reader(), archive.reader());
    // Asked for nothing, so that it is open.
    reader.kept(KeptPlace { through: 0, part: 0 })?;
    Ok(Embedded {
        journal_bytes: Arc::new(AtomicU64::new(journal.bytes())),
        last: journal.last(),
        batch_bytes_max: journal.batch_bytes_max(),
        journal: Some(journal),
        // Who folds by hand has no threads at all.
        writer: (options.fold == Fold::Thread).then(Writer::start),
        begun: None,
        folder: Folder::start(archive, live.clone(), group, options),
        live,
        archive: reader,
        readers,
        faults: options.faults(),
        dir: dir.to_owned(),
        _lock: lock,
    })
}

/// Owns the folder, or says that another process does.
pub(crate) fn lock<D: Disk>(disk: &D, dir: &Path) -> Result<D::Lock, Error> {
    let path = dir.join(LOCK_NAME);
    let lock = disk.lock(&path).map_err(|source| io_error(&path, "lock", source))?;
    lock.ok_or_else(|| Error::Owned { path: dir.to_owned() })
}

fn check_options(options: &Options) -> Result<(), Error> {
    let bytes = options.segment_bytes;
    let page = journal::PAGE_BYTES as u64;
    if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(page) {
        let detail = format!(
            "a journal segment has {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes and is a multiple of {page}"
        );
        return Err(Error::Unsupported { detail });
    }
    Ok(())
}

/// The journal's batches on their way back into memory.
struct Replay {
    live: Live,
    /// What the archive will have to take.
    group: Group,
    faults: Faults,
    /// The collection at hand, taken out of the group: most batches are about few of them.
    current: Option<(CollectionKey, GroupRows)>,
}

impl Replay {
    fn batch(&mut self, number: u64, payload: &[u8]) -> Result<(), Error> {
        let batch = wire::decode(payload).map_err(|error| damaged(number, error))?;
        self.live.add_time(number, batch.at_ms);
        self.group.add_time(number, batch.at_ms);
        for entry in batch.entries {
            self.entry(number, entry)?;
        }
        Ok(())
    }

    fn entry(&mut self, number: u64, entry: EntryIn<'_>) -> Result<(), Error> {
        let (key, mut rows) = self.take_out(entry.collection).map_err(|refusal| damaged(number, refusal))?;
        let mut head = self.live.state.collection(&key).map(|head| (head.seq, head.hash)).unwrap_or_default();
        for bytes in entry.events {
            let sealed = Sealed::read(&head.1, bytes.to_vec()).map_err(|error| damaged(number, error))?;
            if !follows(&sealed.event, head.0) {
                let found = sealed.event.seq;
                return Err(damaged(
                    number,
                    format!("{key} ends with event {}, but {found} follows", head.0),
                ));
            }
            head = (sealed.event.seq, sealed.hash);
            self.event(number, &key, &mut rows, sealed);
        }
        let forget = self.faults.forget_beats_on_replay;
        for beat in entry.beats.iter().filter(|_| !forget) {
            fold::apply_beat(&mut self.recorder(&mut rows, false), &key, beat);
        }
        if let Some(kept) = entry.kept.filter(|_| !self.faults.lose_kept_on_replay) {
            let reply_key = ReplyKey {
                collection: key.clone(),
                principal: Text::from(kept.principal),
                key: Text::from(kept.key),
            };
            self.group.add_kept(self.live.kept.keys().id(&reply_key), &reply_key, &kept.kept);
            self.live.kept.insert(&reply_key, kept.kept);
        }
        self.current = Some((key, rows));
        Ok(())
    }

    fn event(&mut self, number: u64, key: &CollectionKey, rows: &mut GroupRows, sealed: Sealed) {
        let is_written = sealed.event.fact.writes_items();
        fold::apply(&mut self.recorder(rows, is_written), key, &sealed.event, sealed.hash);
        if let Fact::Ended(end) = &sealed.event.fact
            && let Some(claim) = self.live.state.claim(key, end.claim)
        {
            self.live.note_ended(number, key, &claim);
        }
        self.live.add_epoch(&sealed.event.fact);
        self.group.add_epoch(&sealed.event.fact);
        let sealed = Arc::new(sealed);
        rows.events.push(sealed.clone());
        self.live.add_events(key, &[sealed]);
    }

    fn recorder<'a>(&'a mut self, rows: &'a mut GroupRows, is_written: bool) -> Recorder<'a> {
        Recorder { state: &mut self.live.state, rows, is_written, policies: &mut self.group.policies }
    }

    fn take_out(&mut self, name: &str) -> Result<(CollectionKey, GroupRows), Refusal> {
        if let Some(current) = self.current.take_if(|(key, _)| key.as_str() == name) {
            return Ok(current);
        }
        self.put_back();
        let key = CollectionKey::new(name)?;
        let rows = self.group.collections.remove(&key).unwrap_or_default();
        Ok((key, rows))
    }

    fn put_back(&mut self) {
        if let Some((key, rows)) = self.current.take()
            && (rows.head.is_some() || !rows.claims.is_empty())
        {
            self.group.collections.insert(key, rows);
        }
    }

    fn fold(&mut self, archive: &mut impl Archive) -> Result<(), Error> {
        self.put_back();
        let group = std::mem::take(&mut self.group);
        archive.fold(&group)?;
        drop(self.live.folded(&group, None));
        for (place, chunk) in group.kept_places() {
            self.live.kept.folded(place, &chunk.ids);
        }
        self.live.forget_ended(usize::MAX);
        Ok(())
    }
}

fn damaged(number: u64, why: impl std::fmt::Display) -> Error {
    Error::Corrupt { path: JOURNAL_DIR.into(), detail: format!("batch {number} cannot be replayed: {why}") }
}
