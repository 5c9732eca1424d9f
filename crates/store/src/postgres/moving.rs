//! A database as one end of a move. While one is read, nobody can write to it; while one is made, nobody can
//! serve it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Claim, Collection, CollectionKey, Hash, Item, ItemId, Sealed, Text};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::columns::{Columns, Was};
use super::connect::{Link, failure};
use super::load::{lock, policy};
use super::pipeline::Pipeline;
use super::reader::key_of;
use super::rows::{damaged, decode, head, int, items_text, page, sealed, state_code, uint};
use super::{Options, history, schema};
use crate::check::Bounds;
use crate::limits::{NODES_GONE_MS, RESOLVE_PAUSE_MS};
use crate::moving::{
    About, Identity, Mark, PAGE_ROWS, Part, Policies, Source, Target, VisitReplies, refusal,
};
use crate::{Error, ReplyKey};

/// Events in a page: one may hold a hundred documents.
const PAGE_EVENTS: usize = 200;

/// Nodes over this database, and other moves.
const NODES: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
     AND application_name IN ('tenure', 'tenure migrate') AND pid <> pg_backend_pid()";
/// Everyone who writes locks heads first, so this keeps writers out and readers in. Without a limit of time:
/// a large installation takes hours.
const BEGIN_SOURCE: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL statement_timeout = 0; \
     SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE tenure.collections IN EXCLUSIVE MODE NOWAIT";
const BEGIN_LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0; \
     SET LOCAL idle_in_transaction_session_timeout = 0";
/// Only the last commit waits for the disk, which has all before it by then.
const BEGIN_PART: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
     SET LOCAL synchronous_commit = off";
const BEGIN_MARK: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'; \
     LOCK TABLE tenure.collections IN EXCLUSIVE MODE NOWAIT";
/// A node that works on in spite of everything cannot write: no row of this table passes any more.
const SHUT: &str = "ALTER TABLE tenure.collections ADD CONSTRAINT moved_away CHECK (false) NOT VALID; COMMIT";
const TABLES: [&str; 6] = ["collections", "items", "claims", "events", "replies", "policies"];

/// A connection of its own.
struct Session {
    link: Arc<Link>,
    client: Client,
}

type Parameters<'a> = [(&'a (dyn ToSql + Sync), Type)];

impl Session {
    fn connect(link: Arc<Link>) -> Result<Self, Error> {
        let client = link.wait(link.connect())?;
        let session = Self { link, client };
        // Not to be taken for a node.
        session.run("SET application_name = 'tenure migrate'")?;
        Ok(session)
    }

    fn wait<T>(&self, asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
        self.link.wait(asked).map_err(|error| {
            if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
                return Error::Owned { path: self.link.label().into() };
            }
            failure(&error)
        })
    }

    fn run(&self, sql: &str) -> Result<(), Error> {
        self.wait(self.client.batch_execute(sql))
    }

    fn rows(&self, sql: &str, parameters: &Parameters<'_>) -> Result<Vec<Row>, Error> {
        self.wait(self.client.query_typed(sql, parameters))
    }

    fn set(&self, sql: &str, parameters: &Parameters<'_>) -> Result<(), Error> {
        self.wait(self.client.execute_typed(sql, parameters)).map(drop)
    }

    /// Waits a moment for nodes that were just stopped, and refuses those that were not.
    fn refuse_nodes(&self) -> Result<(), Error> {
        let until = Instant::now() + Duration::from_millis(NODES_GONE_MS);
        while self.rows(NODES, &[])?.first().is_some_and(|row| row.get::<_, i64>(0) > 0) {
            if Instant::now() >= until {
                return Err(Error::Owned { path: self.link.label().into() });
            }
            std::thread::sleep(Duration::from_millis(RESOLVE_PAUSE_MS));
        }
        Ok(())
    }

    /// Where the data is, if the database tells. Asked outside of a transaction, which would fail with it.
    fn here(&self) -> Result<Option<String>, Error> {
        self.link.wait(history::here(&self.link, &self.client))
    }

    /// Data that was restored, or that a standby took over with, may lack what was confirmed: whoever serves it begins an
    /// epoch first. A move takes the epoch along as it is, and nobody could tell after it.
    fn refuse_other_history(&self, here: Option<&str>) -> Result<(), Error> {
        let Some(here) = here else { return Ok(()) };
        let is_of = self.rows(history::IS_OF, &[(&here, Type::TEXT)])?;
        if is_of.first().is_none_or(|row| row.get(0)) {
            return Ok(());
        }
        let detail = format!(
            "{} was restored or promoted since it was last served: start a node on it once, so that it begins a new \
             epoch and gives no token out twice, stop that node, and move then",
            self.link.label()
        );
        Err(Error::Unsupported { detail })
    }

    /// Its own name and its mark; locked until the transaction ends where that is wanted.
    fn meta(&self, lock: &str) -> Result<(String, Option<Mark>), Error> {
        let rows = self.rows(&format!("SELECT store::text, mark FROM tenure.meta {lock}"), &[])?;
        let row = rows.first().ok_or_else(|| damaged("its own row"))?;
        let unreadable = || refusal(self.link.label(), None);
        let mark = row.get::<_, Option<&str>>(1);
        let mark = mark.map(|text| Mark::decode(text).ok_or_else(unreadable)).transpose()?;
        Ok((row.get(0), mark))
    }
}

