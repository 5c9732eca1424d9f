//! What a caller can ask for: the bodies, and the engine's command for each. Nothing is decided here;
//! what a body alone can tell to be wrong is refused.

use serde::Deserialize;
use tenure_core::command::{Acquire, Complete, PutItem};
use tenure_core::{
    ClaimId, CollectionKey, Expect, Guard, ItemId, ItemWrite, Json, SessionId, Status, Text, Verb,
};
use utoipa::{IntoParams, ToSchema};

use super::Op;
use crate::{Problem, schema};

/// A command, ready for the engine, and what its answer has to know of the question.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What kind of command.
    pub(crate) op: Op,
    /// Where.
    pub(crate) collection: CollectionKey,
    /// What.
    pub(crate) verb: Verb,
    /// What the caller said about the item's version.
    pub(crate) stated: Stated,
}

/// What a write said about what it expects to find, and how: a mismatch reads accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stated {
    /// Nothing: it may only create.
    Nothing,
    /// `version` in the body: a mismatch is 409. 0 says that it must not exist.
    Version(u64),
    /// `If-Match` with an `ETag` of ours: a mismatch is 412.
    Match(u64),
    /// `If-Match: *`.
    MatchAny,
    /// `If-Match` with something that was never an `ETag` of ours.
    MatchNone,
    /// `If-None-Match: *`.
    NoneMatch,
}

impl Stated {
    fn expect(self, guarded: bool) -> Expect {
        match self {
            // Under a claim nobody else can have changed it.
            Self::Nothing if guarded => Expect::Any,
            Self::Nothing | Self::NoneMatch | Self::Version(0) => Expect::Absent,
            Self::Version(version) | Self::Match(version) => Expect::Version(version),
            Self::MatchAny => Expect::Present,
            Self::MatchNone => Expect::Version(u64::MAX),
        }
    }

    /// The header and the body's `version`: one of them.
    fn or_version(self, version: Option<u64>) -> Result<Self, Problem> {
        match (self, version) {
            (stated, None) => Ok(stated),
            (Self::Nothing, Some(version)) => Ok(Self::Version(version)),
            _ => Err(Problem::invalid("version", "send it in the body or as If-Match, not both")),
        }
    }
}

/// What an answer has to know of the question.
#[derive(Debug)]
pub(crate) struct Question {
    /// What kind of command.
    pub(crate) op: Op,
    /// Where.
    pub(crate) collection: CollectionKey,
    /// What the caller said about the item's version.
    pub(crate) stated: Stated,
}

impl Asked {
    /// What the engine gets, and what is kept for its answer.
    pub(crate) fn split(self) -> (Question, Verb) {
        let Self { op, collection, verb, stated } = self;
        (Question { op, collection, stated }, verb)
    }

    /// The answer may wait for held items.
    pub(crate) fn waits(&self) -> bool {
        matches!(&self.verb, Verb::Acquire(acquire) if acquire.wait_ms.is_some_and(|wait_ms| wait_ms > 0))
    }
}

fn asked(op: Op, collection: CollectionKey, verb: Verb) -> Asked {
    Asked { op, collection, verb, stated: Stated::Nothing }
}

/// Claim items, all or nothing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Acquire, example = json!({"collection": "lock/jobs", "items": ["nightly"], "ttl_ms": 30000}))]
pub(crate) struct AcquireBody {
    /// Where.
    #[schema(value_type = schema::CollectionKey)]
    collection: CollectionKey,
    /// What.
    #[schema(value_type = Vec<schema::ItemId>, min_items = 1, max_items = 100)]
    items: Vec<ItemId>,
    /// The caller's tab or worker instance. Where the policy is `session_exclusive`, only the same one gets
    /// its claim back.
    #[schema(value_type = Option<schema::Session>)]
    session: Option<SessionId>,
    /// Another time to live than the kind's, within its bounds.
    #[schema(value_type = Option<schema::Number>)]
    ttl_ms: Option<i64>,
    /// How long to wait for held items, first come first served.
    #[schema(value_type = Option<schema::Number>)]
    wait_ms: Option<i64>,
    /// The caller's document.
    #[schema(value_type = schema::Data, required = false)]
    data: Option<Json>,
}

impl AcquireBody {
    pub(crate) fn ask(self) -> Asked {
        let Self { collection, items, session, ttl_ms, wait_ms, data } = self;
        asked(Op::Acquire, collection, Verb::Acquire(Acquire { items, session, ttl_ms, wait_ms, data }))
    }
}

