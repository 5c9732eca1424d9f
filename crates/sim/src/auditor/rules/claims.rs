//! Claiming, keeping, changing and ending.

use std::sync::Arc;

use tenure_core::command::{Acquire, Complete, How, NotRenewed};
use tenure_core::event::{Completed, Forced, Grant, GrantedItem, Written};
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{
    Claim, ClaimState, EndReason, Fact, Item, ItemId, Json, Refusal, Reply, SessionId, Status, Text,
};

use super::Trial;
use super::timers::{after, ends, enters, lease_end, phase_of, renewable};

impl Trial<'_> {
    pub(super) fn acquire(&mut self, ask: &Acquire) -> Result<Reply, Refusal> {
        self.check_ask(ask)?;
        if self.policy.one_claim_per_session && ask.session.is_some() {
            let numbers: Vec<u64> = self.space.active.iter().copied().collect();
            for number in numbers {
                let same = self
                    .space
                    .claim(number)
                    .is_some_and(|claim| claim.session == ask.session && claim.holder.id == self.actor.id);
                if !same {
                    continue;
                }
                if let Some(claim) = self.settled(number).filter(|claim| claim.state == ClaimState::Active) {
                    return Ok(Reply::Acquired { claim, how: How::Existing });
                }
            }
        }
        if let Some(item) = self.item(&ask.items[0])
            && let Some(claim) = self.holder_of(&item)
            && self.comes_again(&claim, ask.session.as_ref())
            && ask.items.iter().all(|id| claim.items.contains(id))
            && !ask.items.iter().any(|id| self.is_finished(id))
        {
            return Ok(self.claim_again(&claim, ask.ttl_ms, None));
        }
        let (mut free, mut taken) = (Vec::new(), Vec::new());
        for id in &ask.items {
            match self.look(id)? {
                Ok(item) => free.push(item),
                Err(item) => taken.push(item),
            }
        }
        if !taken.is_empty() {
            return Err(gravest(taken));
        }
        if let Some(max) = self.policy.max_claims_per_holder {
            let own = |claim: &Claim, id: &str| &*claim.holder.id == id;
            let numbers: Vec<u64> = self.space.active.iter().copied().collect();
            let numbers = numbers
                .into_iter()
                .filter(|number| self.space.claim(*number).is_some_and(|claim| own(claim, &self.actor.id)));
            let numbers: Vec<u64> = numbers.collect();
            let mut live = 0;
            for number in numbers {
                let claim = self.settled(number);
                live += usize::from(claim.is_some_and(|claim| claim.state == ClaimState::Active));
            }
            if live >= max {
                return Err(Refusal::Limit { limit: Text::from("max_claims_per_holder"), max: max as u64 });
            }
        }
        let ttl_ms = ask.ttl_ms.unwrap_or(self.policy.phases[0].ttl_ms);
        let claim = self.grant(free, ask.session.clone(), ttl_ms, ask.data.clone(), None);
        Ok(Reply::Acquired { claim, how: How::New })
    }

    fn check_ask(&self, ask: &Acquire) -> Result<(), Refusal> {
        let policy = &self.policy;
        if ask.items.is_empty() {
            return Err(Refusal::invalid("items", "empty"));
        }
        if ask.items.len() > policy.max_items {
            return Err(Refusal::Limit { limit: Text::from("max_items"), max: policy.max_items as u64 });
        }
        for (index, item) in ask.items.iter().enumerate() {
            if ask.items[..index].contains(item) {
                return Err(Refusal::invalid("items", "twice"));
            }
        }
        if ask.ttl_ms.is_some_and(|ttl_ms| ttl_ms < policy.ttl_ms_min || ttl_ms > policy.ttl_ms_max) {
            return Err(Refusal::invalid("ttl_ms", "out of bounds"));
        }
        if ask.wait_ms.is_some_and(|wait_ms| wait_ms < 0 || wait_ms > policy.max_wait_ms) {
            return Err(Refusal::invalid("wait_ms", "out of bounds"));
        }
        Ok(())
    }

    /// Renewed where the phase can be, else left alone. Time that was promised is never taken away.
    fn claim_again(&mut self, claim: &Arc<Claim>, ttl_ms: Option<i64>, note: Option<Text>) -> Reply {
        if !renewable(&self.policy, claim) {
            return Reply::Acquired { claim: claim.clone(), how: How::Existing };
        }
        let ttl_ms = ttl_ms.unwrap_or(claim.ttl_ms);
        let lease_ms = lease_end(&self.policy, self.now_ms, ttl_ms, self.now_ms);
        let expires_at_ms = lease_ms.max(claim.expires_at_ms);
        self.happens(Fact::Renewed { claim: claim.number, ttl_ms, expires_at_ms, note });
        Reply::Acquired { claim: self.now_is(claim.number), how: How::Renewed }
    }

    fn grant(
        &mut self,
        items: Vec<GrantedItem>,
        session: Option<SessionId>,
        ttl_ms: i64,
        data: Option<Json>,
        forced: Option<Forced>,
    ) -> Arc<Claim> {
        let first = self.policy.phases[0].clone();
        let expires_at_ms = if first.renew {
            lease_end(&self.policy, self.now_ms, ttl_ms, self.now_ms)
        } else {
            self.now_ms + ttl_ms
        };
        let holder = self.actor.clone();
        let grant = Grant { items, holder, session, phase: first.name, ttl_ms, expires_at_ms, data, forced };
        self.happens(Fact::Granted(grant));
        self.now_is(self.space.seq)
    }

    fn look(&mut self, id: &ItemId) -> Result<Result<GrantedItem, Unavailable>, Refusal> {
        let Some(item) = self.item(id) else {
            if !self.policy.create_on_claim {
                return Err(Refusal::not_found("item", id));
            }
            let status = self.policy.status_on_claim.clone().unwrap_or(self.policy.claimable[0].clone());
            return Ok(Ok(GrantedItem { id: id.clone(), status: Some(status), before: None }));
        };
        let why = if self.policy.finished.contains(&item.status) {
            Why::Finished { status: item.status.clone() }
        } else if !self.policy.claimable.contains(&item.status) {
            Why::NotClaimable { status: item.status.clone() }
        } else {
            match self.settled(item.claim) {
                Some(claim) if claim.state == ClaimState::Active => {
                    held(&claim, self.policy.session_exclusive)
                }
                Some(claim) if self.now_ms < claim.blocked_until_ms => {
                    Why::Delayed { holder: claim.holder.clone(), until_ms: claim.blocked_until_ms }
                }
                _ => return Ok(Ok(self.taken_as(&item))),
            }
        };
        Ok(Err(Unavailable { item: id.clone(), why }))
    }

    /// The holder itself, once more. Workers share a principal, so some kinds ask for the session, too; to
    /// name none is then a session like any other.
    fn comes_again(&self, claim: &Claim, session: Option<&SessionId>) -> bool {
        if claim.holder.id != self.actor.id {
            return false;
        }
        match (self.policy.session_exclusive, &claim.session, session) {
            (false, _, _) | (true, None, None) => true,
            (true, Some(theirs), Some(ours)) => theirs == ours,
            (true, _, _) => false,
        }
    }

    fn is_finished(&self, id: &ItemId) -> bool {
        self.space.items.get(id).is_some_and(|item| self.policy.finished.contains(&item.status))
    }

    fn taken_as(&self, item: &Item) -> GrantedItem {
        let changes = self.policy.status_on_claim.as_ref().filter(|status| **status != item.status);
        GrantedItem { id: item.id.clone(), status: changes.cloned(), before: Some(item.status.clone()) }
    }

    /// The actor's own claim, alive, with a token of it.
    pub(super) fn mine(&mut self, number: u64, token: Option<u64>) -> Result<Arc<Claim>, Refusal> {
        let claim = self.settled(number).ok_or_else(|| Refusal::not_found("claim", number))?;
        if claim.holder.id != self.actor.id {
            return Err(Refusal::NotHolder { holder: claim.holder.clone() });
        }
        self.alive(&claim)?;
        match token {
            Some(given) if !(claim.number..=claim.token).contains(&given) => {
                Err(Refusal::StaleToken { given, current: claim.token })
            }
            _ => Ok(claim),
        }
    }

    fn alive(&mut self, claim: &Claim) -> Result<(), Refusal> {
        let (Some(reason), Some(ended_at_ms)) = (claim.reason, claim.ended_at_ms) else { return Ok(()) };
        let mut holder = None;
        for id in claim.items.iter() {
            if let Some(item) = self.item(id)
                && let Some(now) = self.holder_of(&item)
            {
                holder = Some(now.holder.clone());
                break;
            }
        }
        Err(Refusal::Lost { reason, ended_at_ms, holder })
    }

    pub(super) fn heartbeat(&mut self, number: u64, token: u64, idle: Option<i64>) -> Result<Reply, Refusal> {
        if idle.is_some_and(|idle_ms| idle_ms < 0) {
            return Err(Refusal::invalid("idle_ms", "negative"));
        }
        let claim = self.mine(number, Some(token))?;
        let not = |reason, claim| Ok(Reply::Beat { renewed: false, reason: Some(reason), claim });
        if !renewable(&self.policy, &claim) {
            return not(NotRenewed::FixedPhase, claim);
        }
        if let (Some(guard_ms), Some(idle_ms)) = (self.policy.idle_guard_ms, idle)
            && idle_ms >= guard_ms
        {
            if !claim.idle {
                self.space.beat(number, None);
                self.beat = true;
            }
            // The answer shows the claim as the heartbeat found it.
            return not(NotRenewed::Idle, claim);
        }
        let deadline_ms = lease_end(&self.policy, self.now_ms, claim.ttl_ms, claim.acted_at_ms);
        let capped = deadline_ms < self.now_ms + claim.ttl_ms;
        if capped && deadline_ms <= claim.expires_at_ms {
            return not(NotRenewed::MaxHold, claim);
        }
        self.space.beat(number, Some((self.now_ms, deadline_ms.max(claim.expires_at_ms))));
        self.beat = true;
        Ok(Reply::Beat { renewed: true, reason: None, claim: self.now_is(number) })
    }

    pub(super) fn add_item(&mut self, number: u64, id: &ItemId) -> Result<Reply, Refusal> {
        let claim = self.mine_in_first_phase(number)?;
        if claim.items.contains(id) {
            return Err(Refusal::invalid("item", "already in"));
        }
        if claim.items.len() >= self.policy.max_items {
            return Err(Refusal::Limit { limit: Text::from("max_items"), max: self.policy.max_items as u64 });
        }
        let item = self.look(id)?.map_err(|item| gravest(vec![item]))?;
        self.happens(Fact::ItemAdded { claim: number, item });
        Ok(Reply::Claim { claim: self.now_is(number) })
    }

    pub(super) fn remove_item(&mut self, number: u64, id: &ItemId) -> Result<Reply, Refusal> {
        let claim = self.mine_in_first_phase(number)?;
        if !claim.items.contains(id) {
            return Err(Refusal::not_found("item", id));
        }
        if claim.items.len() < 2 {
            return Err(Refusal::invalid("item", "the last"));
        }
        self.happens(Fact::ItemRemoved { claim: number, item: id.clone() });
        Ok(Reply::Claim { claim: self.now_is(number) })
    }

    fn mine_in_first_phase(&mut self, number: u64) -> Result<Arc<Claim>, Refusal> {
        let claim = self.mine(number, None)?;
        if claim.phase == self.policy.phases[0].name {
            Ok(claim)
        } else {
            Err(Refusal::WrongPhase { phase: claim.phase.clone() })
        }
    }

    pub(super) fn advance(&mut self, number: u64) -> Result<Reply, Refusal> {
        let claim = self.mine(number, None)?;
        let next = phase_of(&self.policy, &claim).and_then(|(index, _)| after(&self.policy, index));
        let Some(next) = next.cloned() else {
            return Err(Refusal::WrongPhase { phase: claim.phase.clone() });
        };
        self.happens(enters(&claim, &next, self.now_ms));
        Ok(Reply::Claim { claim: self.now_is(number) })
    }

    pub(super) fn enter(&mut self, number: u64, name: &str, ttl_ms: Option<i64>) -> Result<Reply, Refusal> {
        let Some(mut phase) = self.policy.phases.iter().find(|phase| *phase.name == *name).cloned() else {
            return Err(Refusal::invalid("phase", "unknown"));
        };
        if let Some(asked_ms) = ttl_ms {
            if asked_ms < 1 || asked_ms > phase.ttl_ms {
                return Err(Refusal::invalid("ttl_ms", "out of bounds"));
            }
            phase.ttl_ms = asked_ms;
        }
        let claim = self.mine(number, None)?;
        let on_the_walk = phase_of(&self.policy, &claim).is_some_and(|(_, current)| !current.side);
        if *claim.phase == *name || (on_the_walk && !phase.side) {
            return Err(Refusal::WrongPhase { phase: claim.phase.clone() });
        }
        self.happens(enters(&claim, &phase, self.now_ms));
        Ok(Reply::Claim { claim: self.now_is(number) })
    }

    pub(super) fn complete(&mut self, ask: &Complete) -> Result<Reply, Refusal> {
        let known =
            |status: &Status| self.policy.finished.contains(status) || self.policy.claimable.contains(status);
        let mut named = ask.status.iter().chain(ask.items.iter().filter_map(|write| write.status.as_ref()));
        if !named.all(known) {
            return Err(Refusal::invalid("status", "unknown"));
        }
        let claim = self.mine(ask.claim, ask.token)?;
        for (index, write) in ask.items.iter().enumerate() {
            let twice = ask.items[..index].iter().any(|earlier| earlier.item == write.item);
            if twice || !claim.items.contains(&write.item) {
                return Err(Refusal::invalid(format!("items[{index}]"), "not in it, or twice"));
            }
        }
        let mut writes = Vec::new();
        for id in claim.items.iter() {
            let Some(item) = self.item(id) else { continue };
            let own = ask.items.iter().find(|write| write.item == *id);
            let status = own.and_then(|write| write.status.clone()).or_else(|| ask.status.clone());
            let data = own.and_then(|write| write.data.clone()).or_else(|| ask.data.clone());
            if status.is_none() && data.is_none() {
                continue;
            }
            let before = written(&item);
            let write = Written {
                id: id.clone(),
                version: item.version + 1,
                status: status.unwrap_or_else(|| item.status.clone()),
                data: data.or_else(|| item.data.clone()),
            };
            writes.push(Completed { write, before });
        }
        let mut end = ends(&self.policy, &claim, EndReason::Completed, self.now_ms, None);
        end.writes = writes;
        self.happens(Fact::Ended(end));
        Ok(Reply::Claim { claim: self.now_is(ask.claim) })
    }

    /// Release or cancel. Doing it twice is doing it once.
    pub(super) fn let_go(&mut self, number: u64, reason: EndReason) -> Result<Reply, Refusal> {
        let claim = match self.mine(number, None) {
            Ok(claim) => claim,
            Err(Refusal::Lost { reason: earlier, .. }) if earlier == reason => {
                return Ok(Reply::Claim { claim: self.now_is(number) });
            }
            Err(refusal) => return Err(refusal),
        };
        let end = ends(&self.policy, &claim, reason, self.now_ms, None);
        self.happens(Fact::Ended(end));
        Ok(Reply::Claim { claim: self.now_is(number) })
    }

    pub(super) fn force_release(&mut self, id: &ItemId, reason: &Text) -> Result<Reply, Refusal> {
        let item = self.item(id).ok_or_else(|| Refusal::not_found("item", id))?;
        let Some(claim) = self.holder_of(&item) else { return Ok(Reply::Freed { claim: None }) };
        let note = Some(reason.clone());
        let end = ends(&self.policy, &claim, EndReason::ForceReleased, self.now_ms, note);
        self.happens(Fact::Ended(end));
        Ok(Reply::Freed { claim: Some(self.now_is(claim.number)) })
    }

    pub(super) fn force_claim(
        &mut self,
        id: &ItemId,
        reason: &Text,
        session: Option<&SessionId>,
    ) -> Result<Reply, Refusal> {
        let found = self.item(id);
        let current = found.as_ref().and_then(|item| self.holder_of(item));
        let mut previous = None;
        if let Some(claim) = current {
            if self.comes_again(&claim, session) {
                return Ok(self.claim_again(&claim, None, Some(reason.clone())));
            }
            previous = Some(claim.holder.clone());
            let note = Some(reason.clone());
            let end = ends(&self.policy, &claim, EndReason::TakenOver, self.now_ms, note);
            self.happens(Fact::Ended(end));
        }
        let item = match (self.look(id)?, &found) {
            (Ok(item), _) => item,
            (Err(Unavailable { why: Why::Delayed { .. }, .. }), Some(item)) => self.taken_as(item),
            (Err(item), _) => return Err(gravest(vec![item])),
        };
        let forced = Some(Forced { reason: reason.clone(), previous });
        let ttl_ms = self.policy.phases[0].ttl_ms;
        let claim = self.grant(vec![item], session.cloned(), ttl_ms, None, forced);
        Ok(Reply::Acquired { claim, how: How::New })
    }

    pub(super) fn nudge(&mut self, number: u64, message: Option<&Text>) -> Result<Reply, Refusal> {
        let claim = self.settled(number).ok_or_else(|| Refusal::not_found("claim", number))?;
        self.alive(&claim)?;
        self.happens(Fact::Nudged { claim: number, message: message.cloned() });
        Ok(Reply::Claim { claim })
    }

    fn now_is(&self, number: u64) -> Arc<Claim> {
        self.space.claims[&number].clone()
    }
}

pub(super) fn held(claim: &Claim, names_session: bool) -> Why {
    let session = if names_session { claim.session.clone() } else { None };
    let (since_ms, until_ms) = (claim.since_ms, claim.expires_at_ms);
    Why::Held { holder: claim.holder.clone(), session, since_ms, until_ms }
}

/// Final beats unclaimable beats held.
pub(super) fn gravest(items: Vec<Unavailable>) -> Refusal {
    if items.iter().any(|item| matches!(item.why, Why::Finished { .. })) {
        Refusal::Finished { items }
    } else if items.iter().any(|item| matches!(item.why, Why::NotClaimable { .. })) {
        Refusal::NotClaimable { items }
    } else {
        Refusal::Held { items }
    }
}

pub(super) fn written(item: &Item) -> Written {
    Written {
        id: item.id.clone(),
        version: item.version,
        status: item.status.clone(),
        data: item.data.clone(),
    }
}
