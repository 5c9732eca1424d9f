//! The usual design: a table of items, a table of claims and a table of events in PostgreSQL, and for each
//! request one transaction that locks the rows of its items, looks, writes and commits.
//!
//! Nothing is held back from it: statements are prepared once for each connection, a claim's items are
//! locked, written and named with one statement each, and names sort as bytes. What people write more often
//! (a statement for each item, nothing prepared) is slower.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::scratch::connect;
use crate::{Dice, Measured, Result, micros, new_histogram};

const TABLES: &str = r#"
DROP SCHEMA IF EXISTS row_locks CASCADE;
CREATE SCHEMA row_locks;
CREATE TABLE row_locks.items (
    id text COLLATE "C" PRIMARY KEY,
    status text NOT NULL,
    version bigint NOT NULL,
    claim bigint,
    claimed_until timestamptz
) WITH (fillfactor = 80);
CREATE TABLE row_locks.claims (
    id bigserial PRIMARY KEY,
    holder text NOT NULL,
    items text[] NOT NULL,
    state text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX claims_of ON row_locks.claims (holder) WHERE state = 'active';
CREATE INDEX claims_due ON row_locks.claims (expires_at) WHERE state = 'active';
CREATE TABLE row_locks.events (
    seq bigserial PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL,
    action text NOT NULL,
    claim bigint NOT NULL,
    items text[] NOT NULL
);
"#;

/// How its statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Each after the answer to the one before it, as a program that uses a library does.
    OneByOne,
    /// As few times as it can be: the lock with the beginning, the writes with the end.
    Pipelined,
}

/// The tables, filled.
#[derive(Debug)]
pub struct RowLocks {
    pool: Arc<Pool>,
    items: u64,
}

/// Connections, each with its statements.
#[derive(Debug)]
struct Pool {
    free: Mutex<Vec<Connection>>,
    room: Semaphore,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    begin: Statement,
    commit: Statement,
    lock_items: Statement,
    put_claim: Statement,
    take_items: Statement,
    lock_claim: Statement,
    end_claim: Statement,
    free_items: Statement,
    put_event: Statement,
    sell_items: Statement,
}

/// How much is asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests under way.
    pub in_flight: usize,
    /// Items of a claim.
    pub per_claim: usize,
    /// For how long.
    pub time: Duration,
}

impl RowLocks {
    /// Makes the tables and the connections.
    pub async fn make(url: &str, items: u64, connections: usize) -> Result<Self> {
        let client = connect(url).await?;
        client.batch_execute(TABLES).await?;
        let fill = "INSERT INTO row_locks.items \
             SELECT 'item-' || lpad(n::text, 8, '0'), 'free', 1 FROM generate_series(0, $1::bigint - 1) n";
        client.execute(fill, &[&i64::try_from(items)?]).await?;
        client.batch_execute("VACUUM ANALYZE row_locks.items").await?;
        let mut free = Vec::new();
        for _ in 0..connections {
            free.push(Connection::open(url).await?);
        }
        let pool = Pool { free: Mutex::new(free), room: Semaphore::new(connections) };
        Ok(Self { pool: Arc::new(pool), items })
    }

    /// Callers that claim items of their own share and release them, again and again.
    pub async fn run(&self, load: Load, sent: Sent) -> Result<Measured> {
        let stop = Arc::new(AtomicBool::new(false));
        let share = self.items / load.in_flight as u64;
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for number in 0..load.in_flight as u64 {
            let (stop, pool) = (stop.clone(), self.pool.clone());
            tasks.spawn(async move {
                let (mut dice, mut latency) = (Dice::new(number + 1), new_histogram());
                let holder = format!("caller-{number}");
                while !stop.load(Ordering::Relaxed) {
                    let first = number * share + dice.below(share - load.per_claim as u64);
                    let ids: Vec<String> =
                        (first..first + load.per_claim as u64).map(|n| format!("item-{n:08}")).collect();
                    let asked = Instant::now();
                    let claim = pool.with(async |one| one.claim(&holder, &ids, sent).await).await?;
                    latency.saturating_record(micros(asked.elapsed()));
                    let asked = Instant::now();
                    pool.with(async |one| one.release(&holder, claim, sent).await).await?;
                    latency.saturating_record(micros(asked.elapsed()));
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latency)
            });
        }
        tokio::time::sleep(load.time).await;
        stop.store(true, Ordering::Relaxed);
        let mut latency = new_histogram();
        while let Some(ended) = tasks.join_next().await {
            latency.add(&ended??)?;
        }
        // To the last answer, as Tenure's callers are measured.
        let (commands, elapsed) = (latency.len(), started.elapsed());
        Ok(Measured { commands, elapsed, latency })
    }
}

