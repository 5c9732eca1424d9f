//! A disk in memory. Bytes that were not synced survive a crash by sectors, each by chance; names that
//! were not synced survive in order, up to a point that is left to chance.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_store::embedded::disk::{Disk, DiskFile};

const SECTOR: usize = 512;

/// The device did not do it.
pub const EIO: i32 = 5;
/// There is no room.
pub const ENOSPC: i32 = 28;

/// Shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct FaultDisk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<PathBuf, usize>,
    /// The names that are safe, and the changes since.
    safe_names: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    files: Vec<Content>,
    /// Operations that change something, so far.
    operations: u64,
    /// Every operation from this one on fails: the power is gone.
    stop_at: Option<u64>,
    /// Calls of any sort, so far.
    calls: u64,
    /// This one fails with this error, and those after it do not.
    fail_at: Option<(u64, i32)>,
    /// What that one was.
    failed: Option<String>,
    /// What happens once.
    trouble: Option<Trouble>,
    /// Bytes that can still be allocated.
    room: Option<u64>,
    /// There is no descriptor left for a folder.
    no_folders: bool,
    locked: bool,
    /// Whoever removes a file waits for this.
    gate: Arc<Mutex<()>>,
    randoms: u64,
    pub log: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The next sync fails.
    FailSync,
    /// The next file of zeros does.
    FailAllocate,
    /// The next sync panics.
    PanicSync,
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
    safe: Vec<u8>,
    /// Sectors that the system will write with the next sync.
    dirty: BTreeSet<usize>,
}

pub struct FaultFile {
    disk: FaultDisk,
    file: usize,
}

pub struct FaultLock(FaultDisk);

impl Drop for FaultLock {
    fn drop(&mut self) {
        self.0.0.lock().locked = false;
    }
}

impl FaultDisk {
    /// Operations that changed something.
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// What was done, one line for each operation.
    pub fn log(&self) -> Vec<String> {
        self.0.lock().log.clone()
    }

    /// Stops before that operation.
    pub fn stop_at(&self, operation: u64) {
        self.0.lock().stop_at = Some(operation);
    }

    /// Calls of any sort.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// The nth call from here on fails, once.
    pub fn fail_call(&self, nth: u64, error: i32) {
        let mut inner = self.0.lock();
        inner.fail_at = Some((inner.calls + nth, error));
    }

    /// What the call was that failed.
    pub fn failed(&self) -> Option<String> {
        self.0.lock().failed.clone()
    }

    pub fn fail_next_sync(&self) {
        self.0.lock().trouble = Some(Trouble::FailSync);
    }

    pub fn fail_next_allocate(&self) {
        self.0.lock().trouble = Some(Trouble::FailAllocate);
    }

    /// From here on no folder can be opened: the process has as many files as it may.
    pub fn refuse_folders(&self) {
        self.0.lock().no_folders = true;
    }

    /// Whoever syncs next panics.
    pub fn panic_at_next_sync(&self) {
        self.0.lock().trouble = Some(Trouble::PanicSync);
    }

    /// Nothing is removed while this is locked.
    pub fn gate(&self) -> Arc<Mutex<()>> {
        self.0.lock().gate.clone()
    }

