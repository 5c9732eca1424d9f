//! What nobody can guess.

use crate::{Refusal, Result};

/// So many random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the system gives no randomness");
        Refusal::Broken
    })?;
    Ok(bytes)
}
