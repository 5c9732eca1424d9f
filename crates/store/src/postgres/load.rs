//! The first half of a batch: locks, time, rows.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use tenure_core::{Claim, ClaimState, CollectionKey, Item, ItemId, Policy, Text};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::{failure, is_ending};
use super::pipeline::{Pipeline, numbers, texts};
use super::recent::{Mark, Recent, Rows};
use super::rows::{decode, head, int, uint};
use super::session::{Session, Typed, is_name_lost};
use super::{Options, Postgres, Shared};
use crate::limits::{HEAD_AHEAD_MS, KNOWN_HEADS_MAX, LOAD_TRIES};
use crate::{Error, Kept, Map, ReplyKey, Want};

/// A transaction that has its locks, and what was read in it.
#[derive(Debug)]
pub(super) struct Open {
    /// The database's clock, read after the locks.
    pub(super) clock_ms: i64,
    /// Where the data is, if that was asked.
    place: Option<String>,
    /// The database is set to confirm what it may lose.
    pub(super) forgets: bool,
    pub(super) rows: RefCell<Loaded>,
    /// The first thing that could not be read: nothing that was decided after it may be committed.
    pub(super) failed: RefCell<Option<Error>>,
}

/// What is known. `None` in a map: looked for, and not there.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) collections: Map<CollectionKey, Held>,
    pub(super) policies: Map<Text, Option<Arc<Policy>>>,
    pub(super) kept: Map<ReplyKey, Option<Arc<Kept>>>,
}

/// A collection whose head is locked.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) mark: Mark,
    pub(super) rows: Rows,
    /// See [`Recent::alone`].
    pub(super) alone: u32,
    /// The claims that were asked for, or found to hold what was: whoever looks at one of their items looks at all.
    pub(super) asked: Vec<u64>,
    pub(super) of_holder: Map<Text, Vec<u64>>,
    pub(super) active: Option<Vec<u64>>,
}

/// Items, by the number 0; claims that are asked for or that last took one of these items, each once; and policies, by
/// the number -1. One statement, since each costs an answer of its own, and what is found by one search is not searched
/// for again.
pub(super) const ROWS: &str = "WITH i AS MATERIALIZED (SELECT i.collection, i.claim, i.body \
           FROM unnest($1, $2) AS w (collection, id) \
           JOIN tenure.items i ON i.collection = w.collection AND i.id = w.id) \
     SELECT i.collection, 0::bigint, i.body FROM i \
     UNION ALL SELECT c.collection, c.number, c.body \
     FROM (SELECT i.collection, i.claim FROM i WHERE i.claim > 0 UNION SELECT * FROM unnest($3, $4)) AS w \
     JOIN tenure.claims c ON c.collection = w.collection AND c.number = w.claim \
     UNION ALL SELECT p.kind, -1, convert_to(p.body, 'UTF8') FROM tenure.policies p WHERE p.kind = ANY($5)";
/// Holder by holder, which `OFFSET 0` makes sure of: a plan that was made on an empty table would rather read all
/// that is held, by whomever, and look through it.
pub(super) const OF_HOLDERS: &str = "SELECT c.collection, c.number, c.body, c.holder \
     FROM unnest($1, $2) AS w (collection, holder) CROSS JOIN LATERAL (SELECT * FROM tenure.claims c \
     WHERE c.collection = w.collection AND c.holder = w.holder AND c.state = 0 OFFSET 0) AS c \
     ORDER BY c.number";
pub(super) const POLICIES: &str = "SELECT kind, body FROM tenure.policies WHERE kind = ANY($1)";
pub(super) const REPLIES: &str = "SELECT r.collection, r.principal, r.key, r.body \
     FROM unnest($1, $2, $3) AS w (collection, principal, key) \
     JOIN tenure.replies r ON r.collection = w.collection AND r.principal = w.principal AND r.key = w.key";
