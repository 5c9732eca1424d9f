//! The feed: every committed event of a collection, live, to whoever subscribes.
//!
//! A subscription is a cursor, not a queue: it reads the ring of recent events and, where it has fallen
//! out of that, the store by number. So a slow reader costs nothing to others and misses nothing; it is
//! told that it lags, and that it must start anew only when its number is not retained any more.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tenure_core::{CollectionKey, Event, Fact, Sealed};
use tenure_store::limits::EVENT_PAGE_BYTES;
use tenure_store::{Entry, Error, EventPage, Reader, Snapshot};
use tokio::sync::watch;

use crate::follow::Wake;
use crate::limits::{FEED_PAGE_MAX, FEED_RING_BYTES_MAX, FEED_RING_MAX};
use crate::sight::Sight;

/// Where committed events are told.
#[derive(Clone, Debug, Default)]
pub struct Feed(Arc<Mutex<Inner>>);

/// A collection's new events.
pub(crate) type News = (CollectionKey, Vec<Arc<Sealed>>);

#[derive(Debug, Default)]
struct Inner {
    /// Other nodes write too, so that a commit of this one may not be the next that readers are to hear of.
    shared: Option<Arc<Wake>>,
    sight: Arc<Sight>,
    channels: HashMap<CollectionKey, Weak<Channel>>,
    /// A commit is under way, and what it will tell has been chosen.
    committing: bool,
    /// Channels that were opened since: what is being committed is not for their rings.
    late: Vec<Weak<Channel>>,
}

/// One collection's live readers share this.
#[derive(Debug)]
pub(crate) struct Channel {
    ring: Mutex<Recent>,
    /// Over a shared store: the number up to which the ring was told, by this node or of others. Nothing is
    /// told over a gap. Locked before the ring.
    told: Mutex<Option<u64>>,
    newest: watch::Sender<u64>,
    /// How often the store may have had what the ring has missed: once for a channel that was opened late.
    missed: AtomicU64,
    /// The feed's own.
    sight: Arc<Sight>,
}

/// A collection's newest events.
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<Arc<Sealed>>,
    bytes: usize,
}

impl Recent {
    /// Takes the next ones and lets go of the oldest that are too many, or too large together.
    fn extend(&mut self, events: Vec<Arc<Sealed>>) {
        self.bytes += events.iter().map(|sealed| sealed.bytes.len()).sum::<usize>();
        self.events.extend(events);
        while self.events.len() > FEED_RING_MAX || (self.bytes > FEED_RING_BYTES_MAX && self.events.len() > 1)
        {
            let Some(gone) = self.events.pop_front() else { break };
            self.bytes -= gone.bytes.len();
        }
    }
}

/// The events of a commit that somebody follows.
pub(crate) type Told = Vec<(Arc<Channel>, Vec<Arc<Sealed>>)>;

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With a snapshot, then what comes after it.
    Snapshot,
    /// After an event that the reader has seen.
    Event {
        /// The epoch in which it was seen.
        epoch: u64,
        /// Its number.
        seq: u64,
    },
}

/// What a subscription delivers.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The collection at one moment; events continue from its head.
    Snapshot(Box<Snapshot>),
    /// Events in order, without a gap to what was delivered before.
    Events(Vec<Arc<Sealed>>),
    /// The reader has fallen behind the live events; it goes on from the store and misses nothing.
    Lagging {
        /// The last number that it was given.
        cursor: u64,
        /// The newest.
        newest: u64,
    },
    /// The reader's number is not retained any more, or belongs to another epoch: start with a snapshot.
    Resync,
}

/// What a subscription can do next.
#[derive(Debug)]
pub enum Step {
    /// Deliver this.
    Ready(Delivery),
    /// Wait.
    Nothing,
    /// Read the store first.
    Store(Missing),
}

/// Events that only the store has.
pub struct Missing {
    reader: Arc<dyn Reader>,
    key: CollectionKey,
    since: u64,
    channel: Arc<Channel>,
}

impl Missing {
    /// Reads them, a page at most. This may take a while.
    pub fn read(self) -> Result<EventPage, Error> {
        self.channel.sight.check()?;
        let in_time = self.channel.sight.deadline().and_then(|until| self.reader.by(until));
        in_time.as_ref().unwrap_or(&self.reader).events(&self.key, self.since, FEED_PAGE_MAX)
    }
}

impl fmt::Debug for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Missing").field("key", &self.key).field("since", &self.since).finish_non_exhaustive()
    }
}

/// A cursor into one collection's events.
pub struct Subscription {
    key: CollectionKey,
    reader: Arc<dyn Reader>,
    channel: Arc<Channel>,
    newest: watch::Receiver<u64>,
    cursor: u64,
    /// What to deliver before anything else.
    first: Option<Delivery>,
    catching_up: bool,
    /// What its channel had missed when it last looked into the store for that.
    looked_for: u64,
}

