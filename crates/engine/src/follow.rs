//! What other nodes do over a store that they share: looked up now and then, and sooner after a hint.
//!
//! One thread asks the store for three things at once: its time, how far the collections are that somebody
//! here follows or waits in, and whose deadlines come near. Events are read by their number, so a look that
//! comes late, twice or not at all costs time and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tenure_core::{CollectionKey, Fact, ItemId, Sealed};
use tenure_store::{Due, Error, EventPage, Hints, Reader};

use crate::engine::{Lanes, Time};
use crate::feed::{Channel, Feed};
use crate::limits::{AHEAD_MS, AWAY_MAX, DUE_LOOK_MAX, FEED_PAGE_MAX, TOLD_AGAIN_MS};
use crate::sight::{Patience, Sight};
use crate::timers::Timer;
use crate::turn::News;

/// Makes the follower look now.
#[derive(Default)]
pub(crate) struct Wake {
    inner: Mutex<Asked>,
    changed: Condvar,
    /// How other nodes are told of commits here.
    hints: OnceLock<Arc<dyn Hints>>,
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Asked {
    /// What the last look looked at.
    watched: BTreeSet<CollectionKey>,
    woken: bool,
    closed: bool,
}

impl Wake {
    pub(crate) fn wake(&self) {
        self.inner.lock().woken = true;
        self.changed.notify_one();
    }

    /// Begins to hear from other nodes, and to tell them.
    pub(crate) fn listen(self: &Arc<Self>, reader: &dyn Reader) {
        let wake = Arc::downgrade(self);
        let heard = move |changed: Option<&[CollectionKey]>| {
            if let Some(wake) = wake.upgrade() {
                let mut inner = wake.inner.lock();
                // Nothing of it is followed or waited for here.
                if changed.is_some_and(|keys| !keys.iter().any(|key| inner.watched.contains(key))) {
                    return;
                }
                inner.woken = true;
                drop(inner);
                wake.changed.notify_one();
            }
        };
        if let Some(hints) = reader.hints(Arc::new(heard)) {
            let _ = self.hints.set(hints);
        }
    }

    /// These changed here.
    pub(crate) fn told(&self, changed: Vec<CollectionKey>) {
        if let Some(hints) = self.hints.get().filter(|_| !changed.is_empty()) {
            hints.tell(changed);
        }
    }

    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.changed.notify_one();
    }

    /// Waits until it is woken or a time is over; `false` once it is closed.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut inner = self.inner.lock();
        while !inner.woken && !inner.closed {
            if self.changed.wait_until(&mut inner, until).timed_out() {
                break;
            }
        }
        inner.woken = false;
        !inner.closed
    }
}

/// Looks what others do, for one node.
pub(crate) struct Follower {
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) feed: Feed,
    pub(crate) time: Arc<Time>,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) wake: Arc<Wake>,
    /// Where somebody waits: the number up to which it is known what became free.
    heard: HashMap<CollectionKey, u64>,
    /// Collections whose events could not be read at the last look: read after all others.
    troubled: BTreeSet<CollectionKey>,
    sight: Arc<Sight>,
    patience: Patience,
}

impl Follower {
    pub(crate) fn new(
        reader: Arc<dyn Reader>,
        feed: Feed,
        time: Arc<Time>,
        lanes: Arc<Lanes>,
        wake: Arc<Wake>,
    ) -> Self {
        let (heard, troubled, sight) = (HashMap::new(), BTreeSet::new(), feed.sight());
        sight.seen();
        let patience = Patience::default();
        Self { reader, feed, time, lanes, wake, heard, troubled, sight, patience }
    }

    pub(crate) fn run(mut self, pulse: Duration) {
        let mut told: Option<Instant> = None;
        loop {
            let next = Instant::now() + pulse;
            match self.look() {
                Ok(()) => told = None,
                Err(error) => {
                    let troubled = self.troubled.len();
                    if told.is_none_or(|told| told.elapsed() >= Duration::from_millis(TOLD_AGAIN_MS)) {
                        told = Some(Instant::now());
                        tracing::warn!(%error, troubled, "what other nodes do cannot be seen now");
                    }
                    if self.sight.is_stale() {
                        self.feed.lose_sight();
                    }
                }
            }
            if !self.wake.wait(next) {
                return;
            }
        }
    }

    /// Reads in the time that there is: before readers have to be told, and soon enough to be asked again.
    fn read<T>(&mut self, read: impl FnOnce(&dyn Reader) -> Result<T, Error>) -> Result<T, Error> {
        let (asked, until) = (Instant::now(), self.sight.look_until(&self.patience));
        let in_time = self.reader.by(until);
        let answer = read(&**in_time.as_ref().unwrap_or(&self.reader));
        match &answer {
            Ok(_) => {
                self.sight.seen();
                self.patience.answered(asked.elapsed());
            }
            Err(Error::Away { .. }) if Instant::now() >= until => self.patience.was_in_vain(),
            Err(_) => {}
        }
        answer
    }

