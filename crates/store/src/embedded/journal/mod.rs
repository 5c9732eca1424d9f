//! The journal: what makes a commit safe. One batch is one record, one write and one sync; it is
//! answered after that and not before.
//!
//! A segment's life. Only a file named `<id>.journal` is part of the journal; each arrow is made safe
//! before the next one begins, so a crash between any two leaves a journal that reads the same. The removal itself need not
//! be: what is still there is removed at the next start.
//!
//! ```text
//!  allocate, zeros, sync ──► next.tmp ── header, sync ──► next.tmp ── rename, sync dir ──► <id>.journal
//!                               ▲                                                             │ full
//!                               └──────────────────── rename, sync dir ◄── folded ────────────┤
//!                    shrunk, removed ◄── gone.tmp ◄── rename, sync dir ◄── one too many ────────┘
//! ```
//!
//! The file of zeros is made while the segment before it fills, and one too many is removed, beside the commits, see
//! [`coming`].
//!
//! It never decides what is in a batch, and never throws away one that the archive does not have.

mod coming;
mod format;
mod recover;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coming::Coming;
use format::{HEAD_BYTES, Header, finish_record};
pub(crate) use format::{PAGE_BYTES, segment_id, segment_name};
pub(crate) use recover::{newest_batch, open, read_header, verify};
use rustix::io::Errno;

use super::disk::{Disk, DiskFile};
use super::options::{Faults, Fold, Options};
use crate::Error;

/// The name of a segment that is being made.
pub(crate) const NEXT_NAME: &str = "next.tmp";

/// The name of a segment that is not needed any more, until it is removed.
pub(crate) const GONE_NAME: &str = "gone.tmp";

/// How much of it is removed at once: a disk is done with it in less than a millisecond.
const REMOVED_BYTES: u64 = 1024 * 1024;

/// The journal of an open store, ready to append.
pub(crate) struct Journal<D: Disk> {
    disk: Arc<D>,
    dir: PathBuf,
    /// The same, open from the start: a sync that finds no descriptor would end the process.
    folder: D::Folder,
    /// Names this store in each segment's header.
    store: u64,
    segment_bytes: u64,
    segments_max: usize,
    segments_kept: usize,
    faults: Faults,
    /// Full segments, oldest first.
    full: VecDeque<FullSegment>,
    current: Segment<D::File>,
    /// The file of the segment after it, where it will have to be a new one.
    coming: Option<Coming<D::File>>,
    /// The file that is being removed, or was.
    going: Option<Coming<()>>,
    /// The store has threads of its own.
    threads: bool,
    /// The number that the next batch gets.
    next: u64,
    /// The record that is being written; its room is used again.
    record: Vec<u8>,
    /// A write or a sync failed: what the file holds is unknown, so nothing more is written.
    broken: bool,
}

/// The segment that is written to.
struct Segment<F> {
    header: Header,
    seed: u32,
    file: F,
    path: PathBuf,
    /// Where the next record goes.
    end: u64,
}

/// A segment that is full.
#[derive(Clone, Copy, Debug)]
struct FullSegment {
    id: u64,
    /// The number of its last batch: once that is folded, the file can be used again.
    last: u64,
    bytes: u64,
}

/// Whether the next record has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It has.
    Ready,
    /// Not before the archive has all batches up to this one.
    AfterFoldOf(u64),
}

impl<D: Disk> Journal<D> {
    /// Takes a batch's bytes, which `encode` appends to the buffer that it is given.
    pub(crate) fn stage(&mut self, encode: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<(), Error> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        record.resize(HEAD_BYTES, 0);
        self.record = encode(record);
        let (bytes, max) = (self.record.len() as u64, self.batch_bytes_max());
        if bytes > max {
            // One huge batch must not keep its buffer for ever.
            self.record = Vec::new();
            return Err(Error::TooLarge { bytes, max });
        }
        Ok(())
    }