impl Feed {
    /// A feed over a store that others write to: whoever looks what they did is woken by `wake`.
    pub(crate) fn shared(wake: Arc<Wake>) -> Self {
        let feed = Self::default();
        feed.0.lock().shared = Some(wake);
        feed
    }

    /// The events of entries by collection, in order.
    pub(crate) fn shared_of(entries: &[Entry]) -> Vec<News> {
        let mut all: Vec<News> = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.events.is_empty()) {
            match all.iter_mut().find(|(key, _)| *key == entry.collection) {
                Some((_, events)) => events.extend(entry.events.iter().cloned()),
                None => all.push((entry.collection.clone(), entry.events.clone())),
            }
        }
        all
    }

    /// These are committed, over a shared store. Where another node's events come before them, they are
    /// left to whoever looks.
    pub(crate) fn offer_all(&self, all: Vec<News>) {
        let mut complete = true;
        let changed: Vec<CollectionKey> = all.iter().map(|(key, _)| key.clone()).collect();
        for (key, events) in all {
            let channel = self.0.lock().channels.get(&key).and_then(Weak::upgrade);
            complete &= channel.is_none_or(|channel| channel.offer(events));
        }
        let wake = self.0.lock().shared.clone();
        if let Some(wake) = wake {
            wake.told(changed);
            if !complete {
                wake.wake();
            }
        }
    }

    /// The collections that somebody follows, and up to which number they were told.
    pub(crate) fn watched(&self) -> Vec<(CollectionKey, Arc<Channel>)> {
        let inner = self.0.lock();
        let channels = inner.channels.iter();
        channels.filter_map(|(key, channel)| Some((key.clone(), channel.upgrade()?))).collect()
    }

    /// What others do cannot be seen any more: everyone who follows something hears that.
    pub(crate) fn lose_sight(&self) {
        self.sight().lose();
        self.watched().iter().for_each(|(_, channel)| channel.doubt());
    }

    /// Whether it can be seen.
    pub(crate) fn sight(&self) -> Arc<Sight> {
        self.0.lock().sight.clone()
    }

    /// A commit begins: the events of these entries that somebody follows. Until [`Feed::end`] is called
    /// a new reader counts as late.
    pub(crate) fn begin(&self, entries: &[Entry]) -> Told {
        let mut inner = self.0.lock();
        let mut told = Told::new();
        // Over a shared store a commit is offered after it, and a gap is found by its number.
        if inner.shared.is_some() {
            return told;
        }
        inner.committing = true;
        if inner.channels.is_empty() {
            return told;
        }
        for entry in entries.iter().filter(|entry| !entry.events.is_empty()) {
            let channel = inner.channels.get(&entry.collection).and_then(Weak::upgrade);
            let Some(channel) = channel else { continue };
            match told.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &channel)) {
                Some((_, events)) => events.extend(entry.events.iter().cloned()),
                None => told.push((channel, entry.events.clone())),
            }
        }
        told
    }

    /// The commit is through, or has failed and there is nothing to tell.
    pub(crate) fn end(&self, told: Told) {
        Self::tell(told);
        let mut inner = self.0.lock();
        inner.committing = false;
        let late = std::mem::take(&mut inner.late);
        drop(inner);
        for channel in late.iter().filter_map(Weak::upgrade) {
            channel.missed.fetch_add(1, Ordering::AcqRel);
            channel.newest.send_modify(|_| {});
        }
    }

    /// They are committed: wake the readers.
    pub(crate) fn tell(told: Told) {
        for (channel, events) in told {
            let Some(newest) = events.last().map(|sealed| sealed.event.seq) else { continue };
            channel.ring.lock().extend(events);
            channel.newest.send_replace(newest);
        }
    }

    /// Follows a collection. An unknown collection has no events yet; its first will be delivered.
    pub fn subscribe(
        &self,
        reader: &Arc<dyn Reader>,
        key: &CollectionKey,
        from: From,
    ) -> Result<Subscription, Error> {
        // The channel comes first: what is committed from here on is in its ring, what was committed
        // before is in the store, and what is being committed right now raises `missed`.
        let channel = self.channel(key);
        channel.sight.check()?;
        let newest = channel.newest.subscribe();
        let (cursor, first) = match from {
            From::Snapshot => match reader.snapshot(key)? {
                Some(snapshot) => (snapshot.head.seq, Some(Delivery::Snapshot(Box::new(snapshot)))),
                None => (0, None),
            },
            From::Event { epoch, seq } if epoch == reader.epoch() => match reader.events(key, seq, 1)? {
                EventPage::Events(_) => (seq, None),
                EventPage::Resync { .. } => (seq, Some(Delivery::Resync)),
            },
            From::Event { seq, .. } => (seq, Some(Delivery::Resync)),
        };
        let reader = reader.clone();
        // Until the first look into the store nobody knows what the ring has missed.
        let (key, catching_up, looked_for) = (key.clone(), true, 0);
        Ok(Subscription { key, reader, channel, newest, cursor, first, catching_up, looked_for })
    }

    /// How many collections are followed.
    pub fn followed(&self) -> usize {
        self.0.lock().channels.values().filter(|channel| channel.strong_count() > 0).count()
    }

    fn channel(&self, key: &CollectionKey) -> Arc<Channel> {
        let mut inner = self.0.lock();
        if let Some(channel) = inner.channels.get(key).and_then(Weak::upgrade) {
            return channel;
        }
        inner.channels.retain(|_, channel| channel.strong_count() > 0);
        let channel = Arc::new(Channel {
            ring: Mutex::default(),
            told: Mutex::new(None),
            newest: watch::Sender::new(0),
            missed: AtomicU64::new(0),
            sight: inner.sight.clone(),
        });
        inner.channels.insert(key.clone(), Arc::downgrade(&channel));
        if inner.committing {
            inner.late.push(Arc::downgrade(&channel));
        }
        if let Some(wake) = &inner.shared {
            wake.wake();
        }
        channel
    }
}

