//! API keys: documents in `tenure/keys` that hold a key's hash, never the key. Each change is an event,
//! so who made and who revoked a key stands in the audit log.

use serde::{Deserialize, Serialize};
use tenure_core::command::Guard;
use tenure_core::names::{SYSTEM_KIND, check_kind};
use tenure_core::{CollectionKey, Expect, Fact, ItemId, Principal, Text, Verb};
use tenure_engine::StoreError;

use super::secret::{Secret, SecretHash, Use};
use super::{Error, Identity, documents, kinds_of};
use crate::idempotency::Key;
use crate::limits::{KEY_KINDS_MAX, KEY_NAME_BYTES_MAX, OWN_KEY_BYTES_MIN, REVOKE_TRIES};
use crate::problem::from_store;
use crate::{Caller, Credential, Problem, Role};

/// What is kept of a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeyDocument {
    pub(crate) hash: SecretHash,
    pub(crate) name: Text,
    pub(crate) subject: Principal,
    pub(crate) role: Role,
    pub(crate) kinds: Option<Vec<Text>>,
    pub(crate) created_at_ms: i64,
}

impl KeyDocument {
    /// It can make and revoke keys. An administrator of some kinds cannot, and would be locked out with all others.
    fn manages_keys(&self) -> bool {
        self.role == Role::Admin && self.kinds.is_none()
    }
}

/// A key to make.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What it is for, in the administrator's words.
    pub name: Text,
    /// Who acts with it.
    pub subject: Principal,
    /// What it may do.
    pub role: Role,
    /// The kinds that it may touch; `None` for all.
    pub kinds: Option<Vec<Text>>,
}

/// A key that was just made: the only moment at which its text exists.
#[derive(Clone, Debug)]
pub struct MadeKey {
    /// Its public name.
    pub id: Text,
    /// Its text. `Debug` hides it.
    pub secret: Secret,
    pub(crate) document: KeyDocument,
}

/// A key was made or revoked, as the audit log tells it: everything but what opens anything.
#[derive(Debug)]
pub(crate) struct KeyChange {
    pub(crate) action: &'static str,
    pub(crate) id: ItemId,
    pub(crate) document: KeyDocument,
}

impl KeyChange {
    const MADE: &str = "key_created";
    const REVOKED: &str = "key_revoked";

    /// What an event says of a key; `None` where it is about something else.
    pub(crate) fn of(collection: &CollectionKey, fact: &Fact) -> Option<Self> {
        if *collection != Self::collection() {
            return None;
        }
        let (action, written) = match fact {
            Fact::ItemPut { write, .. } => (Self::MADE, write),
            Fact::ItemDeleted { before, .. } => (Self::REVOKED, before),
            _ => return None,
        };
        let document = written.data.as_ref()?.read().ok()?;
        Some(Self { action, id: written.id.clone(), document })
    }

    /// The event's own word for what the audit log calls this.
    pub(crate) fn word_of(action: &str) -> Option<&'static str> {
        match action {
            Self::MADE => Some("item_put"),
            Self::REVOKED => Some("item_deleted"),
            _ => None,
        }
    }

    /// Where these events are.
    pub(crate) fn collection() -> CollectionKey {
        documents::collection(documents::KEYS)
    }
}

impl NewKey {
    fn check(&self) -> Result<(), Problem> {
        if self.name.len() > KEY_NAME_BYTES_MAX || self.name.chars().any(char::is_control) {
            return Err(Problem::invalid("name", "has at most 200 bytes and no control characters"));
        }
        let Some(kinds) = &self.kinds else { return Ok(()) };
        if kinds.is_empty() || kinds.len() > KEY_KINDS_MAX {
            return Err(Problem::invalid("kinds", "names 1 to 32 kinds, or is left out for all"));
        }
        for (index, kind) in kinds.iter().enumerate() {
            let field = format!("kinds[{index}]");
            check_kind(kind).map_err(|detail| Problem::invalid(&field, detail))?;
            if &**kind == SYSTEM_KIND {
                return Err(Problem::invalid(&field, "tenure is Tenure's own"));
            }
        }
        Ok(())
    }
}

impl Identity {
    /// Makes a key. A retry with the same idempotency key gets the same one.
    pub async fn create_key(
        &self,
        actor: &Principal,
        new: NewKey,
        retry: Option<&Key>,
    ) -> Result<MadeKey, Problem> {
        new.check()?;
        let secret = self.secret().make(Use::ApiKey, &actor.id, retry).map_err(no_randomness)?;
        self.keep_key(actor, new, secret, retry).await
    }