/// Heads that may be new. One that somebody else is making is waited for.
pub(super) const MAKE_HEADS: &str = "INSERT INTO tenure.collections (collection, seq, hash, created_at_ms, at_ms) \
     SELECT w.collection, 0, ''::bytea, 0, 0 FROM unnest($1) AS w (collection) ORDER BY w.collection COLLATE \"C\" \
     ON CONFLICT DO NOTHING";
const LOCK_HEADS: &str = "SELECT collection, seq, hash, created_at_ms, at_ms, turn FROM tenure.collections \
     WHERE collection = ANY($1) ORDER BY collection FOR UPDATE";
pub(super) const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
/// And in which process of the server, and whether what it confirms may be lost. Where its name means something else
/// its answer does, too, and tells that as well as another process would.
const CLOCK_AND_PROCESS: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
     pg_backend_pid(), current_setting('synchronous_commit') = 'off'";
/// And where the data is, see `history.rs`. Asked in every batch: behind a pooler a connection outlives the database that
/// it was made to, and data can be replaced under any.
pub(super) const CLOCK_AND_PLACE: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
     pg_backend_pid(), current_setting('synchronous_commit') = 'off', \
     (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || \
     left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || (SELECT xmin FROM tenure.place WHERE one)";

/// What most batches read, planned once for each connection.
pub(super) const PREPARED: &[Typed] = &[
    (LOCK_HEADS, &[Type::TEXT_ARRAY]),
    (CLOCK_AND_PROCESS, &[]),
    (CLOCK_AND_PLACE, &[]),
    (ROWS, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY]),
    (OF_HOLDERS, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY]),
    (POLICIES, &[Type::TEXT_ARRAY]),
    (REPLIES, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY]),
];

