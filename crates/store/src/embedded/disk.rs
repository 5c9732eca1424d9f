//! The few things that the journal asks of a disk, so that a simulator can be one. [`RealDisk`] is the
//! machine's own.
//!
//! What a caller may rely on, and a simulator must honour: bytes are safe after `sync_data` (or
//! `allocate`) has returned; a file's name, a rename and a removal are safe after `sync_dir` or `sync_names`
//! of the folder has returned. Before that each may be there, be missing, or (bytes) be there in part.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::rand::{GetRandomFlags, getrandom};

/// A disk.
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;
    /// A folder that stays open, so that making its names safe takes no descriptor any more.
    type Folder: Send + 'static;
    /// Owning a folder; dropping it gives the folder up.
    type Lock: Send + Sync + 'static;

    /// Makes a folder and its parents, safe once this returns. One that is there is fine.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Owns a folder by locking a file in it; `None` when another process does.
    fn lock(&self, path: &Path) -> io::Result<Option<Self::Lock>>;
    /// The names of the files in a folder, in any order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing; makes it if it is not there.
    fn open(&self, path: &Path) -> io::Result<Self::File>;
    /// Opens a file that is there, to read it. It never makes one: the folder may be in use by another.
    fn open_to_read(&self, path: &Path) -> io::Result<Self::File>;
    /// Renames a file in its folder, over one that is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Opens a folder that is there.
    fn open_dir(&self, dir: &Path) -> io::Result<Self::Folder>;
    /// Makes the names in an open folder safe.
    fn sync_names(&self, folder: &Self::Folder) -> io::Result<()>;
    /// Makes the names in a folder safe.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.sync_names(&self.open_dir(dir)?)
    }
    /// A number that nobody can guess: the salt of a journal segment.
    fn random(&self) -> io::Result<u64>;
}

/// An open file of a [`Disk`].
pub trait DiskFile: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// It has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Fills it with that many zero bytes on real blocks, and syncs it: a full disk shows here, and
    /// later writes inside it change nothing but their own bytes.
    fn allocate(&mut self, bytes: u64) -> io::Result<()>;
    /// Reads what is there at an offset; less than asked for only at the file's end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all the bytes at an offset.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written safe. After an error nothing about the file's bytes is known.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Gives back what lies behind so many bytes. That may be safe at once, or never.
    fn shrink(&mut self, bytes: u64) -> io::Result<()>;
}

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub struct RealLock {
    file: File,
}

impl Drop for RealLock {
    /// To close the file is not enough: a process that is just being started has a copy of every descriptor
    /// until its program runs, and a copy keeps the lock.
    fn drop(&mut self) {
        // An error leaves what closing the file does.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Disk for RealDisk {
    type File = RealFile;
    type Folder = File;
    type Lock = RealLock;

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let parent = parent_of(dir);
        if dir.is_dir() {
            // Whoever made it may have died before its name was safe. A parent that may not be looked
            // into was made by somebody else, long ago.
            return match self.sync_dir(parent) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                synced => synced,
            };
        }
        self.create_dir(parent)?;
        // What is kept is nobody else's to read: documents, hashes of keys, who holds what.
        match std::fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        self.sync_dir(parent)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<RealLock>> {
        lock_file(open_options().open(path)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            // A name that is not text is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<RealFile> {
        let file = open_options().open(path)?;
        Ok(RealFile { file, direct: Direct::open(path) })
    }

    fn open_to_read(&self, path: &Path) -> io::Result<RealFile> {
        Ok(RealFile { file: File::open(path)?, direct: None })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn open_dir(&self, dir: &Path) -> io::Result<File> {
        File::open(dir)
    }

    fn sync_names(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }

    fn random(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
        // The system gives up to 256 bytes whole or not at all.
        assert_eq!(filled, bytes.len(), "getrandom fills a short buffer");
        Ok(u64::from_le_bytes(bytes))
    }
}

impl RealDisk {
    /// The same for one who may only read the folder.
    pub(crate) fn lock_to_read(path: &Path) -> io::Result<Option<RealLock>> {
        lock_file(File::open(path)?)
    }
}

fn lock_file(file: File) -> io::Result<Option<RealLock>> {
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(RealLock { file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// A file of the machine's.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    /// `None` where the file system knows no such way.
    direct: Option<Direct>,
}

/// The same file past the system's cache. Nobody reads a journal while it is written, and a page of that cache for each
/// page of a record, made, filled and thrown away again, cost as much as deciding what is in it.
#[derive(Debug)]
struct Direct {
    file: File,
    /// Room that begins somewhere before a block's boundary: the disk takes nothing from elsewhere.
    room: Vec<u8>,
}

/// What disks read and write at once: none in use has larger blocks.
const BLOCK_BYTES: usize = 4096;
/// What is written past the cache at once.
const DIRECT_BYTES: usize = 64 * BLOCK_BYTES;

impl Direct {
    fn open(path: &Path) -> Option<Self> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).ok()?;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path).ok()?;
        Some(Self { file, room: vec![0; DIRECT_BYTES + BLOCK_BYTES] })
    }

    fn takes(offset: u64, bytes: &[u8]) -> bool {
        offset.is_multiple_of(BLOCK_BYTES as u64) && bytes.len().is_multiple_of(BLOCK_BYTES)
    }

    fn write_at(&mut self, mut offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = self.room.as_ptr().align_offset(BLOCK_BYTES);
        for part in bytes.chunks(DIRECT_BYTES) {
            let room = &mut self.room[start..start + part.len()];
            room.copy_from_slice(part);
            self.file.write_all_at(room, offset)?;
            offset += part.len() as u64;
        }
        Ok(())
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&mut self, bytes: u64) -> io::Result<()> {
        // Zeros are really written: reserved but unwritten blocks would make each later `fdatasync`
        // also write the file system's own records. Past the cache where that can be: the disk takes them one part after
        // the other, and whoever syncs a commit meanwhile waits for one of them and not for all.
        let zeros = vec![0; DIRECT_BYTES];
        let mut offset = 0;
        while offset < bytes {
            let part = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(zeros.len());
            self.write_at(offset, &zeros[..part])?;
            offset += part as u64;
        }
        self.file.set_len(bytes)?;
        self.file.sync_all()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.file.read_at(&mut buf[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(direct) = self.direct.as_mut().filter(|_| Direct::takes(offset, bytes)) {
            match direct.write_at(offset, bytes) {
                // It wants other blocks than these, and says so before it takes any.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.direct = None,
                written => return written,
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    /// What went past the cache may still be in the disk's own.
    fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn shrink(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
}

/// The folder that a name is in.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As between the fork and the exec of a process that another thread starts.
    #[test]
    fn a_folder_that_was_let_go_of_is_free_although_a_copy_of_the_descriptor_is_open() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("lock");
        let held = RealDisk.lock(&path).expect("is there").expect("is free");
        assert!(RealDisk.lock(&path).expect("is there").is_none(), "held twice");
        let copy = held.file.try_clone().expect("a copy");
        drop(held);
        assert!(RealDisk.lock(&path).expect("is there").is_some(), "still held");
        drop(copy);
    }
}