/// A database that is read.
pub(crate) struct DatabaseSource {
    session: Session,
    about: About,
    heads: Vec<(CollectionKey, Arc<Collection>)>,
}

impl DatabaseSource {
    pub(crate) fn open(url: &str) -> Result<Self, Error> {
        let session = Session::connect(Arc::new(Link::new(url, &Options::default())?))?;
        let there = session.rows("SELECT to_regclass('tenure.meta') IS NOT NULL", &[])?;
        if !there.first().is_some_and(|row| row.get(0)) {
            let detail = format!("{} holds no installation of Tenure", session.link.label());
            return Err(Error::Unsupported { detail });
        }
        session.refuse_nodes()?;
        session.link.wait(schema::migrate(&session.client, &session.link))?;
        let here = session.here()?;
        session.run(BEGIN_SOURCE)?;
        // A node that starts now waits here, and finds the mark.
        let (id, mark) = session.meta("FOR UPDATE")?;
        if mark.is_none() {
            session.refuse_other_history(here.as_deref())?;
        }
        Self::read(session, id, mark)
    }

    /// The same, of a database that is marked anyway.
    fn look(link: Arc<Link>) -> Result<Self, Error> {
        let session = Session::connect(link)?;
        session.run(BEGIN_LOOK)?;
        let (id, mark) = session.meta("")?;
        Self::read(session, id, mark)
    }

    fn read(session: Session, id: String, mark: Option<Mark>) -> Result<Self, Error> {
        let found = session.link.wait(schema::found(&session.client))?;
        let sql = "SELECT seq, hash, created_at_ms, collection, at_ms FROM tenure.collections \
                   WHERE seq > 0 ORDER BY collection";
        let mut version = Hash::default();
        let mut heads = Vec::new();
        for row in session.rows(sql, &[])? {
            let (key, at_ms): (&str, i64) = (row.get(3), row.get(4));
            let head = head(&row, 0)?.ok_or_else(|| damaged("a head"))?;
            let said = format!("{key}\n{}\n{}\n{at_ms}", head.seq, head.hash);
            version = tenure_core::chain::link(&version, said.as_bytes());
            heads.push((key_of(key)?, Arc::new(head)));
        }
        let sql = "SELECT (SELECT count(*) FROM tenure.items) + (SELECT count(*) FROM tenure.events), \
                   (SELECT count(*) FROM tenure.replies)";
        let rows = session.rows(sql, &[])?;
        let (size, replies) = rows.first().map_or((0, 0), |row| (uint(row.get(0)), uint(row.get(1))));
        // Heartbeats and replies change no head, but its time or their number.
        let version = format!("{version}-{}-{replies}", found.high_water_ms);
        let about = About {
            identity: Identity { id, version },
            bounds: Bounds { high_water_ms: found.high_water_ms, epoch: found.epoch },
            label: session.link.label().to_owned(),
            mark,
            keeps_ended: true,
            size: size + replies,
        };
        Ok(Self { session, about, heads })
    }
}

impl Source for DatabaseSource {
    fn about(&self) -> &About {
        &self.about
    }

    fn heads(&mut self) -> Result<Vec<(CollectionKey, Arc<Collection>)>, Error> {
        Ok(self.heads.clone())
    }

    fn policies(&mut self) -> Result<Policies, Error> {
        let rows = self.session.rows("SELECT kind, body FROM tenure.policies ORDER BY kind", &[])?;
        rows.iter().map(|row| Ok((Text::from(row.get::<_, &str>(0)), policy(row.get(1))?))).collect()
    }