/// The pairs that the statements take, column by column.
#[derive(Default)]
struct Asked<'a> {
    items: (Vec<&'a str>, Vec<&'a str>),
    claims: (Vec<&'a str>, Vec<i64>),
    holders: (Vec<&'a str>, Vec<&'a str>),
    replies: (Vec<&'a str>, Vec<&'a str>, Vec<&'a str>),
    kinds: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    /// Each thing once: a join would otherwise find it several times. And nothing that is most probably known.
    fn of(wants: &'a [Want], lone: &HashSet<Text>, recent: &Map<CollectionKey, Recent>) -> Self {
        let (mut items, mut claims, mut holders, mut replies, mut kinds) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for want in wants {
            let key = want.collection.as_str();
            let likely = recent.get(&want.collection).filter(|recent| recent.is_likely());
            let no_item = |id: &&ItemId| likely.is_none_or(|recent| recent.rows.item(id.as_str()).is_none());
            let no_claim = |number: &&u64| likely.is_none_or(|recent| recent.rows.claim(**number).is_none());
            items.extend(want.items.iter().filter(no_item).map(|id| (key, id.as_str())));
            claims.extend(want.claims.iter().filter(no_claim).map(|number| (key, int(*number))));
            holders.extend(holder_of(want, lone).map(|holder| (key, &**holder)));
            replies.extend(
                want.reply.iter().map(|reply| (reply.collection.as_str(), &*reply.principal, &*reply.key)),
            );
            kinds.insert(want.collection.kind());
        }
        let mut asked = Self { kinds: kinds.into_iter().collect(), ..Self::default() };
        asked.items = items.into_iter().unzip();
        asked.claims = claims.into_iter().unzip();
        asked.holders = holders.into_iter().unzip();
        for (collection, principal, key) in replies {
            asked.replies.0.push(collection);
            asked.replies.1.push(principal);
            asked.replies.2.push(key);
        }
        asked
    }

    /// Items and claims alone.
    fn of_rows(wants: &'a [Want]) -> Self {
        let asked = Self::of(wants, &HashSet::new(), &Map::default());
        Self { items: asked.items, claims: asked.claims, ..Self::default() }
    }

    /// Only what somebody asks for: an empty question costs as much as another.
    fn send(&'a self, pipeline: &mut Pipeline<'a>) -> Sent {
        let (mut sent, texts) = (Sent::default(), Type::TEXT_ARRAY);
        let rows = !(self.items.0.is_empty() && self.claims.0.is_empty());
        if rows {
            sent.rows = Some(pipeline.len());
            let (items, claims) = (&self.items, &self.claims);
            ask_rows(pipeline, (&items.0, &items.1), (&claims.0, &claims.1), &self.kinds);
        }
        if !self.holders.0.is_empty() {
            sent.holders = Some(pipeline.len());
            pipeline.typed(OF_HOLDERS, [(&self.holders.0, texts.clone()), (&self.holders.1, texts.clone())]);
        }
        if !rows && !self.kinds.is_empty() {
            sent.policies = Some(pipeline.len());
            pipeline.typed(POLICIES, [(&self.kinds, texts.clone())]);
        }
        let (collections, principals, keys) = &self.replies;
        if !collections.is_empty() {
            sent.replies = Some(pipeline.len());
            pipeline
                .typed(REPLIES, [(collections, texts.clone()), (principals, texts.clone()), (keys, texts)]);
        }
        sent
    }
}

/// Asks for items, claims and policies, column by column.
pub(super) fn ask_rows<'a>(
    pipeline: &mut Pipeline<'a>,
    (places, ids): (&[&'a str], &[&'a str]),
    (homes, claims): (&[&'a str], &[i64]),
    kinds: &[&'a str],
) {
    let [places, ids, homes, kinds] = [places, ids, homes, kinds].map(|column| texts(column.iter().copied()));
    pipeline.columns(ROWS, [places, ids, homes, numbers(claims.iter().copied()), kinds]);
}

/// Where in a pipeline the answers are.
#[derive(Default)]
struct Sent {
    rows: Option<usize>,
    holders: Option<usize>,
    policies: Option<usize>,
    replies: Option<usize>,
}

/// Whose other claims the decision will ask for.
fn holder_of<'a>(want: &'a Want, lone: &HashSet<Text>) -> Option<&'a Text> {
    want.holder.as_ref().filter(|_| !lone.contains(want.collection.kind()))
}

impl Postgres {
    /// Begins a batch over the collections that are wanted. A batch that was begun and never committed ends.
    pub(super) fn begin(&mut self, wants: &[Want]) -> Result<(), Error> {
        // Whoever loads anew has given up what was decided before.
        let _ = self.roll_back();
        let mut keys: BTreeSet<CollectionKey> = wants.iter().map(|want| want.collection.clone()).collect();
        let mut wants = Cow::Borrowed(wants);
        self.find_still_stuck(keys.iter())?;
        self.leave_out_stuck(&mut keys, &mut wants);
        let (mut tries, mut has_looked) = (0, false);
        loop {
            match self.try_begin(&keys, &wants) {
                Ok(open) => {
                    self.open = Some(open);
                    return Ok(());
                }
                // Once: whoever waited so long in vain a second time has waited long enough.
                Err(Failed::Locked(error)) if !has_looked && !self.raises => {
                    has_looked = true;
                    self.find_stuck(keys.iter())?;
                    self.leave_out_stuck(&mut keys, &mut wants);
                    if keys.is_empty() {
                        return Err(error);
                    }
                }
                // Nothing is decided yet, so trying again is safe: a connection that broke while it was
                // idle, a head that somebody made or took away meanwhile.
                Err(Failed::Elsewhere | Failed::Store(Error::Conflict { .. })) if tries + 1 < LOAD_TRIES => {
                    tries += 1;
                }
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    /// Nothing is wanted of what is stuck.
    fn leave_out_stuck(&self, keys: &mut BTreeSet<CollectionKey>, wants: &mut Cow<'_, [Want]>) {
        keys.retain(|key| !self.stuck.contains_key(key));
        if wants.iter().any(|want| !keys.contains(&want.collection)) {
            wants.to_mut().retain(|want| keys.contains(&want.collection));
        }
    }

    fn try_begin(&mut self, keys: &BTreeSet<CollectionKey>, wants: &[Want]) -> Result<Open, Failed> {
        let link = &self.shared.link;
        let open_still = self.client.take().filter(|client| !client.is_over());
        let was_open = open_still.is_some();
        let mut client: Session = if let Some(client) = open_still {
            client
        } else {
            // What this connection believed to be there may be gone with its database.
            self.known.clear();
            Session::connect(link)?
        };
        // Out of here until the batch has ended well.
        let recent = keys.iter().filter_map(|key| Some((key.clone(), client.recent.take(key)?))).collect();
        let (known, lone) = (&self.known, &self.lone);
        let place = if self.raises { None } else { self.shared.place.lock().clone() };
        client.prepare(&self.shared)?;
        let opening = open(&client, &link.options, keys, known, (place.is_some(), wants, lone), recent);
        let opened = client.wait(link.in_time(opening))?;
        if opened.is_err() && was_open && client.is_over() {
            let detail = "the connection had ended before it was used".to_owned();
            return Err(Error::Conflict { detail }.into());
        }
        // Kept only now: after a failure the state of the transaction is nobody's to guess.
        let (open, locked) = opened.inspect_err(|failed| {
            if matches!(failed, Failed::Elsewhere) {
                tracing::info!("the database is behind a pooler: statements are not prepared by name");
                self.shared.found_pooler();
            }
        })?;
        if place.is_some() && open.place != place {
            // Not what was last written here: what was locked is let go of with the connection.
            drop((open, client));
            super::history::settle(&self.shared)?;
            let detail = "the database was promoted, restored or brought up to date".to_owned();
            return Err(Error::Conflict { detail }.into());
        }
        self.client = Some(client);
        self.shared.tell_of_time(&open);
        if self.known.len() + locked.len() > KNOWN_HEADS_MAX {
            self.known.clear();
        }
        self.known.extend(locked);
        for (kind, own) in &open.rows.borrow().policies {
            let policy = own.clone().or_else(|| Policy::preset(kind));
            if policy.is_some_and(|policy| !policy.looks_at_holder()) {
                self.lone.insert(kind.clone());
            } else {
                self.lone.remove(kind);
            }
        }
        Ok(open)
    }

    /// Only where the connection leads to the same process each time.
    pub(super) fn keep_recent(&mut self, collections: Map<CollectionKey, Held>) {
        let Some(client) = self.client.as_mut().filter(|client| client.prepared().is_some()) else { return };
        for (key, Held { mark, rows, alone, .. }) in collections {
            client.recent.keep(key, Recent { mark, rows, alone });
        }
    }

    /// Ends what a load began, if nothing came of it; tells what could not be read meanwhile.
    pub(super) fn roll_back(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if let (false, Some(client)) = (open.rows.borrow().collections.is_empty(), &self.client) {
            let link = &self.shared.link;
            let ended = client.wait(link.in_time(client.batch_execute("ROLLBACK")));
            if !matches!(ended, Ok(Ok(()))) {
                self.client = None;
            }
        }
        if let Some(error) = open.failed.into_inner() {
            return Err(error);
        }
        // Nothing was written, and what was read under the lock stays true until the next commit.
        self.keep_recent(open.rows.into_inner().collections);
        Ok(())
    }
}

impl Shared {
    /// A collection that is ahead of the clock stands still until the clock is there: nothing ends in it
    /// meanwhile, and only the operator can know why.
    fn tell_of_time(&self, open: &Open) {
        let rows = open.rows.borrow();
        let Some((key, held)) = rows.collections.iter().max_by_key(|(_, held)| held.mark.at_ms) else {
            return;
        };
        let ahead_ms = held.mark.at_ms - open.clock_ms;
        if ahead_ms <= HEAD_AHEAD_MS {
            return;
        }
        if self.told_of_time.lock().is_due() {
            tracing::error!(collection = %key, ahead_ms, "a collection is ahead of the database's clock, which was \
                set back, or is behind that of the host before it: until it is there nothing ends in it");
        }
    }
}

/// How a batch begins, and nothing else does: whoever else begins a transaction says more at once.
pub(super) const BEGIN_BATCH: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Begins a transaction, with its limits: those two texts are how long it waits for a lock, and for a statement.
pub(super) fn begin<'a>(pipeline: &mut Pipeline<'a>, session: &'a Session, limits: &'a [String; 2]) {
    pipeline.typed(BEGIN_BATCH, []);
    pipeline.typed(session.settings(), [(&limits[0], Type::TEXT), (&limits[1], Type::TEXT)]);
}

/// The limits of a transaction.
pub(super) fn limits(options: &Options) -> [String; 2] {
    [options.lock_ms.to_string(), options.statement_ms.to_string()]
}

/// Locks these heads, sorted, and makes those that are not there. The answers are their rows.
pub(super) fn lock<'a>(pipeline: &mut Pipeline<'a>, keys: &'a [&'a str], perhaps_new: &'a [&'a str]) {
    lock_by(LOCK_HEADS, pipeline, keys, perhaps_new);
}

