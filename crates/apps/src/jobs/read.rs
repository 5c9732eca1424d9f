//! Analyses as they are shown.

use std::sync::Arc;

use tenure_core::{Claim, Item};

use super::model::AnalysisDoc;
use super::{
    ANALYSES, Analysis, AnalysisPage, AnalysisQuery, EXCERPT_CHARS, Hold, Jobs, PAGE_DEFAULT, PAGE_MAX,
};
use crate::desk::status;
use crate::family::page_size;
use crate::{Actor, Document, Listed, Lock, Result, Time};

impl Jobs {
    /// One analysis, with its input, its result and its lock.
    pub fn get(&self, actor: &Actor, id: &str) -> Result<Analysis> {
        let (analysis, claim) = self.held(id, self.desk.now_ms())?;
        Ok(self.show(actor, analysis, claim.as_ref()))
    }

    /// A page of analyses, by id.
    pub async fn list(&self, actor: &Actor, query: AnalysisQuery) -> Result<AnalysisPage> {
        let limit = page_size(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        let (jobs, actor) = (self.clone(), actor.clone());
        self.desk
            .read(move |desk| {
                let policy = desk.policy(jobs.collection.kind())?;
                let keep = |item: Arc<Item>, claim: Option<&Claim>| {
                    if let Some(claimable) = query.claimable {
                        // Looked at before the document is read: finished ones are many and large.
                        let is_open =
                            policy.as_ref().is_some_and(|policy| policy.claimable.contains(&item.status));
                        if claimable != (is_open && claim.is_none()) {
                            return Ok(None);
                        }
                    }
                    let analysis = jobs.show(&actor, Document::of(item)?, claim);
                    Ok(Some(Analysis { input: None, result: None, ..analysis }))
                };
                let wanted = query.status.map(|wanted| status(wanted.as_str()));
                let which = (wanted.as_ref(), query.after.as_deref(), limit);
                let Listed { rows, next } = ANALYSES.page_held(desk, &jobs.collection, which, keep)?;
                Ok(AnalysisPage { analyses: rows, next, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    fn show(&self, actor: &Actor, analysis: Document<AnalysisDoc>, claim: Option<&Claim>) -> Analysis {
        let now_ms = self.desk.now_ms();
        let Document { item, data } = analysis;
        Analysis {
            id: item.id.to_string(),
            status: item.status.clone(),
            excerpt: excerpt(&data.input),
            input: Some(data.input),
            result: data.result,
            error: data.error,
            lock: hold(claim, actor, now_ms),
            queued_by: data.queued_by,
            queued_at: Time(data.queued_at_ms),
            version: item.version,
            updated_at: Time(item.updated_at_ms),
            server_time: Time(now_ms),
        }
    }
}

/// The claim that holds at this time, as this actor sees it.
pub(super) fn hold(claim: Option<&Claim>, actor: &Actor, now_ms: i64) -> Hold {
    let claim = claim.filter(|claim| claim.holds_at(now_ms));
    let owner = claim.and_then(|claim| claim.session.as_ref()).map(ToString::to_string);
    Hold { lock: Lock::of(claim, actor, now_ms), owner }
}

/// The beginning, on one line.
fn excerpt(input: &str) -> String {
    let mut words = String::new();
    for word in input.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > EXCERPT_CHARS * 4 {
            break;
        }
    }
    match words.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", words[..end].trim_end()),
        None => words,
    }
}
