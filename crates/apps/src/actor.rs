//! Who asks, in one request: established by the server, checked by the applications.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tenure_core::{Hash, Principal, SessionId, Text};
use tenure_engine::Idempotency;

use crate::desk::digit;
use crate::{Desk, Refusal};

/// What somebody may do in the applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Prepares and processes tasks and their inventory.
    InventoryManage,
    /// Overrides locks, whoever holds them.
    Override,
    /// Makes projects, images and annotations.
    LabelsManage,
    /// Queues analyses.
    JobsQueue,
    /// Runs analyses: locks them, writes their results.
    JobsRun,
    /// Configures payment providers, reviews transfers, gives money back.
    PaymentsManage,
    /// Reserves numbers of a raffle, in one's own name.
    RaffleBuy,
    /// Makes, opens, pauses and draws raffles, and sees everybody's reservations.
    RaffleManage,
}

impl Permission {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InventoryManage => "inventory.manage",
            Self::Override => "locks.override",
            Self::LabelsManage => "labels.manage",
            Self::JobsQueue => "jobs.queue",
            Self::JobsRun => "jobs.run",
            Self::PaymentsManage => "payments.manage",
            Self::RaffleBuy => "raffle.buy",
            Self::RaffleManage => "raffle.manage",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who asks, and with which key for a retry.
#[derive(Clone, Debug)]
pub struct Actor {
    /// Who.
    pub principal: Principal,
    /// In which tab or worker instance.
    pub session: Option<SessionId>,
    /// What they may do.
    pub permissions: Arc<[Permission]>,
    /// Makes a retry of this request get the first decision.
    pub key: Option<RequestKey>,
}

impl Actor {
    /// Somebody with these permissions.
    pub fn new(principal: Principal, permissions: impl Into<Arc<[Permission]>>) -> Self {
        Self { principal, session: None, permissions: permissions.into(), key: None }
    }

    /// Refuses whoever lacks the permission.
    pub fn require(&self, permission: Permission) -> Result<(), Refusal> {
        if self.permissions.contains(&permission) { Ok(()) } else { Err(Refusal::Forbidden { permission }) }
    }
}

/// The caller's idempotency key. A request that takes several commands has one for each, derived from it,
/// so that the same step of a retry gets the same decision.
#[derive(Clone, Debug)]
pub struct RequestKey {
    key: Text,
    fingerprint: Hash,
}

impl RequestKey {
    /// At most this long, so that a step's name still fits.
    pub const BYTES_MAX: usize = 192;

    /// The caller's key, of at most [`Self::BYTES_MAX`] bytes, and a hash over the request.
    pub fn new(key: impl Into<Text>, fingerprint: Hash) -> Self {
        Self { key: key.into(), fingerprint }
    }

    /// The id of what this person makes under this key. A retry cannot find what was decided under an id
    /// that only the first request knew.
    pub(crate) fn id(&self, prefix: &str, principal: &Principal) -> String {
        let mut digest = Sha256::new();
        digest.update((principal.id.len() as u64).to_le_bytes());
        digest.update(principal.id.as_bytes());
        digest.update(self.key.as_bytes());
        let tail = digest.finalize().iter().take(20).map(|byte| digit(u64::from(*byte))).collect::<String>();
        format!("{prefix}{tail}")
    }

    /// The key of a request that is carried out in another's name: it is none of that person's own keys.
    pub(crate) fn on_behalf(&self, principal: &Principal) -> Self {
        Self { key: Text::from(self.id("for\n", principal)), fingerprint: self.fingerprint }
    }

    /// The key of one try of one step. The first try of a request's own step has the caller's key as it is,
    /// so that its use for any other request is noticed; a newline cannot stand in a caller's key.
    pub(crate) fn step(&self, step: &str, attempt: usize) -> Idempotency {
        let key = match (step, attempt) {
            (Desk::OWN_STEP, 0) => self.key.clone(),
            _ => Text::from(format!("{}\n{step}.{attempt}", self.key)),
        };
        Idempotency { key, fingerprint: self.fingerprint }
    }
}
