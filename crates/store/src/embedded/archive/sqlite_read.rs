//! Looking into the archive beside its writer: read-only connections from a small pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use tenure_core::CollectionKey;

use super::bloom::may_have;
use super::group::KeptPlace;
use super::sqlite::{check_format, hash_of, int, open_read_only, open_resting, sqlite_error, uint};
use super::sqlite_load::{self, read_meta};
use super::{ArchiveReader, ChunkAsk, ChunkOrder, ChunkRef, Loaded, Meta, VisitChunk};
use crate::Error;
use crate::limits::{ARCHIVE_READERS_IDLE_MAX, ARCHIVE_READERS_MAX};

/// The readers' connections.
#[derive(Clone, Debug)]
pub struct SqliteReader {
    path: PathBuf,
    pool: Arc<Pool>,
}

/// So many at once: each is two open files, which connections and the journal want too.
#[derive(Debug, Default)]
struct Pool {
    connections: Mutex<Connections>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct Connections {
    idle: Vec<Connection>,
    lent: usize,
}

/// One of so many, given back however its reader ends.
struct Lent<'a>(&'a Pool);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.connections.lock().lent -= 1;
        self.0.given_back.notify_one();
    }
}

impl Pool {
    /// Waits for its turn. A reader must not ask for a second one meanwhile.
    fn lend(&self) -> (Option<Connection>, Lent<'_>) {
        let mut connections = self.connections.lock();
        while connections.lent >= ARCHIVE_READERS_MAX {
            self.given_back.wait(&mut connections);
        }
        connections.lent += 1;
        (connections.idle.pop(), Lent(self))
    }

    fn keep(&self, connection: Connection) {
        let mut connections = self.connections.lock();
        if connections.idle.len() < ARCHIVE_READERS_IDLE_MAX {
            connections.idle.push(connection);
        }
    }
}

impl SqliteReader {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, pool: Arc::default() }
    }

    /// Lends a connection. One that failed is not taken back.
    fn with<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, Error>>,
    ) -> Result<T, Error> {
        // For want of a descriptor, say, which passes. The log beside the archive is opened when it is first read.
        let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(ErrorCode::CannotOpen) => {
                Error::Away { detail: format!("could not open {}: {error}", self.path.display()) }
            }
            _ => sqlite_error(&self.path, doing, error),
        };
        let (idle, _lent) = self.pool.lend();
        let connection = match idle {
            Some(connection) => connection,
            None => open_read_only(&self.path).map_err(failed)?,
        };
        let answer = read(&connection).map_err(failed)?;
        self.pool.keep(connection);
        answer
    }
}

impl ArchiveReader for SqliteReader {
    fn chunks(&self, ask: &ChunkAsk<'_>, visit: &mut VisitChunk<'_>) -> Result<(), Error> {
        self.with("read events", |connection| visit_chunks(connection, ask, visit))
    }

    fn kept(&self, place: KeptPlace) -> Result<Option<Vec<u8>>, Error> {
        self.with("read a kept reply", |connection| {
            let mut find =
                connection.prepare_cached("SELECT data FROM kept WHERE through = ?1 AND part = ?2")?;
            find.query_row(params![int(place.through), place.part], |row| row.get(0)).optional().map(Ok)
        })
    }
}

