//! Browser sessions: documents in `tenure/sessions`, named by the hash of what the cookie holds. A session
//! ends when it is idle too long, when it is too old, when its owner signs out anywhere, and when the key
//! that opened it is revoked.

use serde::{Deserialize, Serialize};
use tenure_core::{Expect, ItemId, Principal, Text};
use tenure_engine::StoreError;

use super::keys::no_randomness;
use super::secret::{Secret, Use};
use super::{Identity, documents, kinds_of};
use crate::idempotency::Key;
use crate::limits::{SESSION_TOUCH_SHARE, SESSIONS_PER_PRINCIPAL_MAX, SWEEP_MAX};
use crate::problem::from_store;
use crate::{Caller, Credential, Problem, Role};

/// What is kept of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionDocument {
    pub(crate) subject: Principal,
    pub(crate) role: Role,
    pub(crate) kinds: Option<Vec<Text>>,
    /// The key that opened it, without which it is worth nothing.
    pub(crate) key: Option<Text>,
    pub(crate) created_at_ms: i64,
    pub(crate) seen_at_ms: i64,
}

impl Identity {
    /// Opens a session for somebody who has proved who they are.
    pub(crate) async fn open_session(
        &self,
        caller: &Caller,
        retry: Option<&Key>,
    ) -> Result<(Secret, SessionDocument), Problem> {
        let owner = &caller.principal;
        self.make_room(owner).await?;
        let secret = self.secret().make(Use::Session, &owner.id, retry).map_err(no_randomness)?;
        let now_ms = self.engine().now_ms();
        let document = SessionDocument {
            subject: owner.clone(),
            role: caller.role,
            kinds: caller.kinds.as_ref().map(|kinds| kinds.to_vec()),
            key: match &caller.credential {
                Credential::Key(id) => Some(id.clone()),
                _ => None,
            },
            created_at_ms: now_ms,
            seen_at_ms: now_ms,
        };
        let put = documents::put(session_item(&secret)?, &document, Expect::Absent)?;
        documents::write(self.engine(), documents::SESSIONS, owner, put, retry).await?;
        self.sessions().catch_up(self.engine()).await.map_err(|error| from_store(&error))?;
        Ok((secret, document))
    }

    /// Who comes with this cookie; `None` if the session is over.
    pub(crate) fn caller_of_session(&self, secret: &Secret) -> Result<Option<Caller>, Problem> {
        if !secret.is_well_formed(Use::Session) {
            return Ok(None);
        }
        let Ok(id) = session_item(secret) else { return Ok(None) };
        let Some(row) = self.sessions().find(self.engine(), id.as_str())? else { return Ok(None) };
        let now_ms = self.engine().now_ms();
        if !self.session_holds(&row.value, now_ms)? {
            return Ok(None);
        }
        self.touch(&id, &row, now_ms);
        let SessionDocument { subject, role, kinds, .. } = &row.value;
        Ok(Some(Caller {
            principal: subject.clone(),
            role: *role,
            kinds: kinds_of(kinds.as_ref()),
            credential: Credential::Session(id.into()),
        }))
    }

    /// Ends one session.
    pub(crate) async fn close_session(&self, actor: &Principal, id: &str) -> Result<(), Problem> {
        self.close_sessions(actor, vec![ItemId::new(id)?]).await
    }

    /// Ends every session of a principal, wherever it is signed in.
    pub(crate) async fn close_all_sessions(&self, owner: &Principal) -> Result<usize, Problem> {
        let sessions = self.sessions().filter(|session| session.subject.id == owner.id);
        let ids: Vec<ItemId> = sessions.into_iter().map(|(id, _)| id).collect();
        let count = ids.len();
        self.close_sessions(owner, ids).await?;
        Ok(count)
    }

