//! The archive in SQLite: its tables, and opening it. One connection writes and checkpoints; readers have
//! their own, read-only.

use std::fmt::Write as _;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_READONLY_ROLLBACK};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, Advice, access, fadvise};
use tenure_core::{ClaimState, Hash};

use super::group::{Group, KeptPlace};
use super::sqlite_read::SqliteReader;
use super::{Archive, FILE_NAME, Loaded, sqlite_fold, sqlite_load};
use crate::Error;
use crate::embedded::disk::{Disk, RealDisk, parent_of};
use crate::embedded::journal::io_error;
use crate::embedded::options::{Faults, Options};
use crate::limits::{LOG_STEP_BYTES, LOG_STEP_PAUSE};

/// The newest form of the archive that this program knows.
pub(crate) const ARCHIVE_FORMAT: u32 = 1;
/// Older ones can lose a commit when a checkpoint resets the log beside a reader.
const SQLITE_MIN: i32 = 3_051_003;
const PAGE_BYTES: u32 = 8192;
/// SQLite's log has a header, and one before each page.
const LOG_HEAD_BYTES: u64 = 32;
const FRAME_HEAD_BYTES: u64 = 24;
/// Marks the file as Tenure's.
const APPLICATION_ID: i32 = 0x5465_6e75;

const SCHEMA: &str = "
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  store INTEGER NOT NULL,
  folded_through INTEGER NOT NULL,
  high_water_ms INTEGER NOT NULL,
  epoch INTEGER NOT NULL
) STRICT;
CREATE TABLE collections (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  created_at_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE items (
  collection INTEGER NOT NULL,
  id TEXT NOT NULL,
  status TEXT NOT NULL,
  version INTEGER NOT NULL,
  data TEXT,
  fence INTEGER NOT NULL,
  claim INTEGER NOT NULL,
  updated_at_ms INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  PRIMARY KEY (collection, id)
) STRICT, WITHOUT ROWID;
-- Active claims, and ended ones whose lock delay still runs.
CREATE TABLE claims (
  collection INTEGER NOT NULL,
  number INTEGER NOT NULL,
  token INTEGER NOT NULL,
  items TEXT NOT NULL,
  holder_id TEXT NOT NULL,
  holder_name TEXT NOT NULL,
  session TEXT,
  state TEXT NOT NULL,
  reason TEXT,
  ended_at_ms INTEGER,
  blocked_until_ms INTEGER NOT NULL,
  phase TEXT NOT NULL,
  phase_since_ms INTEGER NOT NULL,
  ttl_ms INTEGER NOT NULL,
  since_ms INTEGER NOT NULL,
  heartbeat_at_ms INTEGER NOT NULL,
  acted_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL,
  idle INTEGER NOT NULL,
  data TEXT,
  PRIMARY KEY (collection, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_blocked ON claims (blocked_until_ms) WHERE state <> 'active';
CREATE TABLE policies (kind TEXT PRIMARY KEY, policy TEXT NOT NULL) STRICT;
-- The filter stands before the data, so that a search reads the one without the other.
CREATE TABLE chunks (
  collection INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  first_at_ms INTEGER NOT NULL,
  last_at_ms INTEGER NOT NULL,
  events INTEGER NOT NULL,
  before BLOB NOT NULL,
  bloom BLOB NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunks_by_number ON chunks (collection, first_seq);
CREATE INDEX chunks_by_time ON chunks (last_at_ms);
CREATE TABLE kept (
  through INTEGER NOT NULL,
  part INTEGER NOT NULL,
  last_at_ms INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (through, part)
) STRICT;
";

/// The archive of a data folder.
#[derive(Debug)]
pub struct SqliteArchive {
    connection: Connection,
    path: PathBuf,
    log: Log,
    /// When the log is moved into the file.
    checkpoint_pages: u64,
    faults: Faults,
}

/// SQLite's log, as the file that it is: there while a connection is.
#[derive(Debug)]
struct Log {
    /// Open from the start: a server without a descriptor left must not end for want of this one.
    file: File,
    path: PathBuf,
    /// Pages in it that are safe.
    pages: u64,
}

impl SqliteArchive {
    /// Opens the archive of a folder, or makes one.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_with(dir, &Options::default())
    }

    /// The same for a store that has options.
    pub(crate) fn open_with(dir: &Path, options: &Options) -> Result<Self, Error> {
        check_version()?;
        let path = dir.join(FILE_NAME);
        let is_new = !path.exists();
        let mut connection = Connection::open(&path).map_err(|error| sqlite_error(&path, "open", error))?;
        // It opens what it can only read, and says so at the first fold, when commits depend on it.
        if connection.is_readonly("main").unwrap_or(false) {
            let detail = format!("{} cannot be written to: its owner must be who runs this", path.display());
            return Err(Error::Unsupported { detail });
        }
        prepare(&mut connection, &path, is_new).map_err(|error| sqlite_error(&path, "open", error))??;
        let log = Log::open(dir.join(format!("{FILE_NAME}-wal")))?;
        let (checkpoint_pages, faults) = (u64::from(options.checkpoint_pages), options.faults());
        let archive = Self { connection, path, log, checkpoint_pages, faults };
        // What the log has may be in the system's memory only, where the process before died before its
        // sync; segments will be used again on the strength of it.
        archive.checkpoint("TRUNCATE")?;
        // It does nothing while somebody else reads an old state, and does not say so.
        archive.log.sync()?;
        // Even if it was there: whoever made it may have died before its name was safe.
        RealDisk.sync_dir(dir).map_err(|source| Error::SyncFailed { path: dir.to_owned(), source })?;
        Ok(archive)
    }

    /// Raises the epoch of an archive that has no collection to carry it.
    pub(crate) fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        let changed = self.connection.execute("UPDATE meta SET epoch = max(epoch, ?1)", [int(epoch)]);
        changed.map_err(|error| sqlite_error(&self.path, "set the epoch", error))?;
        self.settle(false)
    }

    /// Forgets all kept replies.
    pub(crate) fn forget_kept(&mut self) -> Result<(), Error> {
        let deleted = self.connection.execute("DELETE FROM kept", []);
        deleted.map_err(|error| sqlite_error(&self.path, "forget replies", error))?;
        self.settle(false)
    }

    /// Syncs the log and moves what it has into the file. Where there is no room for that, the log keeps it.
    fn checkpoint(&self, how: &str) -> Result<(), Error> {
        let sql = format!("PRAGMA wal_checkpoint({how})");
        let moved = self.connection.query_row(&sql, [], |_| Ok(()));
        moved.or_else(|error| match sqlite_error(&self.path, "checkpoint", error) {
            Error::Full { .. } | Error::Away { .. } => Ok(()),
            error => Err(error),
        })
    }

    /// Makes what was written to the log safe, as SQLite would if it were told to. Where nobody waits for it the disk is
    /// given it bit by bit first: commits that are synced meanwhile would else wait for all of it. Then moves the log on,
    /// if it is time.
    fn settle(&mut self, aside: bool) -> Result<(), Error> {
        // Where it does not say, there is nothing to go by, and all of it is synced at once.
        let pages = self.pages_in_log().unwrap_or(self.log.pages);
        if aside {
            self.log.ease_out(pages);
        }
        if !self.faults.skip_log_sync {
            self.log.sync()?;
        }
        self.log.pages = pages;
        if pages >= self.checkpoint_pages {
            self.checkpoint("PASSIVE")?;
        }
        Ok(())
    }

    fn pages_in_log(&self) -> rusqlite::Result<u64> {
        self.connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1)).map(uint)
    }
}

