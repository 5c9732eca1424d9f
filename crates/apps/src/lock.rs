//! How a hold reads in an application: locked by whom, since when, until when; or free.

use serde::{Deserialize, Serialize};
use tenure_core::{Claim, CollectionKey, ItemId, Principal, Refusal as Rule};
use utoipa::ToSchema;

use crate::{Actor, Desk, Refusal, Result, Time};

/// Who: the id that the host application knows, and the name that people see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Person {
    /// Decides who is the same person.
    #[schema(example = "u-7")]
    pub id: String,
    /// Shown, never compared.
    #[schema(example = "Ana")]
    pub name: String,
}

impl From<&Principal> for Person {
    fn from(principal: &Principal) -> Self {
        Self { id: principal.id.to_string(), name: principal.name.to_string() }
    }
}

/// Whether somebody holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockState {
    /// Nobody does.
    Free,
    /// Somebody does.
    Locked,
}

/// A hold, at the time of the answer. Everything but `state` and `mine` is `null` while it is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lock {
    /// `free` or `locked`.
    pub state: LockState,
    /// Who holds it.
    #[schema(required = true)]
    pub locked_by: Option<Person>,
    /// Since when. Renewing keeps it.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub locked_at: Option<Time>,
    /// The holder's last sign of life.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub heartbeat_at: Option<Time>,
    /// Until when, if there is no further sign of life.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub expires_at: Option<Time>,
    /// The time left. Count down from this, not from your own clock.
    #[schema(required = true, example = 287_000)]
    pub expires_in_ms: Option<i64>,
    /// The caller holds it.
    pub mine: bool,
}

impl Lock {
    /// Nobody holds it.
    pub const FREE: Self = Self {
        state: LockState::Free,
        locked_by: None,
        locked_at: None,
        heartbeat_at: None,
        expires_at: None,
        expires_in_ms: None,
        mine: false,
    };

    /// The claim that holds at this time, as this actor sees it.
    pub fn of(claim: Option<&Claim>, actor: &Actor, now_ms: i64) -> Self {
        let Some(claim) = claim.filter(|claim| claim.holds_at(now_ms)) else { return Self::FREE };
        Self {
            state: LockState::Locked,
            locked_by: Some(Person::from(&claim.holder)),
            locked_at: Some(Time(claim.since_ms)),
            heartbeat_at: Some(Time(claim.heartbeat_at_ms)),
            expires_at: Some(Time(claim.expires_at_ms)),
            expires_in_ms: Some(claim.expires_at_ms - now_ms),
            mine: claim.holder.id == actor.principal.id,
        }
    }
}

impl Desk {
    /// An item points at its last claim, which may be over: then nobody holds it, whoever held it last.
    pub(crate) fn plain(&self, collection: &CollectionKey, item: &ItemId, refusal: Refusal) -> Refusal {
        let over = match refusal.rule() {
            Some(Rule::NotHolder { .. }) => true,
            Some(Rule::NotFound { what, .. }) => &**what == "claim",
            _ => false,
        };
        if over && matches!(self.is_held(collection, item), Ok(false)) {
            return Rule::NotHeld { item: item.clone() }.into();
        }
        refusal
    }

    /// Somebody holds the item now.
    pub(crate) fn is_held(&self, collection: &CollectionKey, item: &ItemId) -> Result<bool> {
        let found = self.held(collection, item, self.now_ms())?;
        Ok(found.is_some_and(|(_, claim)| claim.is_some()))
    }
}
