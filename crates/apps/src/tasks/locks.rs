//! Process mode: take the lock, keep it, leave it, ask for it, override it. Each denial is logged, since
//! a refusal leaves no event.

use tenure_core::command::Acquire;
use tenure_core::{Refusal as Rule, Reply, Text, Verb};

use super::model::TaskDoc;
use super::{Beat, Task, Tasks};
use crate::{Actor, Desk, Document, Done, Lock, Permission, Refusal, Result, Time};

const REQUEST_RELEASE: &str = "request-release";

impl Tasks {
    /// Enters process mode: claims the task, which thereby is `processing`. Again: renews.
    pub async fn process(&self, actor: &Actor, id: &str) -> Result<Done<Task>> {
        let plan = |task: &Document<TaskDoc>| {
            let (items, session) = (vec![task.item.id.clone()], actor.session.clone());
            Ok(Verb::Acquire(Acquire { items, session, ..Acquire::default() }))
        };
        self.on_lock(actor, id, Permission::InventoryManage, "process", plan).await
    }

    /// Keeps the lock alive, unless the person is idle.
    pub async fn heartbeat(&self, actor: &Actor, id: &str, idle_ms: Option<i64>) -> Result<Done<Beat>> {
        let plan = |task: &Document<TaskDoc>| {
            let (claim, token) = (task.last_claim()?, task.item.fence);
            Ok(Verb::Heartbeat { claim, token, idle_ms })
        };
        let done = self.ask_lock(actor, id, Permission::InventoryManage, "heartbeat", plan).await?;
        let Reply::Beat { renewed, reason, claim } = &done.value else { return Err(Refusal::Broken) };
        let beat = Beat {
            renewed: *renewed,
            reason: *reason,
            lock: Lock::of(Some(claim), actor, done.at_ms),
            server_time: Time(done.at_ms),
        };
        Ok(done.show(beat))
    }

    /// Leaves process mode.
    pub async fn leave(&self, actor: &Actor, id: &str) -> Result<Done<Task>> {
        let plan = |task: &Document<TaskDoc>| Ok(Verb::Release { claim: task.last_claim()? });
        self.on_lock(actor, id, Permission::InventoryManage, "leave", plan).await
    }

    /// Asks the holder to let go. It changes no lock.
    pub async fn request_release(
        &self,
        actor: &Actor,
        id: &str,
        message: Option<Text>,
    ) -> Result<Done<Task>> {
        let plan = |task: &Document<TaskDoc>| {
            Ok(Verb::Nudge { claim: task.last_claim()?, message: message.clone() })
        };
        self.on_lock(actor, id, Permission::InventoryManage, REQUEST_RELEASE, plan).await
    }

    /// An administrator frees the task, whoever holds it.
    pub async fn force_release(&self, actor: &Actor, id: &str, reason: &Text) -> Result<Done<Task>> {
        let plan = |task: &Document<TaskDoc>| {
            Ok(Verb::ForceRelease { item: task.item.id.clone(), reason: reason.clone() })
        };
        self.on_lock(actor, id, Permission::Override, "force-release", plan).await
    }

    /// An administrator takes the task, whoever holds it.
    pub async fn force_claim(&self, actor: &Actor, id: &str, reason: &Text) -> Result<Done<Task>> {
        let plan = |task: &Document<TaskDoc>| {
            let (item, session) = (task.item.id.clone(), actor.session.clone());
            Ok(Verb::ForceClaim { item, reason: reason.clone(), session })
        };
        self.on_lock(actor, id, Permission::Override, "force-claim", plan).await
    }

    async fn on_lock(
        &self,
        actor: &Actor,
        id: &str,
        permission: Permission,
        action: &str,
        plan: impl Fn(&Document<TaskDoc>) -> Result<Verb>,
    ) -> Result<Done<Task>> {
        let done = self.ask_lock(actor, id, permission, action, plan).await?;
        let task = self.get(actor, id)?;
        Ok(done.show(task))
    }

    async fn ask_lock(
        &self,
        actor: &Actor,
        id: &str,
        permission: Permission,
        action: &str,
        plan: impl Fn(&Document<TaskDoc>) -> Result<Verb>,
    ) -> Result<Done> {
        let who = &*actor.principal.id;
        let asked = async {
            actor.require(permission)?;
            let plan = || plan(&self.task(id)?);
            let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await;
            done.map_err(|refusal| self.plain(id, action, refusal))
        };
        match asked.await {
            Ok(done) => {
                // A heartbeat every ten seconds tells nobody anything; a refused one does.
                if action != "heartbeat" {
                    tracing::info!(actor = who, task = id, action, "task lock");
                }
                Ok(done)
            }
            Err(refusal) => {
                let code = refusal.code();
                tracing::info!(actor = who, task = id, action, code, "task lock denied: {refusal}");
                Err(refusal)
            }
        }
    }

    /// Whoever asks somebody else to let go has lost nothing.
    fn plain(&self, id: &str, action: &str, refusal: Refusal) -> Refusal {
        let Ok(item) = self.task(id).map(|task| task.item.id.clone()) else { return refusal };
        let is_lost = matches!(refusal.rule(), Some(Rule::Lost { .. })) && action == REQUEST_RELEASE;
        if is_lost && matches!(self.desk.is_held(&self.collection, &item), Ok(false)) {
            return Rule::NotHeld { item }.into();
        }
        self.desk.plain(&self.collection, &item, refusal)
    }
}
