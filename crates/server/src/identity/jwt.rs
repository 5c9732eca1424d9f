//! Tokens of the host application. One algorithm is pinned in the configuration, whatever a token says of
//! itself; issuer, audience and expiry are required. What the claims mean here is configuration too.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jsonwebtoken::{Algorithm as Alg, DecodingKey, Validation};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tenure_core::{Principal, Text};

use super::secret::Secret;
use super::{Error, kinds_of};
use crate::limits::{JWT_BYTES_MAX, JWT_LEEWAY_S};
use crate::{Caller, Credential, Problem, Role};

const LACKING: &str = "the token lacks one of sub, iss, aud and exp";

/// The algorithms to choose one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// A secret that both sides know.
    HS256,
    /// An RSA key of the host application.
    RS256,
    /// An Ed25519 key of the host application.
    EdDSA,
}

/// What to trust, and what its claims mean.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The one algorithm.
    pub algorithm: Algorithm,
    /// The shared secret, or the public key as PEM.
    pub key: Secret,
    /// The only issuer.
    pub issuer: String,
    /// The audience that stands for this server.
    pub audience: String,
    /// The claim with the name to show.
    pub name_claim: String,
    /// The claim with the role or roles; dots lead into objects.
    pub role_claim: String,
    /// What the host application's words mean. Without any, its words are Tenure's.
    pub roles: BTreeMap<String, Role>,
    /// The role of a token that names none that is known; none refuses it.
    pub default_role: Option<Role>,
    /// The claim with the kinds; `None` gives all kinds.
    pub kinds_claim: Option<String>,
}

impl JwtSettings {
    /// The key fits the algorithm.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.decoding_key().map(drop)
    }

    fn decoding_key(&self) -> Result<(Alg, DecodingKey), String> {
        let text = self.key.expose().as_bytes();
        let (algorithm, key) = match self.algorithm {
            // RFC 7518 §3.2: a secret at least as long as the hash.
            Algorithm::HS256 if text.len() < 32 => return Err("HS256 needs at least 32 bytes".to_owned()),
            Algorithm::HS256 => (Alg::HS256, Ok(DecodingKey::from_secret(text))),
            Algorithm::RS256 => (Alg::RS256, DecodingKey::from_rsa_pem(text)),
            Algorithm::EdDSA => (Alg::EdDSA, DecodingKey::from_ed_pem(text)),
        };
        let key = key.map_err(|error| format!("not a public key for {:?}: {error}", self.algorithm))?;
        Ok((algorithm, key))
    }
}

/// Verifies tokens.
pub(crate) struct Jwt {
    settings: JwtSettings,
    key: DecodingKey,
    validation: Validation,
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Jwt {
    pub(crate) fn new(settings: JwtSettings) -> Result<Self, Error> {
        let (algorithm, key) = settings.decoding_key().map_err(|reason| Error(format!("jwt: {reason}")))?;
        let mut validation = Validation::new(algorithm);
        // Not `sub`, which `principal` requires: to the library one that is no text is missing.
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        // The library reads the clock by itself; here time is an argument.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        Ok(Self { settings, key, validation })
    }

    /// Whose token this is. `wall_ms` is the wall clock's time, since that is what `exp` speaks of;
    /// `server_ms` is the server's at the same moment, which everything else goes by.
    pub(crate) fn caller(&self, token: &Secret, wall_ms: i64, server_ms: i64) -> Result<Caller, Problem> {
        let text = token.expose();
        if text.len() > JWT_BYTES_MAX {
            return Err(Problem::unauthenticated("the token is too large"));
        }
        let decoded = jsonwebtoken::decode::<Map<String, Value>>(text, &self.key, &self.validation)
            .map_err(|error| refused(&error))?;
        // Extensions that must be understood, and none is (RFC 7515 §4.1.11).
        if decoded.header.crit.is_some() {
            return Err(Problem::unauthenticated("the token needs an extension that is not supported"));
        }
        let claims = decoded.claims;
        if !matches!(claims.get("iss"), Some(Value::String(_))) {
            return Err(Problem::unauthenticated("the token's issuer is not one text"));
        }
        let wall_s = wall_ms.div_euclid(1_000);
        let expires_s =
            seconds(&claims, "exp")?.ok_or_else(|| Problem::unauthenticated("the token has no expiry"))?;
        if wall_s >= expires_s.saturating_add(JWT_LEEWAY_S) {
            return Err(Problem::unauthenticated("the token has expired"));
        }
        if seconds(&claims, "nbf")?.is_some_and(|from_s| wall_s < from_s.saturating_sub(JWT_LEEWAY_S)) {
            return Err(Problem::unauthenticated("the token is not valid yet"));
        }
        let left_ms = expires_s.saturating_add(JWT_LEEWAY_S).saturating_mul(1_000).saturating_sub(wall_ms);
        Ok(Caller {
            principal: self.principal(&claims)?,
            role: self.role(&claims)?,
            kinds: self.kinds(&claims),
            credential: Credential::Jwt { expires_at_ms: server_ms.saturating_add(left_ms) },
        })
    }

    fn principal(&self, claims: &Map<String, Value>) -> Result<Principal, Problem> {
        let id = match claims.get("sub") {
            Some(Value::String(id)) => id.as_str(),
            Some(_) => return Err(Problem::unauthenticated("the token's sub must be a string")),
            None => return Err(Problem::unauthenticated(LACKING)),
        };
        let name = claim(claims, &self.settings.name_claim).and_then(Value::as_str).unwrap_or(id);
        Principal::new(id, name)
            .map_err(|_| Problem::unauthenticated("the token's subject or name cannot be used here"))
    }

    fn role(&self, claims: &Map<String, Value>) -> Result<Role, Problem> {
        let words = words(claim(claims, &self.settings.role_claim));
        let known = words.iter().filter_map(|word| {
            if self.settings.roles.is_empty() {
                Role::of(word)
            } else {
                self.settings.roles.get(*word).copied()
            }
        });
        known
            .max_by_key(|role| (*role == Role::Admin, *role == Role::Editor, *role))
            .or(self.settings.default_role)
            .ok_or_else(|| Problem::forbidden("the token gives you no role here"))
    }

    fn kinds(&self, claims: &Map<String, Value>) -> Option<Arc<[Text]>> {
        let name = self.settings.kinds_claim.as_ref()?;
        // A token without the claim covers nothing: what is not granted is denied.
        let kinds: Vec<Text> = words(claim(claims, name)).into_iter().map(Text::from).collect();
        kinds_of(Some(&kinds))
    }
}

/// A claim, or a member of one: `realm_access.roles`. A claim whose own name has dots wins.
fn claim<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        let mut parts = path.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })
}

/// A text's words, or a list's texts: both are common.
fn words(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A time in seconds. A fraction is cut off; anything but a number is refused.
fn seconds(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, Problem> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "a time beyond i64 saturates, which is far enough")]
    let whole = value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds.floor() as i64));
    match whole {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(Problem::unauthenticated(format!("the token's {name} is not a time"))),
    }
}

/// What the caller may know. The library's own text can quote the token.
fn refused(error: &jsonwebtoken::errors::Error) -> Problem {
    use jsonwebtoken::errors::ErrorKind;
    let detail = match error.kind() {
        ErrorKind::InvalidIssuer => "the token's issuer is not trusted",
        ErrorKind::InvalidAudience => "the token is for another audience",
        ErrorKind::MissingRequiredClaim(_) => LACKING,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => {
            "the token is not signed with the algorithm that is configured"
        }
        _ => "the credentials are neither a known API key nor a valid token",
    };
    Problem::unauthenticated(detail)
}
