//! Finalise: each line in its own commit, the status and the end of the lock in the last.
//!
//! A line becomes `applied` in the very commit that changes the stock, over the version that was read and
//! under the token of the lock it began with. So it cannot be applied twice: whoever comes second finds
//! another version, or a lock that is over. A crash leaves each line applied or untouched, and finalising
//! again goes on from there. It is idempotent by itself; a key counts for its last commit.

use tenure_core::command::Complete;
use tenure_core::{Guard, Verb};

use super::edit::still_open;
use super::model::{Finalized, LineDoc, TaskDoc};
use super::{Task, Tasks, status};
use crate::{Actor, Desk, Document, Done, Permission, Result};

impl Tasks {
    /// Applies every line that is not applied yet, then ends the lock: `completed` if all of them are,
    /// else `partially_completed`. Repeated by whoever did it, it shows the outcome again.
    pub async fn finalize(&self, actor: &Actor, id: &str) -> Result<Done<Task>> {
        actor.require(Permission::InventoryManage)?;
        if let Some(done) = self.desk.decided(actor, &self.collection, Desk::OWN_STEP).await? {
            let task = self.get(actor, id)?;
            return Ok(done.show(task));
        }
        let began = self.task(id)?;
        let without_key = Actor { key: None, ..actor.clone() };
        let outcome = async {
            for number in 1..=began.data.lines {
                self.apply(&without_key, &began, number).await?;
            }
            self.finish(actor, &began).await
        };
        let who = &*actor.principal.id;
        match outcome.await {
            Ok(done) => {
                let task = self.get(actor, id)?;
                tracing::info!(actor = who, task = id, status = task.status.as_str(), "task finalized");
                Ok(done.show(task))
            }
            // Without a decision nothing is known of the outcome.
            Err(refusal) if refusal.rule().is_none() => Err(refusal),
            Err(refusal) => {
                let task = self.task(id)?;
                let by_this = Finalized { claim: began.item.claim, by: who.to_owned() };
                if task.data.finalized.as_ref() == Some(&by_this) && task.item.claim == began.item.claim {
                    let task = self.whole(actor, task)?;
                    return Ok(Done { at_ms: task.server_time.0, value: task, replayed: true });
                }
                // That nobody holds it would be no help where nobody can.
                let refusal = still_open(&task).err().unwrap_or(refusal);
                let code = refusal.code();
                tracing::info!(actor = who, task = id, code, "finalize denied: {refusal}");
                Err(refusal)
            }
        }
    }

    /// One line, in one commit with what it does to the stock.
    async fn apply(&self, actor: &Actor, began: &Document<TaskDoc>, number: usize) -> Result<()> {
        let plan = || {
            let task = self.task(began.item.id.as_str())?;
            let line = self.line(&task, &number.to_string())?;
            if line.item.status.as_str() == "applied" {
                return Ok(None);
            }
            let guard = guard_of(began);
            let (word, error, effects) = match self.effect(&line, &guard)? {
                Ok(effects) => ("applied", None, effects),
                Err(failure) => ("error", Some(failure), Vec::new()),
            };
            if word == "error" && line.data.error == error {
                return Ok(None);
            }
            let data = LineDoc { error, ..line.data.clone() };
            let mut verbs = vec![
                line.put(&status(word), &data, Some(guard.clone()))?,
                task.put(&task.item.status, &task.data, Some(guard))?,
            ];
            verbs.extend(effects);
            Ok(Some(Verb::Group(verbs)))
        };
        self.desk.change_if(actor, &self.collection, Desk::OWN_STEP, plan).await.map(drop)
    }

    /// The status and the end of the lock, in one commit; over the version of the task that the lines were
    /// counted at.
    async fn finish(&self, actor: &Actor, began: &Document<TaskDoc>) -> Result<Done> {
        let plan = || {
            let task = self.task(began.item.id.as_str())?;
            let mut all_applied = true;
            for number in 1..=task.data.lines {
                all_applied &= self.line(&task, &number.to_string())?.item.status.as_str() == "applied";
            }
            let word = if all_applied { "completed" } else { "partially_completed" };
            let (claim, by) = (began.item.claim, actor.principal.id.to_string());
            let data = TaskDoc { finalized: Some(Finalized { claim, by }), ..task.data.clone() };
            let complete = Complete {
                claim,
                token: Some(began.item.fence),
                status: Some(status(word)),
                data: None,
                items: Vec::new(),
            };
            let noted = task.put(&task.item.status, &data, Some(guard_of(began)))?;
            Ok(Verb::Group(vec![noted, Verb::Complete(complete)]))
        };
        self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await
    }
}

/// Only under the lock that the task had when finalising began, if it is the actor's.
fn guard_of(began: &Document<TaskDoc>) -> Guard {
    Guard::Holds { item: began.item.id.clone(), token: Some(began.item.fence) }
}
