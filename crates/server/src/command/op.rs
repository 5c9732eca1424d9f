//! The names of the commands, and which route each one is.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::access::{Rule, rule_for};
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

/// The usual ones first.
const ALL: [Op; 14] = [
    Op::Acquire,
    Op::Release,
    Op::Heartbeat,
    Op::Complete,
    Op::PutItem,
    Op::AddItem,
    Op::RemoveItem,
    Op::Advance,
    Op::Cancel,
    Op::Nudge,
    Op::CreateCollection,
    Op::DeleteItem,
    Op::ForceRelease,
    Op::ForceClaim,
];

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

    /// That route's row, looked for once.
    pub(crate) fn rule(self) -> Option<&'static Rule> {
        static RULES: LazyLock<Vec<(Op, Option<&'static Rule>)>> = LazyLock::new(|| {
            let rule = |op: Op| (op, rule_for(op.route().0, op.route().1));
            ALL.into_iter().map(rule).collect()
        });
        RULES.iter().find(|(op, _)| *op == self).and_then(|(_, rule)| *rule)
    }

    /// Refuses a caller who may not use that route.
    pub(crate) fn check(self, caller: &Caller) -> Result<(), Problem> {
        match self.rule().map(|rule| rule.may) {
            Some(May::Anyone) => Ok(()),
            Some(May::Roles { own, .. }) if own.has(caller.role) => Ok(()),
            _ => Err(Problem::forbidden("your role may not do this")),
        }
    }
}