    async fn keep_key(
        &self,
        actor: &Principal,
        new: NewKey,
        secret: Secret,
        retry: Option<&Key>,
    ) -> Result<MadeKey, Problem> {
        let hash = secret.hash();
        let NewKey { name, subject, role, kinds } = new;
        let created_at_ms = self.engine().now_ms();
        let document = KeyDocument { hash, name, subject, role, kinds, created_at_ms };
        let item = ItemId::new(format!("key_{}", hash.short()))?;
        let put = documents::put(item, &document, Expect::Absent)?;
        let kept = documents::write(self.engine(), documents::KEYS, actor, put, retry).await?;
        self.shown_keys().await?;
        // A retry is answered with the first document, and the first document's key is asked for.
        let kept = kept.ok_or_else(Problem::internal)?;
        let document: KeyDocument =
            kept.data.as_ref().and_then(|data| data.read().ok()).ok_or_else(Problem::internal)?;
        if !document.hash.matches(&hash) {
            return Err(Problem::new(
                axum::http::StatusCode::CONFLICT,
                "conflict",
                "the first request made a key, but this server cannot show it again: revoke it and make \
                 another",
            ));
        }
        Ok(MadeKey { id: kept.id.clone().into(), secret, document })
    }

    /// Revokes a key: it opens nothing from here on, and what it opened is closed.
    pub(crate) async fn revoke_key(&self, actor: &Principal, id: &str) -> Result<(), Problem> {
        let item = ItemId::new(id).map_err(|_| Problem::not_found("key", id))?;
        // Each try is overtaken by somebody's own revocation; so many at once there are not.
        for _ in 0..REVOKE_TRIES {
            // What another node made or revoked a moment ago counts, too.
            self.shown_keys().await?;
            let mut others = self.keys().filter(KeyDocument::manages_keys);
            let before = others.len();
            others.retain(|(other, _)| *other != item);
            if others.is_empty() && before > 0 {
                let detail = "this is the last key of an administrator of all kinds: make another first";
                return Err(Problem::new(axum::http::StatusCode::CONFLICT, "conflict", detail));
            }
            // Of two administrators who revoke each other, here or on two nodes, one stays.
            let stays = others
                .first()
                .map(|(other, row)| Guard::Unchanged { item: other.clone(), version: row.version });
            let delete = Verb::DeleteItem { item: item.clone(), expect: Expect::Any, guard: stays };
            let deleted = documents::write(self.engine(), documents::KEYS, actor, delete, None).await;
            self.shown_keys().await?;
            match deleted {
                Ok(_) => return Ok(()),
                Err(problem) if self.keys().get(id).is_none() && problem.code == "not_found" => {
                    return Err(Problem::not_found("key", id));
                }
                Err(problem) if matches!(problem.code, "conflict" | "not_found") => {}
                Err(problem) => return Err(problem),
            }
        }
        Err(Problem::new(
            axum::http::StatusCode::CONFLICT,
            "conflict",
            "other keys change all the time: try again",
        ))
    }

    /// From here on this node's copy shows all that is committed, unless it lags, of which the log tells.
    async fn shown_keys(&self) -> Result<(), Problem> {
        self.keys().catch_up(self.engine()).await.map_err(|error| from_store(&error))
    }

    /// Every key's document, the newest first, on whichever node it was made.
    pub(crate) async fn list_keys(&self) -> Result<Vec<(Text, KeyDocument)>, Problem> {
        self.shown_keys().await?;
        let mut keys: Vec<(Text, KeyDocument)> = self
            .keys()
            .filter(|_| true)
            .into_iter()
            .map(|(id, row)| (id.into(), row.value.clone()))
            .collect();
        keys.sort_by(|(a_id, a), (b_id, b)| (b.created_at_ms, a_id).cmp(&(a.created_at_ms, b_id)));
        Ok(keys)
    }