fn lock_by<'a>(heads: &'a str, pipeline: &mut Pipeline<'a>, keys: &'a [&'a str], perhaps_new: &'a [&'a str]) {
    if !perhaps_new.is_empty() {
        pipeline.columns(MAKE_HEADS, [texts(perhaps_new.iter().copied())]);
    }
    pipeline.columns(heads, [texts(keys.iter().copied())]);
}

/// How a batch locks its heads: as it should, or with a bug that a test planted.
fn lock_heads(options: &Options) -> &'static str {
    #[cfg(feature = "planted")]
    match options.bug {
        Some(super::Bug::UnsortedLocks) => {
            return "SELECT collection, seq, hash, created_at_ms, at_ms, turn FROM tenure.collections \
                 WHERE collection = ANY($1) ORDER BY md5(collection || pg_backend_pid()) FOR UPDATE";
        }
        Some(super::Bug::EarlyNumbers) => {
            return "SELECT collection, seq, hash, created_at_ms, at_ms, turn FROM tenure.collections \
                 WHERE collection = ANY($1) ORDER BY collection";
        }
        None => {}
    }
    let _ = options;
    LOCK_HEADS
}

/// What the database says of itself.
struct Told {
    clock_ms: i64,
    pid: i32,
    forgets: bool,
    place: Option<String>,
}

