//! A collection's events as they happen, for one reader: a snapshot or a replay, then what comes. Sockets
//! and server-sent events are two forms of this. It never queues: it is a cursor, and reads on when it is
//! asked to.

mod hub;
mod snapshot;
pub(crate) mod sse;

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_core::{CollectionKey, Sealed};
use tenure_engine::{Delivery, From, Step, StoreError, Subscription};

pub(crate) use hub::{EventText, Hub};
pub(crate) use snapshot::SnapshotText;

use crate::apps::raffle::RaffleForm;
use crate::{App, Problem};
use hub::Texts;

/// The last event that a reader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The epoch in which it was seen; `None` for the one that is now.
    pub(crate) epoch: Option<u64>,
    /// Its number.
    pub(crate) seq: u64,
}

impl Cursor {
    /// What a query says.
    pub(crate) fn of(since: Option<u64>, epoch: Option<u64>) -> Result<Option<Self>, Problem> {
        match (since, epoch) {
            (None, None) => Ok(None),
            (Some(seq), epoch) => Ok(Some(Self { epoch, seq })),
            (None, Some(_)) => {
                Err(Problem::invalid("since", "an epoch needs the number that was seen in it"))
            }
        }
    }
}

/// What a reader is told next.
#[derive(Debug)]
pub(crate) enum Told {
    /// The collection at one moment; events continue from there.
    Snapshot(Box<SnapshotText>),
    /// One event.
    Event(EventText),
    /// The reader's number means nothing any more. A snapshot follows.
    Resync {
        /// Why it does not.
        why: Why,
        /// The number of the newest event that the snapshot shows.
        seq: u64,
    },
}

/// Why a reader has to start anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The number is older than what is kept, or newer than what has happened.
    NotRetained,
    /// The number was seen in another epoch.
    OtherEpoch,
}

impl Why {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NotRetained => "not_retained",
            Self::OtherEpoch => "other_epoch",
        }
    }
}

/// A collection in one epoch, and the texts of its events.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    key: CollectionKey,
    epoch: u64,
    texts: Arc<Texts>,
}

impl Place {
    pub(crate) fn new(key: CollectionKey, epoch: u64, texts: Arc<Texts>) -> Self {
        Self { key, epoch, texts }
    }

    /// An event as it is sent.
    pub(crate) fn text(&self, sealed: &Sealed) -> EventText {
        self.texts.of(&self.key, self.epoch, sealed)
    }
}

/// What happens from some reader's place on, for whoever reads it for many.
pub(crate) struct Tail {
    pub(crate) place: Place,
    pub(crate) subscription: Subscription,
}

/// One reader's place in a collection's events.
pub(crate) struct Live {
    app: App,
    place: Place,
    subscription: Subscription,
    /// How events read, where not as they are.
    form: Option<RaffleForm>,
    /// What was made of an event in that form and not told yet.
    told: VecDeque<EventText>,
    /// Events that were read and not told yet: a page at most.
    page: VecDeque<Arc<Sealed>>,
    next: Next,
    follows: bool,
    /// It came with a cursor that has not turned out to be good or bad.
    resumes: bool,
}

/// What has to be told before any event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The subscription's own snapshot.
    Snapshot,
    /// That the reader has to start anew.
    Resync(Why),
    /// Events.
    Events,
}

/// What comes next, if anything does now. Where only the store has it, it is read away from the threads that
/// answer everyone; cancelling that loses nothing, since the subscription has not moved.
pub(crate) async fn advance(subscription: &mut Subscription) -> Result<Option<Delivery>, StoreError> {
    loop {
        match subscription.step() {
            Step::Ready(delivery) => return Ok(Some(delivery)),
            Step::Nothing => return Ok(None),
            Step::Store(missing) => {
                let read = tokio::task::spawn_blocking(move || missing.read()).await;
                let page =
                    read.unwrap_or_else(|error| Err(StoreError::Away { detail: error.to_string() }))?;
                if let Some(delivery) = subscription.supply(page) {
                    return Ok(Some(delivery));
                }
            }
        }
    }
}

impl Live {
    /// Follows a collection, from a cursor or from a snapshot. A collection that does not exist yet is
    /// empty; its first event will be told.
    pub(crate) async fn open(app: &App, key: &CollectionKey, from: Option<Cursor>) -> Result<Self, Problem> {
        let (engine, place) = (app.engine().clone(), key.clone());
        let epoch = app.reader().epoch();
        let start = match from {
            None => From::Snapshot,
            Some(cursor) => From::Event { epoch: cursor.epoch.unwrap_or(epoch), seq: cursor.seq },
        };
        let subscription = app.read(move |_| engine.subscribe(&place, start)).await?;
        let next = match start {
            From::Snapshot => Next::Snapshot,
            From::Event { epoch: known, .. } if known != epoch => Next::Resync(Why::OtherEpoch),
            From::Event { .. } => Next::Events,
        };
        let place = Place::new(key.clone(), epoch, app.hub().texts(key));
        let page = VecDeque::new();
        let (app, follows, resumes) = (app.clone(), false, from.is_some());
        let (form, told) = (None, VecDeque::new());
        Ok(Self { app, place, subscription, form, told, page, next, follows, resumes })
    }