    /// Finds a place for the staged record, in a next segment if it must. An error has changed nothing
    /// that matters: the same can be tried again.
    pub(crate) fn make_room(&mut self, folded_through: u64) -> Result<Room, Error> {
        let bytes = self.record.len().next_multiple_of(PAGE_BYTES) as u64;
        if self.current.end + bytes <= self.current.header.bytes {
            self.look_ahead(folded_through);
            return Ok(Room::Ready);
        }
        self.check()?;
        let folded = |segment: &FullSegment| segment.last <= folded_through;
        // Where it could not be made, there may be room by now, or a segment to use again; else it is made anew.
        let came = self.coming.take().and_then(|coming| {
            let came = coming.wait().inspect_err(|error| {
                tracing::warn!(%error, "the journal's next file could not be made ahead");
            });
            came.ok().flatten()
        });
        let file = match (came, self.full.front().copied()) {
            (Some(file), _) => file,
            (None, Some(oldest)) if self.is_reusable(&oldest, folded_through) => self.reuse(oldest)?,
            _ if self.full.len() + 1 < self.segments_max => self.allocate()?,
            (None, Some(oldest)) if folded(&oldest) => {
                self.remove(oldest)?;
                self.allocate()?
            }
            (None, Some(oldest)) => return Ok(Room::AfterFoldOf(oldest.last)),
            (None, None) => self.allocate()?,
        };
        // What a burst needed is given back, one at a time, and not the only one that can be used again.
        let is_spare = self.full.len() >= self.segments_kept && self.full.get(1).is_some_and(folded);
        let gone = if is_spare { self.take_out() } else { None };
        self.roll_over(file)?;
        if let Some(gone) = gone {
            self.give_back(gone);
        }
        Ok(Room::Ready)
    }

    /// Has the next segment's file made in time, unless an old one can be used again.
    fn look_ahead(&mut self, folded_through: u64) {
        // Early enough to be ready in time, and late enough for the fold of an old one.
        let is_late = self.current.end > self.current.header.bytes / 4 * 3;
        if !is_late || self.coming.is_some() || self.full.len() + 1 >= self.segments_max {
            return;
        }
        if !self.full.front().is_some_and(|oldest| self.is_reusable(oldest, folded_through)) {
            let (disk, next, bytes) = (self.disk.clone(), self.dir.join(NEXT_NAME), self.segment_bytes);
            self.coming = Some(Coming::start(self.threads, move || make_zeros(&*disk, &next, bytes)));
        }
    }

    /// The archive has all of it, and it is of the size that is made now.
    fn is_reusable(&self, segment: &FullSegment, folded_through: u64) -> bool {
        segment.last <= folded_through && segment.bytes == self.segment_bytes
    }

    /// Writes the staged record and waits until it is safe. Answers the batch's number.
    pub(crate) fn write(&mut self) -> Result<u64, Error> {
        self.check()?;
        let number = self.next;
        finish_record(&mut self.record, number, self.current.seed);
        let current = &mut self.current;
        if let Err(source) = current.file.write_at(current.end, &self.record) {
            // A file system that copies on write can run out of room even here.
            if is_full(&source) {
                return Err(self.take_back());
            }
            self.broken = true;
            return Err(Error::Io { path: current.path.clone(), doing: "write", source });
        }
        if !self.faults.skip_sync
            && let Err(source) = current.file.sync_data()
        {
            // Never again: the system may have dropped the pages and would then confirm a lie.
            self.broken = true;
            return Err(Error::SyncFailed { path: current.path.clone(), source });
        }
        current.end += self.record.len() as u64;
        self.next += 1;
        Ok(number)
    }

    /// Takes back a record that did not fit. The part that arrived may be all that counts, when only
    /// zeros at its end are missing: it would then come back from the dead at the next start, though
    /// its callers were told that nothing happened. Where even this finds no room, nobody is told so.
    fn take_back(&mut self) -> Error {
        let current = &mut self.current;
        let path = current.path.clone();
        let wiped = current.file.write_at(current.end, &[0; PAGE_BYTES]);
        match wiped.and_then(|()| current.file.sync_data()) {
            Ok(()) => Error::Full { path },
            Err(source) => {
                self.broken = true;
                Error::Io { path, doing: "take back a write to", source }
            }
        }
    }