impl Told {
    fn of(row: &Row, tells_place: bool) -> Option<Self> {
        let place = || row.try_get::<_, Option<String>>(3).ok().map(Option::unwrap_or_default);
        let place = if tells_place { Some(place()?) } else { None };
        let (clock_ms, pid, forgets) = (row.try_get(0).ok()?, row.try_get(1).ok()?, row.try_get(2).ok()?);
        Some(Self { clock_ms, pid, forgets, place })
    }
}

/// Why a batch was not begun.
enum Failed {
    /// Statements' names mean nothing where it began.
    Elsewhere,
    /// Somebody has one of its collections, and has had it for as long as is waited.
    Locked(Error),
    Store(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Elsewhere => Self::Conflict { detail: "a statement's name was not known".to_owned() },
            Failed::Locked(error) | Failed::Store(error) => error,
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

async fn open(
    session: &Session,
    options: &Options,
    keys: &BTreeSet<CollectionKey>,
    known: &HashSet<CollectionKey>,
    (tells_place, wants, lone): (bool, &[Want], &HashSet<Text>),
    mut recent: Map<CollectionKey, Recent>,
) -> Result<(Open, Vec<CollectionKey>), Failed> {
    let limits = limits(options);
    let names: Vec<&str> = keys.iter().map(CollectionKey::as_str).collect();
    let perhaps_new: Vec<&str> =
        keys.iter().filter(|key| !known.contains(*key)).map(CollectionKey::as_str).collect();
    let asked = Asked::of(wants, lone, &recent);
    let mut pipeline = Pipeline::on(session);
    if !names.is_empty() {
        begin(&mut pipeline, session, &limits);
        lock_by(lock_heads(options), &mut pipeline, &names, &perhaps_new);
    }
    let locked = pipeline.len().wrapping_sub(1);
    let clock = pipeline.len();
    pipeline.typed(if tells_place { CLOCK_AND_PLACE } else { CLOCK_AND_PROCESS }, []);
    let sent = asked.send(&mut pipeline);
    let answers = pipeline.run().await.map_err(|error| {
        if session.prepared().is_some() && is_name_lost(&error) {
            Failed::Elsewhere
        } else if is_ending(&error) {
            // Its end may be a moment behind its words.
            Error::Conflict { detail: "the server ended the connection".to_owned() }.into()
        } else if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            Failed::Locked(failure(&error))
        } else {
            failure(&error).into()
        }
    })?;
    let told = answers[clock].first().and_then(|row| Told::of(row, tells_place));
    let Told { clock_ms, place, forgets, .. } =
        told.filter(|told| session.is_at_home(told.pid)).ok_or(Failed::Elsewhere)?;
    let clock_ms = options.test_ms().unwrap_or(clock_ms);
    let mut loaded = Loaded::default();
    let (mut lasting, mut overtaken) = (Vec::new(), BTreeSet::new());
    if !names.is_empty() {
        let by_name: BTreeMap<&str, &CollectionKey> = keys.iter().map(|key| (key.as_str(), key)).collect();
        for row in &answers[locked] {
            let Some(key) = by_name.get(row.get::<_, &str>(0)) else { continue };
            let head = head(row, 1)?.map(Arc::new);
            if head.is_some() {
                lasting.push((*key).clone());
            }
            let mark = Mark { head, at_ms: row.get(4), turn: row.get(5) };
            let held = match recent.remove(*key) {
                Some(Recent { mark: before, rows, alone }) if before == mark => {
                    Held { mark, rows, alone: alone.saturating_add(1), ..Held::default() }
                }
                Some(other) => {
                    if other.is_likely() {
                        overtaken.insert((*key).clone());
                    }
                    Held { mark, ..Held::default() }
                }
                None => Held { mark, ..Held::default() },
            };
            loaded.collections.insert((*key).clone(), held);
        }
        if loaded.collections.len() < keys.len() {
            let detail = "a collection's head went away while it was being locked".to_owned();
            return Err(Error::Conflict { detail }.into());
        }
        loaded.take_absent(wants, lone);
        loaded.take(&sent, &answers)?;
        if !overtaken.is_empty() {
            // Somebody else has been there: what was not asked for is asked for now.
            let wants: Vec<Want> =
                wants.iter().filter(|want| overtaken.contains(&want.collection)).cloned().collect();
            let asked = Asked::of_rows(&wants);
            let mut pipeline = Pipeline::on(session);
            let sent = asked.send(&mut pipeline);
            if pipeline.len() > 0 {
                let answers = pipeline.run().await.map_err(|error| failure(&error))?;
                loaded.take(&sent, &answers)?;
            }
        }
    }
    Ok((Open { clock_ms, place, forgets, rows: loaded.into(), failed: None.into() }, lasting))
}

impl Loaded {
    fn take(&mut self, sent: &Sent, answers: &[Vec<Row>]) -> Result<(), Error> {
        if let Some(at) = sent.rows {
            self.take_rows(&answers[at])?;
        }
        if let Some(at) = sent.holders {
            self.take_holders(&answers[at])?;
        }
        if let Some(at) = sent.policies {
            self.take_policies(&answers[at])?;
        }
        if let Some(at) = sent.replies {
            self.take_replies(&answers[at])?;
        }
        Ok(())
    }