    fn items(&mut self, key: &CollectionKey, after: Option<&ItemId>) -> Result<Vec<Arc<Item>>, Error> {
        let sql = "SELECT body, id, status, claim FROM tenure.items WHERE collection = $1 AND id > $2 \
                   ORDER BY id LIMIT $3";
        let (key, after, most) = (key.as_str(), after.map_or("", ItemId::as_str), page(PAGE_ROWS));
        let rows =
            self.session.rows(sql, &[(&key, Type::TEXT), (&after, Type::TEXT), (&most, Type::INT8)])?;
        let item = |row: &Row| {
            let item: Item = decode(row.get(0), "an item")?;
            // What stands beside a row is what it is searched by.
            let beside = (row.get::<_, &str>(1), row.get::<_, &str>(2), row.get::<_, i64>(3));
            if beside != (item.id.as_str(), item.status.as_str(), int(item.claim)) {
                return Err(damaged(&format!("what is searched for of item {} in {key}", item.id)));
            }
            Ok(Arc::new(item))
        };
        rows.iter().map(item).collect()
    }

    fn claims(&mut self, key: &CollectionKey, after: u64) -> Result<Vec<Arc<Claim>>, Error> {
        let sql = "SELECT body, number, holder, state, expires_at_ms FROM tenure.claims \
                   WHERE collection = $1 AND number > $2 ORDER BY number LIMIT $3";
        let (key, after, most) = (key.as_str(), int(after), page(PAGE_ROWS));
        let rows =
            self.session.rows(sql, &[(&key, Type::TEXT), (&after, Type::INT8), (&most, Type::INT8)])?;
        let claim = |row: &Row| {
            let claim: Claim = decode(row.get(0), "a claim")?;
            let beside =
                (row.get::<_, i64>(1), row.get::<_, &str>(2), row.get::<_, i16>(3), row.get::<_, i64>(4));
            let state = state_code(claim.state);
            if beside != (int(claim.number), &*claim.holder.id, state, claim.expires_at_ms) {
                return Err(damaged(&format!("what is searched for of claim {} in {key}", claim.number)));
            }
            Ok(Arc::new(claim))
        };
        rows.iter().map(claim).collect()
    }

    fn events(&mut self, key: &CollectionKey, after: (u64, Hash)) -> Result<Vec<Arc<Sealed>>, Error> {
        let sql = "SELECT bytes, hash, seq, at_ms, actor, action, items FROM tenure.events \
                   WHERE collection = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let (key, since, most) = (key.as_str(), int(after.0), page(PAGE_EVENTS));
        let rows =
            self.session.rows(sql, &[(&key, Type::TEXT), (&since, Type::INT8), (&most, Type::INT8)])?;
        let event = |row: &Row| {
            let sealed = sealed(row, 0)?;
            let event = &sealed.event;
            let named = items_text(event.fact.items().into_iter().map(ItemId::as_str));
            let numbers = (row.get::<_, i64>(2), row.get::<_, i64>(3));
            let words = (row.get::<_, &str>(4), row.get::<_, &str>(5), row.get::<_, &str>(6));
            if numbers != (int(event.seq), event.at_ms)
                || words != (&*event.actor.id, event.fact.action(), named.as_str())
            {
                return Err(damaged(&format!("what is searched for of event {} in {key}", event.seq)));
            }
            Ok(Arc::new(sealed))
        };
        rows.iter().map(event).collect()
    }

    fn replies(&mut self, visit: &mut VisitReplies<'_>) -> Result<(), Error> {
        let sql = "SELECT collection, principal, key, at_ms, body FROM tenure.replies \
                   WHERE (at_ms, collection, principal, key) > ($1, $2, $3, $4) \
                   ORDER BY at_ms, collection, principal, key LIMIT $5";
        let mut after = (i64::MIN, String::new(), String::new(), String::new());
        let most = page(PAGE_ROWS);
        loop {
            let (at_ms, collection, principal, key) = &after;
            let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
                (at_ms, Type::INT8),
                (collection, Type::TEXT),
                (principal, Type::TEXT),
                (key, Type::TEXT),
                (&most, Type::INT8),
            ];
            let rows = self.session.rows(sql, &parameters)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = (last.get(3), last.get(0), last.get(1), last.get(2));
            let reply = |row: &Row| {
                let collection = key_of(row.get(0))?;
                let (principal, key) = (Text::from(row.get::<_, &str>(1)), Text::from(row.get::<_, &str>(2)));
                let kept = Arc::new(decode(row.get(4), "a kept reply")?);
                Ok((ReplyKey { collection, principal, key }, kept))
            };
            visit(rows.iter().map(reply).collect::<Result<_, Error>>()?)?;
        }
    }

    fn mark(&mut self, mark: &Mark) -> Result<(), Error> {
        self.session.set("UPDATE tenure.meta SET mark = $1", &[(&mark.encode(), Type::TEXT)])?;
        self.session.run(SHUT)
    }
}

