//! The judge of the random tests. It hears what was committed, keeps its own account of who holds
//! what until when, and compares that with the promises. It shares no code with what it judges.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::{
    AtEnd, Claim, ClaimState, Decision, EndReason, Event, Fact, ItemId, Policy, Principal, Rows,
};

use crate::memory::Memory;
use crate::world::World;

/// One claim, as the judge heard of it.
#[derive(Debug)]
struct Account {
    holder: Principal,
    items: BTreeSet<ItemId>,
    deadline_ms: i64,
    over: bool,
}

/// Everything that the judge heard.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    claims: BTreeMap<u64, Account>,
    /// The greatest token of each item, also of items that are gone.
    newest_token: BTreeMap<ItemId, u64>,
    fences: BTreeMap<ItemId, u64>,
}

impl Judge {
    /// Hears one committed decision and the rows after it.
    pub(crate) fn hear(&mut self, decision: &Decision, rows: &Memory, now_ms: i64) {
        for sealed in &decision.events {
            self.hear_event(&sealed.event);
        }
        let beaten: BTreeSet<u64> = decision.beats.iter().map(|beat| beat.claim).collect();
        for claim in rows.claims() {
            self.compare(claim, beaten.contains(&claim.number), now_ms);
        }
        let fences: BTreeMap<_, _> = rows.items().map(|item| (item.id.clone(), item.fence)).collect();
        for (id, fence) in &fences {
            let before = self.fences.get(id).copied().unwrap_or(0);
            assert!(*fence >= before, "the fence of {id} went back");
            assert!(
                *fence <= self.newest_token.get(id).copied().unwrap_or(0),
                "the fence of {id} is nobody's"
            );
        }
        self.fences = fences;
    }

    fn hear_event(&mut self, event: &Event) {
        if let Fact::ItemDeleted { before, .. } = &event.fact {
            self.nobody_has(&before.id);
            self.fences.remove(&before.id);
        }
        if let Fact::ItemPut { write, before, .. } = &event.fact {
            let others = self.claims.values().filter(|account| account.holder.id != event.actor.id);
            for account in others.filter(|account| !account.over) {
                assert!(!account.items.contains(&write.id), "nobody writes to what another holds");
            }
            let before = before.as_ref().map_or(0, |before| before.version);
            assert_eq!(write.version, before + 1, "a write adds one to the version");
        }
        match &event.fact {
            Fact::Granted(grant) => {
                assert_eq!(grant.holder, event.actor, "a claim is granted to who asked");
                assert!(grant.expires_at_ms > event.at_ms, "a claim begins with time left");
                for item in &grant.items {
                    self.take(&item.id, event.seq);
                }
                let account = Account {
                    holder: grant.holder.clone(),
                    items: grant.items.iter().map(|item| item.id.clone()).collect(),
                    deadline_ms: grant.expires_at_ms,
                    over: false,
                };
                assert_eq!(account.items.len(), grant.items.len(), "an item is granted once");
                assert!(self.claims.insert(event.seq, account).is_none(), "a number names one claim");
            }
            Fact::ItemAdded { claim, item } => {
                self.live(*claim, event);
                self.take(&item.id, event.seq);
                self.account(*claim).items.insert(item.id.clone());
            }
            Fact::ItemRemoved { claim, item } => {
                self.live(*claim, event);
                assert!(self.account(*claim).items.remove(item), "only its own item leaves a claim");
            }
            Fact::Renewed { claim, expires_at_ms, .. } => {
                self.live(*claim, event);
                self.extend(*claim, *expires_at_ms);
            }
            Fact::ItemPut { under: Some(acted), .. } | Fact::ItemDeleted { under: Some(acted), .. } => {
                self.live(acted.claim, event);
                self.extend(acted.claim, acted.expires_at_ms);
            }
            Fact::Advanced { claim, since_ms, expires_at_ms, .. } => {
                if event.actor == Principal::system() {
                    assert_eq!(*since_ms, self.account(*claim).deadline_ms, "by itself, at the deadline");
                    assert!(*since_ms <= event.at_ms);
                } else {
                    self.live(*claim, event);
                    assert_eq!(*since_ms, event.at_ms);
                }
                assert!(expires_at_ms > since_ms && !self.account(*claim).over);
                self.account(*claim).deadline_ms = *expires_at_ms;
            }
            Fact::Ended(end) => self.end(event, end.claim, end.reason, end.ended_at_ms),
            Fact::Resumed { shift_ms } => {
                for account in self.claims.values_mut().filter(|account| !account.over) {
                    assert!(account.deadline_ms > event.at_ms - shift_ms, "only what was alive goes on");
                    account.deadline_ms += shift_ms;
                }
            }
            Fact::Nudged { claim, .. } => assert!(event.at_ms < self.account(*claim).deadline_ms),
            _ => {}
        }
    }