    /// What was asked for is not there, until a row says otherwise.
    fn take_absent(&mut self, wants: &[Want], lone: &HashSet<Text>) {
        for want in wants {
            let kind = Text::from(want.collection.kind());
            self.policies.entry(kind).or_insert(None);
            if let Some(reply) = &want.reply {
                self.kept.insert(reply.clone(), None);
            }
            let Some(held) = self.collections.get_mut(&want.collection) else { continue };
            for id in &want.items {
                held.rows.miss_item(id);
            }
            for number in &want.claims {
                held.rows.miss_claim(*number);
            }
            held.asked.extend(&want.claims);
            if let Some(holder) = holder_of(want, lone) {
                held.of_holder.entry(holder.clone()).or_default();
            }
        }
    }

    /// Items, the claims that came with them, and policies.
    pub(super) fn take_rows(&mut self, rows: &[Row]) -> Result<(), Error> {
        let number = |row: &Row| row.get::<_, i64>(1);
        for row in rows.iter().filter(|row| number(row) == 0) {
            let item: Arc<Item> = Arc::new(decode(row.get(2), "an item")?);
            if let Some(held) = self.collections.get_mut(row.get::<_, &str>(0)) {
                held.rows.put_item(item.id.clone(), Some(item));
            }
        }
        for row in rows.iter().filter(|row| number(row) < 0) {
            let body = std::str::from_utf8(row.get(2)).map_err(|_| super::rows::damaged("a policy"))?;
            self.policies.insert(Text::from(row.get::<_, &str>(0)), Some(policy(body)?));
        }
        self.take_claims(rows.iter().filter(|row| number(row) > 0)).map(drop)
    }

