//! Why an item can or cannot be had, without asking for it: a dry decision on what readers see.
//!
//! It changes nothing and takes no turn of the loop, so by the time somebody asks in earnest the answer
//! may be another.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::command::Acquire;
use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, Command, EndReason, Fact, Item, ItemId, Policy, Principal,
    Refusal, Rows, Text, Verb, decide, frees_at_ms, seen_at,
};
use tenure_store::{AuditFilter, ClaimFilter, Error, Reader};

use crate::Engine;
use crate::limits::{EXPLAIN_CLAIMS_MAX, EXPLAIN_EVENTS_MAX};

/// An item, and what would come of claiming it now.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The time of this answer.
    pub now_ms: i64,
    /// The item; `None` where claiming would create it.
    pub item: Option<Arc<Item>>,
    /// The claim that holds it.
    pub claim: Option<Claim>,
    /// How many wait for it.
    pub waiting: usize,
    /// Why the caller would be refused.
    pub refusal: Option<Refusal>,
    /// When it can be had, if its holder gives no further sign of life; `None` when nobody holds it.
    pub frees_at_ms: Option<i64>,
    /// Who held it, newest first.
    pub history: Vec<Tenancy>,
}

/// One holder's time with an item, as far as the events that were read tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenancy {
    /// The claim's number.
    pub claim: u64,
    /// Who.
    pub holder: Option<Principal>,
    /// Since when.
    pub since_ms: Option<i64>,
    /// Until when; `None` while it holds.
    pub ended_at_ms: Option<i64>,
    /// Why it ended; `None` while it holds, or where the item left a claim that went on.
    pub reason: Option<EndReason>,
}

impl Engine {
    /// Who holds an item, who waits, who held it, and why this caller would be refused.
    pub fn explain(
        &self,
        collection: &CollectionKey,
        item: &ItemId,
        actor: &Principal,
    ) -> Result<Explanation, Error> {
        let now_ms = self.now_ms();
        let rows = ReadRows { reader: &**self.reader(), failed: RefCell::new(None) };
        let acquire = Acquire { items: vec![item.clone()], ..Acquire::default() };
        let verb = Verb::Acquire(acquire);
        let command = Command { collection: collection.clone(), actor: actor.clone(), verb };
        let refusal = decide(&rows, &command, now_ms).err();
        let kind = collection.kind();
        let policy = rows.policy(kind).or_else(|| Policy::preset(kind));
        let found = rows.item(collection, item);
        let last = found.as_ref().and_then(|item| rows.claim(collection, item.claim));
        let last = last.zip(policy.as_ref()).map(|(claim, policy)| seen_at(&claim, policy, now_ms));
        let frees_at_ms = last
            .as_ref()
            .zip(policy.as_ref())
            .map(|(claim, policy)| frees_at_ms(claim, policy))
            .filter(|frees_at_ms| *frees_at_ms > now_ms);
        if let Some(error) = rows.failed.into_inner() {
            return Err(error);
        }
        Ok(Explanation {
            now_ms,
            item: found,
            claim: last.filter(|claim| claim.state == ClaimState::Active),
            waiting: self.waiting(collection, item),
            refusal,
            frees_at_ms,
            history: history(&**self.reader(), collection, item)?,
        })
    }
}

fn history(reader: &dyn Reader, collection: &CollectionKey, item: &ItemId) -> Result<Vec<Tenancy>, Error> {
    let filter = AuditFilter {
        collection: Some(collection.clone()),
        item: Some(item.clone()),
        ..AuditFilter::default()
    };
    let page = reader.audit(&filter, EXPLAIN_EVENTS_MAX)?;
    let mut tenancies: BTreeMap<u64, Tenancy> = BTreeMap::new();
    for (_, sealed) in page.rows.iter().rev() {
        let event = &sealed.event;
        match &event.fact {
            Fact::Granted(grant) => {
                let tenancy = of(&mut tenancies, event.seq);
                tenancy.holder = Some(grant.holder.clone());
                tenancy.since_ms = Some(event.at_ms);
            }
            Fact::ItemAdded { claim, .. } => {
                let tenancy = of(&mut tenancies, *claim);
                tenancy.holder = Some(event.actor.clone());
                tenancy.since_ms = Some(event.at_ms);
                tenancy.ended_at_ms = None;
            }
            Fact::ItemRemoved { claim, .. } => {
                let tenancy = of(&mut tenancies, *claim);
                tenancy.holder = Some(event.actor.clone());
                tenancy.ended_at_ms = Some(event.at_ms);
            }
            Fact::Ended(end) => {
                let tenancy = of(&mut tenancies, end.claim);
                tenancy.holder = Some(end.holder.clone());
                tenancy.ended_at_ms = Some(end.ended_at_ms);
                tenancy.reason = Some(end.reason);
            }
            _ => {}
        }
    }
    Ok(tenancies.into_values().rev().collect())
}

fn of(tenancies: &mut BTreeMap<u64, Tenancy>, claim: u64) -> &mut Tenancy {
    let unknown = Tenancy { claim, holder: None, since_ms: None, ended_at_ms: None, reason: None };
    tenancies.entry(claim).or_insert(unknown)
}

/// A reader as the rows of a decision. [`Rows`] cannot fail; the first failure is kept aside.
struct ReadRows<'a> {
    reader: &'a dyn Reader,
    failed: RefCell<Option<Error>>,
}

impl ReadRows<'_> {
    fn take<T: Default>(&self, read: Result<T, Error>) -> T {
        read.unwrap_or_else(|error| {
            self.failed.borrow_mut().get_or_insert(error);
            T::default()
        })
    }
}

impl Rows for ReadRows<'_> {
    fn epoch(&self) -> u64 {
        self.reader.epoch()
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.take(self.reader.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.take(self.reader.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.take(self.reader.item(key, id))
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.take(self.reader.claim(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let filter = ClaimFilter {
            collection: Some(key.clone()),
            holder: Some(Text::from(holder_id)),
            state: Some(ClaimState::Active),
            after: None,
        };
        let page = self.reader.claims(&filter, EXPLAIN_CLAIMS_MAX).map(|page| page.rows);
        self.take(page).into_iter().map(|row| row.claim).collect()
    }

    /// Only a restart asks for these.
    fn active_claims(&self, _key: &CollectionKey) -> Vec<u64> {
        Vec::new()
    }
}