impl Pool {
    /// A request waits for a connection as it would in any program with a pool.
    async fn with<T>(&self, work: impl AsyncFnOnce(&Connection) -> Result<T>) -> Result<T> {
        let _place = self.room.acquire().await?;
        let connection = self.free.lock().await.pop().ok_or("fewer connections than places")?;
        let done = work(&connection).await;
        self.free.lock().await.push(connection);
        done
    }
}

/// A statement's parameters.
type Values<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

impl Connection {
    async fn open(url: &str) -> Result<Self> {
        let client = connect(url).await?;
        // What is acknowledged is on disk: the same durability as Tenure's, whatever the server is set to.
        client.batch_execute("SET synchronous_commit = on").await?;
        let prepare = async |sql| client.prepare(sql).await;
        Ok(Self {
            begin: prepare("BEGIN").await?,
            commit: prepare("COMMIT").await?,
            lock_items: prepare(
                "SELECT id, status, claim, claimed_until > clock_timestamp() FROM row_locks.items \
                 WHERE id = ANY($1) ORDER BY id FOR UPDATE",
            )
            .await?,
            put_claim: prepare(
                "INSERT INTO row_locks.claims (holder, items, state, expires_at) \
                 VALUES ($1, $2, 'active', clock_timestamp() + interval '1 minute') RETURNING id",
            )
            .await?,
            take_items: prepare(
                "UPDATE row_locks.items SET claim = currval('row_locks.claims_id_seq'), version = version + 1, \
                 claimed_until = clock_timestamp() + interval '1 minute' WHERE id = ANY($1)",
            )
            .await?,
            // Held by nobody: whoever claims rows is measured over the same ones.
            sell_items: prepare(
                "UPDATE row_locks.items SET status = 'sold', claim = currval('row_locks.claims_id_seq'), \
                 version = version + 1 WHERE id = ANY($1)",
            )
            .await?,
            lock_claim: prepare(
                "SELECT holder, state, expires_at > clock_timestamp() FROM row_locks.claims WHERE id = $1 FOR UPDATE",
            )
            .await?,
            end_claim: prepare("UPDATE row_locks.claims SET state = 'released' WHERE id = $1").await?,
            free_items: prepare(
                "UPDATE row_locks.items SET claim = NULL, claimed_until = NULL, version = version + 1 \
                 WHERE id = ANY((SELECT items FROM row_locks.claims WHERE id = $1)::text[]) AND claim = $1",
            )
            .await?,
            // In a sub-select, or each would be compared with a function that may change, by reading the whole table.
            put_event: prepare(
                "INSERT INTO row_locks.events (actor, action, claim, items) \
                 SELECT $1, $2, id, items FROM row_locks.claims \
                 WHERE id = (SELECT coalesce($3, currval('row_locks.claims_id_seq')))",
            )
            .await?,
            client,
        })
    }

