//! A folder whose first start has not ended, because the power went, say. A start makes the folders, then the archive, and a
//! segment of the journal only once that is whole and safe: so where no segment is and no archive either, nothing was ever
//! confirmed. The next start goes over it; to everybody else it is no damage, and nothing to copy.

use std::fs;
use std::io;
use std::path::Path;

use super::archive::{self, is_without_tables};
use super::disk::{Disk, RealDisk};
use super::journal::{io_error, segment_id};
use super::moving::is_marked;
use super::recover::JOURNAL_DIR;
use crate::Error;

/// What is said of such a folder.
pub fn sentence(dir: &Path) -> String {
    format!(
        "{} holds nothing: its first start has not ended, so nothing was ever confirmed in it; the next start makes it whole",
        dir.display()
    )
}

/// Refuses it, where there is nothing to be had.
pub(super) fn refuse_unmade(dir: &Path) -> Result<(), Error> {
    if is_unmade(dir)? { Err(Error::Unsupported { detail: sentence(dir) }) } else { Ok(()) }
}

/// Nothing was ever confirmed here, and there is no archive yet. While nobody owns the folder, a start may change that
/// meanwhile.
pub(super) fn is_unmade(dir: &Path) -> Result<bool, Error> {
    // A backup and an end of a move are not made by a start.
    Ok(!has_segment(&dir.join(JOURNAL_DIR))? && !is_marked(dir)? && is_archive_unmade(dir)?)
}

/// One that can be read or not: it has its name only after all of the archive was safe.
fn has_segment(journal: &Path) -> Result<bool, Error> {
    match RealDisk.list(journal) {
        Ok(names) => Ok(names.iter().any(|name| segment_id(name).is_some())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io_error(journal, "list", source)),
    }
}

fn is_archive_unmade(dir: &Path) -> Result<bool, Error> {
    let path = dir.join(archive::FILE_NAME);
    match fs::metadata(&path) {
        Ok(file) if !file.is_file() => Ok(false),
        Ok(file) if file.len() == 0 => Ok(true),
        // SQLite's own journal: there only while the file is not yet one with a log. It would have to be rolled back.
        Ok(_) if dir.join(format!("{}-journal", archive::FILE_NAME)).exists() => Ok(true),
        Ok(_) => match is_without_tables(&path) {
            // What it is, is said by who looks into it.
            Err(Error::Corrupt { .. }) => Ok(false),
            is_without => is_without,
        },
        // The start makes this folder before the archive, and no other program has one of that name.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(dir.join(JOURNAL_DIR).is_dir()),
        Err(source) => Err(io_error(&path, "look at", source)),
    }
}