    /// What one record may have: all of a segment but its header.
    pub(crate) fn batch_bytes_max(&self) -> u64 {
        self.segment_bytes - PAGE_BYTES as u64
    }

    /// The number of the newest batch.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// The staged record's length.
    pub(crate) fn staged_bytes(&self) -> u64 {
        self.record.len() as u64
    }

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.full.iter().map(|segment| segment.bytes).sum::<u64>() + self.current.header.bytes
    }

    /// Refuses to go on after a failure.
    fn check(&self) -> Result<(), Error> {
        if self.broken {
            let path = self.current.path.display();
            return Err(Error::Stopped { detail: format!("a write to {path} was not confirmed") });
        }
        Ok(())
    }

    /// Takes a folded segment out of the journal, to be the next one.
    fn reuse(&mut self, oldest: FullSegment) -> Result<D::File, Error> {
        let (from, next) = (self.dir.join(segment_name(oldest.id)), self.dir.join(NEXT_NAME));
        // First, since it may fail for want of a descriptor: nothing has happened then.
        let file = self.disk.open(&from).map_err(|source| io_error(&from, "open", source))?;
        self.disk.rename(&from, &next).map_err(|source| io_error(&from, "rename", source))?;
        self.full.pop_front();
        // Before its header changes: else a crash could leave the old name on the new header.
        self.sync_dir()?;
        Ok(file)
    }

    /// Makes a file of zeros, to be the next segment.
    fn allocate(&self) -> Result<D::File, Error> {
        let next = self.dir.join(NEXT_NAME);
        make_zeros(&*self.disk, &next, self.segment_bytes).map_err(|source| {
            if is_full(&source) {
                Error::Full { path: self.dir.clone() }
            } else {
                io_error(&next, "allocate", source)
            }
        })
    }

    /// Makes the file `next.tmp` the current segment.
    fn roll_over(&mut self, file: D::File) -> Result<(), Error> {
        let id = self.current.header.id + 1;
        let segment =
            make_segment(&*self.disk, &self.dir, self.store, id, self.next, file, self.segment_bytes);
        let segment = segment.inspect_err(|error| self.broken |= error.is_fatal())?;
        let full = std::mem::replace(&mut self.current, segment);
        self.full.push_back(FullSegment {
            id: full.header.id,
            last: self.next - 1,
            bytes: full.header.bytes,
        });
        // Before a batch is in it: else a crash could lose the file with an answered batch.
        self.sync_dir()
    }

    /// Takes the oldest segment out of the journal, safely once the folder is synced. One at a time: while one is being
    /// removed nothing happens. Nobody needs it done, so where it cannot be it is only said.
    fn take_out(&mut self) -> Option<PathBuf> {
        if self.going.as_ref().is_some_and(|going| !going.is_over()) {
            return None;
        }
        let oldest = self.full.front().copied()?;
        let (from, gone) = (self.dir.join(segment_name(oldest.id)), self.dir.join(GONE_NAME));
        if let Err(error) = self.disk.rename(&from, &gone) {
            tracing::warn!(%error, "an old segment was not taken out of the journal");
            return None;
        }
        self.full.pop_front();
        Some(gone)
    }

    /// Has a file removed that was taken out, which takes as long as a hundred commits where the disk is told of blocks
    /// that are free.
    fn give_back(&mut self, gone: PathBuf) {
        let disk = self.disk.clone();
        self.going = Some(Coming::start(self.threads, move || {
            // The next one takes its name, or the next start removes it.
            remove_in_parts(&*disk, &gone)
                .inspect_err(|error| tracing::warn!(%error, "an old segment was not removed"))
        }));
    }

    fn remove(&mut self, oldest: FullSegment) -> Result<(), Error> {
        let path = self.dir.join(segment_name(oldest.id));
        self.disk.remove(&path).map_err(|source| io_error(&path, "remove", source))?;
        self.full.pop_front();
        self.sync_dir()
    }

    fn sync_dir(&mut self) -> Result<(), Error> {
        if self.faults.skip_dir_sync {
            return Ok(());
        }
        self.disk.sync_names(&self.folder).map_err(|source| {
            self.broken = true;
            Error::SyncFailed { path: self.dir.clone(), source }
        })
    }
}

