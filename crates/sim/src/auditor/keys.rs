//! Idempotency keys (I11, I13, I16): one effect per key, and a retry gets the first answer.

use std::collections::BTreeMap;

use tenure_core::{CollectionKey, Command, Hash, Refusal, Reply, Text};
use tenure_engine::{Answer, Idempotency, Refused};

use super::compare::same_reply;
use super::{Check, violation};

/// A day, as promised.
const KEPT_MS: i64 = 24 * 3_600 * 1_000;

/// Whose key it is: another principal's or collection's is another key.
pub(crate) type KeyId = (CollectionKey, Text, Text);

/// What the server must remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(BTreeMap<KeyId, Remembered>);

#[derive(Clone, Debug)]
struct Remembered {
    fingerprint: Hash,
    at_ms: i64,
    outcome: Result<Reply, Refusal>,
    /// The server answered with it, or a crash has shown that it is there. Otherwise it may be.
    sure: bool,
    /// Somebody was told. Otherwise it is what the auditor expects.
    told: bool,
}

/// How a request with a key is to be answered.
pub(crate) enum Retry {
    /// It is the first: decide.
    First,
    /// From memory, and this judged the answer.
    Judged(Check),
}

pub(crate) fn key_id(command: &Command, idempotency: &Idempotency) -> KeyId {
    (command.collection.clone(), command.actor.id.clone(), idempotency.key.clone())
}

impl Keys {
    /// A request with a key has its outcome. A malformed one is not kept; says whether it was.
    pub(crate) fn keep(
        &mut self,
        id: KeyId,
        fingerprint: Hash,
        at_ms: i64,
        outcome: &Result<Reply, Refusal>,
        (sure, told): (bool, bool),
    ) -> bool {
        let malformed = outcome.as_ref().is_err_and(|refusal| refusal.code() == "invalid");
        let kept = !malformed;
        if kept {
            self.0.insert(id, Remembered { fingerprint, at_ms, outcome: outcome.clone(), sure, told });
        }
        kept
    }

    /// A key whose outcome the server surely has.
    pub(crate) fn is_kept(&self, id: &KeyId, now_ms: i64) -> bool {
        self.0.get(id).is_some_and(|kept| kept.sure && now_ms < kept.at_ms + KEPT_MS)
    }

    /// The server may have what the other books have.
    pub(crate) fn perhaps(&mut self, other: &Self) {
        for (id, kept) in &other.0 {
            if self.0.get(id).is_none_or(|known| known.at_ms != kept.at_ms) {
                self.0.insert(id.clone(), Remembered { sure: false, ..kept.clone() });
            }
        }
    }

    /// Judges an answer to a request with a key.
    pub(crate) fn judge(&mut self, id: &KeyId, fingerprint: Hash, now_ms: i64, answer: &Answer) -> Retry {
        let kept = self.0.get_mut(id).filter(|kept| now_ms < kept.at_ms + KEPT_MS);
        let Some(kept) = kept else {
            return if answer.replayed || matches!(answer.outcome, Err(Refused::KeyReused)) {
                Retry::Judged(violation("I11", format!("key {} was replayed, but had no outcome", id.2)))
            } else {
                Retry::First
            };
        };
        let reused = matches!(answer.outcome, Err(Refused::KeyReused));
        if !answer.replayed && !reused {
            if !kept.sure {
                return Retry::First;
            }
            let code = if kept.fingerprint == fingerprint { "I16" } else { "I13" };
            let detail = format!("key {} was used again and carried out again, or forgotten", id.2);
            return Retry::Judged(violation(code, detail));
        }
        kept.sure = true;
        let judged = match &answer.outcome {
            Err(Refused::KeyReused) if kept.fingerprint != fingerprint => Ok(()),
            _ if kept.fingerprint != fingerprint => {
                violation("I13", format!("key {} came with another request and was not refused", id.2))
            }
            _ if answer.server_time_ms != kept.at_ms => {
                violation("I11", format!("key {} was answered at another time than at first", id.2))
            }
            outcome if same_reply(&kept.outcome, outcome) => Ok(()),
            // It had been decided about a claim that the loop had forgotten.
            Err(Refused::Rule(refusal)) if !kept.told && refusal.code() == "not_found" => {
                kept.outcome = Err(refusal.clone());
                Ok(())
            }
            outcome => violation(
                "I11",
                format!("key {} was answered {:?} first and {outcome:?} now", id.2, kept.outcome),
            ),
        };
        kept.told = true;
        Retry::Judged(judged)
    }
}