    /// An error where nobody can tell.
    pub(super) fn session_is_live(&self, id: &str) -> Result<bool, Problem> {
        let now_ms = self.engine().now_ms();
        match self.sessions().find(self.engine(), id)? {
            Some(row) => self.session_holds(&row.value, now_ms),
            None => Ok(false),
        }
    }

    /// Deletes what has run out, some at a time.
    pub(super) async fn sweep_sessions(&self) {
        let now_ms = self.engine().now_ms();
        let mut over =
            self.sessions().filter(|session| matches!(self.session_holds(session, now_ms), Ok(false)));
        over.truncate(SWEEP_MAX);
        let ids = over.into_iter().map(|(id, _)| id).collect();
        if let Err(problem) = self.close_sessions(&Principal::system(), ids).await {
            tracing::warn!(code = problem.code, "sessions that are over could not be removed");
        }
    }

    /// Reads all sessions anew and follows them from here on.
    pub(super) fn load_sessions(&self) -> Result<(), StoreError> {
        let subscription = self.sessions().load(self.engine())?;
        let (mirror, engine) = (self.sessions().clone(), self.engine().clone());
        self.run(async move { mirror.follow(engine, subscription).await });
        Ok(())
    }

    fn session_holds(&self, session: &SessionDocument, now_ms: i64) -> Result<bool, Problem> {
        let times = &self.settings().sessions;
        if now_ms >= session.seen_at_ms + times.idle_ms || now_ms >= session.created_at_ms + times.absolute_ms
        {
            return Ok(false);
        }
        match &session.key {
            Some(key) => Ok(self.keys().find(self.engine(), key)?.is_some()),
            // Without a key only the demonstration lets somebody in, and only while it is one.
            None => Ok(self
                .settings()
                .people
                .iter()
                .any(|person| person.principal.id == session.subject.id && person.role == session.role)),
        }
    }

    /// Notes that the session is in use: rarely, since each note is a commit, and beside the request.
    fn touch(&self, id: &ItemId, row: &super::mirror::Row<SessionDocument>, now_ms: i64) {
        if now_ms < row.value.seen_at_ms + self.settings().sessions.idle_ms / SESSION_TOUCH_SHARE {
            return;
        }
        let document = SessionDocument { seen_at_ms: now_ms, ..row.value.clone() };
        let Ok(put) = documents::put(id.clone(), &document, Expect::Version(row.version)) else { return };
        let (engine, owner) = (self.engine().clone(), document.subject);
        // Of several requests at once the first wins; the others' version is gone by then.
        tokio::spawn(async move {
            let _ = documents::write(&engine, documents::SESSIONS, &owner, put, None).await;
        });
    }

    async fn make_room(&self, owner: &Principal) -> Result<(), Problem> {
        let mut sessions = self.sessions().filter(|session| session.subject.id == owner.id);
        let Some(excess) = (sessions.len() + 1).checked_sub(SESSIONS_PER_PRINCIPAL_MAX) else {
            return Ok(());
        };
        sessions.sort_by_key(|(_, row)| row.value.seen_at_ms);
        let oldest = sessions.into_iter().take(excess).map(|(id, _)| id).collect();
        self.close_sessions(owner, oldest).await
    }

    async fn close_sessions(&self, actor: &Principal, ids: Vec<ItemId>) -> Result<(), Problem> {
        if ids.is_empty() {
            return Ok(());
        }
        let ends = ids.into_iter().map(|id| {
            let delete = documents::delete(id, Expect::Any);
            documents::write(self.engine(), documents::SESSIONS, actor, delete, None)
        });
        for ended in futures_util::future::join_all(ends).await {
            match ended {
                // Somebody else ended it first: that is what was asked for.
                Err(problem) if problem.code == "not_found" => {}
                other => drop(other?),
            }
        }
        self.sessions().catch_up(self.engine()).await.map_err(|error| from_store(&error))
    }
}

fn session_item(secret: &Secret) -> Result<ItemId, Problem> {
    Ok(ItemId::new(format!("ses_{}", secret.hash().hex()))?)
}