impl Archive for SqliteArchive {
    type Reader = SqliteReader;

    fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
        sqlite_load::load(&self.connection, &self.path, kept)
            .map_err(|error| sqlite_error(&self.path, "read the rows", error))?
    }

    fn fold(&mut self, group: &Group) -> Result<(), Error> {
        sqlite_fold::fold(&mut self.connection, &self.path, group)
            .map_err(|error| sqlite_error(&self.path, "fold", error))??;
        self.settle(group.aside)
    }

    fn reader(&self) -> SqliteReader {
        SqliteReader::new(self.path.clone())
    }

    fn close(&mut self) -> Result<(), Error> {
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        moved.map_err(|error| sqlite_error(&self.path, "close", error))
    }
}

impl Log {
    fn open(path: PathBuf) -> Result<Self, Error> {
        let file = File::open(&path).map_err(|source| io_error(&path, "open", source))?;
        Ok(Self { file, path, pages: 0 })
    }

    /// Hands the disk what was written since, bit by bit.
    fn ease_out(&self, pages: u64) {
        // Fewer than before: SQLite has begun it anew.
        let from = if pages < self.pages { 0 } else { self.pages };
        let at = |page: u64| LOG_HEAD_BYTES + page * (FRAME_HEAD_BYTES + u64::from(PAGE_BYTES));
        for start in (at(from)..at(pages)).step_by(LOG_STEP_BYTES) {
            // It begins to be written. Only advice: what it does not do, the sync does.
            let _ = fadvise(&self.file, start, NonZeroU64::new(LOG_STEP_BYTES as u64), Advice::DontNeed);
            std::thread::sleep(LOG_STEP_PAUSE);
        }
    }

