//! The readers' face: what is committed, over connections of their own, in transactions that only read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Sealed, Status};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Client, Row};

use super::Shared;
use super::connect::{Link, failure, is_ending};
use super::load::policy;
use super::pipeline::Pipeline;
use super::rows::{decode, head, int, items_text, page, sealed, state_code, uint};
use super::session::PLAINLY;
use crate::limits::{EVENT_PAGE_BYTES, READER_WAIT_MS, READERS_WAITING_MAX};
use crate::read::{Heard, Hints, Pulse, follows};
use crate::{
    AuditFilter, ClaimFilter, ClaimRow, Error, EventPage, HeldItem, ItemFilter, Page, Reader, Snapshot, Stats,
};

/// Connections that readers take turns with.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Vec<Client>>,
    room: Semaphore,
    /// How many wait for room.
    waiting: AtomicUsize,
    /// The operator's figures, and when they were read.
    stats: Mutex<Option<(Instant, Stats)>>,
    /// Locked by whoever counts them anew.
    counting: Mutex<()>,
}

impl Pool {
    pub(super) fn new(connections: usize) -> Self {
        let room = Semaphore::new(connections.max(1));
        let (idle, stats, counting) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { idle, room, waiting: AtomicUsize::new(0), stats, counting }
    }

    /// Room for one more, soon or not at all: whoever waits keeps a thread of the server waiting.
    async fn room(&self) -> Result<SemaphorePermit<'_>, Error> {
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let away = |detail: &str| Error::Away { detail: detail.to_owned() };
        if let Ok(room) = self.room.try_acquire() {
            return Ok(room);
        }
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waits = Waits(&self.waiting);
        if before >= READERS_WAITING_MAX {
            return Err(away("too many wait to read"));
        }
        let room = tokio::time::timeout(Duration::from_millis(READER_WAIT_MS), self.room.acquire()).await;
        room.map_err(|_| away("others read for too long"))?.map_err(|_| away("it is being closed"))
    }
}

/// Everybody's way to what is committed.
#[derive(Debug)]
pub(super) struct PostgresReader {
    shared: Arc<Shared>,
    /// The engine's own, with its own connection.
    follows: bool,
    /// See [`Reader::by`].
    until: Option<Instant>,
}

/// A statement and its parameters.
pub(super) struct Query<'a> {
    pub(super) sql: &'a str,
    pub(super) parameters: Vec<(&'a (dyn ToSql + Sync), Type)>,
}

impl PostgresReader {
    pub(super) fn new(shared: Arc<Shared>, follows: bool) -> Self {
        Self { shared, follows, until: None }
    }

    fn pool(&self) -> &Pool {
        if self.follows { &self.shared.follower } else { &self.shared.reader }
    }

    fn one(&self, sql: &str, parameters: Vec<(&(dyn ToSql + Sync), Type)>) -> Result<Vec<Row>, Error> {
        Ok(self.read(&[Query { sql, parameters }])?.pop().unwrap_or_default())
    }

    /// The items of a page, and one more if there is; `whole` makes a statement of the one that finds them.
    fn list(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
        whole: impl Fn(&str) -> String,
    ) -> Result<Vec<Row>, Error> {
        let (key, after, more) =
            (key.as_str(), filter.after.as_ref().map_or("", ItemId::as_str), page(limit) + 1);
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> =
            vec![(&key, Type::TEXT), (&after, Type::TEXT), (&more, Type::INT8)];
        let mut conditions = vec!["i.collection = $1 AND i.id > $2".to_owned()];
        let mut join = String::new();
        let status = filter.status.as_ref().map(Status::as_str);
        if let Some(status) = &status {
            parameters.push((status, Type::TEXT));
            conditions.push(format!("i.status = ${}", parameters.len()));
        }
        if let Some((held, now_ms)) = &filter.held {
            parameters.push((now_ms, Type::INT8));
            join = format!(
                "LEFT JOIN tenure.claims c ON c.collection = i.collection AND c.number = i.claim \
                 AND c.state = 0 AND c.expires_at_ms > ${}",
                parameters.len()
            );
            conditions.push(format!("c.number IS {}NULL", if *held { "NOT " } else { "" }));
        }
        let conditions = conditions.join(" AND ");
        let page = format!("{SELECT_ITEMS} {join} WHERE {conditions} ORDER BY i.id LIMIT $3");
        self.one(&whole(&page), parameters)
    }

