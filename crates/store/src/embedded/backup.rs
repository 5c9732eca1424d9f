//! Backups. Taking one needs no lock and stops nobody; what it makes is itself a data folder, marked as one that is not
//! served.
//!
//! The archive is copied first, as of one moment, then the journal, which must go on from that moment.
//! A segment may be used again while it is copied, or the archive's copy may take so long that the
//! segments after it are gone. Then all of it is done once more, and an archive that has everything that
//! was answered when the backup began is enough by itself.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_core::limits::{EPOCH_NUMBERS, RESTORE_STEP};
use tenure_core::{Command, Principal, Rows, Verb, decide};

use super::archive::{self, Inspection, Meta, SqliteArchive, copy_archive};
use super::commit::Embedded;
use super::disk::{Disk, RealDisk, parent_of};
use super::journal::{self, io_error, segment_id, segment_name};
use super::moving::write_mark;
use super::options::{Fold, Options};
use super::recover::{JOURNAL_DIR, LOCK_NAME};
use super::unmade::refuse_unmade;
use crate::moving::Mark;
use crate::{Batch, Entry, Error, Store};

/// Told how much of the work is done, out of how much.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// How often a copy is begun. The second or third succeeds unless something is wrong.
const TRIES: u32 = 10;
/// Collections whose restore is committed at once.
const RESTORE_BATCH: usize = 500;

/// Puts what else belongs to a data folder into a new one, safely, before that has its name: it is whole or not there.
pub type Beside<'a> = dyn FnMut(&Path) -> io::Result<()> + 'a;

/// Copies a data folder that may be in use into a new folder. The copy is checked and synced; answers
/// the newest batch in it.
pub fn backup(
    data_dir: &Path,
    target_dir: &Path,
    beside: &mut Beside<'_>,
    progress: &mut Progress<'_>,
) -> Result<u64, Error> {
    make_folder(data_dir, target_dir, |partial| {
        let last = copy_folder(data_dir, partial, progress)?;
        // After the documents, which may name what is beside them.
        beside(partial).map_err(|source| beside_error(partial, source))?;
        // Served, it would give out tokens that were given out since.
        write_mark(partial, &Mark::Backup)?;
        Ok(last)
    })
}

/// Makes a data folder of a backup, at this time. Every collection's numbers jump ahead and the epoch
/// rises, so that no token that was given after the backup is given again. Answers the new epoch.
pub fn restore(
    backup_dir: &Path,
    data_dir: &Path,
    now_ms: i64,
    beside: &mut Beside<'_>,
    progress: &mut Progress<'_>,
) -> Result<u64, Error> {
    make_folder(backup_dir, data_dir, |partial| {
        copy_folder(backup_dir, partial, &mut |_, _| {})?;
        beside(partial).map_err(|source| beside_error(partial, source))?;
        jump_ahead(partial, now_ms, progress)
    })
}

/// Makes a folder of another, under a name that no one takes for a data folder until it is whole.
fn make_folder<T>(from: &Path, to: &Path, fill: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
    require(from)?;
    require_empty(to)?;
    let partial = partial_of(to)?;
    let made = fill(&partial).and_then(|made| finish(&partial, to).map(|()| made));
    made.inspect_err(|_| {
        // It takes the room that somebody may need. What stays is gone over by the next try.
        let _ = fs::remove_dir_all(&partial);
    })
}

fn beside_error(partial: &Path, source: io::Error) -> Error {
    Error::Io { path: partial.to_owned(), doing: "put the files into", source }
}

/// Archive and journal, into a folder that no one takes for a data folder yet. Answers the newest batch.
fn copy_folder(from: &Path, to: &Path, progress: &mut Progress<'_>) -> Result<u64, Error> {
    // Where nobody owns the folder, nobody shall before the copy is made, and what does not verify is
    // damage. Where somebody does, it may also have been written to while it was read.
    let lock = lock_to_read(from)?;
    let ours = lock.is_ours();
    let (from_journal, to_journal) = (from.join(JOURNAL_DIR), to.join(JOURNAL_DIR));
    let answered = if ours { 0 } else { newest_batch(from)? };
    for last_try in (0..TRIES).map(|number| number + 1 == TRIES) {
        if to.exists() {
            fs::remove_dir_all(to).map_err(|source| io_error(to, "empty", source))?;
        }
        RealDisk.create_dir(&to_journal).map_err(|source| io_error(&to_journal, "make", source))?;
        let meta = copy_archive(&from.join(archive::FILE_NAME), &to.join(archive::FILE_NAME))?;
        let copied = copy_journal(&from_journal, &to_journal, &meta, progress);
        let verified = copied.and_then(|()| {
            journal::verify(&RealDisk, &to_journal, meta.store, meta.folded_through, &mut |_, _| Ok(()))
        });
        match verified {
            Ok(last) if last >= answered => return Ok(last),
            Err(error) if ours || last_try => return Err(error),
            _ => {}
        }
        if meta.folded_through >= answered {
            empty_journal(&to_journal, &meta)?;
            return Ok(meta.folded_through);
        }
    }
    Err(Error::Away { detail: format!("{} changed faster than it could be copied", from.display()) })
}