/// A database that comes to be.
pub(crate) struct DatabaseTarget {
    session: Session,
    id: String,
    resumed: bool,
    bounds: Bounds,
}

impl DatabaseTarget {
    pub(crate) fn open(url: &str, source: &About) -> Result<Self, Error> {
        let session = Session::connect(Arc::new(Link::new(url, &Options::default())?))?;
        session.refuse_nodes()?;
        session.link.wait(schema::migrate(&session.client, &session.link))?;
        session.run(BEGIN_MARK)?;
        let (id, mark) = session.meta("FOR UPDATE")?;
        let resumed = match &mark {
            None => {
                let any = TABLES.map(|table| format!("EXISTS (SELECT FROM tenure.{table})")).join(" OR ");
                if session.rows(&format!("SELECT {any}"), &[])?.first().is_none_or(|row| row.get(0)) {
                    let detail = format!("{} is not empty; name an empty database", session.link.label());
                    return Err(Error::Unsupported { detail });
                }
                false
            }
            Some(Mark::Unfinished { source: known, .. }) if known.id == source.identity.id => {
                *known == source.identity
            }
            Some(_) => return Err(refusal(session.link.label(), mark.as_ref())),
        };
        if !resumed {
            // What an earlier try copied is of another moment.
            session.run(&format!("TRUNCATE {}", TABLES.map(|table| format!("tenure.{table}")).join(", ")))?;
            let mark = Mark::Unfinished { source: source.identity.clone(), from: source.label.clone() };
            session.set("UPDATE tenure.meta SET mark = $1", &[(&mark.encode(), Type::TEXT)])?;
        }
        session.run("COMMIT")?;
        Ok(Self { session, id, resumed, bounds: source.bounds })
    }
}

impl Target for DatabaseTarget {
    fn id(&self) -> &str {
        &self.id
    }

    fn label(&self) -> &str {
        self.session.link.label()
    }

    fn is_resumed(&self) -> bool {
        self.resumed
    }

    fn keeps_ended(&self) -> bool {
        true
    }

    fn heads(&mut self) -> Result<Vec<(CollectionKey, Arc<Collection>)>, Error> {
        Ok(DatabaseSource::look(self.session.link.clone())?.heads)
    }

    fn begin_replies(&mut self) -> Result<(), Error> {
        self.session.run("DELETE FROM tenure.replies")
    }

    fn put(&mut self, part: Part) -> Result<(), Error> {
        let Part { head, items, claims, events, policies, replies } = part;
        let mut columns = Columns::default();
        let mut new = Vec::new();
        if let Some((key, head)) = &head {
            columns.items = items
                .into_iter()
                .map(|item| ((key.clone(), item.id.clone()), (Was::Unknown, Some(item))))
                .collect();
            columns.claims = claims
                .into_iter()
                .map(|claim| ((key.clone(), claim.number), (Was::Unknown, claim)))
                .collect();
            columns.events = events.into_iter().map(|sealed| (key.clone(), sealed)).collect();
            if let Some(head) = head {
                columns.heads.insert(key.clone(), head.clone());
                new.push(key.as_str());
            }
        }
        columns.policies = policies.into_iter().collect();
        columns.replies = replies.into_iter().collect();
        let mut pipeline = Pipeline::new(&self.session.client);
        pipeline.plain(BEGIN_PART);
        if !new.is_empty() {
            lock(&mut pipeline, &new, &new);
        }
        columns.put(&mut pipeline, self.bounds.high_water_ms, None);
        pipeline.plain("COMMIT");
        self.session.wait(pipeline.run()).map(drop)
    }

    fn close(&mut self, bounds: Bounds) -> Result<Box<dyn Source>, Error> {
        let (epoch, high_water_ms) = (int(bounds.epoch), bounds.high_water_ms);
        let sql = "UPDATE tenure.meta SET epoch = $1, high_water_ms = $2";
        self.session.set(sql, &[(&epoch, Type::INT8), (&high_water_ms, Type::INT8)])?;
        // Otherwise the first questions would be planned as if the tables were empty.
        self.session.run(&format!("ANALYZE {}", TABLES.map(|table| format!("tenure.{table}")).join(", ")))?;
        Ok(Box::new(DatabaseSource::look(self.session.link.clone())?))
    }

    fn finish(&mut self) -> Result<(), Error> {
        let here = self.session.here()?;
        self.session.run(BEGIN_MARK)?;
        if let Some(here) = here {
            // From now on tokens are given out: a dump that is taken before it is first served is one of it, too.
            self.session.set(history::STAMP, &[(&here, Type::TEXT)])?;
        }
        self.session.run("UPDATE tenure.meta SET mark = NULL; COMMIT")
    }
}
