//! An attempt to pay: where it lies, how it is read, and how it takes one step. A step is one commit in the
//! raffle's collection, in the buyer's name: the attempt's document and what becomes of the reservation change
//! together or not at all.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tenure_core::{Claim, CollectionKey, ItemId, Refusal as Rule, Verb, hex};

use super::model::{AttemptDoc, Payment, State, TabDoc, Was};
use super::{Bill, Payments, Sealed};
use crate::desk::{is_raced, status};
use crate::raffle::{KIND, Order};
use crate::{Actor, Desk, Document, Done, Family, Refusal, RequestKey, Result};

/// Attempts to pay, in their raffle's collection.
pub(super) const ATTEMPTS: Family = Family("attempt-");
/// What was paid for a reservation, beside it.
pub(super) const TABS: Family = Family("tab-");
/// States that are remembered of one attempt. The longest way through has a dozen.
const HISTORY_MAX: usize = 32;

/// Which attempt. Written `raffle~name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AttemptId {
    pub(super) collection: CollectionKey,
    pub(super) item: ItemId,
}

/// What nobody may read of an attempt: in the vault, as JSON.
#[derive(Serialize, Deserialize)]
pub(super) struct Pocket {
    /// 256 bits, in the path of the page and of the callback.
    pub(super) token: String,
    /// The provider's page.
    pub(super) html: Option<String>,
    /// What confirms it.
    pub(super) handle: Option<String>,
}

impl AttemptId {
    pub(super) fn parse(id: &str) -> Result<Self> {
        let unknown = || Refusal::not_found("payment", id);
        let (raffle, name) = id.split_once('~').ok_or_else(unknown)?;
        let collection = CollectionKey::from_parts(KIND, raffle).map_err(|_| unknown())?;
        let item = ATTEMPTS.id(name).map_err(|_| unknown())?;
        Ok(Self { collection, item })
    }
}

impl std::fmt::Display for AttemptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.item.as_str().strip_prefix(ATTEMPTS.0).unwrap_or("");
        write!(f, "{}~{name}", self.collection.name())
    }
}

impl Document<AttemptDoc> {
    pub(super) fn state(&self) -> Result<State> {
        State::of(self.item.status.as_str()).ok_or_else(|| {
            tracing::error!(item = self.item.id.as_str(), "an attempt is in no state that is known");
            Refusal::Broken
        })
    }

    /// The attempt in its next state, over the version that was read.
    pub(super) fn moved(&self, to: State, now_ms: i64, change: impl FnOnce(&mut AttemptDoc)) -> Result<Verb> {
        let mut data = self.data.clone();
        change(&mut data);
        data.history.push(Was { state: to, at_ms: now_ms });
        let over = data.history.len().saturating_sub(HISTORY_MAX);
        data.history.drain(..over);
        self.put(&status(to.as_str()), &data, None)
    }
}

impl Payments {
    pub(super) fn attempt(&self, id: &AttemptId) -> Result<Document<AttemptDoc>> {
        let unknown = || Refusal::not_found("payment", id);
        self.desk.find(&id.collection, &id.item)?.ok_or_else(unknown)
    }

    /// Takes one step, if the plan still wants one: it is called anew when somebody was faster. What it gives
    /// is done in the buyer's name.
    pub(super) async fn step(
        &self,
        id: &AttemptId,
        plan: impl FnMut(&Document<AttemptDoc>, State, &Order) -> Result<Option<Vec<Verb>>>,
    ) -> Result<Option<Done>> {
        self.step_under(id, None, plan).await
    }

    /// The same as the decision of somebody's request.
    pub(super) async fn step_under(
        &self,
        id: &AttemptId,
        key: Option<&RequestKey>,
        mut plan: impl FnMut(&Document<AttemptDoc>, State, &Order) -> Result<Option<Vec<Verb>>>,
    ) -> Result<Option<Done>> {
        let reservation = self.attempt(id)?.data.reservation;
        let buyer = Actor { key: key.cloned(), ..self.raffles.order(&reservation)?.holder()? };
        let plan = || {
            let attempt = self.attempt(id)?;
            let state = attempt.state()?;
            let order = self.raffles.order(&reservation)?;
            Ok(plan(&attempt, state, &order)?.map(Verb::Group))
        };
        let done = self.desk.attempt((&buyer, &id.collection, Desk::OWN_STEP), is_step_race, plan).await?;
        if done.is_some() {
            self.note(id)?;
        }
        Ok(done)
    }

