//! What a batch reads. What its wants foresaw is in memory; anything else of a locked collection is read when
//! it is asked for, in the same transaction: a want that is missing costs a round trip, never a wrong
//! decision.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Rows, Text};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Postgres;
use super::connect::failure;
use super::load::{Held, Loaded, OF_HOLDERS, Open, POLICIES, REPLIES, ask_rows};
use super::pipeline::Pipeline;
use super::rows::int;
use super::session::Session;
use crate::{Error, Kept, ReplyKey, View};

const ACTIVE: &str =
    "SELECT collection, number, body FROM tenure.claims WHERE collection = $1 AND state = 0 ORDER BY number";

/// The rows of a batch, under their locks.
pub struct PostgresView<'a> {
    store: &'a Postgres,
    open: &'a Open,
    client: &'a Session,
}

impl fmt::Debug for PostgresView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresView").field("clock_ms", &self.open.clock_ms).finish_non_exhaustive()
    }
}

impl<'a> PostgresView<'a> {
    pub(super) fn new(store: &'a Postgres) -> Result<Self, Error> {
        let away = || Error::Away { detail: "no transaction was begun".to_owned() };
        let (open, client) = store.open.as_ref().zip(store.client.as_ref()).ok_or_else(away)?;
        Ok(Self { store, open, client })
    }

    /// What a locked collection says of itself. Asking another one is a mistake that must not be committed.
    fn held<T: Default>(&self, key: &CollectionKey, ask: impl FnOnce(&Held) -> T) -> T {
        match self.open.rows.borrow().collections.get(key) {
            Some(held) => ask(held),
            None => self.fail(Error::Away { detail: format!("{key} was read without being locked") }),
        }
    }

    fn fail<T: Default>(&self, error: Error) -> T {
        self.open.failed.borrow_mut().get_or_insert(error);
        T::default()
    }

    /// Waits for what was sent and takes it over. After a failure nothing is there, and nothing can be
    /// committed.
    fn fetch(
        &self,
        sent: impl Future<Output = Result<Vec<Vec<Row>>, tokio_postgres::Error>>,
        take: impl FnOnce(&mut Loaded, &[Vec<Row>]) -> Result<(), Error>,
    ) {
        if self.open.failed.borrow().is_some() {
            return;
        }
        let link = &self.store.shared.link;
        let answers = self.client.wait(link.in_time(sent));
        let answers = answers.and_then(|answers| answers.map_err(|error| failure(&error)));
        let taken = answers.and_then(|answers| take(&mut self.open.rows.borrow_mut(), &answers));
        if let Err(error) = taken {
            self.fail::<()>(error);
        }
    }

    /// Reads an item, and with it whatever the claims hold that were read with what was asked for: whoever looks at one
    /// item of a claim looks at all of them.
    fn fetch_item(&self, key: &CollectionKey, id: &ItemId) {
        let mut ids = vec![id.clone()];
        self.held(key, |held| {
            let claims = held.asked.iter().filter_map(|number| held.rows.claim(*number)?.as_deref());
            let items = claims.flat_map(|claim| claim.items.iter());
            ids.extend(items.filter(|item| held.rows.item(item.as_str()).is_none()).cloned());
        });
        ids.sort_unstable();
        ids.dedup();
        let names: Vec<&str> = ids.iter().map(ItemId::as_str).collect();
        let keys = vec![key.as_str(); names.len()];
        let mut pipeline = Pipeline::on(self.client);
        ask_rows(&mut pipeline, (&keys, &names), (&[], &[]), &[]);
        self.fetch(pipeline.run(), |loaded, answers| {
            if let Some(held) = loaded.collections.get_mut(key) {
                for id in &ids {
                    held.rows.miss_item(id);
                }
            }
            loaded.take_rows(&answers[0])
        });
    }

    fn fetch_claim(&self, key: &CollectionKey, number: u64) {
        let mut pipeline = Pipeline::on(self.client);
        ask_rows(&mut pipeline, (&[], &[]), (&[key.as_str()], &[int(number)]), &[]);
        self.fetch(pipeline.run(), |loaded, answers| {
            if let Some(held) = loaded.collections.get_mut(key) {
                held.rows.miss_claim(number);
            }
            loaded.take_claims(&answers[0]).map(drop)
        });
    }