fn visit_chunks(
    connection: &Connection,
    ask: &ChunkAsk<'_>,
    visit: &mut VisitChunk<'_>,
) -> rusqlite::Result<Result<(), Error>> {
    let mut find = connection.prepare_cached(&chunks_sql(ask))?;
    let key = ask.collection.map(CollectionKey::as_str);
    let mut rows = find.query(params![key, int(ask.from_seq), ask.at_ms.start, ask.at_ms.end])?;
    while let Some(row) = rows.next()? {
        if !may_have(row.get_ref(5)?.as_bytes()?, ask.words) {
            continue;
        }
        match visit_row(row, visit)? {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

/// Every form walks an index in its own order: a sort would first have to hold all the data.
fn chunks_sql(ask: &ChunkAsk<'_>) -> String {
    let of_one = "k.collection = (SELECT id FROM collections WHERE key = ?1)
         AND k.first_seq >= coalesce((SELECT max(first_seq) FROM chunks WHERE first_seq <= ?2
             AND collection = (SELECT id FROM collections WHERE key = ?1)), 0)
         AND +k.last_at_ms >= ?3";
    let (collection, order) = match (ask.collection, ask.order) {
        (Some(_), ChunkOrder::Oldest) => (of_one, "k.first_seq"),
        // Within a collection later numbers are later times.
        (Some(_), ChunkOrder::Latest) => (of_one, "k.first_seq DESC"),
        (None, ChunkOrder::Oldest) => ("?1 IS NULL AND +k.last_at_ms >= ?3", "k.collection, k.first_seq"),
        (None, ChunkOrder::Latest) => ("?1 IS NULL AND k.last_at_ms >= ?3", "k.last_at_ms DESC"),
    };
    format!(
        "SELECT (SELECT key FROM collections c WHERE c.id = k.collection), k.first_seq, k.last_seq,
             k.last_at_ms, k.before, k.bloom, k.data, k.first_at_ms, k.events
         FROM chunks k WHERE {collection} AND k.last_seq >= ?2 AND k.first_at_ms < ?4 ORDER BY {order}"
    )
}

fn visit_row(row: &Row<'_>, visit: &mut VisitChunk<'_>) -> rusqlite::Result<Result<bool, Error>> {
    let Ok(key) = CollectionKey::new(row.get_ref(0)?.as_str()?) else { return Ok(Ok(true)) };
    let chunk = ChunkRef {
        first_seq: uint(row.get(1)?),
        last_seq: uint(row.get(2)?),
        first_at_ms: row.get(7)?,
        last_at_ms: row.get(3)?,
        events: uint(row.get(8)?),
        before: hash_of(row.get_ref(4)?),
        bloom: row.get_ref(5)?.as_bytes()?,
        data: row.get_ref(6)?.as_bytes()?,
    };
    Ok(visit(&key, chunk))
}

/// Copies an archive as of one moment, beside its writer. Answers how far the copy is.
pub(crate) fn copy_archive(from: &Path, to: &Path) -> Result<Meta, Error> {
    let failed = |error| sqlite_error(from, "be copied", error);
    let source = open_resting(from)?;
    let target = to.to_str().ok_or_else(|| Error::Unsupported {
        detail: format!("{} is not text, which SQLite needs for a copy", to.display()),
    })?;
    // It has the source's name where that is damaged, and the copy's where there is no room for it.
    source.execute("VACUUM INTO ?1", [target]).map_err(|error| match failed(error) {
        Error::Full { .. } => Error::Full { path: to.to_owned() },
        error => error,
    })?;
    let copy = open_read_only(to).map_err(failed)?;
    read_meta(&copy).map_err(failed)
}

/// It is a database in which nobody has made anything.
pub(crate) fn is_without_tables(path: &Path) -> Result<bool, Error> {
    let sql = "SELECT user_version = 0 AND application_id = 0 AND NOT EXISTS (SELECT 1 FROM sqlite_schema)
        FROM pragma_user_version, pragma_application_id";
    let found = open_resting(path)?.query_row(sql, [], |row| row.get(0));
    found.map_err(|error| sqlite_error(path, "be looked into", error))
}

/// An archive that is looked at and not changed, by `check`.
pub(crate) struct Inspection {
    connection: Connection,
    path: PathBuf,
}

impl Inspection {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |error| sqlite_error(path, "be opened", error);
        let connection = open_resting(path)?;
        let format = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        let application =
            connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
        check_format(path, format, application)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// What SQLite itself finds wrong.
    pub(crate) fn integrity(&self) -> Result<Vec<String>, Error> {
        let found = self.connection.prepare("PRAGMA integrity_check(20)").and_then(|mut check| {
            check.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        });
        let found = found.map_err(|error| sqlite_error(&self.path, "be checked", error))?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    pub(crate) fn meta(&self) -> Result<Meta, Error> {
        read_meta(&self.connection).map_err(|error| sqlite_error(&self.path, "be read", error))
    }

    /// All rows, and each chunk of kept replies to `kept`.
    pub(crate) fn load(&self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
        sqlite_load::load(&self.connection, &self.path, kept)
            .map_err(|error| sqlite_error(&self.path, "be read", error))?
    }

    /// How many events there are.
    pub(crate) fn events(&self) -> Result<u64, Error> {
        let sql = "SELECT coalesce(sum(events), 0) FROM chunks";
        let events = self.connection.query_row(sql, [], |row| row.get(0));
        events.map(uint).map_err(|error| sqlite_error(&self.path, "be read", error))
    }

    /// Visits each chunk of kept replies, oldest first.
    pub(crate) fn kept(&self, visit: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let mut failed = Ok(());
        let visited = sqlite_load::kept(&self.connection, &mut |_, data| {
            if failed.is_ok() {
                failed = visit(data);
            }
        });
        visited.map_err(|error| sqlite_error(&self.path, "be read", error))?;
        failed
    }

    /// Rows that belong to no collection, or to one that has no event.
    pub(crate) fn strays(&self) -> Result<u64, Error> {
        let sql = "WITH heads AS (SELECT id FROM collections WHERE seq > 0)
            SELECT (SELECT count(*) FROM chunks WHERE collection NOT IN heads)
                + (SELECT count(*) FROM items WHERE collection NOT IN heads)
                + (SELECT count(*) FROM claims WHERE collection NOT IN heads)";
        let strays = self.connection.query_row(sql, [], |row| row.get(0));
        strays.map(uint).map_err(|error| sqlite_error(&self.path, "be read", error))
    }

    /// Visits all chunks of a collection.
    pub(crate) fn chunks(&self, ask: &ChunkAsk<'_>, visit: &mut VisitChunk<'_>) -> Result<(), Error> {
        visit_chunks(&self.connection, ask, visit)
            .map_err(|error| sqlite_error(&self.path, "be read", error))?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::embedded::archive::SqliteArchive;

    #[test]
    fn so_many_read_at_once_and_the_others_wait() {
        let dir = tempfile::tempdir().unwrap();
        let _archive = SqliteArchive::open(dir.path()).unwrap();
        let reader = SqliteReader::new(dir.path().join("archive.db"));
        let (inside, most, open) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let read = |_: &Connection| {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            while !open.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok(Ok(()))
        };
        std::thread::scope(|scope| {
            for _ in 0..2 * ARCHIVE_READERS_MAX {
                scope.spawn(|| reader.with("read", read).unwrap());
            }
            while inside.load(Ordering::SeqCst) < ARCHIVE_READERS_MAX {
                std::thread::yield_now();
            }
            open.store(true, Ordering::SeqCst);
        });
        assert_eq!(most.load(Ordering::SeqCst), ARCHIVE_READERS_MAX);
        let connections = reader.pool.connections.lock();
        assert_eq!((connections.lent, connections.idle.len()), (0, ARCHIVE_READERS_IDLE_MAX));
    }

    #[test]
    fn no_search_for_chunks_sorts_them() {
        let dir = tempfile::tempdir().unwrap();
        let archive = SqliteArchive::open(dir.path()).unwrap();
        let connection = open_read_only(&dir.path().join("archive.db")).unwrap();
        let key = CollectionKey::new("lock/a").unwrap();
        for collection in [None, Some(&key)] {
            for order in [ChunkOrder::Oldest, ChunkOrder::Latest] {
                let ask = ChunkAsk { collection, from_seq: 0, at_ms: 0..9, words: &[], order };
                let mut explain =
                    connection.prepare(&format!("EXPLAIN QUERY PLAN {}", chunks_sql(&ask))).unwrap();
                let rows = explain.query_map(params![None::<&str>, 0, 0, 9], |row| row.get::<_, String>(3));
                let plan: Vec<String> = rows.unwrap().collect::<rusqlite::Result<_>>().unwrap();
                assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{ask:?}: {plan:#?}");
            }
        }
        drop(archive);
    }
}
