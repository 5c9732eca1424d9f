//! The tables, and how they come to be: forward only, recorded, by whichever node is first.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::connect::{Link, Reminder, away};
use super::history::STAMP_AGAIN;
use super::rows::uint;
use crate::Error;
use crate::limits::MIGRATE_LOCK_MS;

/// What each version adds, from 1. A step that was released is never changed.
const STEPS: &[&str] = &[FIRST, SECOND, THIRD, FOURTH];

/// Names sort as bytes, as they do everywhere else in Tenure. `body` is the row in Tenure's own form; what
/// stands beside it is what is searched for. Heads and claims change all the time: room on their pages
/// lets most of those changes stay where they are.
const FIRST: &str = r#"
CREATE TABLE tenure.meta (
    one boolean PRIMARY KEY CHECK (one),
    epoch bigint NOT NULL,
    high_water_ms bigint NOT NULL
);
INSERT INTO tenure.meta VALUES (true, 1, 0);
CREATE TABLE tenure.collections (
    collection text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    created_at_ms bigint NOT NULL,
    at_ms bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE tenure.items (
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    claim bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (collection, id)
) WITH (fillfactor = 80);
CREATE TABLE tenure.claims (
    collection text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    state smallint NOT NULL,
    expires_at_ms bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (collection, number)
) WITH (fillfactor = 80);
CREATE INDEX claims_of ON tenure.claims (collection, holder, number) WHERE state = 0;
CREATE INDEX claims_due ON tenure.claims (expires_at_ms) WHERE state = 0;
CREATE TABLE tenure.events (
    collection text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    at_ms bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    items text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (collection, seq)
);
CREATE INDEX events_by_time ON tenure.events (at_ms, collection, seq);
CREATE TABLE tenure.replies (
    collection text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (collection, principal, key)
);
CREATE INDEX replies_by_time ON tenure.replies (at_ms);
CREATE TABLE tenure.policies (
    kind text COLLATE "C" PRIMARY KEY,
    body text NOT NULL
);
CREATE TABLE tenure.batches (
    collection text COLLATE "C" NOT NULL,
    id bytea NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE INDEX batches_by_time ON tenure.batches (at_ms);
"#;

/// A holder's claims in all collections: what holds in one index, which every claim asks, and what has ended, which
/// nobody deletes, in another that no claim can be made to read. A name of its own and a mark: what a move must
/// know of both its ends. `history` became `place`.
const SECOND: &str = "DROP INDEX tenure.claims_of;
CREATE INDEX claims_of ON tenure.claims (holder, collection, number) WHERE state = 0;
CREATE INDEX claims_ended ON tenure.claims (holder, collection, number) WHERE state <> 0;
ALTER TABLE tenure.meta ADD COLUMN store uuid NOT NULL DEFAULT gen_random_uuid(), ADD COLUMN mark text,
    ADD COLUMN history text;";

/// Explained in `recent.rs`. A node that knows nothing of it must not write beside one that relies on it.
const THIRD: &str = "ALTER TABLE tenure.collections ADD COLUMN turn bigint NOT NULL DEFAULT 0;";

/// Explained in `history.rs`. A dump of version 3 that was restored over a later one has left that table there.
const FOURTH: &str = "DROP TABLE IF EXISTS tenure.place;
CREATE TABLE tenure.place (one boolean PRIMARY KEY CHECK (one), place text, written xid);
INSERT INTO tenure.place SELECT true, split_part(history, '/', 1) || '/' || d.oid || '/' || split_part(history, '/', 2)
    FROM tenure.meta, pg_database d WHERE d.datname = current_database();
ALTER TABLE tenure.meta DROP COLUMN history;";

/// The newest version that is known here.
fn known() -> u32 {
    u32::try_from(STEPS.len()).unwrap_or(u32::MAX)
}

/// What a database says of itself.
pub(super) struct Found {
    pub(super) epoch: u64,
    pub(super) high_water_ms: i64,
    /// It is no installation yet, or none any more.
    pub(super) mark: Option<String>,
}

/// Brings the tables up to date. Of nodes that start at once one does it, and the others wait for its row, however long
/// that takes: an index over a large table takes as long as it takes.
pub(super) async fn migrate(client: &Client, link: &Link) -> Result<Found, Error> {
    check_server(client).await?;
    prepare(client).await?;
    // Half of what a batch waits for its own locks: whoever stands in line behind this one is not refused because of it.
    let lock_ms = (link.options.lock_ms / 2).max(1);
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {lock_ms}; SET LOCAL statement_timeout = 0"
    );
    let mut reminder = Reminder::default();
    loop {
        client.batch_execute(&begin).await.map_err(|error| away(&error))?;
        let error = match step_forward(client).await {
            Ok(found) => {
                link.in_time(client.batch_execute("COMMIT")).await?.map_err(|error| away(&error))?;
                return Ok(found);
            }
            Err(failed) => failed,
        };
        // Where that fails the connection is gone, and the next try tells.
        let _ = client.batch_execute("ROLLBACK").await;
        match error {
            Failed::Locked(error) => {
                reminder.of_a_wait(&error, "somebody else changes or moves the tables, or works in them");
                // Those who stood in line get their turn.
                tokio::time::sleep(Duration::from_millis(lock_ms)).await;
            }
            Failed::Store(error) => return Err(error),
        }
    }
}

/// Why the tables were not brought up to date.
enum Failed {
    /// Somebody else was there for longer than is waited at once, or waited for this one in turn.
    Locked(Error),
    Store(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        let locked = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];
        match error.code() {
            Some(code) if locked.contains(code) => Self::Locked(away(&error)),
            _ => Self::Store(away(&error)),
        }
    }
}