/// Removes a file bit by bit: a disk that is told of 64 MiB of free blocks at once lets a commit wait for that, by ten
/// milliseconds and more. What a crash leaves of it has its name already.
fn remove_in_parts<D: Disk>(disk: &D, path: &Path) -> io::Result<()> {
    let mut file = disk.open(path)?;
    let mut bytes = file.len()?;
    while bytes > 0 {
        bytes = bytes.saturating_sub(REMOVED_BYTES);
        file.shrink(bytes)?;
    }
    disk.remove(path)
}

/// A file of zeros, safe when this returns.
fn make_zeros<D: Disk>(disk: &D, path: &Path, bytes: u64) -> io::Result<D::File> {
    let made = disk.open(path).and_then(|mut file| {
        file.allocate(bytes)?;
        Ok(file)
    });
    made.inspect_err(|_| {
        // Nothing is known of what was made: nobody may sync it again and believe that. And it takes the room that
        // somebody needs. Failing to remove it leaves what the next try writes over.
        let _ = disk.remove(path);
    })
}

/// Writes the header of `next.tmp` and gives it its name. The name is not yet safe.
fn make_segment<D: Disk>(
    disk: &D,
    dir: &Path,
    store: u64,
    id: u64,
    first: u64,
    mut file: D::File,
    bytes: u64,
) -> Result<Segment<D::File>, Error> {
    let next = dir.join(NEXT_NAME);
    let salt = disk.random().map_err(|source| io_error(&next, "find a salt for", source))?;
    let header = Header { store, id, salt, first, bytes };
    file.write_at(0, &header.to_page()).map_err(|source| io_error(&next, "write", source))?;
    // Before it has its name: a file with a segment's name has a header.
    file.sync_data().map_err(|source| Error::SyncFailed { path: next.clone(), source })?;
    let path = dir.join(segment_name(id));
    disk.rename(&next, &path).map_err(|source| io_error(&next, "rename", source))?;
    Ok(Segment { header, seed: header.seed(), file, path, end: PAGE_BYTES as u64 })
}

/// A new journal that begins with this batch.
pub(crate) fn create<D: Disk>(
    disk: Arc<D>,
    dir: &Path,
    store: u64,
    first: u64,
    options: &Options,
) -> Result<Journal<D>, Error> {
    let next = dir.join(NEXT_NAME);
    let bytes = options.segment_bytes;
    let file = make_zeros(&*disk, &next, bytes).map_err(|source| io_error(&next, "allocate", source))?;
    let current = make_segment(&*disk, dir, store, 1, first, file, bytes)?;
    let mut journal = with_segments(disk, dir, store, options, VecDeque::new(), current, first)?;
    journal.sync_dir()?;
    Ok(journal)
}

fn with_segments<D: Disk>(
    disk: Arc<D>,
    dir: &Path,
    store: u64,
    options: &Options,
    full: VecDeque<FullSegment>,
    current: Segment<D::File>,
    next: u64,
) -> Result<Journal<D>, Error> {
    let folder = disk.open_dir(dir).map_err(|source| io_error(dir, "open", source))?;
    Ok(Journal {
        disk,
        dir: dir.to_owned(),
        folder,
        store,
        segment_bytes: options.segment_bytes,
        segments_max: options.segments_max.max(2),
        segments_kept: options.segments_kept,
        faults: options.faults(),
        full,
        current,
        coming: None,
        going: None,
        // Who folds by hand has no threads at all.
        threads: options.fold == Fold::Thread,
        next,
        record: Vec::new(),
        broken: false,
    })
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A failure of the disk, as the store's error.
pub(crate) fn io_error(path: &Path, doing: &'static str, source: io::Error) -> Error {
    if is_full(&source) {
        return Error::Full { path: path.to_owned() };
    }
    // Said when a file is opened, before anything is done to it.
    let out_of_files = [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error()));
    if out_of_files.contains(&source.raw_os_error()) {
        return Error::Away { detail: format!("could not {doing} {}: {source}", path.display()) };
    }
    Error::Io { path: path.to_owned(), doing, source }
}
