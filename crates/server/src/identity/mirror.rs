//! A copy in memory of one of Tenure's own collections, kept fresh by its feed: what every request asks
//! (is this key known?) must not cost a read of the store, and must hold on every node.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tenure_core::{CollectionKey, Fact, ItemId, Json};
use tenure_engine::{Delivery, Engine, From, StoreError, Subscription};
use tokio::sync::watch;

use crate::Problem;
use crate::limits::MIRROR_LOOKS_PER_SECOND;
use crate::problem::from_store;
use crate::stream::advance;

/// How long a write's own node waits until its copy shows it. The feed hears of it before the answer.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
/// How long to wait before asking a store again that could not be reached.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A document with its version.
#[derive(Clone, Debug)]
pub(super) struct Row<T> {
    pub(super) version: u64,
    pub(super) value: T,
}

/// The copy.
#[derive(Debug)]
pub(super) struct Mirror<T> {
    collection: CollectionKey,
    rows: RwLock<HashMap<ItemId, Arc<Row<T>>>>,
    /// Counts what the rows were told: as long as it stands still, so do they.
    changes: AtomicU64,
    /// The number of the newest event that the rows show.
    applied: watch::Sender<u64>,
    /// How often something unknown was looked for in the store, and since when.
    looked: Mutex<(Instant, u32)>,
    /// Counts removals: whoever relies on a document looks again.
    removed: watch::Sender<u64>,
}

impl<T: DeserializeOwned> Mirror<T> {
    pub(super) fn new(collection: CollectionKey) -> Self {
        Self {
            collection,
            rows: RwLock::default(),
            changes: AtomicU64::new(0),
            looked: Mutex::new((Instant::now(), 0)),
            applied: watch::Sender::new(0),
            removed: watch::Sender::new(0),
        }
    }

    /// Reads everything that is there, and returns from where to follow.
    pub(super) fn load(&self, engine: &Engine) -> Result<Subscription, StoreError> {
        let mut subscription = engine.subscribe(&self.collection, From::Snapshot)?;
        while let Some(delivery) = subscription.try_next()? {
            self.take(delivery, subscription.cursor());
        }
        Ok(subscription)
    }

    /// Follows the feed for ever. Dropping the future stops it.
    pub(super) async fn follow(&self, engine: Engine, mut subscription: Subscription) {
        loop {
            let delivered = advance(&mut subscription).await;
            let again = match delivered {
                Ok(None) => {
                    subscription.changed().await;
                    false
                }
                Ok(Some(Delivery::Resync)) => true,
                Ok(Some(delivery)) => {
                    self.take(delivery, subscription.cursor());
                    false
                }
                Err(error) => {
                    tracing::warn!(collection = %self.collection, %error, "the feed could not be read");
                    tokio::time::sleep(RETRY_AFTER).await;
                    true
                }
            };
            if again {
                match engine.subscribe(&self.collection, From::Snapshot) {
                    Ok(anew) => subscription = anew,
                    Err(error) => {
                        tracing::warn!(collection = %self.collection, %error, "could not follow anew");
                        tokio::time::sleep(RETRY_AFTER).await;
                    }
                }
            }
        }
    }

    /// How often the rows were told something.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Row<T>>> {
        self.rows.read().get(id).cloned()
    }

    /// The same; what this copy does not know is looked for in the store: it may have been made on another node a moment
    /// ago. So often and no more: guessers are not to keep the store busy. Who could not be looked for is not unknown: a
    /// page that was told so would believe to be signed out.
    pub(super) fn find(&self, engine: &Engine, id: &str) -> Result<Option<Arc<Row<T>>>, Problem> {
        if let Some(row) = self.get(id) {
            return Ok(Some(row));
        }
        let Ok(item) = ItemId::new(id) else { return Ok(None) };
        if !self.may_look() {
            // No 503: whoever guesses could make a proxy set this node aside, and the next one after it.
            let detail = "too many unknown keys and sessions are looked for at this moment";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry(1));
        }
        let found = engine.reader().item(&self.collection, &item).map_err(|error| {
            tracing::warn!(collection = %self.collection, %error, "a document could not be looked for");
            from_store(&error)
        })?;
        Ok(found.and_then(|item| self.row(item.version, item.data.as_ref())))
    }

    fn may_look(&self) -> bool {
        let mut looked = self.looked.lock();
        if looked.0.elapsed() >= Duration::from_secs(1) {
            *looked = (Instant::now(), 0);
        }
        looked.1 += 1;
        looked.1 <= MIRROR_LOOKS_PER_SECOND
    }

    /// Every document that passes.
    pub(super) fn filter(&self, keep: impl Fn(&T) -> bool) -> Vec<(ItemId, Arc<Row<T>>)> {
        let rows = self.rows.read();
        rows.iter().filter(|(_, row)| keep(&row.value)).map(|(id, row)| (id.clone(), row.clone())).collect()
    }

    /// Tells when a document was removed.
    pub(super) fn removals(&self) -> watch::Receiver<u64> {
        self.removed.subscribe()
    }

    /// Waits until the copy shows all that is committed now.
    pub(super) async fn catch_up(&self, engine: &Engine) -> Result<(), StoreError> {
        let Some(head) = engine.reader().collection(&self.collection)? else { return Ok(()) };
        let mut applied = self.applied.subscribe();
        let shown = applied.wait_for(|applied| *applied >= head.seq);
        if tokio::time::timeout(CATCH_UP_MAX, shown).await.is_err() {
            tracing::warn!(collection = %self.collection, "the copy lags behind the store");
        }
        Ok(())
    }

    fn take(&self, delivery: Delivery, cursor: u64) {
        let mut rows = self.rows.write();
        let mut removed = false;
        match delivery {
            Delivery::Snapshot(snapshot) => {
                let items = snapshot.items.iter();
                *rows = items
                    .filter_map(|item| Some((item.id.clone(), self.row(item.version, item.data.as_ref())?)))
                    .collect();
                removed = true;
            }
            Delivery::Events(events) => {
                for sealed in events {
                    match &sealed.event.fact {
                        Fact::ItemPut { write, .. } => {
                            let row = self.row(write.version, write.data.as_ref());
                            match row {
                                Some(row) => drop(rows.insert(write.id.clone(), row)),
                                None => removed |= rows.remove(write.id.as_str()).is_some(),
                            }
                        }
                        Fact::ItemDeleted { before, .. } => {
                            removed |= rows.remove(before.id.as_str()).is_some();
                        }
                        _ => {}
                    }
                }
            }
            Delivery::Lagging { .. } | Delivery::Resync => return,
        }
        self.changes.fetch_add(1, Ordering::Release);
        drop(rows);
        self.applied.send_replace(cursor);
        if removed {
            self.removed.send_modify(|count| *count += 1);
        }
    }

    fn row(&self, version: u64, data: Option<&Json>) -> Option<Arc<Row<T>>> {
        match data?.read() {
            Ok(value) => Some(Arc::new(Row { version, value })),
            Err(error) => {
                tracing::warn!(collection = %self.collection, %error, "a document cannot be read");
                None
            }
        }
    }
}
