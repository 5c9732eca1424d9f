//! One annotator per image: take the lock, keep it, leave it, see who has which. Denials are logged, since a
//! refusal leaves no event.

use std::collections::BTreeMap;

use tenure_core::command::Acquire;
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{Claim, ClaimState, Refusal as Rule, Reply, Verb, seen_at};
use tenure_engine::ClaimFilter;

use super::images::denied;
use super::model::ImageDoc;
use super::{IMAGES, ImageAt, LOCKS_MAX, Labels, LockAnswer, LockedBy, Open, Released};

use crate::{Actor, Desk, Document, Done, Person, Refusal, Result, Time};

impl Labels {
    /// Locks an image for the actor; again: refreshes. Another's lock is an answer too.
    pub async fn acquire(&self, actor: &Actor, at: &ImageAt) -> Result<Done<LockAnswer>> {
        let plan = |image: &Document<ImageDoc>| {
            let (items, session) = (vec![image.item.id.clone()], actor.session.clone());
            Ok(Verb::Acquire(Acquire { items, session, ..Acquire::default() }))
        };
        match self.ask_lock(actor, at, "acquire", plan).await {
            Ok(done) => self.show_own(done),
            Err(refusal) => self.show_other(refusal),
        }
    }

    /// Keeps the actor's own lock.
    pub async fn heartbeat(&self, actor: &Actor, at: &ImageAt) -> Result<Done<LockAnswer>> {
        let plan = |image: &Document<ImageDoc>| {
            let (claim, token) = (image.last_claim()?, image.item.fence);
            Ok(Verb::Heartbeat { claim, token, idle_ms: None })
        };
        let done = self.ask_lock(actor, at, "heartbeat", plan).await.map_err(|refusal| {
            let holder = match refusal.rule() {
                Some(Rule::NotHolder { holder }) => Some(Person::from(holder)),
                Some(Rule::NotHeld { .. }) => None,
                _ => return refusal,
            };
            Refusal::Lost { what: "image", id: at.image_id.clone(), holder }
        })?;
        self.show_own(done)
    }

    /// Lets go of the actor's own lock.
    pub async fn release(&self, actor: &Actor, at: &ImageAt) -> Result<Done<Released>> {
        let plan = |image: &Document<ImageDoc>| Ok(Verb::Release { claim: image.last_claim()? });
        let done = self.ask_lock(actor, at, "release", plan).await?;
        let server_time = Time(done.at_ms);
        Ok(done.show(Released { success: true, server_time }))
    }

    /// Who has which image of a project open now, by the image's id.
    pub async fn locks(&self, project: &str) -> Result<BTreeMap<String, LockedBy>> {
        let Open { collection, .. } = self.open(project)?;
        let policy = self.image_policy()?;
        self.desk
            .read(move |desk| {
                let now_ms = desk.now_ms();
                let state = Some(ClaimState::Active);
                let filter = ClaimFilter { collection: Some(collection), state, ..ClaimFilter::default() };
                let mut locks = BTreeMap::new();
                // One that is past its deadline may not have been swept yet.
                for row in desk.reader().claims(&filter, LOCKS_MAX)?.rows {
                    let claim = seen_at(&row.claim, &policy, now_ms);
                    if claim.holds_at(now_ms) {
                        let images = claim.items.iter().filter(|item| IMAGES.has(item.as_str()));
                        locks.extend(images.map(|item| (item.to_string(), locked_by(&claim))));
                    }
                }
                Ok(locks)
            })
            .await
    }

    async fn ask_lock(
        &self,
        actor: &Actor,
        at: &ImageAt,
        action: &str,
        plan: impl Fn(&Document<ImageDoc>) -> Result<Verb>,
    ) -> Result<Done> {
        let asked = async {
            let project = self.for_change(actor, &at.project_id)?;
            let image = self.image(&project, &at.image_id)?.item.id.clone();
            let plan = || plan(&self.image(&project, image.as_str())?);
            let done = self.desk.change(actor, &project.collection, Desk::OWN_STEP, plan).await;
            done.map_err(|refusal| self.desk.plain(&project.collection, &image, refusal))
        };
        asked.await.inspect_err(|refusal| denied(actor, &at.image_id, action, refusal))
    }

    fn show_own(&self, done: Done) -> Result<Done<LockAnswer>> {
        let (Reply::Acquired { claim, .. } | Reply::Beat { claim, .. }) = &done.value else {
            return Err(Refusal::Broken);
        };
        let answer = LockAnswer {
            success: true,
            locked_by: claim.holder.id.to_string(),
            locked_by_name: claim.holder.name.to_string(),
            locked_at: Some(Time(claim.since_ms)),
            expires_at: Time(claim.expires_at_ms),
            expires_in_ms: claim.expires_at_ms - done.at_ms,
            token: Some(claim.token),
            heartbeat_ms: self.image_policy()?.heartbeat_ms,
            server_time: Time(done.at_ms),
        };
        Ok(done.show(answer))
    }

    /// That another has it is no mistake of whoever asks: it is the answer.
    fn show_other(&self, refusal: Refusal) -> Result<Done<LockAnswer>> {
        let Refusal::Engine { at_ms, .. } = &refusal else { return Err(refusal) };
        let Some(Rule::Held { items }) = refusal.rule() else { return Err(refusal) };
        let Some(Unavailable { why, .. }) = items.first() else { return Err(Refusal::Broken) };
        let (holder, locked_at, until_ms) = match why {
            Why::Held { holder, since_ms, until_ms, .. } => (holder, Some(Time(*since_ms)), *until_ms),
            Why::Delayed { holder, until_ms } => (holder, None, *until_ms),
            Why::Finished { .. } | Why::NotClaimable { .. } => return Err(refusal),
        };
        let answer = LockAnswer {
            success: false,
            locked_by: holder.id.to_string(),
            locked_by_name: holder.name.to_string(),
            locked_at,
            expires_at: Time(until_ms),
            expires_in_ms: until_ms - at_ms,
            token: None,
            heartbeat_ms: self.image_policy()?.heartbeat_ms,
            server_time: Time(*at_ms),
        };
        Ok(Done { value: answer, at_ms: *at_ms, replayed: false })
    }
}

fn locked_by(claim: &Claim) -> LockedBy {
    LockedBy {
        user_id: claim.holder.id.to_string(),
        user_name: claim.holder.name.to_string(),
        locked_at: Time(claim.since_ms),
        expires_at: Time(claim.expires_at_ms),
    }
}
