//! `Idempotency-Key`: on any POST, a retry gets the first answer.

use axum::http::{HeaderMap, HeaderName, Method};
use sha2::{Digest, Sha256};
use tenure_core::{Hash, Text};
use tenure_engine::Idempotency;

use crate::Problem;
use crate::limits::IDEMPOTENCY_KEY_BYTES_MAX;

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The client's key, with a hash over the request that it was used for.
#[derive(Clone, Debug)]
pub struct Key {
    key: Text,
    fingerprint: Hash,
}

impl Key {
    /// The request's key, if it has one.
    pub fn of(
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return if headers.contains_key(HEADER) {
                Err(Problem::invalid("Idempotency-Key", "stands twice"))
            } else {
                Ok(None)
            };
        };
        let key = value.to_str().unwrap_or("");
        let visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX || !visible {
            return Err(Problem::invalid("Idempotency-Key", "has 1 to 256 visible characters"));
        }
        let mut digest = Sha256::new();
        for part in [method.as_str().as_bytes(), path.as_bytes(), body] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Ok(Some(Self { key: Text::from(key), fingerprint: Hash(digest.finalize().into()) }))
    }

    /// The key of a command on a socket.
    pub(crate) fn of_command(key: &str, command: &str) -> Result<Self, Problem> {
        let is_plain = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX || !is_plain {
            return Err(Problem::invalid("idempotency_key", "has 1 to 256 visible characters"));
        }
        let fingerprint = Hash(Sha256::digest(command).into());
        Ok(Self { key: Text::from(key), fingerprint })
    }

    /// The same key in at most so many bytes (64 or more), so that others can add to it.
    #[must_use]
    pub(crate) fn within(&self, bytes_max: usize) -> Self {
        if self.key.len() <= bytes_max {
            return self.clone();
        }
        let key = Hash(Sha256::digest(self.key.as_bytes()).into()).to_string();
        Self { key: Text::from(key), fingerprint: self.fingerprint }
    }

    /// The key for one step of a request that takes several: the same step of a retry gets the same.
    #[must_use]
    pub fn step(&self, step: impl std::fmt::Display) -> Self {
        // A newline cannot stand in a header, so no client's own key looks like this.
        let mut key = format!("{}\n{step}", self.key);
        if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            key = format!("{}\n{step}", Hash(Sha256::digest(self.key.as_bytes()).into()));
        }
        Self { key: Text::from(key), fingerprint: self.fingerprint }
    }

    /// The key for one command of a batch. It holds what the batch is, so that no command of another batch has it.
    #[must_use]
    pub(crate) fn batch_step(&self, index: usize) -> Self {
        self.step(format_args!("{}\n{index}", self.fingerprint))
    }

    /// As the engine takes it.
    pub fn idempotency(&self) -> Idempotency {
        Idempotency { key: self.key.clone(), fingerprint: self.fingerprint }
    }
}