/// Whether a folder that is only read is somebody's.
pub(super) enum ReadLock {
    Ours {
        _lock: <RealDisk as Disk>::Lock,
    },
    Others,
    /// On a disk that nobody can write to.
    Nobodys,
}

impl ReadLock {
    /// Nobody changes it meanwhile.
    pub(super) fn is_ours(&self) -> bool {
        !matches!(self, Self::Others)
    }
}

/// Takes a folder's lock to read it, where there can be one.
pub(super) fn lock_to_read(dir: &Path) -> Result<ReadLock, Error> {
    let path = dir.join(LOCK_NAME);
    match RealDisk.lock(&path) {
        Ok(Some(lock)) => Ok(ReadLock::Ours { _lock: lock }),
        Ok(None) => Ok(ReadLock::Others),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(ReadLock::Nobodys),
        // Somebody else's, who let us read: a lock needs no more than that.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            match RealDisk::lock_to_read(&path) {
                Ok(lock) => Ok(lock.map_or(ReadLock::Others, |lock| ReadLock::Ours { _lock: lock })),
                Err(source) => Err(io_error(&path, "lock", source)),
            }
        }
        Err(source) => Err(io_error(&path, "lock", source)),
    }
}

/// A batch that is no older than any that was answered before now.
fn newest_batch(dir: &Path) -> Result<u64, Error> {
    let store = Inspection::open(&dir.join(archive::FILE_NAME))?.meta()?.store;
    let mut tries = 0;
    loop {
        tries += 1;
        match journal::newest_batch(&RealDisk, &dir.join(JOURNAL_DIR), store) {
            // A segment was used again while it was read.
            Err(Error::Corrupt { .. } | Error::Io { .. }) if tries < TRIES => {}
            newest => return newest,
        }
    }
}

/// Copies the segments, oldest first.
fn copy_journal(from: &Path, to: &Path, meta: &Meta, progress: &mut Progress<'_>) -> Result<(), Error> {
    let names = RealDisk.list(from).map_err(|source| io_error(from, "list", source))?;
    let mut ids: Vec<u64> = names.iter().filter_map(|name| segment_id(name)).collect();
    ids.sort_unstable();
    let total = ids.len() as u64;
    for (done, id) in (0..).zip(ids) {
        progress(done, total);
        let (from, to) = (from.join(segment_name(id)), to.join(segment_name(id)));
        match fs::copy(&from, &to) {
            // It is being used again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                return Err(io_error(&to, "copy", error));
            }
            copied => copied.map_err(|source| io_error(&from, "copy", source))?,
        };
        // A segment that became another one under our hands: if it is needed, it shows as a hole.
        match journal::read_header(&RealDisk, &to, id, meta.store) {
            Err(Error::Corrupt { .. }) if done + 1 < total => {
                fs::remove_file(&to).map_err(|source| io_error(&to, "remove", source))?;
            }
            header => drop(header?),
        }
    }
    progress(total, total);
    Ok(())
}

/// A journal without a batch, that goes on where the archive ends.
pub(super) fn empty_journal(dir: &Path, meta: &Meta) -> Result<(), Error> {
    for name in RealDisk.list(dir).map_err(|source| io_error(dir, "list", source))? {
        let path = dir.join(name);
        fs::remove_file(&path).map_err(|source| io_error(&path, "remove", source))?;
    }
    journal::create(Arc::new(RealDisk), dir, meta.store, meta.folded_through + 1, &Options::default())
        .map(drop)
}

