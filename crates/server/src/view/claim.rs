//! A claim, and what a heartbeat answers.

use serde::Serialize;
use tenure_core::command::NotRenewed;
use tenure_core::{Claim, ClaimId, ClaimState, CollectionKey, EndReason, ItemId, Json, Principal, SessionId};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Stamp;

/// Who: the id that the host application knows, and the name that people see.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Holder<'a> {
    /// Decides who is the same person.
    #[schema(example = "u-7")]
    pub(crate) id: &'a str,
    /// Shown, never compared.
    #[schema(example = "Ana")]
    pub(crate) name: &'a str,
}

impl<'a> From<&'a Principal> for Holder<'a> {
    fn from(principal: &'a Principal) -> Self {
        Self { id: &principal.id, name: &principal.name }
    }
}

/// One holder's exclusive hold on one or more items of a collection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Claim, example = json!({
    "id": "lock~jobs~2", "collection": "lock/jobs", "items": ["nightly"], "holder": {"id": "u-7", "name": "Ana"},
    "session": "worker-3", "state": "active", "phase": "held", "token": 2,
    "since": "2026-01-02T03:04:05.678Z", "heartbeat_at": "2026-01-02T03:04:05.678Z",
    "expires_at": "2026-01-02T03:04:35.678Z", "expires_in_ms": 30_000, "server_time": "2026-01-02T03:04:05.678Z",
    "data": null,
}))]
pub(crate) struct ClaimView<'a> {
    /// The claim's id.
    #[schema(value_type = schema::ClaimId)]
    pub(crate) id: ClaimId,
    /// Where it lives.
    #[schema(value_type = schema::CollectionKey)]
    pub(crate) collection: &'a CollectionKey,
    /// What it holds.
    #[schema(value_type = Vec<schema::ItemId>, min_items = 1, max_items = 100)]
    pub(crate) items: &'a [ItemId],
    /// Who holds.
    pub(crate) holder: Holder<'a>,
    /// In which tab or worker instance.
    #[schema(value_type = Option<schema::Session>, required = true)]
    pub(crate) session: Option<&'a SessionId>,
    /// `active`, or how it ended.
    #[schema(value_type = schema::ClaimState)]
    pub(crate) state: ClaimState,
    /// The phase that it is in.
    #[schema(example = "held")]
    pub(crate) phase: &'a str,
    /// The fencing token: grows with every grant of an item.
    #[schema(value_type = schema::Number)]
    pub(crate) token: u64,
    /// When it was granted. A renewal keeps it.
    #[schema(value_type = schema::Time)]
    pub(crate) since: Stamp,
    /// When its holder last gave a sign of life.
    #[schema(value_type = schema::Time)]
    pub(crate) heartbeat_at: Stamp,
    /// The deadline.
    #[schema(value_type = schema::Time)]
    pub(crate) expires_at: Stamp,
    /// The time left; 0 when it is over. Count down from this, not from your own clock.
    #[schema(value_type = schema::Number)]
    pub(crate) expires_in_ms: i64,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    pub(crate) server_time: Stamp,
    /// The caller's document.
    #[schema(value_type = schema::Data)]
    pub(crate) data: Option<&'a Json>,
    /// Why it ended.
    #[schema(value_type = schema::EndReason, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<EndReason>,
    /// When it ended: for an expiry the deadline itself.
    #[schema(value_type = schema::Time, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Stamp>,
}

impl<'a> ClaimView<'a> {
    /// The claim at the server's time. It must have been settled or seen at that time.
    pub(crate) fn of(collection: &'a CollectionKey, claim: &'a Claim, now_ms: i64) -> Self {
        let server_time = Stamp::of(now_ms);
        // A new claim's times are mostly this very moment.
        let stamp = |at_ms: i64| if at_ms == now_ms { server_time } else { Stamp::of(at_ms) };
        Self {
            id: ClaimId { collection: collection.clone(), number: claim.number },
            collection,
            items: &claim.items,
            holder: Holder::from(&claim.holder),
            session: claim.session.as_ref(),
            state: claim.state,
            phase: &claim.phase,
            token: claim.token,
            since: stamp(claim.since_ms),
            heartbeat_at: stamp(claim.heartbeat_at_ms),
            expires_at: Stamp::of(claim.expires_at_ms),
            expires_in_ms: expires_in_ms(claim, now_ms),
            server_time,
            data: claim.data.as_ref(),
            reason: claim.reason,
            ended_at: claim.ended_at_ms.map(Stamp::of),
        }
    }
}

/// What a heartbeat did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Heartbeat, example = json!({
    "renewed": true, "expires_at": "2026-01-02T03:04:35.678Z", "expires_in_ms": 30_000,
    "server_time": "2026-01-02T03:04:05.678Z",
}))]
pub(crate) struct BeatView {
    /// The deadline moved.
    pub(crate) renewed: bool,
    /// Why it did not.
    #[schema(value_type = schema::NotRenewed, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<NotRenewed>,
    /// The deadline.
    #[schema(value_type = schema::Time)]
    pub(crate) expires_at: Stamp,
    /// The time left.
    #[schema(value_type = schema::Number)]
    pub(crate) expires_in_ms: i64,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    pub(crate) server_time: Stamp,
}

impl BeatView {
    pub(crate) fn of(renewed: bool, reason: Option<NotRenewed>, claim: &Claim, now_ms: i64) -> Self {
        Self {
            renewed,
            reason,
            expires_at: Stamp::of(claim.expires_at_ms),
            expires_in_ms: expires_in_ms(claim, now_ms),
            server_time: Stamp::of(now_ms),
        }
    }
}

/// What a force-release freed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Freed)]
pub(crate) struct FreedView<'a> {
    /// The claim that ended; `null` if nobody held the item.
    pub(crate) claim: Option<ClaimView<'a>>,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    pub(crate) server_time: Stamp,
}

fn expires_in_ms(claim: &Claim, now_ms: i64) -> i64 {
    if claim.state == ClaimState::Active { (claim.expires_at_ms - now_ms).max(0) } else { 0 }
}