    /// What an earlier request under this key came to: the payment as it is now.
    pub(super) async fn repeated(
        &self,
        actor: &Actor,
        id: &AttemptId,
        key: Option<&RequestKey>,
    ) -> Result<Option<Done<Payment>>> {
        let order = self.raffles.order(&self.attempt(id)?.data.reservation)?;
        let buyer = Actor { key: key.cloned(), ..order.holder()? };
        let asked = (&buyer, &id.collection, Desk::OWN_STEP);
        let Some(done) = self.desk.decided_unless(asked, is_step_race).await? else { return Ok(None) };
        let payment = self.show(actor, id)?;
        Ok(Some(Done { replayed: true, ..done.show(payment) }))
    }

    /// The payment after a request that was carried out now.
    pub(super) fn carried_out(&self, actor: &Actor, id: &AttemptId) -> Result<Done<Payment>> {
        Ok(Done { value: self.show(actor, id)?, at_ms: self.desk.now_ms(), replayed: false })
    }

    /// Remembers when the attempt is to be looked at next, and forgets the secrets of one that is over.
    pub(super) fn note(&self, id: &AttemptId) -> Result<()> {
        let attempt = self.attempt(id)?;
        let state = attempt.state()?;
        self.till.agenda.note(&id.to_string(), &attempt.data, state);
        if !state.is_open()
            && let Err(error) = self.till.vault.remove(&attempt.data.vault)
        {
            tracing::warn!(payment = %id, %error, "the secrets of a payment that is over could not be deleted");
        }
        Ok(())
    }

    pub(super) fn tab(&self, order: &Order) -> Result<(ItemId, Option<Document<TabDoc>>)> {
        let id = order.id();
        let name = id.split_once('~').map_or("", |(_, name)| name);
        let item = TABS.id(name)?;
        let found = self.desk.find(&order.collection, &item)?;
        Ok((item, found))
    }

    /// Nothing was charged: the reservation goes back to checkout for what is left of its time, which ran on
    /// meanwhile. If nothing is left it ends as every checkout does.
    pub(super) fn back(&self, order: &Order) -> Result<Vec<Verb>> {
        let aside = |claim: &&Claim| matches!(&*claim.phase, "paying" | "verification");
        let Some(claim) = order.claim.as_ref().filter(aside) else { return Ok(Vec::new()) };
        let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
        let longest_ms = policy.phase("checkout").map_or(1, |(checkout, _)| checkout.ttl_ms);
        let deadline_ms = self.tab(order)?.1.map_or(0, |tab| tab.data.deadline_ms);
        // While the server was away nobody's time ran: the engine has moved the claim's deadline by that.
        let away_ms = (claim.expires_at_ms - claim.phase_since_ms - claim.ttl_ms).max(0);
        order.back((deadline_ms + away_ms - order.now_ms).clamp(1, longest_ms))
    }

    pub(super) fn pocket(&self, attempt: &AttemptDoc) -> Result<Option<Pocket>> {
        let Some(kept) = self.secret_of(&attempt.vault)? else { return Ok(None) };
        serde_json::from_str(kept.expose()).map(Some).map_err(|_| {
            tracing::error!(vault = attempt.vault, "the secrets of a payment cannot be read");
            Refusal::Broken
        })
    }

    pub(super) fn fill_pocket(&self, vault: &str, pocket: &Pocket) -> Result<()> {
        let text = serde_json::to_string(pocket).map_err(|_| Refusal::Broken)?;
        self.keep_secret(vault, &Sealed::new(text))
    }

    /// What the provider is asked for.
    pub(super) fn bill(&self, id: &AttemptId, attempt: &AttemptDoc, token: &str) -> Bill {
        let callback_url = format!("{}/payments/callback/{id}/{token}", self.till.public_url);
        Bill {
            number: attempt.number.clone(),
            reference: id.to_string(),
            code: attempt.code.clone(),
            amount: attempt.amount,
            callback_url: Sealed::new(callback_url),
        }
    }
}

/// The key of somebody's request for this attempt, whose steps are in the buyer's name.
pub(super) fn key_for(actor: &Actor, attempt: &AttemptDoc) -> Option<RequestKey> {
    let is_buyer = *attempt.buyer.id == *actor.principal.id;
    let key = actor.key.as_ref()?;
    Some(if is_buyer { key.clone() } else { key.on_behalf(&actor.principal) })
}

/// Somebody else was faster, or the reservation's time went on: plan anew.
pub(super) fn is_step_race(refusal: &Refusal) -> bool {
    is_raced(refusal) || matches!(refusal.rule(), Some(Rule::Lost { .. } | Rule::WrongPhase { .. }))
}

/// A token's hash, in hexadecimal digits.
pub(super) fn hash_of(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}