    /// Answers all of these as of one moment, and in the time that there is.
    fn read(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        self.shared.read_by(self.pool(), self.until, queries)
    }
}

impl Shared {
    /// Answers all of these as of one moment.
    pub(super) fn read(&self, pool: &Pool, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        self.read_by(pool, None, queries)
    }

    /// The same, and by this time or not at all.
    fn read_by(
        &self,
        pool: &Pool,
        until: Option<Instant>,
        queries: &[Query<'_>],
    ) -> Result<Vec<Vec<Row>>, Error> {
        let read = self.read_soon(pool, queries);
        let Some(until) = until else { return self.link.wait(read) };
        self.link.wait(async { tokio::time::timeout_at(until.into(), read).await }).unwrap_or_else(|_| {
            // What was connected before may be just as silent, and each would be found out by somebody who waits for it.
            self.reader.idle.lock().clear();
            Err(Error::Away { detail: "it did not answer in time".to_owned() })
        })
    }

    async fn read_soon(&self, pool: &Pool, queries: &[Query<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        let link = &self.link;
        let _room = pool.room().await?;
        // A connection may have broken since somebody used it; reading twice does no harm.
        loop {
            let idle = pool.idle.lock().pop();
            let fresh = idle.is_none();
            let client = match idle {
                Some(client) if client.is_closed() => continue,
                Some(client) => client,
                None => link.connect().await?,
            };
            let mut asked = Asked { link, token: Some(client.cancel_token()) };
            let answers = link.in_time(ask(&client, link.options.statement_ms, queries)).await?;
            asked.token = None;
            match answers {
                Ok(answers) => {
                    pool.idle.lock().push(client);
                    return Ok(answers);
                }
                // It has ended, or the server says that it does: its end may be a moment behind its words.
                Err(error) if !fresh && (client.is_closed() || is_ending(&error)) => drop(error),
                Err(error) => return Err(failure(&error)),
            }
        }
    }
}

/// What was asked. Where nobody waits for the answer any more the server need not look for it either: with each look that
/// is given up one more would read there.
struct Asked<'a> {
    link: &'a Link,
    token: Option<CancelToken>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.link.cancel(token);
        }
    }
}

