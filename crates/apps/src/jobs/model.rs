//! What is kept, what is asked and what is answered.

use serde::{Deserialize, Deserializer, Serialize};
use tenure_core::command::NotRenewed;
use tenure_core::{Json, Status};
use utoipa::ToSchema;

use super::Failure;
use crate::{Lock, Time};

/// An analysis' document. Its status is the item's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AnalysisDoc {
    pub(super) input: String,
    pub(super) queued_at_ms: i64,
    pub(super) queued_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
    /// The claim under which it was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finished_under: Option<u64>,
}

/// Queue an analysis.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "report-7", "input": "The quick brown fox jumps over the lazy dog."}))]
pub struct NewAnalysis {
    /// Its id, if the caller has one; otherwise it gets one.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "report-7")]
    pub id: Option<String>,
    /// What to analyse: at most 40 KiB as it stands in JSON.
    #[schema(min_length = 1, max_length = 40960)]
    pub input: String,
}

/// An analysis as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Analysis {
    /// Its id.
    #[schema(example = "report-7")]
    pub id: String,
    /// `QUEUED`, `RUNNING`, `READY` or `FAILED`.
    #[schema(value_type = String, example = "READY")]
    pub status: Status,
    /// The beginning of its input.
    #[schema(example = "The quick brown fox …")]
    pub excerpt: String,
    /// What is analysed. Left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What came of it, in status `READY`: any JSON. Left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>, example = json!({"words": 9}))]
    pub result: Option<Json>,
    /// Why nothing came of it, in status `FAILED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Who runs it.
    pub lock: Hold,
    /// Who queued it, by id.
    #[schema(example = "u-7")]
    pub queued_by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub queued_at: Time,
    /// Counts its changes.
    #[schema(example = 3)]
    pub version: u64,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// A hold, and which of the holder's workers has it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AnalysisLock)]
pub struct Hold {
    /// Locked or free. `mine`: the caller's principal holds it; in whichever worker, unless the
    /// request names one.
    #[serde(flatten)]
    pub lock: Lock,
    /// The worker that holds it.
    #[schema(required = true, example = "worker-3")]
    pub owner: Option<String>,
}

/// How far an analysis is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AnalysisStatus {
    /// Nobody has begun.
    Queued,
    /// Somebody has, and may have stopped.
    Running,
    /// It has a result.
    Ready,
    /// It has an error.
    Failed,
}

impl AnalysisStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Running => "RUNNING",
            Self::Ready => "READY",
            Self::Failed => "FAILED",
        }
    }
}

/// Which analyses.
#[derive(Clone, Debug, Default)]
pub struct AnalysisQuery {
    /// Only of this status.
    pub status: Option<AnalysisStatus>,
    /// Only those that could be locked now, or only the others.
    pub claimable: Option<bool>,
    /// Only after this one.
    pub after: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
}

/// A page of analyses, by id.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Analyses)]
pub struct AnalysisPage {
    /// The analyses, without input and result.
    pub analyses: Vec<Analysis>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Why a lock was not had. Neither is an error: there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotAcquired {
    /// Another worker runs it.
    Locked,
    /// It is `READY` or `FAILED`.
    AlreadyFinished,
}

/// What came of asking for the lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AnalysisLocked)]
pub struct Locked {
    /// The lock is the owner's.
    pub acquired: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<NotAcquired>,
    /// The fencing token: the result needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 42)]
    pub token: Option<u64>,
    /// The lock as it is now, whoever has it.
    pub lock: Hold,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// What a refresh did.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AnalysisRefreshed)]
pub struct Refreshed {
    /// The deadline moved.
    pub refreshed: bool,
    /// Why it did not: `max_hold` or `fixed_phase`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "max_hold")]
    pub reason: Option<NotRenewed>,
    /// The lock as it is now.
    pub lock: Hold,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// What a release did. One that did nothing is worth a warning, and no error.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AnalysisReleased)]
pub struct Released {
    /// The owner let go.
    pub released: bool,
    /// Why there was nothing to let go: `held` by another, `not_held` or `lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "held")]
    pub reason: Option<&'static str>,
    /// The same, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "report-7 is held by Workers in another session")]
    pub warning: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Finish an analysis: the result, or why there is none.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FinishAnalysis, example = json!({"token": 42, "result": {"words": 9}}))]
pub struct Finish {
    /// The token of the lock under which it ran.
    pub token: u64,
    /// What came of it: any JSON, at most 16 KiB. It becomes `READY`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Json>,
    /// Why nothing came of it. It becomes `FAILED`.
    #[serde(default, deserialize_with = "tenure_core::object::maybe_object")]
    pub error: Option<Failure>,
}

/// `null` is a result too.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran, and is `READY`.
    Completed,
    /// It ran, and is `FAILED`.
    Failed,
    /// It did not run: `reason` says why. There is nothing to deliver again.
    Skipped,
}

/// The answer to a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Delivery {
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<NotAcquired>,
    /// The analysis' status now.
    #[schema(value_type = String, example = "READY")]
    pub status: Status,
}