    /// The same, for the page of a raffle.
    pub(crate) fn in_form(self, form: Option<RaffleForm>) -> Self {
        Self { form, ..self }
    }

    /// The epoch of the numbers.
    pub(crate) fn epoch(&self) -> u64 {
        self.place.epoch
    }

    /// It has told everything there was at some moment, and follows what happens since.
    pub(crate) fn is_live(&self) -> bool {
        self.follows
    }

    /// What comes next; waits until there is something. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Told, StoreError> {
        loop {
            if let Some(told) = self.next_now().await? {
                return Ok(told);
            }
            self.changed().await;
        }
    }

    /// What comes next, if anything does now. Cancelling it loses nothing.
    pub(crate) async fn next_now(&mut self) -> Result<Option<Told>, StoreError> {
        loop {
            if let Some(told) = self.take_ready()? {
                return Ok(Some(told));
            }
            let Some(delivery) = advance(&mut self.subscription).await? else {
                self.follows = true;
                self.note_resumed();
                return Ok(None);
            };
            self.take(delivery);
        }
    }

    /// Waits until there may be something, after there was nothing.
    pub(crate) async fn changed(&mut self) {
        self.subscription.changed().await;
    }

    /// The last event that was told, if all that there was has been.
    pub(crate) fn cursor(&self) -> Option<u64> {
        let is_told =
            self.follows && self.next == Next::Events && self.page.is_empty() && self.told.is_empty();
        is_told.then(|| self.subscription.cursor())
    }

    /// What comes after this reader's place, for whoever reads it for many.
    pub(crate) fn tail(&self) -> Tail {
        Tail { place: self.place.clone(), subscription: self.subscription.fork() }
    }

    /// Somebody else has told this reader everything up to here.
    pub(crate) fn skip_to(&mut self, cursor: u64) {
        self.subscription.skip_to(cursor);
    }

    /// What can be told without asking for more.
    fn take_ready(&mut self) -> Result<Option<Told>, StoreError> {
        match self.next {
            Next::Resync(why) => {
                // From here on as if it had come without a cursor.
                self.subscription = self.app.engine().subscribe(&self.place.key, From::Snapshot)?;
                self.page.clear();
                self.told.clear();
                self.place.epoch = self.app.reader().epoch();
                self.next = Next::Snapshot;
                self.follows = false;
                self.resumes = false;
                self.app.metrics().resumed("resync");
                Ok(Some(Told::Resync { why, seq: self.subscription.cursor() }))
            }
            Next::Snapshot => {
                self.next = Next::Events;
                let now_ms = self.app.now_ms();
                // A collection that nobody has made yet has no snapshot of its own.
                let snapshot = if self.subscription.cursor() == 0 {
                    None
                } else {
                    match self.subscription.step() {
                        Step::Ready(Delivery::Snapshot(snapshot)) => Some(snapshot),
                        Step::Ready(other) => {
                            self.take(other);
                            return Ok(None);
                        }
                        Step::Store(_) | Step::Nothing => None,
                    }
                };
                if let Some(form) = &self.form {
                    return Ok(Some(Told::Event(form.snapshot(
                        &self.app,
                        snapshot.as_deref(),
                        self.place.epoch,
                    ))));
                }
                let policy = self.app.policy(self.place.key.kind()).ok().flatten();
                let text =
                    SnapshotText::new(self.place.key.clone(), snapshot, self.place.epoch, policy, now_ms);
                Ok(Some(Told::Snapshot(Box::new(text))))
            }
            Next::Events => Ok(self.next_text().map(Told::Event)),
        }
    }

    fn next_text(&mut self) -> Option<EventText> {
        let Some(form) = &self.form else {
            let sealed = self.page.pop_front()?;
            return Some(self.place.text(&sealed));
        };
        // Events that say nothing in this form are passed by.
        while self.told.is_empty() {
            self.told.extend(form.event(&self.page.pop_front()?.event));
        }
        self.told.pop_front()
    }

    fn take(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Events(events) => {
                self.note_resumed();
                self.page.extend(events);
            }
            Delivery::Resync => self.next = Next::Resync(Why::NotRetained),
            // It goes on from the store; whoever reads this is behind for a while.
            Delivery::Lagging { .. } => self.follows = false,
            // Only ever the first delivery, which is taken where it is asked for.
            Delivery::Snapshot(_) => {}
        }
    }

    fn note_resumed(&mut self) {
        if std::mem::take(&mut self.resumes) {
            self.app.metrics().resumed("replayed");
        }
    }
}
