//! Queueing an analysis.

use tenure_core::{Expect, ItemId, Refusal as Rule, Reply, Verb};

use super::model::AnalysisDoc;
use super::{Analysis, INPUT_BYTES_MAX, Jobs, NewAnalysis};
use crate::desk::status;
use crate::text::code;
use crate::{Actor, Desk, Done, Permission, Refusal, Result, put};

impl Jobs {
    /// Queues an analysis. An id that is taken is refused, whatever its input.
    pub async fn create(&self, actor: &Actor, new: NewAnalysis) -> Result<Done<Analysis>> {
        actor.require(Permission::JobsQueue)?;
        let id = match new.id {
            Some(id) => code("id", &id)?.to_owned(),
            None => self.desk.fresh_id("a-"),
        };
        let id = ItemId::new(id)?;
        check_input(&new.input)?;
        let document = AnalysisDoc {
            input: new.input,
            queued_at_ms: self.desk.now_ms(),
            queued_by: actor.principal.id.to_string(),
            result: None,
            error: None,
            finished_under: None,
        };
        let group = Verb::Group(vec![
            Verb::CreateCollection,
            put(&id, &status("QUEUED"), &document, Expect::Absent, None)?,
        ]);
        let plan = || match self.desk.reader().item(&self.collection, &id)? {
            // Said here, or it would look like a race and be tried again.
            Some(item) => Err(Rule::Conflict { expected: 0, current: item.version }.into()),
            None => Ok(group.clone()),
        };
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await?;
        // A retry's own id is not the one that was made.
        let made = match &done.value {
            Reply::Group(replies) => replies.iter().find_map(|reply| match reply {
                Reply::Item { item, .. } => Some(item.id.clone()),
                _ => None,
            }),
            _ => None,
        };
        let made = made.ok_or(Refusal::Broken)?;
        tracing::info!(actor = &*actor.principal.id, analysis = made.as_str(), "analysis queued");
        let analysis = self.get(actor, made.as_str())?;
        Ok(done.show(analysis))
    }
}

fn check_input(input: &str) -> Result<()> {
    if input.trim().is_empty() {
        return Err(Refusal::invalid("input", "must not be empty"));
    }
    // As JSON writes it, since that is what is kept: a control character takes six bytes there.
    let written = serde_json::to_string(input).map_or(usize::MAX, |text| text.len());
    if written > INPUT_BYTES_MAX {
        return Err(Refusal::invalid("input", "has more than 40 KiB as JSON"));
    }
    Ok(())
}
