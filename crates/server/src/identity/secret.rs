//! Secrets as text: how they are made, told apart from a typo, and hashed. A secret never prints itself.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tenure_core::hex;

use crate::idempotency::Key;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 32 bytes in base 62.
const BODY_CHARS: usize = 43;
/// 32 bits in base 62.
const CHECKSUM_CHARS: usize = 6;

/// What stands for a secret wherever a configuration is shown.
pub(crate) const MASK: &str = "********";

/// What a secret opens; its text begins with the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// An API key.
    ApiKey,
    /// A browser session.
    Session,
    /// A socket ticket.
    Ticket,
}

impl Use {
    fn prefix(self) -> &'static str {
        match self {
            Self::ApiKey => "tnr_",
            Self::Session => "tns_",
            Self::Ticket => "tnt_",
        }
    }
}

/// A secret's text. Shown once to its owner and kept nowhere; `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A text that somebody sent or configured.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// 32 random bytes and their checksum.
    pub(crate) fn random(usage: Use) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self::of_bytes(usage, bytes))
    }

    /// A new API key, for an operator who wants to choose the first one.
    pub fn random_key() -> Result<Self, getrandom::Error> {
        Self::random(Use::ApiKey)
    }

    pub(crate) fn of_bytes(usage: Use, bytes: [u8; 32]) -> Self {
        let mut text = String::from(usage.prefix());
        text.push_str(&base62(&bytes, BODY_CHARS));
        let checksum = checksum(&text);
        text.push_str(&checksum);
        Self(text)
    }

    /// The text itself. Ask only to hand it to its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    pub(crate) fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.0.as_bytes()).into())
    }

    /// It has the form of such a secret, and its checksum is right.
    pub(crate) fn is_well_formed(&self, usage: Use) -> bool {
        let whole = usage.prefix().len() + BODY_CHARS + CHECKSUM_CHARS;
        let plain = self.0.len() == whole && self.0.starts_with(usage.prefix()) && self.0.is_ascii();
        plain && {
            let (text, sum) = self.0.split_at(whole - CHECKSUM_CHARS);
            checksum(text) == sum
        }
    }

    /// Three parts in base64url: the form of a signed token of the host application.
    pub(crate) fn has_form_of_jwt(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        self.0.bytes().all(is_plain) && self.0.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// It was meant to be an API key, but was cut or mistyped.
    pub(crate) fn is_mistyped_key(&self) -> bool {
        self.0.starts_with(Use::ApiKey.prefix()) && !self.is_well_formed(Use::ApiKey)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Masked: whoever serialises it wants to show it, and must not.
impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// A secret's SHA-256: enough to know it again, useless to whoever reads it.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SecretHash([u8; 32]);

impl SecretHash {
    /// Compares in constant time.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Its first bytes, as a public name.
    pub(crate) fn short(&self) -> String {
        hex(&self.0[..8])
    }

    /// All of it.
    pub(crate) fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHash({}…)", hex(&self.0[..4]))
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> Self {
        hash.hex()
    }
}

impl TryFrom<String> for SecretHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err("a hash has 64 hexadecimal digits");
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16)
                .map_err(|_| "a hash has 64 hexadecimal digits")?;
        }
        Ok(Self(bytes))
    }
}

/// The server's own secret, kept outside of the store. A retried request derives the same secret from it
/// again, so that nothing needs to keep that.
#[derive(Clone)]
pub struct ServerSecret([u8; 32]);

impl ServerSecret {
    /// From bytes of any length, as configured.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// One that nobody knows, not even after a restart.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// A key for another purpose than those here, such as encryption at rest.
    pub fn derive(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        for part in [purpose.as_bytes()].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// A new secret; for a request with an idempotency key the same as for its first try.
    pub(crate) fn make(
        &self,
        usage: Use,
        owner: &str,
        key: Option<&Key>,
    ) -> Result<Secret, getrandom::Error> {
        let Some(key) = key.map(Key::idempotency) else { return Secret::random(usage) };
        let parts = [owner.as_bytes(), key.key.as_bytes(), &key.fingerprint.0];
        Ok(Secret::of_bytes(usage, self.derive(usage.prefix(), &parts)))
    }
}

impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSecret(…)")
    }
}

fn checksum(text: &str) -> String {
    base62(&Sha256::digest(text.as_bytes())[..4], CHECKSUM_CHARS)
}

/// The number that the bytes spell, in exactly this many digits.
fn base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut text = vec![b'0'; digits];
    for digit in text.iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in &mut number {
            let value = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(0);
            rest = value % 62;
        }
        *digit = ALPHABET[rest as usize];
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_its_form_and_a_checksum_that_sees_a_typo() {
        let key = Secret::random_key().unwrap();
        assert_eq!(key.expose().len(), 53);
        assert!(key.is_well_formed(Use::ApiKey) && !key.is_mistyped_key());
        assert!(!key.is_well_formed(Use::Session));
        for index in 4..key.expose().len() {
            let mut typo = key.expose().as_bytes().to_vec();
            typo[index] = if typo[index] == b'a' { b'b' } else { b'a' };
            assert!(Secret::new(String::from_utf8(typo).unwrap()).is_mistyped_key(), "at {index}");
        }
        assert!(Secret::new(&key.expose()[..52]).is_mistyped_key());
        assert!(!Secret::new("a host application's token").is_mistyped_key());
    }

    #[test]
    fn a_token_is_known_by_its_form() {
        let has_form = |text: &str| Secret::new(text).has_form_of_jwt();
        assert!(has_form("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2lnbmF0dXJl-_"));
        for other in ["", "a.b", "a.b.c.d", "a.b.c=", "a b.c.d", "tnr_0123", "a.b.ć"] {
            assert!(!has_form(other), "{other}");
        }
    }

    #[test]
    fn all_bytes_survive_in_the_text() {
        assert_eq!(base62(&[0; 32], BODY_CHARS), "0".repeat(43));
        assert_eq!(base62(&[61], 1), "z");
        assert_eq!(base62(&[62], 2), "10");
        let all = base62(&[255; 32], BODY_CHARS);
        assert_eq!(all.len(), 43);
        assert_ne!(all, base62(&[254; 32], BODY_CHARS));
    }

    #[test]
    fn no_secret_prints_itself() {
        let key = Secret::random_key().unwrap();
        let shown = format!("{key:?} {:?} {:?}", key.hash(), ServerSecret::new(b"hush"));
        assert!(!shown.contains(&key.expose()[4..]) && !shown.contains(&key.hash().hex()), "{shown}");
    }

    #[test]
    fn hashes_read_back_as_they_were_written() {
        let hash = Secret::random_key().unwrap().hash();
        let text = serde_json::to_string(&hash).unwrap();
        let read: SecretHash = serde_json::from_str(&text).unwrap();
        assert!(read.matches(&hash));
        assert!(serde_json::from_str::<SecretHash>("\"zz\"").is_err());
    }

    #[test]
    fn derived_keys_differ_by_purpose_and_parts() {
        let secret = ServerSecret::new(b"a");
        assert_eq!(secret.derive("x", &[b"1"]), secret.derive("x", &[b"1"]));
        assert_ne!(secret.derive("x", &[b"1"]), secret.derive("y", &[b"1"]));
        assert_ne!(secret.derive("x", &[b"1", b"2"]), secret.derive("x", &[b"12"]));
        assert_ne!(secret.derive("x", &[b"1"]), ServerSecret::new(b"b").derive("x", &[b"1"]));
    }
}