/// A database that loses what it has confirmed, or sorts names otherwise, is none that claims can be kept in.
async fn check_server(client: &Client) -> Result<(), Error> {
    let sql = "SELECT current_setting('server_version_num')::int4, current_setting('server_encoding'), \
               current_setting('fsync'), current_setting('full_page_writes')";
    let row = client.query_typed_one(sql, &[]).await.map_err(|error| away(&error))?;
    let (version, encoding, fsync, whole): (i32, String, String, String) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    let refuse = |detail: String| Err(Error::Unsupported { detail });
    if version < 150_000 {
        return refuse(format!("PostgreSQL {} is too old; Tenure needs 15 or newer", version / 10_000));
    }
    if encoding != "UTF8" {
        return refuse(format!("the database's encoding is {encoding}; Tenure needs UTF8"));
    }
    if fsync != "on" || whole != "on" {
        return refuse("the database runs with fsync or full_page_writes off, so it may lose what it has confirmed; turn them on".to_owned());
    }
    Ok(())
}

/// The one row that says how far the tables are, made by whoever comes first.
async fn prepare(client: &Client) -> Result<(), Error> {
    // Two that make the same thing at once collide even with IF NOT EXISTS. A few tries settle it, since
    // by the second somebody has made it.
    let mut tries = 0;
    loop {
        // Asked first: IF NOT EXISTS wants the right to make a schema even where there is one.
        let there = client.query_typed_one("SELECT to_regnamespace('tenure') IS NOT NULL", &[]).await;
        if !there.map_err(|error| away(&error))?.get::<_, bool>(0) {
            match client.batch_execute("CREATE SCHEMA IF NOT EXISTS tenure").await {
                Err(error) if tries < 20 && is_race(&error) => {
                    tries += 1;
                    continue;
                }
                made => made.map_err(|error| away(&error))?,
            }
        }
        let made = client.batch_execute(
            "CREATE TABLE IF NOT EXISTS tenure.schema (one boolean PRIMARY KEY CHECK (one), version integer NOT NULL); \
             CREATE TABLE IF NOT EXISTS tenure.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL); \
             INSERT INTO tenure.schema VALUES (true, 0) ON CONFLICT DO NOTHING",
        );
        match made.await {
            Ok(()) => return Ok(()),
            Err(error) if tries < 20 && is_race(&error) => tries += 1,
            Err(error) => return Err(away(&error)),
        }
    }
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    let races = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    // "tuple concurrently updated" has no code of its own.
    error.code().is_some_and(|code| races.contains(code) || *code == SqlState::INTERNAL_ERROR)
}

async fn step_forward(client: &Client) -> Result<Found, Failed> {
    let row = client.query_typed_one("SELECT version FROM tenure.schema FOR UPDATE", &[]).await?;
    let version = u32::try_from(row.get::<_, i32>(0)).unwrap_or(u32::MAX);
    check_version(version)?;
    if (1..known()).contains(&version) {
        // Batches that are under way end first. Those that come after find other tables, and if they know nothing of
        // them that they must not write there: each locks its heads before it looks at its place.
        client.batch_execute("LOCK TABLE tenure.collections IN ACCESS EXCLUSIVE MODE").await?;
        // Whoever reads long tables has that one, too, and was waited for: what is left is over soon, and to begin anew
        // may cost an hour.
        client.batch_execute(&format!("SET LOCAL lock_timeout = {MIGRATE_LOCK_MS}")).await?;
        tracing::info!(version, to = known(), "the tables are brought up to date; until then nodes wait");
    }
    for (version, step) in (1_u32..).zip(STEPS).skip(version as usize) {
        client.batch_execute(step).await?;
        let record = format!(
            "INSERT INTO tenure.migrations VALUES ({version}, now()); UPDATE tenure.schema SET version = {version}"
        );
        client.batch_execute(&record).await?;
    }
    if version < known() {
        client.batch_execute(STAMP_AGAIN).await?;
    }
    // Shared, so that whoever is about to mark it is waited for.
    client.batch_execute("SELECT FROM tenure.meta FOR SHARE").await?;
    Ok(found(client).await?)
}

/// Tables that a newer Tenure has changed are not for this one to write.
pub(super) fn check_version(found: u32) -> Result<(), Error> {
    let known = known();
    if found > known {
        return Err(Error::Newer { path: "the database".into(), found, known });
    }
    Ok(())
}

/// What it says now.
pub(super) async fn found(client: &Client) -> Result<Found, Error> {
    let sql = "SELECT epoch, greatest(high_water_ms, (SELECT coalesce(max(at_ms), 0) FROM tenure.collections), \
               (SELECT coalesce(max(at_ms), 0) FROM tenure.replies)), mark FROM tenure.meta";
    let row = client.query_typed_one(sql, &[]).await.map_err(|error| away(&error))?;
    Ok(Found { epoch: uint(row.get(0)), high_water_ms: row.get(1), mark: row.get(2) })
}