    /// Only so many bytes more can be allocated; `None` for any.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.lock().room = bytes;
    }

    /// The disk after the power came back.
    pub fn after_crash(&self, seed: u64) -> Self {
        let inner = self.0.lock();
        let mut dice = Dice(seed);
        let mut names = inner.safe_names.clone();
        let survives = dice.below(inner.changes.len() as u64 + 1);
        for change in inner.changes.iter().take(usize::try_from(survives).unwrap()) {
            apply(&mut names, change.clone());
        }
        let files = inner.files.iter().map(|file| file.after_crash(&mut dice)).collect();
        let randoms = inner.randoms;
        let after = Inner { names: names.clone(), safe_names: names, files, randoms, ..Inner::default() };
        Self(Arc::new(Mutex::new(after)))
    }

    /// A copy that goes its own way, with everything written and nothing lost: as after `kill -9`.
    pub fn after_kill(&self) -> Self {
        let inner = self.0.lock();
        let files = inner.files.clone();
        let (names, safe_names, changes) =
            (inner.names.clone(), inner.safe_names.clone(), inner.changes.clone());
        let after = Inner { names, safe_names, changes, files, randoms: inner.randoms, ..Inner::default() };
        Self(Arc::new(Mutex::new(after)))
    }

    pub fn names(&self) -> Vec<PathBuf> {
        self.0.lock().names.keys().cloned().collect()
    }

    /// Changes a file behind everybody's back.
    pub fn damage(&self, path: &Path, damage: impl FnOnce(&mut Vec<u8>)) {
        let inner = &mut *self.0.lock();
        let file = &mut inner.files[inner.names[path]];
        damage(&mut file.bytes);
        file.safe = file.bytes.clone();
    }

    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let inner = self.0.lock();
        inner.files[inner.names[path]].bytes.clone()
    }

    pub fn remove_behind(&self, path: &Path) {
        let inner = &mut *self.0.lock();
        inner.names.remove(path);
        inner.safe_names.remove(path);
    }

    fn operate<T>(&self, what: &str, operation: impl FnOnce(&mut Inner) -> io::Result<T>) -> io::Result<T> {
        let inner = &mut *self.0.lock();
        if inner.stop_at.is_some_and(|stop| inner.operations >= stop) {
            return Err(io::Error::other("the power is gone"));
        }
        inner.operations += 1;
        inner.log.push(what.to_owned());
        inner.call(what)?;
        operation(inner)
    }

    /// Asks for something that changes nothing.
    fn ask(&self, what: &str) -> io::Result<()> {
        self.0.lock().call(what)
    }
}

impl Inner {
    fn call(&mut self, what: &str) -> io::Result<()> {
        self.calls += 1;
        match self.fail_at {
            Some((call, error)) if call == self.calls => {
                self.failed = Some(what.to_owned());
                Err(io::Error::from_raw_os_error(error))
            }
            _ => Ok(()),
        }
    }
}

