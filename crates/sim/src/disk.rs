//! A simulated disk. It honours what a caller may rely on and nothing more: bytes are safe after a sync,
//! names after a sync of their folder. Whatever was not safe when the power goes may be there, be
//! missing, or (bytes) be there in part.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_store::embedded::disk::{Disk, DiskFile};

use crate::rng::Rng;

const SECTOR_BYTES: usize = 512;

/// Shared by its clones: what the machine keeps when a process dies.
#[derive(Clone, Debug)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    safe_names: BTreeMap<PathBuf, usize>,
    /// Changes of names since the last sync of their folder.
    changes: Vec<Change>,
    rng: Rng,
    armed: Option<Armed>,
    fired: bool,
    powered: bool,
    locked: bool,
}

/// What will go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Everything stops, in the middle of this operation.
    PowerLoss,
    /// This operation fails, having done part of its work.
    Error,
    /// From here on nothing can be added.
    NoRoom,
    /// This once there is no room.
    NoRoomOnce,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    /// Operations before it.
    after: u64,
    fault: Fault,
}

/// What an operation shall do.
enum Go {
    On,
    /// Do this part of the work, then fail.
    Fail(io::Error),
}

#[derive(Clone, Debug)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What survives for sure.
    safe: Vec<u8>,
    /// Sectors written since the last sync. After a failed one the system has forgotten them.
    dirty: BTreeSet<usize>,
}

#[derive(Debug)]
pub(crate) struct SimFile {
    disk: SimDisk,
    file: usize,
}

#[derive(Debug)]
pub(crate) struct SimLock(SimDisk);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.0.lock().locked = false;
    }
}

impl SimDisk {
    pub(crate) fn new(rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(State {
            files: Vec::new(),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            changes: Vec::new(),
            rng,
            armed: None,
            fired: false,
            powered: true,
            locked: false,
        })))
    }

    /// Goes wrong after that many more operations.
    pub(crate) fn arm(&self, after: u64, fault: Fault) {
        self.0.lock().armed = Some(Armed { after, fault });
    }

    /// Goes wrong no more; says whether it did.
    pub(crate) fn disarm(&self) -> bool {
        let mut state = self.0.lock();
        state.armed = None;
        std::mem::take(&mut state.fired)
    }

    /// No operation succeeds until the machine is started again.
    pub(crate) fn power_off(&self) {
        self.0.lock().powered = false;
    }

    /// Changes a byte of a file that was safe. Answers where, so that it can be put right.
    pub(crate) fn rot(&self, path: &Path) -> Option<(usize, u8)> {
        let state = &mut *self.0.lock();
        let content = &mut state.files[*state.names.get(path)?];
        let written: Vec<usize> = (0..content.bytes.len()).filter(|at| content.bytes[*at] != 0).collect();
        let at = *written.get(state.rng.index(written.len()))?;
        let before = content.bytes[at];
        content.put(at, before ^ 0x10);
        Some((at, before))
    }

    /// Puts a byte right.
    pub(crate) fn mend(&self, path: &Path, (at, byte): (usize, u8)) {
        let state = &mut *self.0.lock();
        if let Some(file) = state.names.get(path) {
            state.files[*file].put(at, byte);
        }
    }

    /// Files of that kind, in order.
    pub(crate) fn named(&self, extension: &str) -> Vec<PathBuf> {
        let state = self.0.lock();
        let named =
            state.names.keys().filter(|path| path.extension().is_some_and(|found| found == extension));
        named.cloned().collect()
    }

    /// An operation of something else on the same machine: the archive's.
    pub(crate) fn other_operation(&self) -> io::Result<()> {
        match self.0.lock().begin(true) {
            Go::On => Ok(()),
            Go::Fail(error) => Err(error),
        }
    }

    /// The machine is there again. After a loss of power only what was safe is there for sure; after the
    /// death of a process alone, everything is.
    pub(crate) fn power_on(&self, lost: bool) {
        let mut state = self.0.lock();
        state.powered = true;
        state.armed = None;
        state.locked = false;
        if lost {
            state.lose();
        }
    }
}

impl State {
    /// Counts an operation, and says whether it shall go wrong.
    fn begin(&mut self, adds: bool) -> Go {
        if !self.powered {
            return Go::Fail(io::Error::other("the power is gone"));
        }
        let Some(armed) = &mut self.armed else { return Go::On };
        if armed.after > 0 {
            armed.after -= 1;
            return Go::On;
        }
        match armed.fault {
            Fault::PowerLoss => {
                self.fired = true;
                self.powered = false;
                Go::Fail(io::Error::other("the power is gone"))
            }
            Fault::Error => {
                self.fired = true;
                self.armed = None;
                Go::Fail(io::Error::other("simulated"))
            }
            Fault::NoRoom | Fault::NoRoomOnce if adds => {
                self.fired = true;
                if armed.fault == Fault::NoRoomOnce {
                    self.armed = None;
                }
                Go::Fail(io::ErrorKind::StorageFull.into())
            }
            Fault::NoRoom | Fault::NoRoomOnce => Go::On,
        }
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }

    fn lose(&mut self) {
        let mut names = std::mem::take(&mut self.safe_names);
        // Most file systems lose names in order; nothing promises it.
        let in_order = self.rng.chance(700);
        let survive = self.rng.index(self.changes.len() + 1);
        for (index, change) in std::mem::take(&mut self.changes).iter().enumerate() {
            let survives = if in_order { index < survive } else { self.rng.chance(500) };
            if survives {
                apply(&mut names, change);
            }
        }
        self.safe_names.clone_from(&names);
        self.names = names;
        for index in 0..self.files.len() {
            let mut rng = self.rng.split();
            self.files[index].lose(&mut rng);
        }
    }
}