    /// Answers the numbers, in the order of the rows.
    pub(super) fn take_claims<'a>(
        &mut self,
        rows: impl IntoIterator<Item = &'a Row>,
    ) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        for row in rows {
            let number = uint(row.get(1));
            numbers.push(number);
            let Some(held) = self.collections.get_mut(row.get::<_, &str>(0)) else { continue };
            if let Some(Some(_)) = held.rows.claim(number) {
                continue;
            }
            let claim: Arc<Claim> = Arc::new(decode(row.get(2), "a claim")?);
            if claim.state == ClaimState::Active {
                held.asked.push(number);
            }
            held.rows.put_claim(number, Some(claim));
        }
        Ok(numbers)
    }

    pub(super) fn take_holders(&mut self, rows: &[Row]) -> Result<(), Error> {
        let numbers = self.take_claims(rows)?;
        for (row, number) in rows.iter().zip(numbers) {
            let Some(held) = self.collections.get_mut(row.get::<_, &str>(0)) else { continue };
            held.of_holder.entry(Text::from(row.get::<_, &str>(3))).or_default().push(number);
        }
        Ok(())
    }

    pub(super) fn take_policies(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            self.policies.insert(Text::from(row.get::<_, &str>(0)), Some(policy(row.get(1))?));
        }
        Ok(())
    }

    pub(super) fn take_replies(&mut self, rows: &[Row]) -> Result<(), Error> {
        for row in rows {
            let collection =
                self.collections.get_key_value(row.get::<_, &str>(0)).map(|(key, _)| key.clone());
            let Some(collection) = collection else { continue };
            let (principal, key) = (Text::from(row.get::<_, &str>(1)), Text::from(row.get::<_, &str>(2)));
            let kept = Arc::new(decode(row.get(3), "a kept reply")?);
            self.kept.insert(ReplyKey { collection, principal, key }, Some(kept));
        }
        Ok(())
    }
}

pub(super) fn policy(body: &str) -> Result<Arc<Policy>, Error> {
    serde_json::from_str(body).map(Arc::new).map_err(|_| super::rows::damaged("a policy"))
}