    fn fetch_holder(&self, key: &CollectionKey, holder: &str) {
        let (keys, holders) = (vec![key.as_str()], vec![holder]);
        let mut pipeline = Pipeline::on(self.client);
        pipeline.typed(OF_HOLDERS, [(&keys, Type::TEXT_ARRAY), (&holders, Type::TEXT_ARRAY)]);
        self.fetch(pipeline.run(), |loaded, answers| {
            if let Some(held) = loaded.collections.get_mut(key) {
                held.of_holder.insert(Text::from(holder), Vec::new());
            }
            loaded.take_holders(&answers[0])
        });
    }

    fn fetch_active(&self, key: &CollectionKey) {
        let name = key.as_str();
        let mut pipeline = Pipeline::on(self.client);
        pipeline.typed(ACTIVE, [(&name, Type::TEXT)]);
        self.fetch(pipeline.run(), |loaded, answers| {
            let numbers = loaded.take_claims(&answers[0])?;
            if let Some(held) = loaded.collections.get_mut(key) {
                held.active = Some(numbers);
            }
            Ok(())
        });
    }

    fn fetch_policy(&self, kind: &str) {
        let kinds = vec![kind];
        let mut pipeline = Pipeline::on(self.client);
        pipeline.typed(POLICIES, [(&kinds, Type::TEXT_ARRAY)]);
        self.fetch(pipeline.run(), |loaded, answers| {
            loaded.policies.insert(Text::from(kind), None);
            loaded.take_policies(&answers[0])
        });
    }

    fn fetch_reply(&self, key: &ReplyKey) {
        let (keys, principals, names) =
            (vec![key.collection.as_str()], vec![&*key.principal], vec![&*key.key]);
        let mut pipeline = Pipeline::on(self.client);
        pipeline.typed(
            REPLIES,
            [(&keys, Type::TEXT_ARRAY), (&principals, Type::TEXT_ARRAY), (&names, Type::TEXT_ARRAY)],
        );
        self.fetch(pipeline.run(), |loaded, answers| {
            loaded.kept.insert(key.clone(), None);
            loaded.take_replies(&answers[0])
        });
    }
}

impl Rows for PostgresView<'_> {
    fn epoch(&self) -> u64 {
        self.store.shared.epoch()
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        if !self.open.rows.borrow().policies.contains_key(kind) {
            self.fetch_policy(kind);
        }
        self.open.rows.borrow().policies.get(kind).cloned().flatten()
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.held(key, |held| held.mark.head.clone())
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        if !self.held(key, |held| held.rows.item(id.as_str()).is_some()) {
            self.fetch_item(key, id);
        }
        self.held(key, |held| held.rows.item(id.as_str()).cloned().flatten())
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        // An item that nobody ever took points at none.
        if number == 0 {
            return None;
        }
        if !self.held(key, |held| held.rows.claim(number).is_some()) {
            self.fetch_claim(key, number);
        }
        self.held(key, |held| held.rows.claim(number).cloned().flatten())
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        if !self.held(key, |held| held.of_holder.contains_key(holder_id)) {
            self.fetch_holder(key, holder_id);
        }
        self.held(key, |held| {
            let numbers = held.of_holder.get(holder_id).into_iter().flatten();
            numbers.filter_map(|number| held.rows.claim(*number).cloned().flatten()).collect()
        })
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        if !self.held(key, |held| held.active.is_some()) {
            self.fetch_active(key);
        }
        self.held(key, |held| held.active.clone().unwrap_or_default())
    }
}

impl View for PostgresView<'_> {
    fn clock_ms(&self) -> Option<i64> {
        Some(self.open.clock_ms)
    }

    fn now_ms(&self, collection: &CollectionKey) -> Option<i64> {
        let rows = self.open.rows.borrow();
        let committed_ms = rows.collections.get(collection).map_or(i64::MIN, |held| held.mark.at_ms);
        Some(self.open.clock_ms.max(committed_ms))
    }

    fn covers(&self, collection: &CollectionKey) -> bool {
        self.open.rows.borrow().collections.contains_key(collection)
    }

    fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        if !self.open.rows.borrow().kept.contains_key(key) {
            self.fetch_reply(key);
        }
        self.open.rows.borrow().kept.get(key).cloned().flatten()
    }
}