/// Keep a claim alive.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Beat, example = json!({"token": 2, "idle_ms": 1500}))]
pub(crate) struct HeartbeatBody {
    /// The claim's token.
    #[schema(value_type = schema::Number)]
    token: u64,
    /// How long the person has done nothing real.
    #[schema(value_type = Option<schema::Number>)]
    idle_ms: Option<i64>,
}

impl HeartbeatBody {
    pub(crate) fn ask(self, claim: ClaimId) -> Asked {
        let Self { token, idle_ms } = self;
        asked(Op::Heartbeat, claim.collection, Verb::Heartbeat { claim: claim.number, token, idle_ms })
    }
}

/// Add an item to a claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AddItem, example = json!({"item": "043"}))]
pub(crate) struct AddItemBody {
    /// The item.
    #[schema(value_type = schema::ItemId)]
    item: ItemId,
}

impl AddItemBody {
    pub(crate) fn ask(self, claim: ClaimId) -> Asked {
        asked(Op::AddItem, claim.collection, Verb::AddItem { claim: claim.number, item: self.item })
    }
}

/// Nothing to say.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Empty, example = json!({}))]
pub(crate) struct NoBody {}

/// The commands on a claim that need nothing else.
pub(crate) mod no_body {
    use super::{Asked, ClaimId, ItemId, Op, Verb, asked};

    pub(crate) fn remove_item(claim: ClaimId, item: ItemId) -> Asked {
        asked(Op::RemoveItem, claim.collection, Verb::RemoveItem { claim: claim.number, item })
    }

    pub(crate) fn advance(claim: ClaimId) -> Asked {
        asked(Op::Advance, claim.collection, Verb::Advance { claim: claim.number })
    }

    pub(crate) fn cancel(claim: ClaimId) -> Asked {
        asked(Op::Cancel, claim.collection, Verb::Cancel { claim: claim.number })
    }

    pub(crate) fn release(claim: ClaimId) -> Asked {
        asked(Op::Release, claim.collection, Verb::Release { claim: claim.number })
    }
}

/// Finish a claim: write its items and end it, in one commit.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Complete, example = json!({"status": "READY", "data": {"result": 42}, "token": 2}))]
pub(crate) struct CompleteBody {
    /// The status for every item; left as it is when absent.
    #[schema(value_type = Option<schema::Status>)]
    status: Option<Status>,
    /// The document for every item; left as it is when absent.
    #[schema(value_type = schema::Data, required = false)]
    data: Option<Json>,
    /// The claim's token, to have it checked.
    #[schema(value_type = Option<schema::Number>)]
    token: Option<u64>,
    /// What single items become instead.
    #[serde(default, deserialize_with = "tenure_core::object::objects")]
    #[schema(required = false)]
    items: Vec<CompleteItem>,
}

/// What one item becomes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteItem {
    /// Which.
    #[schema(value_type = schema::ItemId)]
    item: ItemId,
    /// Its status.
    #[schema(value_type = Option<schema::Status>)]
    status: Option<Status>,
    /// Its document.
    #[schema(value_type = schema::Data, required = false)]
    data: Option<Json>,
}

impl CompleteBody {
    pub(crate) fn ask(self, claim: ClaimId) -> Asked {
        let write = |item: CompleteItem| ItemWrite { item: item.item, status: item.status, data: item.data };
        let verb = Verb::Complete(Complete {
            claim: claim.number,
            token: self.token,
            status: self.status,
            data: self.data,
            items: self.items.into_iter().map(write).collect(),
        });
        asked(Op::Complete, claim.collection, verb)
    }
}

/// Ask the holder to let go.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Nudge, example = json!({"message": "may I have it?"}))]
pub(crate) struct NudgeBody {
    /// What to say.
    #[schema(value_type = Option<schema::Message>)]
    pub(crate) message: Option<Text>,
}

impl NudgeBody {
    pub(crate) fn ask(self, claim: ClaimId) -> Asked {
        asked(Op::Nudge, claim.collection, Verb::Nudge { claim: claim.number, message: self.message })
    }
}

/// Make a collection, if it is not there.
pub(crate) fn create_collection(collection: CollectionKey) -> Asked {
    asked(Op::CreateCollection, collection, Verb::CreateCollection)
}

