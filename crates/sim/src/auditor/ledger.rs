//! Who held what, from the committed events alone: no rules, only bookkeeping. It judges overlap,
//! tokens, deadlines, ends and sales (I1–I4, I6, I8–I10) without knowing why the server did anything,
//! so a rule that `core` and the auditor's own rules both got wrong would still show here.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::event::{End, Grant};
use tenure_core::{Claim, EndReason, Event, Fact, ItemId, Policy, Status, Text};

use super::space::ran_out;
use super::{Check, violation};

/// One collection's books.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    items: BTreeMap<ItemId, Thing>,
    claims: BTreeMap<u64, Hold>,
    live: BTreeSet<u64>,
}

/// An item. It stays in the books when it is deleted: its tokens must never come back.
#[derive(Clone, Debug, Default)]
struct Thing {
    exists: bool,
    token: u64,
    /// The claim that took it last, unless the item was given back or deleted since.
    claim: Option<u64>,
    status: Option<Status>,
}

#[derive(Clone, Debug)]
struct Hold {
    holder: Text,
    items: BTreeSet<ItemId>,
    token: u64,
    since_ms: i64,
    /// As far as anybody was told. Heartbeats without an answer may have moved it further.
    deadline_ms: i64,
    ended: Option<End>,
}

impl Ledger {
    /// Takes an event into the books. The policy is the kind's at that moment.
    pub(crate) fn take(&mut self, event: &Event, policy: Option<&Policy>) -> Check {
        match &event.fact {
            Fact::Granted(grant) => self.grant(event, grant, policy)?,
            Fact::ItemAdded { claim, item } => {
                self.acts(event, *claim)?;
                self.take_item(event, &item.id, item.status.as_ref(), false, policy)?;
                self.things(&item.id).claim = Some(*claim);
                let hold = self.hold(*claim)?;
                hold.token = event.seq;
                hold.items.insert(item.id.clone());
            }
            Fact::ItemRemoved { claim, item } => {
                self.acts(event, *claim)?;
                self.things(item).claim = None;
                let hold = self.hold(*claim)?;
                if !hold.items.remove(item) || hold.items.is_empty() {
                    return violation(
                        "I8",
                        format!("claim {claim} lost an item that it had not, or its last"),
                    );
                }
            }
            Fact::Renewed { claim, expires_at_ms, .. } => {
                self.acts(event, *claim)?;
                self.hold(*claim)?.deadline_ms = *expires_at_ms;
            }
            Fact::Advanced { claim, expires_at_ms, since_ms, .. } => {
                self.advance(event, *claim, *since_ms, *expires_at_ms)?;
            }
            Fact::Nudged { claim, .. } => drop(self.live(event, *claim)?),
            Fact::Ended(end) => self.end(event, end)?,
            Fact::ItemPut { write, under, .. } => {
                if let Some(acted) = under {
                    self.acts(event, acted.claim)?;
                    self.hold(acted.claim)?.deadline_ms = acted.expires_at_ms;
                }
                self.not_anothers(event, &write.id)?;
                let thing = self.things(&write.id);
                thing.exists = true;
                thing.status = Some(write.status.clone());
            }
            Fact::ItemDeleted { before, .. } => {
                if let Some(number) = self.things(&before.id).claim
                    && self.claims.get(&number).is_some_and(|hold| hold.ended.is_none())
                {
                    return violation(
                        "I8",
                        format!("item {} was deleted while claim {number} held it", before.id),
                    );
                }
                let thing = self.things(&before.id);
                (thing.exists, thing.claim, thing.status) = (false, None, None);
            }
            Fact::Resumed { shift_ms } => {
                for number in &self.live {
                    if let Some(hold) = self.claims.get_mut(number) {
                        hold.deadline_ms += shift_ms;
                    }
                }
            }
            Fact::CollectionCreated | Fact::PolicySet { .. } | Fact::Restored { .. } => {}
        }
        self.count(policy)
    }

    /// The server told a holder of a new deadline.
    pub(crate) fn told(&mut self, event_free_at_ms: i64, actor: &str, claim: &Claim) -> Check {
        let hold = self.hold(claim.number)?;
        if &*hold.holder != actor || event_free_at_ms >= hold.deadline_ms || hold.ended.is_some() {
            return violation(
                "I6",
                format!(
                    "{actor}'s heartbeat on claim {} was granted at {event_free_at_ms}; the holder is {}, the deadline {}",
                    claim.number, hold.holder, hold.deadline_ms
                ),
            );
        }
        hold.deadline_ms = hold.deadline_ms.max(claim.expires_at_ms);
        Ok(())
    }