    /// Locks, looks, writes, commits.
    async fn claim(&self, holder: &str, ids: &[String], sent: Sent) -> Result<i64> {
        let client = &self.client;
        let (of_items, of_claim, no_claim): (Values<'_, 1>, Values<'_, 2>, Option<i64>) =
            ([&ids], [&holder, &ids], None);
        let of_event: Values<'_, 3> = [&holder, &"claimed", &no_claim];
        let rows = match sent {
            Sent::OneByOne => {
                client.execute(&self.begin, &[]).await?;
                client.query(&self.lock_items, &of_items).await?
            }
            Sent::Pipelined => {
                let (begun, rows) =
                    tokio::join!(client.execute(&self.begin, &[]), client.query(&self.lock_items, &of_items));
                begun?;
                rows?
            }
        };
        if rows.len() != ids.len() || rows.iter().any(|row| row.get::<_, Option<bool>>(3) == Some(true)) {
            return Err("an item of the usual design is held or missing".into());
        }
        let claim = match sent {
            Sent::OneByOne => {
                let claim = client.query_one(&self.put_claim, &of_claim).await?.get(0);
                client.execute(&self.take_items, &of_items).await?;
                client.execute(&self.put_event, &of_event).await?;
                client.execute(&self.commit, &[]).await?;
                claim
            }
            Sent::Pipelined => {
                let (claim, taken, told, committed) = tokio::join!(
                    client.query_one(&self.put_claim, &of_claim),
                    client.execute(&self.take_items, &of_items),
                    client.execute(&self.put_event, &of_event),
                    client.execute(&self.commit, &[]),
                );
                taken?;
                told?;
                committed?;
                claim?.get(0)
            }
        };
        Ok(claim)
    }

    async fn release(&self, holder: &str, claim: i64, sent: Sent) -> Result {
        let client = &self.client;
        let (by_claim, some_claim): (Values<'_, 1>, _) = ([&claim], Some(claim));
        let of_event: Values<'_, 3> = [&holder, &"released", &some_claim];
        let row = match sent {
            Sent::OneByOne => {
                client.execute(&self.begin, &[]).await?;
                client.query_one(&self.lock_claim, &by_claim).await?
            }
            Sent::Pipelined => {
                let (begun, row) = tokio::join!(
                    client.execute(&self.begin, &[]),
                    client.query_one(&self.lock_claim, &by_claim)
                );
                begun?;
                row?
            }
        };
        if row.get::<_, &str>(0) != holder || row.get::<_, &str>(1) != "active" || !row.get::<_, bool>(2) {
            return Err("a claim of the usual design is lost".into());
        }
        match sent {
            Sent::OneByOne => {
                client.execute(&self.end_claim, &by_claim).await?;
                client.execute(&self.free_items, &by_claim).await?;
                client.execute(&self.put_event, &of_event).await?;
                client.execute(&self.commit, &[]).await?;
            }
            Sent::Pipelined => {
                let (ended, freed, told, committed) = tokio::join!(
                    client.execute(&self.end_claim, &by_claim),
                    client.execute(&self.free_items, &by_claim),
                    client.execute(&self.put_event, &of_event),
                    client.execute(&self.commit, &[]),
                );
                ended?;
                freed?;
                told?;
                committed?;
            }
        }
        Ok(())
    }
}

/// What the classic ticketing stack does in PostgreSQL, once its locks in Redis are had: one transaction that
/// locks the rows, writes them and the sale, and commits.
#[derive(Debug)]
pub struct Seller(Connection);

impl Seller {
    /// Over tables that [`RowLocks::make`] has filled.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self(Connection::open(url).await?))
    }

    /// Sells so many items, from this one on. That they were sold before is no matter: the locks decide.
    pub async fn sell(&self, holder: &str, first: u64, count: u64) -> Result {
        let Connection { client, .. } = &self.0;
        let ids: Vec<String> = (first..first + count).map(|n| format!("item-{n:08}")).collect();
        client.execute(&self.0.begin, &[]).await?;
        client.query(&self.0.lock_items, &[&ids]).await?;
        client.query_one(&self.0.put_claim, &[&holder, &ids]).await?;
        client.execute(&self.0.sell_items, &[&ids]).await?;
        client.execute(&self.0.put_event, &[&holder, &"sold", &None::<i64>]).await?;
        client.execute(&self.0.commit, &[]).await?;
        Ok(())
    }
}