    /// All of it is safe after this.
    fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|source| Error::SyncFailed { path: self.path.clone(), source })
    }
}

/// Says how the connection is to work, and makes the tables if there are none.
fn prepare(connection: &mut Connection, path: &Path, is_new: bool) -> rusqlite::Result<Result<(), Error>> {
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.set_prepared_statement_cache_capacity(64);
    if is_new {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // SQLite syncs where its own file depends on it; what the log has is made safe in `settle`, for the journal's
    // segments are used again on the strength of it. Moving it on is only tidiness, and two folds that wrote one page
    // are moved as one. What cannot be moved now is tried again with the next fold.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -65_536)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    let format: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if format == 0 && application == 0 {
        let store = match RealDisk.random() {
            Ok(random) => i64::from_le_bytes(random.to_le_bytes()),
            Err(source) => return Ok(Err(Error::Io { path: path.to_owned(), doing: "name", source })),
        };
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.execute("INSERT INTO meta VALUES (1, ?1, 0, 0, 1)", [store])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", ARCHIVE_FORMAT)?;
        transaction.commit()?;
        return Ok(Ok(()));
    }
    Ok(check_format(path, format, application))
}

fn check_version() -> Result<(), Error> {
    if rusqlite::version_number() < SQLITE_MIN {
        let detail = format!(
            "this program was built with SQLite {}, which can lose commits; it needs 3.51.3 or newer",
            rusqlite::version()
        );
        return Err(Error::Unsupported { detail });
    }
    Ok(())
}

pub(super) fn check_format(path: &Path, format: u32, application: i32) -> Result<(), Error> {
    if application != APPLICATION_ID {
        let detail = "it is not an archive of Tenure's".to_owned();
        return Err(Error::Corrupt { path: path.to_owned(), detail });
    }
    if format > ARCHIVE_FORMAT {
        return Err(Error::Newer { path: path.to_owned(), found: format, known: ARCHIVE_FORMAT });
    }
    Ok(())
}

/// Opens an archive to look into it.
pub(crate) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}

/// The same for an archive that may lie where nobody can write, such as a backup on a disk that is mounted so. SQLite makes
/// files beside an archive to read it; where it cannot, and no log says that there is more, it is told that nothing changes.
pub(crate) fn open_resting(path: &Path) -> Result<Connection, Error> {
    let failed = |error| sqlite_error(path, "be opened", error);
    let folder = parent_of(path);
    if access(folder, Access::WRITE_OK).is_ok() || !path.exists() {
        return open_read_only(path).map_err(failed);
    }
    let log = path.with_file_name(format!("{FILE_NAME}-wal"));
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let detail = format!(
            "{} cannot be written to, which it takes to read the log of its archive: copy it elsewhere first",
            folder.display()
        );
        return Err(Error::Unsupported { detail });
    }
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                address.push(char::from(*byte));
            }
            other => {
                let _ = write!(address, "%{other:02x}");
            }
        }
    }
    address.push_str("?immutable=1");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(address, flags).map_err(failed)
}

/// SQLite's failure as the store's.
pub(crate) fn sqlite_error(path: &Path, doing: &'static str, error: rusqlite::Error) -> Error {
    // What it shares between connections lies in a file, too, and for that it has no word of its own.
    let no_room_to_share =
        error.sqlite_error().is_some_and(|code| code.extended_code == SQLITE_IOERR_SHMSIZE);
    // Who only looks cannot take it back, and a whole archive never has such a thing beside it.
    let is_half_written =
        error.sqlite_error().is_some_and(|code| code.extended_code == SQLITE_READONLY_ROLLBACK);
    match error.sqlite_error_code() {
        _ if is_half_written => {
            let detail = "a change of it was never finished".to_owned();
            Error::Corrupt { path: path.to_owned(), detail }
        }
        _ if no_room_to_share => Error::Full { path: path.to_owned() },
        Some(ErrorCode::DiskFull) => Error::Full { path: path.to_owned() },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::Away { detail: format!("{} is busy", path.display()) }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Corrupt { path: path.to_owned(), detail: error.to_string() }
        }
        _ => Error::Archive { doing, source: error },
    }
}

pub(super) fn state_word(state: ClaimState) -> &'static str {
    match state {
        ClaimState::Active => "active",
        ClaimState::Released => "released",
        ClaimState::Completed => "completed",
        ClaimState::Expired => "expired",
        ClaimState::Cancelled => "cancelled",
        ClaimState::Revoked => "revoked",
    }
}

/// Numbers count up from 1 and stay far below 2^63.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).expect("a number below 2^63")
}

pub(super) fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn hash_of(value: rusqlite::types::ValueRef<'_>) -> Hash {
    Hash(value.as_blob().ok().and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
}