    /// Who shows this key.
    pub(crate) fn caller_of_key(&self, secret: &Secret) -> Result<Option<Caller>, Problem> {
        let hash = secret.hash();
        let id = format!("key_{}", hash.short());
        let row = match self.keys().get(&id) {
            // Asked only now, since the operator's own key need not have the form; and before the store is.
            None if secret.is_mistyped_key() => {
                let detail = "the API key is mistyped or cut off: its checksum is wrong";
                return Err(Problem::unauthenticated(detail));
            }
            None => self.keys().find(self.engine(), &id)?,
            known => known,
        };
        Ok(row.and_then(|row| caller_of_row(&row.value, &hash, &id)))
    }

    /// The same, by what this node knows already: the store is not asked.
    pub(super) fn caller_of_known_key(&self, secret: &Secret) -> Option<Caller> {
        let hash = secret.hash();
        let id = format!("key_{}", hash.short());
        caller_of_row(&self.keys().get(&id)?.value, &hash, &id)
    }

    /// Makes sure that somebody can administer: on a first start the operator's own key, or a new one that
    /// is returned to be shown once. Does nothing once there is an administrator's key.
    pub async fn bootstrap(&self, own: Option<Secret>) -> Result<Option<MadeKey>, Error> {
        // Others may start on the same empty database at this moment. From here on all know of each other's keys: who
        // sees this very head makes the very same key, and who sees a newer one sees what was made.
        let unkept = |problem: Problem| Error(format!("the first key could not be kept: {}", problem.detail));
        let head = documents::begin(self.engine(), documents::KEYS).await.map_err(unkept)?;
        self.keys().catch_up(self.engine()).await.map_err(|error| Error(error.to_string()))?;
        let known = own.as_ref().is_some_and(|secret| matches!(self.caller_of_key(secret), Ok(Some(_))));
        if known || !self.keys().filter(KeyDocument::manages_keys).is_empty() {
            if own.is_some() && !known {
                tracing::warn!("TENURE_ADMIN_KEY is not used: there are administrator's keys already");
            }
            return Ok(None);
        }
        let subject =
            Principal::new("admin", "Administrator").map_err(|refusal| Error(refusal.to_string()))?;
        let new = NewKey { name: Text::from("first key"), subject, role: Role::Admin, kinds: None };
        let is_own = own.is_some();
        let secret = match own {
            Some(secret) => match wrong_with_own(&secret) {
                Some(reason) => return Err(Error(format!("admin_key: {reason}"))),
                None => secret,
            },
            None => Secret::of_bytes(Use::ApiKey, self.secret().derive("first key", &[&head.hash.0])),
        };
        match self.keep_key(&Principal::system(), new, secret, None).await {
            Ok(made) => Ok((!is_own).then_some(made)),
            Err(problem) if problem.code == "conflict" => {
                tracing::info!("another node has made the first key, and has shown it");
                // An own key without the form is known by this copy alone.
                self.keys().catch_up(self.engine()).await.map_err(|error| Error(error.to_string()))?;
                Ok(None)
            }
            Err(problem) => Err(unkept(problem)),
        }
    }

    /// Reads all keys anew and follows them from here on.
    pub(super) fn load_keys(&self) -> Result<(), StoreError> {
        let subscription = self.keys().load(self.engine())?;
        let (mirror, engine) = (self.keys().clone(), self.engine().clone());
        self.run(async move { mirror.follow(engine, subscription).await });
        Ok(())
    }
}

/// Whose key it is, if it is the one with this hash.
fn caller_of_row(document: &KeyDocument, hash: &SecretHash, id: &str) -> Option<Caller> {
    let KeyDocument { subject, role, kinds, .. } = document;
    document.hash.matches(hash).then(|| Caller {
        principal: subject.clone(),
        role: *role,
        kinds: kinds_of(kinds.as_ref()),
        credential: Credential::Key(Text::from(id)),
    })
}

/// What is wrong with a key that the operator chose. It need not have Tenure's form, but it must be hard to guess.
pub(crate) fn wrong_with_own(secret: &Secret) -> Option<String> {
    let text = secret.expose();
    if secret.is_mistyped_key() && text.len() == Secret::of_bytes(Use::ApiKey, [0; 32]).expose().len() {
        return Some("its checksum is wrong; is it mistyped?".to_owned());
    }
    let is_good = (OWN_KEY_BYTES_MIN..=256).contains(&text.len());
    if is_good && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    Some(format!("must be {OWN_KEY_BYTES_MIN} to 256 visible characters without spaces"))
}

pub(super) fn no_randomness(error: getrandom::Error) -> Problem {
    tracing::error!(%error, "the system gives no randomness");
    Problem::internal()
}