/// Write an item. What is absent stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PutItem, example = json!({"status": "open", "data": {"colour": "red"}, "version": 1}))]
pub(crate) struct PutItemBody {
    /// Its status. A new item gets the kind's first claimable one when absent.
    #[schema(value_type = Option<schema::Status>)]
    status: Option<Status>,
    /// Its document.
    #[schema(value_type = schema::Data, required = false)]
    data: Option<Json>,
    /// The version that this is based on; 0 if there must be none. A mismatch is 409.
    #[schema(value_type = Option<schema::Number>)]
    version: Option<u64>,
    /// Only under this claim of the caller's own; comes with `token`.
    #[schema(value_type = Option<schema::ClaimId>)]
    claim_id: Option<ClaimId>,
    /// That claim's token.
    #[schema(value_type = Option<schema::Number>)]
    token: Option<u64>,
}

impl PutItemBody {
    pub(crate) fn ask(
        self,
        collection: CollectionKey,
        item: ItemId,
        header: Stated,
    ) -> Result<Asked, Problem> {
        let Self { status, data, version, claim_id, token } = self;
        let stated = header.or_version(version)?;
        let guard = guard(&collection, claim_id, token)?;
        let write = ItemWrite { item, status, data };
        let verb = Verb::PutItem(PutItem { write, expect: stated.expect(guard.is_some()), guard });
        Ok(Asked { op: Op::PutItem, collection, verb, stated })
    }
}

/// Delete an item.
#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = DeleteItem)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteItemBody {
    /// The version that must be there; a mismatch is 409. `If-Match` says the same as a header.
    #[schema(value_type = Option<schema::Number>)]
    #[param(value_type = schema::Number, required = false)]
    version: Option<u64>,
    /// Only under this claim of the caller's own; comes with `token`.
    #[schema(value_type = Option<schema::ClaimId>)]
    #[param(value_type = schema::ClaimId, required = false)]
    claim_id: Option<ClaimId>,
    /// That claim's token.
    #[schema(value_type = Option<schema::Number>)]
    #[param(value_type = schema::Number, required = false)]
    token: Option<u64>,
}

impl DeleteItemBody {
    pub(crate) fn ask(
        self,
        collection: CollectionKey,
        item: ItemId,
        header: Stated,
    ) -> Result<Asked, Problem> {
        let Self { version, claim_id, token } = self;
        let stated = header.or_version(version)?;
        let guard = guard(&collection, claim_id, token)?;
        let verb = Verb::DeleteItem { item, expect: stated.expect(guard.is_some()), guard };
        Ok(Asked { op: Op::DeleteItem, collection, verb, stated })
    }
}

fn guard(
    collection: &CollectionKey,
    claim: Option<ClaimId>,
    token: Option<u64>,
) -> Result<Option<Guard>, Problem> {
    match (claim, token) {
        (None, None) => Ok(None),
        (Some(claim), Some(token)) if claim.collection == *collection => {
            Ok(Some(Guard::Claim { claim: claim.number, token }))
        }
        (Some(_), Some(_)) => Err(Problem::invalid("claim_id", "is of another collection")),
        (Some(_), None) => Err(Problem::invalid("token", "comes with claim_id")),
        (None, Some(_)) => Err(Problem::invalid("claim_id", "comes with token")),
    }
}

/// An administrator frees an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForceRelease, example = json!({"reason": "the holder went home"}))]
pub(crate) struct ForceReleaseBody {
    /// Why; kept in the audit log.
    #[schema(value_type = schema::Words)]
    reason: Text,
}

impl ForceReleaseBody {
    pub(crate) fn ask(self, collection: CollectionKey, item: ItemId) -> Asked {
        asked(Op::ForceRelease, collection, Verb::ForceRelease { item, reason: self.reason })
    }
}

/// An administrator takes an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForceClaim, example = json!({"reason": "the customer waits"}))]
pub(crate) struct ForceClaimBody {
    /// Why; kept in the audit log.
    #[schema(value_type = schema::Words)]
    reason: Text,
    /// The administrator's tab.
    #[schema(value_type = Option<schema::Session>)]
    session: Option<SessionId>,
}

impl ForceClaimBody {
    pub(crate) fn ask(self, collection: CollectionKey, item: ItemId) -> Asked {
        let Self { reason, session } = self;
        asked(Op::ForceClaim, collection, Verb::ForceClaim { item, reason, session })
    }
}
