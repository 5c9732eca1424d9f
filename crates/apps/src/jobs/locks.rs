//! The lock of a worker of one's own: take it, keep it, let go. The owner is the session of the claim, so
//! that workers who share a key do not share a lock.

use std::sync::Arc;

use tenure_core::command::Acquire;
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{Claim, Refusal as Rule, Reply, SessionId, Verb};
use tenure_engine::Refused;

use super::read::hold;
use super::{Jobs, Locked, NotAcquired, Refreshed, Released};
use crate::{Actor, Desk, Done, Permission, Refusal, Result, Time};

impl Jobs {
    /// Takes the lock for this owner, which thereby runs the analysis. Who has it already, renews it.
    pub async fn lock(
        &self,
        actor: &Actor,
        id: &str,
        owner: &SessionId,
        ttl_sec: Option<i64>,
    ) -> Result<Done<Locked>> {
        actor.require(Permission::JobsRun)?;
        let taken =
            self.take(actor, id, owner, ttl_sec.map(|sec| sec.saturating_mul(1_000)), Desk::OWN_STEP).await?;
        let at_ms = taken.at_ms;
        let answer = match &taken.value {
            Ok(claim) => Locked {
                acquired: true,
                reason: None,
                token: Some(claim.token),
                lock: hold(Some(claim), actor, at_ms),
                server_time: Time(at_ms),
            },
            Err(reason) => {
                let mut lock = self.get(actor, id)?.lock;
                // Another worker's is not the asker's, although they share a key.
                lock.lock.mine &= lock.owner.as_deref() == Some(owner.as_str());
                Locked { acquired: false, reason: Some(*reason), token: None, lock, server_time: Time(at_ms) }
            }
        };
        Ok(taken.show(answer))
    }

    /// Keeps the owner's lock alive. One that is lost says so.
    pub async fn refresh(
        &self,
        actor: &Actor,
        id: &str,
        owner: &SessionId,
        token: Option<u64>,
    ) -> Result<Done<Refreshed>> {
        actor.require(Permission::JobsRun)?;
        let plan = || {
            let claim = self.owners_claim(actor, id, owner)?;
            let token = token.unwrap_or(claim.token);
            Ok(Verb::Heartbeat { claim: claim.number, token, idle_ms: None })
        };
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await;
        let done = done.inspect_err(|refusal| denied(actor, id, owner, "refresh", refusal))?;
        let Reply::Beat { renewed, reason, claim } = &done.value else { return Err(Refusal::Broken) };
        let refreshed = Refreshed {
            refreshed: *renewed,
            reason: *reason,
            lock: hold(Some(claim), actor, done.at_ms),
            server_time: Time(done.at_ms),
        };
        Ok(done.show(refreshed))
    }

