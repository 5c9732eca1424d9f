//! The archive in SQLite: opening it and folding into it. One connection writes and checkpoints;
//! readers have their own, read-only.
//!
//! Every fold is one transaction, synced when it commits (`synchronous = FULL`): the journal's
//! segments are used again on the strength of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, OptionalExtension, params};
use tenure_core::{Claim, ClaimState, CollectionKey, Fact, Hash, Item, ItemId};

use super::chunk::{Chunk, build_chunks, read_events};
use super::group::{Group, GroupRows, KeptPlace};
use super::sqlite_read::SqliteReader;
use super::{Archive, FILE_NAME, Loaded, sqlite_load};
use crate::Error;
use crate::embedded::disk::{Disk, RealDisk};
use crate::limits::CHUNK_BYTES_SMALL;

/// The newest form of the archive that this program knows.
pub(crate) const ARCHIVE_FORMAT: u32 = 1;
/// Older ones can lose a commit when a checkpoint resets the log beside a reader.
const SQLITE_MIN: i32 = 3_051_003;
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
    /// Ended claims may be in the table until this time; nothing to remove before it.
    blocked_from_ms: i64,
}

impl SqliteArchive {
    /// Opens the archive of a folder, or makes one.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        check_version()?;
        let path = dir.join(FILE_NAME);
        let is_new = !path.exists();
        let connection = Connection::open(&path).map_err(|error| sqlite_error(&path, "open", error))?;
        let mut archive = Self { connection, path, blocked_from_ms: i64::MIN };
        archive.prepare(is_new).map_err(|error| sqlite_error(&archive.path, "open", error))??;
        if is_new {
            RealDisk.sync_dir(dir).map_err(|source| Error::SyncFailed { path: dir.to_owned(), source })?;
        }
        Ok(archive)
    }

    /// Raises the epoch of an archive that has no collection to carry it.
    pub(crate) fn set_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        let changed = self.connection.execute("UPDATE meta SET epoch = max(epoch, ?1)", [int(epoch)]);
        changed.map(|_| ()).map_err(|error| sqlite_error(&self.path, "set the epoch", error))
    }

    fn prepare(&mut self, is_new: bool) -> rusqlite::Result<Result<(), Error>> {
        let connection = &mut self.connection;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.set_prepared_statement_cache_capacity(64);
        if is_new {
            connection.pragma_update(None, "page_size", 8192)?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "cache_size", -65_536)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        let format: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if format == 0 && application == 0 {
            let store = match RealDisk.random() {
                Ok(random) => i64::from_le_bytes(random.to_le_bytes()),
                Err(source) => return Ok(Err(Error::Io { path: self.path.clone(), doing: "name", source })),
            };
            let transaction = connection.transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.execute("INSERT INTO meta VALUES (1, ?1, 0, 0, 1)", [store])?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", ARCHIVE_FORMAT)?;
            transaction.commit()?;
            return Ok(Ok(()));
        }
        Ok(check_format(&self.path, format, application))
    }

    fn try_fold(&mut self, group: &Group) -> rusqlite::Result<Result<(), Error>> {
        let transaction = self.connection.transaction()?;
        let fold = Fold::new(&transaction, group, &self.path)?;
        if let Err(error) = fold.run()? {
            return Ok(Err(error));
        }
        drop(fold);
        if group.high_water_ms >= self.blocked_from_ms {
            let mut over = transaction
                .prepare_cached("DELETE FROM claims WHERE state <> 'active' AND blocked_until_ms <= ?1")?;
            over.execute([group.high_water_ms])?;
        }
        transaction.commit()?;
        Ok(Ok(()))
    }
}

impl Archive for SqliteArchive {
    type Reader = SqliteReader;

    fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
        sqlite_load::load(&self.connection, &self.path, kept)
            .map_err(|error| sqlite_error(&self.path, "read the rows", error))?
    }

    fn fold(&mut self, group: &Group) -> Result<(), Error> {
        self.try_fold(group).map_err(|error| sqlite_error(&self.path, "fold", error))??;
        // The batches are safe in the log from here on; moving them on is only tidiness.
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        moved.or_else(|error| match sqlite_error(&self.path, "checkpoint", error) {
            Error::Full { .. } | Error::Away { .. } => Ok(()),
            error => Err(error),
        })
    }

    fn reader(&self) -> SqliteReader {
        SqliteReader::new(self.path.clone())
    }

    fn close(&mut self) -> Result<(), Error> {
        let moved = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        moved.map_err(|error| sqlite_error(&self.path, "close", error))
    }
}

/// One fold, inside its transaction.
struct Fold<'a> {
    connection: &'a Connection,
    group: &'a Group,
    path: &'a Path,
    put_item: std::cell::RefCell<CachedStatement<'a>>,
    put_claim: std::cell::RefCell<CachedStatement<'a>>,
}