impl Content {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let from = usize::try_from(offset).unwrap();
        if self.bytes.len() < from + bytes.len() {
            self.bytes.resize(from + bytes.len(), 0);
        }
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        self.dirty.extend(from / SECTOR..(from + bytes.len()).div_ceil(SECTOR));
    }

    fn sync(&mut self) {
        self.safe.resize(self.bytes.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let range = sector * SECTOR..self.bytes.len().min((sector + 1) * SECTOR);
            if let Some(bytes) = self.bytes.get(range.clone()) {
                self.safe[range].copy_from_slice(bytes);
            }
        }
    }

    fn after_crash(&self, dice: &mut Dice) -> Self {
        let mut bytes = self.safe.clone();
        for (at, sector) in self.bytes.chunks(SECTOR).enumerate() {
            let range = at * SECTOR..at * SECTOR + sector.len();
            if self.safe.get(range.clone()) == Some(sector) || dice.below(2) == 0 {
                continue;
            }
            if bytes.len() < range.end {
                bytes.resize(range.end, 0);
            }
            bytes[range].copy_from_slice(sector);
        }
        Self { safe: bytes.clone(), bytes, ..Self::default() }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, change: Change) {
    match change {
        Change::Create(path, file) => drop(names.insert(path, file)),
        Change::Remove(path) => drop(names.remove(&path)),
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(&from) {
                names.insert(to, file);
            }
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

impl Disk for FaultDisk {
    type File = FaultFile;
    type Folder = ();
    type Lock = FaultLock;

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.ask("create dir")
    }

    fn lock(&self, _path: &Path) -> io::Result<Option<FaultLock>> {
        self.ask("lock")?;
        let locked = std::mem::replace(&mut self.0.lock().locked, true);
        Ok((!locked).then(|| FaultLock(self.clone())))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.ask("list")?;
        let inner = self.0.lock();
        Ok(inner.names.keys().filter(|path| path.parent() == Some(dir)).map(|path| name(path)).collect())
    }

    fn open(&self, path: &Path) -> io::Result<FaultFile> {
        let found = self.0.lock().names.get(path).copied();
        let file = match found {
            Some(file) => {
                self.ask("open")?;
                file
            }
            None => self.operate(&format!("create {}", name(path)), |inner| {
                inner.files.push(Content::default());
                let change = Change::Create(path.to_owned(), inner.files.len() - 1);
                apply(&mut inner.names, change.clone());
                inner.changes.push(change);
                Ok(inner.files.len() - 1)
            })?,
        };
        Ok(FaultFile { disk: self.clone(), file })
    }

    fn open_to_read(&self, path: &Path) -> io::Result<FaultFile> {
        self.ask("open to read")?;
        let found = self.0.lock().names.get(path).copied();
        found.map(|file| FaultFile { disk: self.clone(), file }).ok_or(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(&format!("rename {} to {}", name(from), name(to)), |inner| {
            let change = Change::Rename(from.to_owned(), to.to_owned());
            apply(&mut inner.names, change.clone());
            inner.changes.push(change);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let gate = self.0.lock().gate.clone();
        let _open = gate.lock();
        self.operate(&format!("remove {}", name(path)), |inner| {
            let change = Change::Remove(path.to_owned());
            apply(&mut inner.names, change.clone());
            inner.changes.push(change);
            Ok(())
        })
    }

    fn open_dir(&self, _dir: &Path) -> io::Result<()> {
        self.ask("open dir")?;
        let inner = self.0.lock();
        if inner.no_folders {
            return Err(io::Error::from_raw_os_error(24));
        }
        Ok(())
    }

    fn sync_names(&self, _folder: &()) -> io::Result<()> {
        self.operate("sync dir", |inner| {
            inner.safe_names = inner.names.clone();
            inner.changes.clear();
            Ok(())
        })
    }

    fn random(&self) -> io::Result<u64> {
        self.ask("random")?;
        let mut inner = self.0.lock();
        inner.randoms += 1;
        Ok(Dice(inner.randoms).below(u64::MAX))
    }
}

impl DiskFile for FaultFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.ask("len")?;
        Ok(self.disk.0.lock().files[self.file].bytes.len() as u64)
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.operate("allocate", |inner| {
            if inner.trouble.take_if(|trouble| *trouble == Trouble::FailAllocate).is_some() {
                return Err(io::Error::other("the device did not confirm"));
            }
            if let Some(room) = &mut inner.room {
                if *room < bytes {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                *room -= bytes;
            }
            let zeros = vec![0; usize::try_from(bytes).unwrap()];
            inner.files[self.file] = Content { bytes: zeros.clone(), safe: zeros, ..Content::default() };
            Ok(())
        })
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.disk.ask("read")?;
        let inner = self.disk.0.lock();
        let bytes = &inner.files[self.file].bytes;
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        let part = &bytes[from..bytes.len().min(from + buf.len())];
        buf[..part.len()].copy_from_slice(part);
        Ok(part.len())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.disk.operate("write", |inner| {
            inner.files[self.file].write(offset, bytes);
            Ok(())
        });
        written.inspect_err(|error| {
            // The system said so, and not that there is no power: a part of it has arrived.
            if error.raw_os_error().is_some() {
                self.disk.0.lock().files[self.file].write(offset, &bytes[..bytes.len() / 2]);
            }
        })
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let synced = self.disk.operate("sync", |inner| {
            match inner.trouble.take_if(|trouble| *trouble != Trouble::FailAllocate) {
                Some(Trouble::PanicSync) => panic!("told to panic"),
                Some(_) => return Err(io::Error::from_raw_os_error(EIO)),
                None => {}
            }
            inner.files[self.file].sync();
            Ok(())
        });
        synced.inspect_err(|error| {
            // As Linux does: the pages stay readable and are marked clean, though they never arrived.
            if error.raw_os_error().is_some() {
                self.disk.0.lock().files[self.file].dirty.clear();
            }
        })
    }

    /// Safe at once, which is the worst that can be where a name is not.
    fn shrink(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.operate("shrink", |inner| {
            let (bytes, content) = (usize::try_from(bytes).unwrap(), &mut inner.files[self.file]);
            content.bytes.truncate(bytes);
            content.safe.truncate(bytes);
            Ok(())
        })
    }
}

/// Splitmix.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