    /// Lets go of the owner's lock. Another's stays; that is a warning and no error.
    pub async fn release(&self, actor: &Actor, id: &str, owner: &SessionId) -> Result<Done<Released>> {
        actor.require(Permission::JobsRun)?;
        let plan = || {
            let claim = self.owners_claim(actor, id, owner)?;
            Ok(Verb::Release { claim: claim.number })
        };
        let nothing = |at_ms, refusal: &Refusal| {
            tracing::warn!(
                actor = &*actor.principal.id,
                analysis = id,
                owner = owner.as_str(),
                "not released: {refusal}"
            );
            let (reason, warning) = (Some(refusal.code()), Some(refusal.to_string()));
            Released { released: false, reason, warning, server_time: Time(at_ms) }
        };
        match self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await {
            Ok(done) => {
                let released =
                    Released { released: true, reason: None, warning: None, server_time: Time(done.at_ms) };
                Ok(done.show(released))
            }
            Err(refusal) if is_not_ours(&refusal) => {
                let at_ms = self.desk.now_ms();
                Ok(Done { value: nothing(at_ms, &refusal), at_ms, replayed: false })
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Takes the lock, or says why it was not had.
    pub(super) async fn take(
        &self,
        actor: &Actor,
        id: &str,
        owner: &SessionId,
        ttl_ms: Option<i64>,
        step: &str,
    ) -> Result<Done<std::result::Result<Arc<Claim>, NotAcquired>>> {
        let plan = || {
            let items = vec![self.analysis(id)?.item.id.clone()];
            let session = Some(owner.clone());
            Ok(Verb::Acquire(Acquire { items, session, ttl_ms, ..Acquire::default() }))
        };
        let (who, owned) = (&*actor.principal.id, owner.as_str());
        match self.desk.change(actor, &self.collection, step, plan).await {
            Ok(done) => {
                let Reply::Acquired { claim, .. } = &done.value else { return Err(Refusal::Broken) };
                tracing::info!(
                    actor = who,
                    analysis = id,
                    owner = owned,
                    token = claim.token,
                    "analysis locked"
                );
                let claim = claim.clone();
                Ok(done.show(Ok(claim)))
            }
            Err(refusal) => {
                denied(actor, id, owner, "lock", &refusal);
                let reason = match refusal.rule() {
                    Some(Rule::Held { .. }) => NotAcquired::Locked,
                    Some(Rule::Finished { .. }) => NotAcquired::AlreadyFinished,
                    // The caller spoke of seconds, and of another field.
                    Some(Rule::Invalid { field, .. }) if &**field == "ttl_ms" => {
                        return Err(self.wrong_ttl()?);
                    }
                    _ => return Err(refusal),
                };
                Ok(Done { value: Err(reason), at_ms: self.desk.now_ms(), replayed: false })
            }
        }
    }

    /// The claim that last took the analysis, if it was this owner's. The engine says whether it still holds.
    fn owners_claim(&self, actor: &Actor, id: &str, owner: &SessionId) -> Result<Arc<Claim>> {
        let now_ms = self.desk.now_ms();
        let (analysis, holding) = self.held(id, now_ms)?;
        let item = &analysis.item;
        let not_held = || Refusal::from(Rule::NotHeld { item: item.id.clone() });
        let last =
            self.desk.reader().claim(&self.collection, analysis.last_claim()?)?.ok_or_else(not_held)?;
        if last.holder.id == actor.principal.id && last.session.as_ref() == Some(owner) {
            return Ok(last);
        }
        match holding {
            None => Err(not_held()),
            Some(claim) => {
                let Claim { holder, session, since_ms, expires_at_ms: until_ms, .. } = claim;
                let why = Why::Held { holder, session, since_ms, until_ms };
                let rule = Rule::Held { items: vec![Unavailable { item: item.id.clone(), why }] };
                Err(Refusal::engine(Refused::Rule(rule), now_ms))
            }
        }
    }

    fn wrong_ttl(&self) -> Result<Refusal> {
        let policy = self.desk.policy(self.collection.kind())?.ok_or(Refusal::Broken)?;
        let (min, max) = ((policy.ttl_ms_min + 999) / 1_000, policy.ttl_ms_max / 1_000);
        Ok(Refusal::invalid("ttl_sec", format!("must be {min} to {max}")))
    }
}

/// The lock is not the caller's: another's, nobody's, or over.
pub(super) fn is_not_ours(refusal: &Refusal) -> bool {
    match refusal.rule() {
        Some(
            Rule::Held { .. }
            | Rule::NotHeld { .. }
            | Rule::Lost { .. }
            | Rule::NotHolder { .. }
            | Rule::StaleToken { .. },
        ) => true,
        Some(Rule::NotFound { what, .. }) => &**what == "claim",
        _ => false,
    }
}

/// A refusal leaves no event: the log is where it can be found.
fn denied(actor: &Actor, id: &str, owner: &SessionId, step: &str, refusal: &Refusal) {
    let (who, owner, code) = (&*actor.principal.id, owner.as_str(), refusal.code());
    tracing::info!(actor = who, analysis = id, owner, action = step, code, "analysis lock denied: {refusal}");
}
