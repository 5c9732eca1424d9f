//! The names of the commands, and which route each one is.

use serde::Deserialize;

use crate::access::rule_for;
use crate::{Caller, May, Problem};

/// A command's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Acquire,
    Heartbeat,
    AddItem,
    RemoveItem,
    Advance,
    Complete,
    Cancel,
    Release,
    Nudge,
    CreateCollection,
    PutItem,
    DeleteItem,
    ForceRelease,
    ForceClaim,
}

impl Op {
    /// The route that does the same. Who may use it may send the command.
    pub(crate) fn route(self) -> (&'static str, &'static str) {
        match self {
            Self::Acquire => ("POST", "/v1/claims"),
            Self::Heartbeat => ("POST", "/v1/claims/{id}/heartbeat"),
            Self::AddItem => ("POST", "/v1/claims/{id}/items"),
            Self::RemoveItem => ("DELETE", "/v1/claims/{id}/items/{item}"),
            Self::Advance => ("POST", "/v1/claims/{id}/advance"),
            Self::Complete => ("POST", "/v1/claims/{id}/complete"),
            Self::Cancel => ("POST", "/v1/claims/{id}/cancel"),
            Self::Release => ("DELETE", "/v1/claims/{id}"),
            Self::Nudge => ("POST", "/v1/claims/{id}/nudge"),
            Self::CreateCollection => ("PUT", "/v1/collections/{kind}/{name}"),
            Self::PutItem => ("PUT", "/v1/collections/{kind}/{name}/items/{item}"),
            Self::DeleteItem => ("DELETE", "/v1/collections/{kind}/{name}/items/{item}"),
            Self::ForceRelease => ("POST", "/v1/collections/{kind}/{name}/items/{item}/force-release"),
            Self::ForceClaim => ("POST", "/v1/collections/{kind}/{name}/items/{item}/force-claim"),
        }
    }

    /// Refuses a caller who may not use that route.
    pub(crate) fn check(self, caller: &Caller) -> Result<(), Problem> {
        let (method, path) = self.route();
        match rule_for(method, path).map(|rule| rule.may) {
            Some(May::Anyone) => Ok(()),
            Some(May::Roles { own, .. }) if own.has(caller.role) => Ok(()),
            _ => Err(Problem::forbidden("your role may not do this")),
        }
    }
}