impl<'a> Fold<'a> {
    fn new(connection: &'a Connection, group: &'a Group, path: &'a Path) -> rusqlite::Result<Self> {
        let put_item =
            connection.prepare_cached("INSERT OR REPLACE INTO items VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)")?;
        let put_claim = connection.prepare_cached(
            "INSERT OR REPLACE INTO claims
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)",
        )?;
        Ok(Self { connection, group, path, put_item: put_item.into(), put_claim: put_claim.into() })
    }

    fn run(&self) -> rusqlite::Result<Result<(), Error>> {
        for (key, rows) in self.group.sorted() {
            if let Err(error) = self.fold_collection(key, rows)? {
                return Ok(Err(error));
            }
        }
        let mut put = self.connection.prepare_cached("INSERT OR REPLACE INTO policies VALUES (?1, ?2)")?;
        for (kind, policy) in &self.group.policies {
            put.execute(params![&**kind, serde_json::to_string(policy).expect("a policy always encodes")])?;
        }
        self.fold_kept()?;
        let mut meta = self.connection.prepare_cached(
            "UPDATE meta SET folded_through = ?1, high_water_ms = max(high_water_ms, ?2), epoch = max(epoch, ?3)",
        )?;
        let epoch = self.group.epoch.unwrap_or(0);
        meta.execute([int(self.group.through), self.group.high_water_ms, int(epoch)])?;
        Ok(Ok(()))
    }

    fn fold_collection(&self, key: &CollectionKey, rows: &GroupRows) -> rusqlite::Result<Result<(), Error>> {
        let (id, seq, hash) = match self.head(key)? {
            Some(head) => head,
            None => (self.insert_head(key)?, 0, Hash::default()),
        };
        if let Some(first) = rows.events.first() {
            let follows = first.event.seq == seq + 1
                || matches!(first.event.fact, Fact::Restored { from_seq, .. } if from_seq == seq);
            if !follows {
                let detail = format!("{key} ends with event {seq}, but event {} comes next", first.event.seq);
                return Ok(Err(Error::Corrupt { path: self.path.to_owned(), detail }));
            }
            self.fold_events(id, hash, rows)?;
        }
        if let Some(head) = &rows.head {
            let mut put = self.connection.prepare_cached(
                "UPDATE collections SET seq = ?2, hash = ?3, created_at_ms = ?4 WHERE id = ?1",
            )?;
            put.execute(params![id, int(head.seq), &head.hash.0[..], head.created_at_ms])?;
        }
        self.fold_items(id, rows)?;
        self.fold_claims(id, seq, rows)?;
        Ok(Ok(()))
    }

    fn head(&self, key: &CollectionKey) -> rusqlite::Result<Option<(i64, u64, Hash)>> {
        let mut find =
            self.connection.prepare_cached("SELECT id, seq, hash FROM collections WHERE key = ?1")?;
        find.query_row([key.as_str()], |row| Ok((row.get(0)?, uint(row.get(1)?), hash_of(row.get_ref(2)?))))
            .optional()
    }

    fn insert_head(&self, key: &CollectionKey) -> rusqlite::Result<i64> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO collections (key, seq, hash, created_at_ms) VALUES (?1, 0, zeroblob(32), 0)",
        )?;
        insert.insert([key.as_str()])
    }

    fn fold_items(&self, collection: i64, rows: &GroupRows) -> rusqlite::Result<()> {
        // In the order of the table, so that each page is touched once.
        let mut items: Vec<(&ItemId, Option<&Item>)> =
            rows.items.iter().map(|(id, item)| (id, item.as_deref())).collect();
        items.sort_unstable_by_key(|(id, _)| *id);
        for (id, item) in items {
            let Some(item) = item else {
                let sql = "DELETE FROM items WHERE collection = ?1 AND id = ?2";
                self.connection.prepare_cached(sql)?.execute(params![collection, id.as_str()])?;
                continue;
            };
            self.put_item(collection, item)?;
        }
        Ok(())
    }

    fn put_item(&self, collection: i64, item: &Item) -> rusqlite::Result<()> {
        let mut put = self.put_item.borrow_mut();
        put.execute(params![
            collection,
            item.id.as_str(),
            item.status.as_str(),
            int(item.version),
            item.data.as_ref().map(tenure_core::Json::as_str),
            int(item.fence),
            int(item.claim),
            item.updated_at_ms,
            &*item.updated_by,
        ])?;
        Ok(())
    }

    fn fold_claims(&self, collection: i64, folded_seq: u64, rows: &GroupRows) -> rusqlite::Result<()> {
        let mut claims: Vec<&Claim> = rows.claims.values().map(|claim| &**claim).collect();
        claims.sort_unstable_by_key(|claim| claim.number);
        for claim in claims {
            let stays =
                claim.state == ClaimState::Active || claim.blocked_until_ms > self.group.high_water_ms;
            if stays {
                self.put_claim(collection, claim)?;
            } else if claim.number <= folded_seq {
                // One that began and ended within the group was never here.
                let sql = "DELETE FROM claims WHERE collection = ?1 AND number = ?2";
                self.connection.prepare_cached(sql)?.execute([collection, int(claim.number)])?;
            }
        }
        Ok(())
    }

    fn put_claim(&self, collection: i64, claim: &Claim) -> rusqlite::Result<()> {
        let items = serde_json::to_string(&claim.items).expect("names always encode");
        let mut put = self.put_claim.borrow_mut();
        put.execute(params![
            collection,
            int(claim.number),
            int(claim.token),
            items,
            &*claim.holder.id,
            &*claim.holder.name,
            claim.session.as_ref().map(tenure_core::SessionId::as_str),
            state_word(claim.state),
            claim.reason.map(tenure_core::EndReason::as_str),
            claim.ended_at_ms,
            claim.blocked_until_ms,
            &*claim.phase,
            claim.phase_since_ms,
            claim.ttl_ms,
            claim.since_ms,
            claim.heartbeat_at_ms,
            claim.acted_at_ms,
            claim.expires_at_ms,
            claim.idle,
            claim.data.as_ref().map(tenure_core::Json::as_str),
        ])?;
        Ok(())
    }

    fn fold_events(&self, collection: i64, before: Hash, rows: &GroupRows) -> rusqlite::Result<()> {
        let mut find = self.connection.prepare_cached(
            "SELECT rowid, before, data FROM chunks WHERE collection = ?1 AND length(data) < ?2
             AND first_seq = (SELECT max(first_seq) FROM chunks WHERE collection = ?1)",
        )?;
        let small = int(CHUNK_BYTES_SMALL as u64);
        let last = find
            .query_row([collection, small], |row| {
                let (before, data) = (hash_of(row.get_ref(1)?), row.get_ref(2)?.as_bytes()?);
                // One that cannot be read is left as it is, for `check` to find.
                let events = read_events(before, data).collect::<Result<Vec<_>, _>>().ok();
                Ok(events.map(|events| (row.get_unwrap::<_, i64>(0), before, events)))
            })
            .optional()?
            .flatten();
        let chunks = if let Some((rowid, before, events)) = last {
            self.connection.prepare_cached("DELETE FROM chunks WHERE rowid = ?1")?.execute([rowid])?;
            let mut all: Vec<_> = events.into_iter().map(std::sync::Arc::new).collect();
            all.extend(rows.events.iter().cloned());
            build_chunks(before, &all)
        } else {
            build_chunks(before, &rows.events)
        };
        for chunk in &chunks {
            self.put_chunk(collection, chunk)?;
        }
        self.group.retain_events.map_or(Ok(()), |retained| self.prune_events(collection, retained))
    }

    fn put_chunk(&self, collection: i64, chunk: &Chunk) -> rusqlite::Result<()> {
        let mut put =
            self.connection.prepare_cached("INSERT INTO chunks VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)")?;
        put.execute(params![
            collection,
            int(chunk.first_seq),
            int(chunk.last_seq),
            chunk.first_at_ms,
            chunk.last_at_ms,
            int(chunk.events),
            &chunk.before.0[..],
            chunk.bloom,
            chunk.data,
        ])?;
        Ok(())
    }

    /// Removes the chunks that are not needed for the newest events. The oldest one that stays says
    /// with its first number and the hash before it from where the chain can still be verified.
    fn prune_events(&self, collection: i64, retained: u64) -> rusqlite::Result<()> {
        let mut newest = self.connection.prepare_cached(
            "SELECT first_seq, events FROM chunks WHERE collection = ?1 ORDER BY first_seq DESC",
        )?;
        let mut rows = newest.query([collection])?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            found += uint(row.get(1)?);
            if found >= retained {
                let sql = "DELETE FROM chunks WHERE collection = ?1 AND first_seq < ?2";
                let first_seq: i64 = row.get(0)?;
                self.connection.prepare_cached(sql)?.execute([collection, first_seq])?;
                break;
            }
        }
        Ok(())
    }

    fn fold_kept(&self) -> rusqlite::Result<()> {
        let mut put = self.connection.prepare_cached("INSERT INTO kept VALUES (?1, ?2, ?3, ?4)")?;
        for (place, chunk) in self.group.kept_places() {
            put.execute(params![int(place.through), place.part, chunk.last_at_ms, chunk.data])?;
        }
        // In order of time, so the first that stays ends it.
        let sql = "DELETE FROM kept WHERE through < (SELECT coalesce(min(through), 0) FROM kept WHERE last_at_ms >= ?1)";
        self.connection.prepare_cached(sql)?.execute([self.group.kept_from_ms])?;
        Ok(())
    }
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

fn check_format(path: &Path, format: u32, application: i32) -> Result<(), Error> {
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

/// SQLite's failure as the store's.
pub(crate) fn sqlite_error(path: &Path, doing: &'static str, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
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