    /// Looks once.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        let channels: BTreeMap<CollectionKey, Arc<Channel>> = self.feed.watched().into_iter().collect();
        let waited = self.lanes.waited();
        self.heard.retain(|key, _| waited.contains(key));
        let watched: BTreeSet<&CollectionKey> = channels.keys().chain(&waited).collect();
        let watched: Vec<CollectionKey> = watched.into_iter().cloned().collect();
        // Before looking: what is hinted at from here on may come too late for this look.
        self.wake.inner.lock().watched = watched.iter().cloned().collect();
        let asked_ms = self.time.clock_ms();
        let pulse = self.read(|reader| reader.pulse(&watched, AHEAD_MS, DUE_LOOK_MAX))?;
        if let Some(now_ms) = pulse.now_ms {
            self.time.heard(now_ms, asked_ms);
        }
        let mut due: HashMap<CollectionKey, Vec<Timer>> = HashMap::new();
        for Due { collection, claim, at_ms } in pulse.due {
            due.entry(collection.clone()).or_default().push(Timer { at_ms, claim, collection });
        }
        for (key, timers) in due {
            self.lanes.tell(&key, News { timers, freed: Vec::new() });
        }
        let heads: HashMap<CollectionKey, u64> = pulse.heads.into_iter().collect();
        // Tenure's own first: who may do anything here hangs on them.
        let mut order: Vec<&CollectionKey> = watched.iter().collect();
        order.sort_by_key(|key| {
            (self.troubled.contains(*key), key.kind() != CollectionKey::policies().kind())
        });
        self.troubled.retain(|key| watched.binary_search(key).is_ok());
        let (mut first, mut away) = (None, 0);
        for key in order {
            let newest = heads.get(key).copied().unwrap_or(0);
            // What cannot be read in one collection is no reason to miss what goes on in others.
            match self.catch_up(key, newest, channels.get(key), waited.contains(key)) {
                Ok(()) => drop(self.troubled.remove(key)),
                Err(error) => {
                    let is_away = matches!(error, Error::Away { .. });
                    let again = !self.troubled.insert(key.clone());
                    if is_away && again {
                        // The store is there, and this takes longer than a look may: readers have more time.
                        self.pass_over(key, newest, channels.get(key));
                    }
                    away += usize::from(is_away);
                    first.get_or_insert(error);
                }
            }
            if away >= AWAY_MAX || self.sight.is_stale() {
                break;
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Reads a collection's events up to a number, for those who follow it and those who wait in it.
    fn catch_up(
        &mut self,
        key: &CollectionKey,
        newest: u64,
        channel: Option<&Arc<Channel>>,
        waited: bool,
    ) -> Result<(), Error> {
        let told = channel.map(|channel| channel.told());
        if let (Some(channel), Some(None)) = (channel, told) {
            channel.begin_at(newest);
        }
        if waited && !self.heard.contains_key(key) {
            // Who just began to wait may have missed what became free before this look.
            self.heard.insert(key.clone(), newest);
            let freed = vec![(key.clone(), self.lanes.waited_items(key))];
            self.lanes.tell(key, News { timers: Vec::new(), freed });
        }
        let since_feed = told.flatten().filter(|told| *told < newest);
        let since_waiters = self.heard.get(key).copied().filter(|heard| waited && *heard < newest);
        let Some(mut since) = since_feed.into_iter().chain(since_waiters).min() else { return Ok(()) };
        while since < newest {
            let page = self.read(|reader| reader.events(key, since, FEED_PAGE_MAX))?;
            let events = match page {
                EventPage::Events(events) if !events.is_empty() => events,
                // A restore has jumped ahead of what was told.
                _ => {
                    self.pass_over(key, newest, channel);
                    return Ok(());
                }
            };
            since = events.last().map_or(newest, |sealed| sealed.event.seq);
            if let Some(heard) = self.heard.get_mut(key).filter(|heard| waited && **heard < since) {
                let unheard = events.iter().filter(|sealed| sealed.event.seq > *heard);
                let news = what_became_free(key, unheard);
                *heard = since;
                self.lanes.tell(key, news);
            }
            if let Some(channel) = channel {
                channel.offer(events);
            }
        }
        Ok(())
    }

    /// Tells nothing of a collection up to this number: readers find out by themselves, and who waits is decided anew.
    fn pass_over(&mut self, key: &CollectionKey, newest: u64, channel: Option<&Arc<Channel>>) {
        if let Some(channel) = channel {
            channel.begin_at(newest);
        }
        self.heard.remove(key);
    }
}

/// What others may now have, or when.
fn what_became_free<'a>(key: &CollectionKey, events: impl Iterator<Item = &'a Arc<Sealed>>) -> News {
    let mut items: BTreeSet<ItemId> = BTreeSet::new();
    let mut timers = Vec::new();
    for sealed in events {
        match &sealed.event.fact {
            Fact::Ended(end) if end.blocked_until_ms > 0 => {
                timers.push(Timer { at_ms: end.blocked_until_ms, claim: end.claim, collection: key.clone() });
            }
            Fact::Ended(end) => items.extend(end.items.iter().cloned()),
            Fact::ItemRemoved { item, .. } => drop(items.insert(item.clone())),
            Fact::ItemDeleted { before, .. } => drop(items.insert(before.id.clone())),
            _ => {}
        }
    }
    let freed = if items.is_empty() { Vec::new() } else { vec![(key.clone(), items)] };
    News { timers, freed }
}
