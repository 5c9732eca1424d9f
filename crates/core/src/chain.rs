//! The audit chain: each event is sealed with a hash over the one before it, per collection, so that a
//! changed, dropped or reordered event shows.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Event;

/// Lower-case hexadecimal digits, and not by way of a formatter: every request with a key asks for some.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hash(pub [u8; 32]);

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An event with the bytes that were hashed, which are also the bytes that are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// What happened.
    pub event: Event,
    /// Its binary form.
    pub bytes: Vec<u8>,
    /// The chain's hash after it.
    pub hash: Hash,
}

impl Sealed {
    /// Seals an event onto the chain.
    pub fn new(previous: &Hash, event: Event) -> Self {
        let bytes = postcard::to_extend(&event, Vec::with_capacity(192)).expect("an event always encodes");
        let hash = link(previous, &bytes);
        Self { event, bytes, hash }
    }

    /// Reads kept bytes back. The hash is computed, so compare it with the one that was kept.
    pub fn read(previous: &Hash, bytes: Vec<u8>) -> Result<Self, postcard::Error> {
        let event = postcard::from_bytes(&bytes)?;
        let hash = link(previous, &bytes);
        Ok(Self { event, bytes, hash })
    }
}

/// The hash after an event of these bytes.
pub fn link(previous: &Hash, bytes: &[u8]) -> Hash {
    let mut digest = Sha256::new();
    digest.update(previous.0);
    digest.update(bytes);
    Hash(digest.finalize().into())
}