async fn ask(
    client: &Client,
    statement_ms: u64,
    queries: &[Query<'_>],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let level = if queries.len() > 1 { "REPEATABLE READ" } else { "READ COMMITTED" };
    let begin = format!(
        "BEGIN ISOLATION LEVEL {level} READ ONLY; SET LOCAL statement_timeout = {statement_ms}; {PLAINLY}"
    );
    let mut pipeline = Pipeline::new(client);
    pipeline.plain(&begin);
    for query in queries {
        pipeline.listed(query.sql, &query.parameters);
    }
    pipeline.plain("COMMIT");
    let mut answers = pipeline.run().await?;
    answers.pop();
    answers.remove(0);
    Ok(answers)
}

impl Reader for PostgresReader {
    fn epoch(&self) -> u64 {
        self.shared.epoch()
    }

    fn ready(&self) -> Result<(), Error> {
        // Of a table that every decision reads, and that nobody lists.
        let query = Query { sql: "SELECT epoch FROM tenure.meta", parameters: Vec::new() };
        self.shared.read(&self.shared.readiness, &[query]).map(drop)
    }

    fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Error> {
        let rows = self.one("SELECT body FROM tenure.policies WHERE kind = $1", vec![(&kind, Type::TEXT)])?;
        rows.first().map(|row| policy(row.get(0))).transpose()
    }

    fn collection(&self, key: &CollectionKey) -> Result<Option<Arc<Collection>>, Error> {
        let sql = "SELECT seq, hash, created_at_ms FROM tenure.collections WHERE collection = $1";
        let rows = self.one(sql, vec![(&key.as_str(), Type::TEXT)])?;
        let found = rows.first().map(|row| head(row, 0)).transpose()?;
        Ok(found.flatten().map(Arc::new))
    }

    fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Result<Page<(CollectionKey, Arc<Collection>)>, Error> {
        let sql = "SELECT seq, hash, created_at_ms, collection FROM tenure.collections \
                   WHERE collection > $1 AND seq > 0 ORDER BY collection LIMIT $2";
        let (after, more) = (after.map_or("", CollectionKey::as_str), page(limit) + 1);
        let rows = self.one(sql, vec![(&after, Type::TEXT), (&more, Type::INT8)])?;
        cut(&rows, limit, |row| {
            let found = head(row, 0)?.ok_or_else(|| super::rows::damaged("a head"))?;
            Ok((key_of(row.get(3))?, Arc::new(found)))
        })
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<Arc<Item>>, Error> {
        let sql = "SELECT body FROM tenure.items WHERE collection = $1 AND id = $2";
        let rows = self.one(sql, vec![(&key.as_str(), Type::TEXT), (&id.as_str(), Type::TEXT)])?;
        rows.first().map(|row| decode(row.get(0), "an item").map(Arc::new)).transpose()
    }

    fn items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<Arc<Item>>, Error> {
        let rows = self.list(key, filter, limit, str::to_owned)?;
        cut(&rows, limit, |row| decode(row.get(0), "an item").map(Arc::new))
    }

    fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<HeldItem>, Error> {
        let sql = with_claims(&format!("{SELECT_ITEMS} WHERE i.collection = $1 AND i.id = $2"));
        let rows = self.one(&sql, vec![(&key.as_str(), Type::TEXT), (&id.as_str(), Type::TEXT)])?;
        rows.first().map(held).transpose()
    }

    fn held_items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<HeldItem>, Error> {
        let rows = self.list(key, filter, limit, with_claims)?;
        cut(&rows, limit, held)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Result<Option<Arc<Claim>>, Error> {
        let sql = "SELECT body FROM tenure.claims WHERE collection = $1 AND number = $2";
        let rows = self.one(sql, vec![(&key.as_str(), Type::TEXT), (&int(number), Type::INT8)])?;
        rows.first().map(|row| decode(row.get(0), "a claim").map(Arc::new)).transpose()
    }

    fn claims(&self, filter: &ClaimFilter, limit: usize) -> Result<Page<ClaimRow>, Error> {
        let more = page(limit) + 1;
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&more, Type::INT8)];
        let mut conditions = Vec::new();
        let collection = filter.collection.as_ref().map(CollectionKey::as_str);
        if let Some(collection) = &collection {
            parameters.push((collection, Type::TEXT));
            conditions.push(format!("collection = ${}", parameters.len()));
        }
        let holder = filter.holder.as_deref();
        if let Some(holder) = &holder {
            parameters.push((holder, Type::TEXT));
            conditions.push(format!("holder = ${}", parameters.len()));
        }
        if let Some(state) = filter.state {
            // As a literal: the planner must see that it is the partial indexes' own.
            conditions.push(format!("state = {}", state_code(state)));
        }
        let after = filter.after.as_ref().map(|(key, number)| (key.as_str(), int(*number)));
        if let Some((key, number)) = &after {
            parameters.push((key, Type::TEXT));
            parameters.push((number, Type::INT8));
            let count = parameters.len();
            conditions.push(format!("(collection, number) > (${}, ${count})", count - 1));
        }
        let sql = if holder.is_some() && filter.state.is_none() {
            // What holds and what has ended have an index each.
            let halves = ["state = 0", "state <> 0"].map(|half| {
                conditions.push(half.to_owned());
                let select = select_claims(&conditions);
                conditions.pop();
                format!("({select})")
            });
            let halves = halves.join(" UNION ALL ");
            format!("SELECT * FROM ({halves}) AS claims ORDER BY collection, number LIMIT $1")
        } else {
            select_claims(&conditions)
        };
        let rows = self.one(&sql, parameters)?;
        cut(&rows, limit, |row| {
            let claim = Arc::new(decode(row.get(1), "a claim")?);
            Ok(ClaimRow { collection: key_of(row.get(0))?, claim })
        })
    }

    fn events(&self, key: &CollectionKey, since: u64, limit: usize) -> Result<EventPage, Error> {
        // Up to the event with which the page is full: its length is known without reading it.
        let sql = "SELECT bytes, hash FROM (SELECT bytes, hash, seq, sum(length(bytes)) OVER (ORDER BY seq) AS total \
                   FROM (SELECT bytes, hash, seq FROM tenure.events WHERE collection = $1 AND seq > $2 \
                   ORDER BY seq LIMIT $3) AS page) AS page WHERE total - length(bytes) < $4 ORDER BY seq";
        let (name, after, most) = (key.as_str(), int(since), page(limit));
        let full = page(EVENT_PAGE_BYTES);
        let rows = self.one(
            sql,
            vec![(&name, Type::TEXT), (&after, Type::INT8), (&most, Type::INT8), (&full, Type::INT8)],
        )?;
        let events: Vec<Arc<Sealed>> =
            rows.iter().map(|row| sealed(row, 0).map(Arc::new)).collect::<Result<_, Error>>()?;
        if events.first().is_some_and(|first| follows(&first.event, since)) {
            return Ok(EventPage::Events(events));
        }
        let sql =
            "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM tenure.events WHERE collection = $1";
        let rows = self.one(sql, vec![(&name, Type::TEXT)])?;
        let (first, last) = rows.first().map_or((0, 0), |row| (uint(row.get(0)), uint(row.get(1))));
        if events.is_empty() && since <= last {
            return Ok(EventPage::Events(events));
        }
        Ok(EventPage::Resync { first, last })
    }

    fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Page<(CollectionKey, Arc<Sealed>)>, Error> {
        let more = page(limit) + 1;
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = vec![(&more, Type::INT8)];
        let mut conditions = vec!["true".to_owned()];
        let texts = [
            ("actor =", filter.actor.as_deref()),
            ("action =", filter.action.as_deref()),
            ("collection =", filter.collection.as_ref().map(CollectionKey::as_str)),
        ];
        for (name, value) in &texts {
            if let Some(value) = value {
                parameters.push((value, Type::TEXT));
                conditions.push(format!("{name} ${}", parameters.len()));
            }
        }
        let item = filter.item.as_ref().map(|item| items_text([item.as_str()]));
        if let Some(item) = &item {
            parameters.push((item, Type::TEXT));
            conditions.push(format!("strpos(items, ${}) > 0", parameters.len()));
        }
        for (name, value) in [("at_ms >=", &filter.from_ms), ("at_ms <", &filter.to_ms)] {
            if let Some(value) = value {
                parameters.push((value, Type::INT8));
                conditions.push(format!("{name} ${}", parameters.len()));
            }
        }
        let before = filter.before.as_ref().map(|(at_ms, key, seq)| (at_ms, key.as_str(), int(*seq)));
        if let Some((at_ms, key, seq)) = &before {
            parameters.push((*at_ms, Type::INT8));
            parameters.push((key, Type::TEXT));
            parameters.push((seq, Type::INT8));
            let count = parameters.len();
            let row = format!("(at_ms, collection, seq) < (${}, ${}, ${count})", count - 2, count - 1);
            conditions.push(row);
        }
        // In one collection the numbers have the order of the times.
        let order = match filter.collection {
            Some(_) => "seq DESC",
            None => "at_ms DESC, collection DESC, seq DESC",
        };
        let sql = format!(
            "SELECT bytes, hash, collection FROM tenure.events WHERE {} ORDER BY {order} LIMIT $1",
            conditions.join(" AND ")
        );
        let rows = self.one(&sql, parameters)?;
        cut(&rows, limit, |row| Ok((key_of(row.get(2))?, Arc::new(sealed(row, 0)?))))
    }

    fn snapshot(&self, key: &CollectionKey) -> Result<Option<Snapshot>, Error> {
        let name = key.as_str();
        let of = |sql| Query { sql, parameters: vec![(&name as &(dyn ToSql + Sync), Type::TEXT)] };
        let answers = self.read(&[
            of("SELECT seq, hash, created_at_ms FROM tenure.collections WHERE collection = $1"),
            of("SELECT body FROM tenure.items WHERE collection = $1 ORDER BY id"),
            of("SELECT body FROM tenure.claims WHERE collection = $1 AND state = 0 ORDER BY number"),
        ])?;
        let [heads, items, claims] = &answers[..] else { unreachable!("three statements were sent") };
        let Some(head) = heads.first().map(|row| head(row, 0)).transpose()?.flatten() else {
            return Ok(None);
        };
        let items = items.iter().map(|row| decode(row.get(0), "an item").map(Arc::new));
        let claims = claims.iter().map(|row| decode(row.get(0), "a claim").map(Arc::new));
        Ok(Some(Snapshot {
            epoch: self.shared.epoch(),
            head: Arc::new(head),
            items: items.collect::<Result<_, Error>>()?,
            claims: claims.collect::<Result<_, Error>>()?,
        }))
    }

    fn stats(&self) -> Stats {
        let fresh = Duration::from_millis(self.shared.link.options.stats_ms);
        let pool = &self.shared.reader;
        let known = pool.stats.lock().clone();
        if let Some((at, stats)) = &known
            && at.elapsed() < fresh
        {
            return stats.clone();
        }
        // One counts; whoever comes meanwhile has the last figures, and keeps no thread waiting.
        let known = known.map(|(_, stats)| stats).unwrap_or_default();
        let Some(_counting) = pool.counting.try_lock() else { return known };
        let sql = "SELECT (SELECT count(*) FROM tenure.collections WHERE seq > 0), \
                   (SELECT count(*) FROM tenure.items), (SELECT count(*) FROM tenure.claims WHERE state = 0)";
        // Figures that cannot be read now are the last that could, for as long as any: what took too long once
        // would do so again.
        let rows = self.one(sql, Vec::new()).unwrap_or_default();
        let stats = match rows.first() {
            Some(row) => Stats {
                collections: uint(row.get(0)),
                items: uint(row.get(1)),
                active_claims: uint(row.get(2)),
                ..Stats::default()
            },
            None => known,
        };
        *pool.stats.lock() = Some((Instant::now(), stats.clone()));
        stats
    }

    fn hints(&self, heard: Heard) -> Option<Arc<dyn Hints>> {
        super::hints::start(&self.shared, heard).ok()
    }

    fn by(&self, until: Instant) -> Option<Arc<dyn Reader>> {
        Some(Arc::new(Self { shared: self.shared.clone(), follows: self.follows, until: Some(until) }))
    }

    fn pulse(&self, watched: &[CollectionKey], ahead_ms: i64, limit: usize) -> Result<Pulse, Error> {
        super::due::pulse(&self.shared, |queries| self.read(queries), watched, ahead_ms, limit)
    }
}

pub(super) fn key_of(text: &str) -> Result<CollectionKey, Error> {
    CollectionKey::new(text).map_err(|_| super::rows::damaged("a collection's name"))
}

/// What is read of an item: its claim's number only to look that up.
pub(super) const SELECT_ITEMS: &str = "SELECT i.body, i.id, i.claim FROM tenure.items i";

/// The same items, each with its claim if that is active: one statement sees one moment. Each claim is looked up by its
/// number: with what is asked behind the OFFSET the database can choose no other way, such as all claims that are active.
pub(super) fn with_claims(items: &str) -> String {
    format!(
        "WITH page AS MATERIALIZED ({items}) SELECT page.body, held.body FROM page LEFT JOIN LATERAL \
         (SELECT c.body, c.state FROM tenure.claims c WHERE c.collection = $1 AND c.number = page.claim OFFSET 0) held \
         ON held.state = 0 ORDER BY page.id"
    )
}

fn held(row: &Row) -> Result<HeldItem, Error> {
    let item = Arc::new(decode(row.get(0), "an item")?);
    let claim = row.get::<_, Option<_>>(1).map(|body| decode(body, "a claim").map(Arc::new)).transpose()?;
    Ok(HeldItem { item, claim })
}

/// The claims of these conditions, a page of them.
fn select_claims(conditions: &[String]) -> String {
    let conditions =
        if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    format!(
        "SELECT collection, body, number FROM tenure.claims {conditions} ORDER BY collection, number LIMIT $1"
    )
}

/// One row more than a page has was asked for.
fn cut<T>(rows: &[Row], limit: usize, read: impl Fn(&Row) -> Result<T, Error>) -> Result<Page<T>, Error> {
    let more = rows.len() > limit;
    Ok(Page { rows: rows.iter().take(limit).map(read).collect::<Result<_, Error>>()?, more })
}
