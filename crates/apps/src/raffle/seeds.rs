//! What a draw's seed is made of. A seed is kept nowhere before its draw: it comes from the server's own
//! secret, which lies outside of the store, and from a public random number of the raffle. So no route, event
//! or backup can tell it, and every node of one secret finds the same.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tenure_core::hex;

use crate::Result;
use crate::random::random;

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
    Ok(hex(&random::<32>()?))
}

/// What is published of a seed when the raffle opens: the SHA-256 of its 32 bytes.
pub(super) fn hash_of(seed: &[u8; 32]) -> String {
    hex(&Sha256::digest(seed))
}