impl Channel {
    /// Up to which number its ring was told; `None` before the first look.
    pub(crate) fn told(&self) -> Option<u64> {
        *self.told.lock()
    }

    /// The first look, or one over what cannot be told in order: readers find in the store whatever they
    /// have not seen up to here.
    pub(crate) fn begin_at(&self, newest: u64) {
        let mut told = self.told.lock();
        // What the ring has may not be what the store has now.
        *self.ring.lock() = Recent::default();
        *told = Some(newest);
        drop(told);
        self.doubt();
    }

    /// Nobody knows whether something was missed: readers look into the store, and whoever cannot be given what is there
    /// hears that instead of nothing.
    pub(crate) fn doubt(&self) {
        self.missed.fetch_add(1, Ordering::AcqRel);
        self.newest.send_modify(|_| {});
    }

    /// Takes the events that come next. `false` where others are missing before them.
    pub(crate) fn offer(&self, mut events: Vec<Arc<Sealed>>) -> bool {
        let mut told = self.told.lock();
        let Some(until) = *told else { return false };
        events.retain(|sealed| sealed.event.seq > until);
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return true };
        let in_order = events.windows(2).all(|pair| follows(pair[0].event.seq, &pair[1].event));
        if !in_order || !follows(until, &first.event) {
            return false;
        }
        let newest = last.event.seq;
        self.ring.lock().extend(events);
        *told = Some(newest);
        drop(told);
        self.newest.send_replace(newest);
        true
    }
}