    /// A row was read: heartbeats whose answer nobody got are known from here on.
    pub(crate) fn read(&mut self, claim: &Claim) {
        if let Some(hold) = self.claims.get_mut(&claim.number) {
            hold.deadline_ms = hold.deadline_ms.max(claim.expires_at_ms);
        }
    }

    /// A claim stood in an answer: it must be one that was granted, with its own token.
    pub(crate) fn shown(&self, claim: &Claim) -> Check {
        let Some(hold) = self.claims.get(&claim.number) else {
            return violation(
                "I14",
                format!("an answer shows claim {}, which no event granted", claim.number),
            );
        };
        let known = *hold.holder == *claim.holder.id && hold.since_ms == claim.since_ms;
        if !known || claim.token < claim.number || claim.token > hold.token {
            return violation(
                "I3",
                format!(
                    "claim {} shows token {} and since {}, granted were {} and {}",
                    claim.number, claim.token, claim.since_ms, hold.token, hold.since_ms
                ),
            );
        }
        Ok(())
    }

    fn grant(&mut self, event: &Event, grant: &Grant, policy: Option<&Policy>) -> Check {
        let ids: BTreeSet<ItemId> = grant.items.iter().map(|item| item.id.clone()).collect();
        if ids.is_empty() || ids.len() != grant.items.len() {
            return violation("I8", format!("grant {} has no items, or one twice", event.seq));
        }
        for item in &grant.items {
            self.take_item(event, &item.id, item.status.as_ref(), grant.forced.is_some(), policy)?;
            self.things(&item.id).claim = Some(event.seq);
        }
        let hold = Hold {
            holder: grant.holder.id.clone(),
            items: ids,
            token: event.seq,
            since_ms: event.at_ms,
            deadline_ms: grant.expires_at_ms,
            ended: None,
        };
        self.live.insert(event.seq);
        match self.claims.insert(event.seq, hold) {
            None => Ok(()),
            Some(_) => violation("I3", format!("token {} was given twice", event.seq)),
        }
    }

    fn take_item(
        &mut self,
        event: &Event,
        id: &ItemId,
        status: Option<&Status>,
        forced: bool,
        policy: Option<&Policy>,
    ) -> Check {
        let thing = self.items.entry(id.clone()).or_default();
        if event.seq <= thing.token {
            return violation("I2", format!("item {id} got token {} after {}", event.seq, thing.token));
        }
        if let (Some(policy), Some(status)) = (policy, &thing.status)
            && policy.finished.contains(status)
        {
            return violation("I9", format!("item {id} is {status} and was granted again at {}", event.seq));
        }
        if let Some(number) = thing.claim
            && let Some(last) = self.claims.get(&number)
        {
            let Some(end) = &last.ended else {
                return violation(
                    "I1",
                    format!(
                        "item {id} was granted at {} while claim {number} of {} had not ended",
                        event.seq, last.holder
                    ),
                );
            };
            if event.at_ms < end.ended_at_ms {
                return violation("I1", format!("item {id} was granted before claim {number} ended"));
            }
            if event.at_ms < end.blocked_until_ms && !forced {
                return violation(
                    "I4",
                    format!("item {id} was granted within the lock delay of claim {number}"),
                );
            }
        }
        thing.token = event.seq;
        thing.exists = true;
        if let Some(status) = status {
            thing.status = Some(status.clone());
        }
        Ok(())
    }

    fn advance(&mut self, event: &Event, number: u64, since_ms: i64, expires_at_ms: i64) -> Check {
        let by_itself = &*event.actor.id == super::SYSTEM_ID;
        if by_itself {
            let hold = self.live(event, number)?;
            if since_ms < hold.deadline_ms || since_ms > event.at_ms {
                return violation(
                    "I4",
                    format!(
                        "claim {number} advanced by itself at {since_ms}, its deadline was {}",
                        hold.deadline_ms
                    ),
                );
            }
        } else {
            self.acts(event, number)?;
        }
        self.hold(number)?.deadline_ms = expires_at_ms;
        Ok(())
    }