    fn end(&mut self, event: &Event, number: u64, reason: EndReason, ended_at_ms: i64) {
        let account = self.account(number);
        assert!(!account.over, "claim {number} ends once");
        account.over = true;
        match reason {
            EndReason::Expired | EndReason::Idle | EndReason::MaxHold => {
                assert_eq!(event.actor, Principal::system());
                assert_eq!(ended_at_ms, account.deadline_ms, "it runs out at its deadline");
                assert!(ended_at_ms <= event.at_ms, "never before");
            }
            EndReason::Released | EndReason::Completed | EndReason::Cancelled => {
                assert_eq!(event.actor.id, account.holder.id, "only the holder ends its claim");
                assert!(event.at_ms < account.deadline_ms, "only before its deadline");
                assert_eq!(ended_at_ms, event.at_ms);
            }
            EndReason::ForceReleased | EndReason::TakenOver => {
                assert!(event.at_ms < account.deadline_ms, "what ran out is not taken");
                assert_eq!(ended_at_ms, event.at_ms);
            }
        }
    }

    /// A grant of an item: nobody has it, and its token is the greatest ever.
    fn take(&mut self, id: &ItemId, token: u64) {
        self.nobody_has(id);
        let newest = self.newest_token.insert(id.clone(), token).unwrap_or(0);
        assert!(token > newest, "the token of {id} did not grow");
    }

    fn nobody_has(&self, id: &ItemId) {
        for (number, account) in &self.claims {
            assert!(account.over || !account.items.contains(id), "claim {number} still has {id}");
        }
    }

    /// The claim is its actor's and its time is not up.
    fn live(&mut self, number: u64, event: &Event) {
        let account = self.account(number);
        assert!(!account.over && event.at_ms < account.deadline_ms, "claim {number} is over");
        assert_eq!(event.actor.id, account.holder.id, "only the holder acts under its claim");
    }

    fn extend(&mut self, number: u64, deadline_ms: i64) {
        let account = self.account(number);
        assert!(deadline_ms >= account.deadline_ms, "no time is taken away");
        account.deadline_ms = deadline_ms;
    }

    fn account(&mut self, number: u64) -> &mut Account {
        self.claims.get_mut(&number).expect("the claim was granted")
    }

    /// The row says what the judge heard; only a heartbeat may have moved the deadline, and only on.
    fn compare(&mut self, claim: &Claim, beaten: bool, now_ms: i64) {
        let account = self.claims.get_mut(&claim.number).expect("a claim in the rows was granted");
        assert_eq!(claim.state == ClaimState::Active, !account.over);
        assert_eq!(claim.holder, account.holder);
        if account.over {
            return;
        }
        assert_eq!(claim.items.iter().cloned().collect::<BTreeSet<_>>(), account.items);
        if claim.expires_at_ms != account.deadline_ms {
            assert!(beaten && account.deadline_ms > now_ms, "only a heartbeat in time moves a deadline");
            assert!(claim.expires_at_ms > account.deadline_ms, "a heartbeat takes no time away");
            assert!(claim.expires_at_ms <= now_ms + claim.ttl_ms, "nor gives more than a ttl");
            account.deadline_ms = claim.expires_at_ms;
        }
    }

    /// What a stranger would be told who claims the item now.
    pub(crate) fn would_grant(&self, w: &World, id: &ItemId) -> &'static str {
        let policy = w.rows.policy(w.key.kind()).expect("the world has a policy");
        let Some(item) = w.rows.item(&w.key, id) else {
            return if policy.create_on_claim { "ok" } else { "not_found" };
        };
        if policy.finished.contains(&item.status) {
            return "finished";
        }
        if !policy.claimable.contains(&item.status) {
            return "not_claimable";
        }
        let mut free_at_ms = w.rows.claim(&w.key, item.claim).map_or(0, |claim| claim.blocked_until_ms);
        let holders = self.claims.iter().filter(|(_, account)| !account.over && account.items.contains(id));
        for (number, account) in holders {
            let claim = w.rows.claim(&w.key, *number).expect("a live claim is in the rows");
            let until_ms = holds_until(&policy, &claim.phase, account.deadline_ms, w.now_ms);
            free_at_ms = until_ms + if until_ms <= w.now_ms { policy.lock_delay_ms } else { 0 };
        }
        if free_at_ms > w.now_ms { "held" } else { "ok" }
    }
}

/// The deadline of the last phase that the claim walks into by itself until now.
fn holds_until(policy: &Policy, phase: &str, mut deadline_ms: i64, now_ms: i64) -> i64 {
    let Some(mut index) = policy.phases.iter().position(|known| &*known.name == phase) else {
        return deadline_ms;
    };
    while deadline_ms <= now_ms && policy.phases[index].at_end == AtEnd::Advance {
        index += 1;
        deadline_ms += policy.phases[index].ttl_ms;
    }
    deadline_ms
}
