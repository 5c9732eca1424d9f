//! What a draw's seed is made of. A seed is kept nowhere before its draw: it comes from the server's own
//! secret, which lies outside of the store, and from a public random number of the raffle. So no route, event
//! or backup can tell it, and every node of one secret finds the same.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::{Refusal, Result};

/// The key from which seeds are derived. It never prints itself.
#[derive(Clone)]
pub struct Seeds([u8; 32]);

impl Seeds {
    /// A key that is for this purpose alone.
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The seed of a raffle with this random number.
    pub(super) fn seed(&self, raffle: &str, nonce: &str) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        for part in [raffle, nonce] {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeds(…)")
    }
}

/// 256 random bits, in hexadecimal digits.
pub(super) fn nonce() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        tracing::error!(%error, "the system gives no randomness");
        Refusal::Broken
    })?;
    Ok(hex(&bytes))
}

/// What is published of a seed when the raffle opens: the SHA-256 of its 32 bytes.
pub(super) fn hash_of(seed: &[u8; 32]) -> String {
    hex(&Sha256::digest(seed))
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