    fn end(&mut self, event: &Event, end: &End) -> Check {
        let hold = self.live(event, end.claim)?;
        let items: BTreeSet<ItemId> = end.items.iter().cloned().collect();
        if items != hold.items || items.len() != end.items.len() || *end.holder.id != *hold.holder {
            return violation("I8", format!("claim {} ended with other items or another holder", end.claim));
        }
        if ran_out(end.reason) {
            if end.ended_at_ms < hold.deadline_ms || event.at_ms < end.ended_at_ms {
                return violation(
                    "I4",
                    format!(
                        "claim {} ran out at {} (told at {}), its deadline was {}",
                        end.claim, end.ended_at_ms, event.at_ms, hold.deadline_ms
                    ),
                );
            }
        } else if end.ended_at_ms != event.at_ms {
            return violation("I10", format!("claim {} ended at another time than its event", end.claim));
        } else if matches!(end.reason, EndReason::Completed | EndReason::Released | EndReason::Cancelled) {
            if event.at_ms >= hold.deadline_ms {
                let code = if end.reason == EndReason::Completed { "I10" } else { "I6" };
                return violation(
                    code,
                    format!("claim {} was ended by its holder after its deadline", end.claim),
                );
            }
            if *event.actor.id != *hold.holder {
                return violation(
                    "I6",
                    format!("claim {} was ended by {}, who does not hold it", end.claim, event.actor.id),
                );
            }
        }
        hold.ended = Some(end.clone());
        self.live.remove(&end.claim);
        for completed in &end.writes {
            let inside = end.items.contains(&completed.write.id);
            let thing = self.things(&completed.write.id);
            thing.status = Some(completed.write.status.clone());
            if !inside {
                return violation("I8", format!("claim {} completed an item that it had not", end.claim));
            }
        }
        Ok(())
    }

    /// A holder does something under a claim: it must be the holder, before the deadline.
    fn acts(&mut self, event: &Event, number: u64) -> Check {
        let hold = self.live(event, number)?;
        if *event.actor.id != *hold.holder || event.at_ms >= hold.deadline_ms {
            return violation(
                "I6",
                format!(
                    "{} acted under claim {number} at {}; the holder is {}, the deadline {}",
                    event.actor.id, event.at_ms, hold.holder, hold.deadline_ms
                ),
            );
        }
        Ok(())
    }

    fn live(&mut self, event: &Event, number: u64) -> Result<&mut Hold, super::Violation> {
        let hold = self.hold(number)?;
        match &hold.ended {
            None => Ok(hold),
            Some(end) => Err(super::Violation::new(
                "I10",
                format!(
                    "event {} speaks of claim {number}, which had ended ({})",
                    event.seq,
                    end.reason.as_str()
                ),
            )),
        }
    }

    fn not_anothers(&mut self, event: &Event, id: &ItemId) -> Check {
        let Some(number) = self.things(id).claim else { return Ok(()) };
        match self.claims.get(&number) {
            Some(hold) if hold.ended.is_none() && *hold.holder != *event.actor.id => violation(
                "I6",
                format!("{} wrote item {id} at {} while {} held it", event.actor.id, event.seq, hold.holder),
            ),
            _ => Ok(()),
        }
    }

    /// Sold and held together never exceed what exists (I9), and no item is in two live claims (I1).
    fn count(&self, policy: Option<&Policy>) -> Check {
        let Some(policy) = policy else { return Ok(()) };
        let live = self.live.iter().filter_map(|number| self.claims.get(number));
        let held: usize = live.clone().map(|hold| hold.items.len()).sum();
        let distinct: BTreeSet<&ItemId> = live.flat_map(|hold| &hold.items).collect();
        if distinct.len() != held {
            return violation("I1", "two live claims hold the same item".to_owned());
        }
        let exist = self.items.values().filter(|thing| thing.exists);
        let total = exist.clone().count();
        let finished =
            |thing: &&Thing| thing.status.as_ref().is_some_and(|status| policy.finished.contains(status));
        let sold = exist
            .filter(finished)
            .filter(|thing| {
                let holder = thing.claim.and_then(|number| self.claims.get(&number));
                holder.is_none_or(|hold| hold.ended.is_some())
            })
            .count();
        if sold + held > total {
            return violation("I9", format!("{sold} finished and {held} held, of {total}"));
        }
        Ok(())
    }

    fn hold(&mut self, number: u64) -> Result<&mut Hold, super::Violation> {
        let missing =
            || super::Violation::new("I14", format!("an event speaks of claim {number}, never granted"));
        self.claims.get_mut(&number).ok_or_else(missing)
    }

    fn things(&mut self, id: &ItemId) -> &mut Thing {
        self.items.entry(id.clone()).or_default()
    }
}