/// Commits a restore in every collection, and raises the epoch where there is none.
fn jump_ahead(dir: &Path, now_ms: i64, progress: &mut Progress<'_>) -> Result<u64, Error> {
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let mut store = Embedded::open(dir, &options)?;
    let at_ms = now_ms.max(store.high_water_ms());
    let reader = store.reader();
    let heads = reader.collections(None, usize::MAX - 1)?.rows;
    let newest = heads.iter().map(|(_, head)| head.seq).max().unwrap_or(0);
    let epoch = next_epoch(store.epoch(), newest, at_ms);
    let total = reader.stats().collections;
    let mut done = 0;
    let mut after = None;
    loop {
        progress(done, total);
        let page = reader.collections(after.as_ref(), RESTORE_BATCH)?;
        let Some((last, _)) = page.rows.last() else { break };
        after = Some(last.clone());
        done += page.rows.len() as u64;
        let view = store.load(&[])?;
        let entries = page.rows.iter().map(|(key, _)| restore_entry(&view, key, epoch, at_ms));
        let batch = Batch { at_ms, entries: entries.collect() };
        drop(view);
        store.commit(batch)?;
    }
    store.close()?;
    drop((reader, store));
    SqliteArchive::open(dir)?.set_epoch(epoch)?;
    Ok(epoch)
}

/// The epoch that begins now: its time, so that the same backup can be restored again and again and its
/// numbers never meet. A clock that says it began before what is there is not believed.
pub(crate) fn next_epoch(epoch: u64, newest: u64, at_ms: i64) -> u64 {
    let at = u64::try_from(at_ms).unwrap_or(0);
    if at > epoch && at.saturating_mul(EPOCH_NUMBERS) > newest {
        return at;
    }
    ((newest + RESTORE_STEP) / EPOCH_NUMBERS + 1).max(epoch + 1)
}

pub(crate) fn restore_entry(
    rows: &dyn Rows,
    key: &tenure_core::CollectionKey,
    epoch: u64,
    at_ms: i64,
) -> Entry {
    let verb = Verb::Restore { epoch };
    let command = Command { collection: key.clone(), actor: Principal::system(), verb };
    let decision = decide(rows, &command, at_ms).expect("a restore is never refused");
    Entry {
        collection: key.clone(),
        events: decision.events,
        beats: decision.beats,
        changed: decision.changed,
        kept: None,
    }
}

/// Syncs everything in a folder.
pub(super) fn sync_folder(dir: &Path) -> Result<(), Error> {
    let failed = |source| Error::SyncFailed { path: dir.to_owned(), source };
    for folder in [dir.join(JOURNAL_DIR), dir.to_owned()] {
        for name in RealDisk.list(&folder).map_err(|source| io_error(&folder, "list", source))? {
            let path = folder.join(name);
            if path.is_file() {
                File::open(&path).and_then(|file| file.sync_all()).map_err(failed)?;
            }
        }
        RealDisk.sync_dir(&folder).map_err(failed)?;
    }
    Ok(())
}

/// Syncs everything in the partial folder and gives it its name, which makes it valid.
fn finish(partial: &Path, dir: &Path) -> Result<(), Error> {
    sync_folder(partial)?;
    // An empty folder of that name gives way.
    fs::rename(partial, dir).map_err(|source| io_error(dir, "make", source))?;
    let parent = parent_of(dir);
    RealDisk.sync_dir(parent).map_err(|source| Error::SyncFailed { path: parent.to_owned(), source })
}

pub(super) fn require(dir: &Path) -> Result<(), Error> {
    refuse_unmade(dir)?;
    if dir.join(archive::FILE_NAME).is_file() && dir.join(JOURNAL_DIR).is_dir() {
        return Ok(());
    }
    let detail = format!("{} is not a data folder: it has no {}", dir.display(), archive::FILE_NAME);
    Err(Error::Unsupported { detail })
}

fn require_empty(dir: &Path) -> Result<(), Error> {
    let found = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(io_error(dir, "read", source)),
    };
    if found {
        let detail = format!("{} is not empty; name a folder that is empty or not there", dir.display());
        return Err(Error::Unsupported { detail });
    }
    // It is made beside its place and then renamed, which no mount can be.
    if let (Ok(own), Ok(parent)) = (fs::metadata(dir), fs::metadata(parent_of(dir)))
        && own.dev() != parent.dev()
    {
        let detail = format!("{} is a mount of its own; name a folder inside of it", dir.display());
        return Err(Error::Unsupported { detail });
    }
    Ok(())
}

fn partial_of(dir: &Path) -> Result<PathBuf, Error> {
    let Some(name) = dir.file_name() else {
        return Err(Error::Unsupported { detail: format!("{} has no name of its own", dir.display()) });
    };
    let mut name = name.to_owned();
    name.push(".partial");
    Ok(dir.with_file_name(name))
}