impl Content {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        self.dirty.extend(offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    fn put(&mut self, at: usize, byte: u8) {
        self.bytes[at] = byte;
        if let Some(safe) = self.safe.get_mut(at) {
            *safe = byte;
        }
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.safe.truncate(bytes);
        self.dirty.retain(|sector| sector * SECTOR_BYTES < bytes);
    }

    fn sync(&mut self) {
        self.safe.resize(self.bytes.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let range = sector * SECTOR_BYTES..((sector + 1) * SECTOR_BYTES).min(self.bytes.len());
            self.safe[range.clone()].copy_from_slice(&self.bytes[range]);
        }
    }

    /// Each sector that was not safe arrived or did not; the last that did may be torn.
    fn lose(&mut self, rng: &mut Rng) {
        let dirty = std::mem::take(&mut self.dirty);
        let (way, count) = (rng.below(4), dirty.len());
        let cut = rng.index(count + 1);
        for (index, sector) in dirty.into_iter().enumerate() {
            let arrives = match way {
                0 => false,
                1 => true,
                2 => index < cut,
                _ => rng.chance(500),
            };
            if !arrives {
                continue;
            }
            let start = sector * SECTOR_BYTES;
            let end = ((sector + 1) * SECTOR_BYTES).min(self.bytes.len());
            let torn = rng.chance(100);
            let end = if torn { start + rng.index(end - start + 1) } else { end };
            if self.safe.len() < end {
                self.safe.resize(end, 0);
            }
            self.safe[start..end].copy_from_slice(&self.bytes[start..end]);
        }
        self.bytes.clone_from(&self.safe);
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, change: &Change) {
    match change {
        Change::Create(path, file) => drop(names.insert(path.clone(), *file)),
        Change::Remove(path) => drop(names.remove(path)),
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Folder = ();
    type Lock = SimLock;

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Option<SimLock>> {
        let locked = std::mem::replace(&mut self.0.lock().locked, true);
        Ok((!locked).then(|| SimLock(self.clone())))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn open(&self, path: &Path) -> io::Result<SimFile> {
        let mut state = self.0.lock();
        if let Some(file) = state.names.get(path) {
            return Ok(SimFile { disk: self.clone(), file: *file });
        }
        match state.begin(true) {
            Go::Fail(error) => Err(error),
            Go::On => {
                let file = state.files.len();
                state.files.push(Content::default());
                state.change(Change::Create(path.to_owned(), file));
                Ok(SimFile { disk: self.clone(), file })
            }
        }
    }

    fn open_to_read(&self, path: &Path) -> io::Result<SimFile> {
        let found = self.0.lock().names.get(path).copied();
        found.map(|file| SimFile { disk: self.clone(), file }).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        match state.begin(false) {
            Go::Fail(error) => Err(error),
            Go::On => {
                state.change(Change::Rename(from.to_owned(), to.to_owned()));
                Ok(())
            }
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        match state.begin(false) {
            Go::Fail(error) => Err(error),
            Go::On => {
                state.change(Change::Remove(path.to_owned()));
                Ok(())
            }
        }
    }

    fn open_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self, _folder: &()) -> io::Result<()> {
        let mut state = self.0.lock();
        match state.begin(false) {
            Go::Fail(error) => Err(error),
            Go::On => {
                state.safe_names = state.names.clone();
                state.changes.clear();
                Ok(())
            }
        }
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.0.lock().rng.bits())
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().files[self.file].bytes.len() as u64)
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let full = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        match state.begin(true) {
            Go::Fail(error) => {
                let part = state.rng.index(full.len());
                state.files[self.file].write(0, &full[..part]);
                Err(error)
            }
            Go::On => {
                state.files[self.file] = Content { safe: full.clone(), bytes: full, dirty: BTreeSet::new() };
                Ok(())
            }
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.0.lock();
        let bytes = &state.files[self.file].bytes;
        let from = usize::try_from(offset).map_err(io::Error::other)?.min(bytes.len());
        let part = &bytes[from..bytes.len().min(from + buf.len())];
        buf[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let mut state = self.disk.0.lock();
        match state.begin(true) {
            Go::Fail(error) => {
                let part = state.rng.index(bytes.len());
                state.files[self.file].write(offset, &bytes[..part]);
                Err(error)
            }
            Go::On => {
                state.files[self.file].write(offset, bytes);
                Ok(())
            }
        }
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        match state.begin(false) {
            Go::On => {
                state.files[self.file].sync();
                Ok(())
            }
            Go::Fail(error) => {
                // As Linux does after a failed sync: the pages can be read and count as clean, though
                // they may never have arrived. When the power goes they stay what they are: unsafe.
                if state.powered {
                    let mut rng = state.rng.split();
                    let content = &mut state.files[self.file];
                    let seen = content.bytes.clone();
                    content.lose(&mut rng);
                    content.bytes = seen;
                }
                Err(error)
            }
        }
    }

    /// Safe at once, which is the worst that can be where a name is not.
    fn shrink(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let mut state = self.disk.0.lock();
        match state.begin(false) {
            Go::Fail(error) => Err(error),
            Go::On => {
                state.files[self.file].shrink(bytes);
                Ok(())
            }
        }
    }
}