impl Subscription {
    /// The next delivery; waits until there is one. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            if let Some(delivery) = self.try_next()? {
                return Ok(delivery);
            }
            self.changed().await;
        }
    }

    /// The next delivery, if there is one now. May read the store.
    pub fn try_next(&mut self) -> Result<Option<Delivery>, Error> {
        loop {
            match self.step() {
                Step::Ready(delivery) => return Ok(Some(delivery)),
                Step::Nothing => return Ok(None),
                Step::Store(missing) => {
                    if let Some(delivery) = self.supply(missing.read()?) {
                        return Ok(Some(delivery));
                    }
                }
            }
        }
    }

    /// Waits until there may be something, after [`Step::Nothing`].
    pub async fn changed(&mut self) {
        // The channel lives as long as this subscription, so its sender does too.
        let _ = self.newest.changed().await;
    }

    /// What comes next, as far as memory knows. Never reads the store: whoever must not wait for it reads
    /// where it may, and hands the page to [`Self::supply`].
    pub fn step(&mut self) -> Step {
        // Marks the newest number as seen before looking, so that a change in between wakes us.
        self.newest.borrow_and_update();
        // Who has to start anew is told so however often it asks: it never goes on over a gap.
        if let Some(Delivery::Resync) = &self.first {
            return Step::Ready(Delivery::Resync);
        }
        if let Some(first) = self.first.take() {
            return Step::Ready(first);
        }
        let missed = self.channel.missed.load(Ordering::Acquire);
        if self.looked_for < missed {
            self.looked_for = missed;
            self.catching_up = true;
        }
        if self.catching_up {
            let (reader, key, since) = (self.reader.clone(), self.key.clone(), self.cursor);
            return Step::Store(Missing { reader, key, since, channel: self.channel.clone() });
        }
        match self.read_ring() {
            Ring::Events(events) => Step::Ready(self.deliver(events)),
            Ring::Nothing => Step::Nothing,
            Ring::Behind { newest } => {
                self.catching_up = true;
                Step::Ready(Delivery::Lagging { cursor: self.cursor, newest })
            }
        }
    }

    /// Takes what was missing. `None` when there was nothing.
    pub fn supply(&mut self, page: EventPage) -> Option<Delivery> {
        match page {
            EventPage::Resync { .. } => {
                self.first = Some(Delivery::Resync);
                Some(Delivery::Resync)
            }
            EventPage::Events(events) => {
                let bytes: usize = events.iter().map(|sealed| sealed.bytes.len()).sum();
                if events.len() < FEED_PAGE_MAX && bytes < EVENT_PAGE_BYTES {
                    self.catching_up = false;
                }
                (!events.is_empty()).then(|| self.deliver(events))
            }
        }
    }

    /// The number of the last event that was delivered.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Another one at the same place, for somebody who reads on for many.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            key: self.key.clone(),
            reader: self.reader.clone(),
            channel: self.channel.clone(),
            newest: self.newest.clone(),
            cursor: self.cursor,
            first: self.first.clone(),
            catching_up: self.catching_up,
            looked_for: self.looked_for,
        }
    }

    /// The reader has been given everything up to this number by somebody else's subscription.
    pub fn skip_to(&mut self, cursor: u64) {
        self.cursor = self.cursor.max(cursor);
    }

    fn deliver(&mut self, events: Vec<Arc<Sealed>>) -> Delivery {
        if let Some(last) = events.last() {
            self.cursor = last.event.seq;
        }
        Delivery::Events(events)
    }

    fn read_ring(&self) -> Ring {
        let recent = self.channel.ring.lock();
        let ring = &recent.events;
        let Some(newest) = ring.back().map(|sealed| sealed.event.seq) else { return Ring::Nothing };
        if newest <= self.cursor {
            return Ring::Nothing;
        }
        let start = ring.partition_point(|sealed| sealed.event.seq <= self.cursor);
        if !follows(self.cursor, &ring[start].event) {
            return Ring::Behind { newest };
        }
        Ring::Events(ring.range(start..).take(FEED_PAGE_MAX).cloned().collect())
    }
}

enum Ring {
    Events(Vec<Arc<Sealed>>),
    Nothing,
    Behind { newest: u64 },
}

/// Nothing lies between this number and that event. A restore is the one jump.
fn follows(cursor: u64, event: &Event) -> bool {
    event.seq == cursor + 1 || matches!(event.fact, Fact::Restored { from_seq, .. } if from_seq == cursor)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Hash, Principal};

    use super::*;

    fn event(seq: u64) -> Arc<Sealed> {
        let fact = Fact::CollectionCreated;
        Arc::new(Sealed::new(&Hash::default(), Event { seq, at_ms: 1, actor: Principal::system(), fact }))
    }

    /// A database that lost what it had confirmed numbers anew: nothing of the old is told beside it.
    #[test]
    fn i14_a_ring_never_has_a_number_twice_nor_a_gap() {
        let feed = Feed::shared(Arc::default());
        let channel = feed.channel(&CollectionKey::new("lock/a").expect("a test's key"));
        channel.begin_at(3);
        assert!(channel.offer(vec![event(4), event(5)]));
        channel.begin_at(3);
        assert!(channel.offer(vec![event(4)]));
        assert!(!channel.offer(vec![event(5), event(7)]), "there is a gap in it");
        assert!(!channel.offer(vec![event(6)]), "there is a gap before it");
        let numbers: Vec<u64> = channel.ring.lock().events.iter().map(|sealed| sealed.event.seq).collect();
        assert_eq!((numbers, channel.told()), (vec![4], Some(4)));
    }

    #[test]
    fn a_ring_of_large_events_is_shorter_and_never_empty() {
        let large = |seq, length| {
            let sealed = event(seq);
            Arc::new(Sealed { bytes: vec![0; length], ..(*sealed).clone() })
        };
        let mut ring = Recent::default();
        (1..=100).for_each(|seq| ring.extend(vec![large(seq, FEED_RING_BYTES_MAX / 10)]));
        assert_eq!((ring.events.len(), ring.bytes), (10, FEED_RING_BYTES_MAX / 10 * 10));
        ring.extend(vec![large(101, 2 * FEED_RING_BYTES_MAX)]);
        assert_eq!((ring.events.len(), ring.bytes), (1, 2 * FEED_RING_BYTES_MAX), "the newest stays");
        ring.extend((0..FEED_RING_MAX as u64 + 5).map(|seq| large(102 + seq, 1)).collect());
        assert_eq!((ring.events.len(), ring.bytes), (FEED_RING_MAX, FEED_RING_MAX));
    }
}
