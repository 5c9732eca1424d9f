//! The end of a run: result, status and the end of the lock, in one commit under its token.

use tenure_core::command::Complete;
use tenure_core::{Json, Verb};

use super::model::AnalysisDoc;
use super::runner::fits;
use super::{Analysis, Failure, Finish, Jobs, RESULT_BYTES_MAX, result_of};
use crate::desk::status;
use crate::{Actor, Desk, Document, Done, Permission, Refusal, Result};

impl Jobs {
    /// Writes what came of a run, if the token is that of the lock which holds.
    pub async fn complete(&self, actor: &Actor, id: &str, finish: Finish) -> Result<Done<Analysis>> {
        actor.require(Permission::JobsRun)?;
        let Finish { token, result, error } = finish;
        // Whoever has an error may say that there is no result.
        let result = result.filter(|result| error.is_none() || result.as_str() != "null");
        let outcome = match (result, error) {
            (Some(_), Some(_)) => {
                return Err(Refusal::invalid("error", "an analysis has a result or an error"));
            }
            (None, None) => return Err(Refusal::invalid("result", "is missing, and so is error")),
            (Some(result), None) => Ok(result),
            (None, Some(failure)) => {
                failure.check().map_err(|(field, message)| Refusal::invalid(field, message))?;
                Err(failure)
            }
        };
        if let Ok(result) = &outcome {
            if result.as_str().len() > RESULT_BYTES_MAX {
                return Err(Refusal::invalid("result", "is larger than 16 KiB"));
            }
            if !fits(result) {
                return Err(Refusal::invalid("result", "is nested too deeply"));
            }
        }
        let plan = || {
            let analysis = self.analysis(id)?;
            // The claim that last took it, with the token of the one who asks: the engine compares.
            completion(&analysis, analysis.last_claim()?, token, outcome.clone())
        };
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await;
        let (who, code) = (&*actor.principal.id, done.as_ref().map_or_else(Refusal::code, |_| "ok"));
        tracing::info!(actor = who, analysis = id, token, code, "analysis result");
        let analysis = self.get(actor, id)?;
        Ok(done?.show(analysis))
    }
}

/// What came of a run, made fit to be kept.
pub(super) fn bounded(outcome: Result<Json, Failure>) -> Result<Json, Failure> {
    match outcome {
        Ok(result) => result_of(result.as_str().as_bytes()),
        Err(failure) if failure.check().is_err() => Err(Failure::new("failed", &failure.to_string())),
        failed => failed,
    }
}

/// The one commit.
pub(super) fn completion(
    analysis: &Document<AnalysisDoc>,
    claim: u64,
    token: u64,
    outcome: Result<Json, Failure>,
) -> Result<Verb> {
    let (word, result, error) = match outcome {
        Ok(result) => ("READY", Some(result), None),
        Err(failure) => ("FAILED", None, Some(failure)),
    };
    let document = AnalysisDoc { result, error, finished_under: Some(claim), ..analysis.data.clone() };
    Ok(Verb::Complete(Complete {
        claim,
        token: Some(token),
        status: Some(status(word)),
        data: Some(Json::of(&document)?),
        items: Vec::new(),
    }))
}
