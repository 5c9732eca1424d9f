//! Files and folders that are whole and have their names, or are not there at all, whenever the power goes. For files that
//! lie beside the store; what is in it is the store's own affair.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder and those above it, for the server's user alone. Safe once this returns, also for one that is there:
/// whoever made it may have died before that.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let parent = parent_of(folder);
    if !folder.is_dir() {
        if parent != folder {
            make_folder(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    match sync_folder(parent) {
        // Somebody else's, made long ago.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Writes a file instead of what had its name before. Its folder must be there.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    place(path, bytes, |fresh| fs::rename(fresh, path))
}

/// Writes a file unless there is one. Of two who do so at once one does, and both know afterwards that it is there.
pub fn write_first(path: &Path, bytes: &[u8]) -> io::Result<()> {
    place(path, bytes, |fresh| match fs::hard_link(fresh, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    })
}

/// Whole before it has its name.
fn place(path: &Path, bytes: &[u8], name: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let folder = parent_of(path);
    let fresh = folder.join(format!(".{:016x}", getrandom::u64().map_err(io::Error::other)?));
    let written = write(&fresh, bytes).and_then(|()| name(&fresh));
    // It may have its name by now, or never have been made.
    let _ = fs::remove_file(&fresh);
    written?;
    sync_folder(folder)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder safe.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The folder that a name is in.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_written_first_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a").join("b");
        make_folder(&inner).expect("is made");
        make_folder(&inner).expect("is there");
        let path = inner.join("file");
        write_first(&path, b"one").expect("is written");
        write_first(&path, b"two").expect("is there");
        assert_eq!(fs::read(&path).expect("is read"), b"one");
        replace(&path, b"three").expect("is replaced");
        assert_eq!(fs::read(&path).expect("is read"), b"three");
        assert!(replace(&inner.join("gone").join("file"), b"x").is_err());
        assert_eq!(fs::read_dir(&inner).expect("a folder").count(), 1);
    }
}
