//! An event: what every one has, then what this fact has.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;
use tenure_core::event::{Completed, End, Grant, GrantedItem, Written};
use tenure_core::{ClaimId, CollectionKey, Fact, Json, Sealed, Status};
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::Holder;
use crate::identity::KeyChange;
use crate::schema;
use crate::time::rfc3339;

/// An event of a collection.
#[derive(Debug)]
pub(crate) struct EventView<'a> {
    pub(crate) collection: &'a CollectionKey,
    pub(crate) sealed: &'a Sealed,
}

/// The same, with the chain's hash after it.
#[derive(Debug)]
pub(crate) struct AuditView<'a>(pub(crate) EventView<'a>);

/// What became of one item.
#[derive(Serialize)]
struct Change<'a> {
    item: &'a str,
    before: Option<State<'a>>,
    after: State<'a>,
}

/// An item's document at one version, or only its status where nothing else changed.
#[derive(Serialize)]
#[serde(untagged)]
enum State<'a> {
    Document { version: u64, status: &'a Status, data: Option<&'a Json> },
    Status { status: &'a Status },
}

impl<'a> State<'a> {
    fn of(written: &'a Written) -> Self {
        let Written { version, status, data, .. } = written;
        Self::Document { version: *version, status, data: data.as_ref() }
    }

    fn only(status: &'a Status) -> Self {
        Self::Status { status }
    }
}

impl Serialize for EventView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl Serialize for AuditView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match KeyChange::of(self.0.collection, &self.0.sealed.event.fact) {
            Some(change) => self.0.key(&mut map, &change)?,
            None => self.0.entries(&mut map)?,
        }
        map.serialize_entry("hash", &self.0.sealed.hash.to_string())?;
        map.end()
    }
}

impl EventView<'_> {
    /// Never the document itself: it holds the key's hash.
    fn key<M: SerializeMap>(&self, map: &mut M, change: &KeyChange) -> Result<(), M::Error> {
        let KeyChange { action, id, document } = change;
        let event = &self.sealed.event;
        map.serialize_entry("seq", &event.seq)?;
        map.serialize_entry("at", &rfc3339(event.at_ms))?;
        map.serialize_entry("type", action)?;
        map.serialize_entry("actor", &Holder::from(&event.actor))?;
        map.serialize_entry("collection", self.collection)?;
        map.serialize_entry("key", id)?;
        map.serialize_entry("name", &document.name)?;
        map.serialize_entry("subject", &Holder::from(&document.subject))?;
        map.serialize_entry("role", &document.role)?;
        map.serialize_entry("kinds", &document.kinds)
    }

    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let event = &self.sealed.event;
        map.serialize_entry("seq", &event.seq)?;
        map.serialize_entry("at", &rfc3339(event.at_ms))?;
        map.serialize_entry("type", event.fact.action())?;
        map.serialize_entry("actor", &Holder::from(&event.actor))?;
        map.serialize_entry("collection", self.collection)?;
        if let Some(number) = event.claim() {
            let id = ClaimId { collection: self.collection.clone(), number };
            map.serialize_entry("claim", &id)?;
        }
        let items = event.fact.items();
        if !items.is_empty() {
            map.serialize_entry("items", &items)?;
        }
        self.fact(map)
    }

    fn fact<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let event = &self.sealed.event;
        match &event.fact {
            Fact::CollectionCreated | Fact::ItemRemoved { .. } => Ok(()),
            Fact::Granted(grant) => granted(map, grant, event.seq),
            Fact::Renewed { ttl_ms, expires_at_ms, note, .. } => {
                map.serialize_entry("ttl_ms", ttl_ms)?;
                map.serialize_entry("expires_at", &rfc3339(*expires_at_ms))?;
                match note {
                    Some(note) => map.serialize_entry("reason", note),
                    None => Ok(()),
                }
            }
            Fact::ItemAdded { item, .. } => {
                map.serialize_entry("token", &event.seq)?;
                changes(map, std::slice::from_ref(item))
            }
            Fact::Advanced { from, phase, since_ms, ttl_ms, expires_at_ms, .. } => {
                map.serialize_entry("from", from)?;
                map.serialize_entry("phase", phase)?;
                map.serialize_entry("since", &rfc3339(*since_ms))?;
                map.serialize_entry("ttl_ms", ttl_ms)?;
                map.serialize_entry("expires_at", &rfc3339(*expires_at_ms))
            }
            Fact::Ended(end) => ended(map, end),
            Fact::Nudged { message, .. } => map.serialize_entry("message", message),
            Fact::ItemPut { write, before, under } => {
                map.serialize_entry("before", &before.as_ref().map(State::of))?;
                map.serialize_entry("after", &State::of(write))?;
                match under {
                    Some(acted) => map.serialize_entry("expires_at", &rfc3339(acted.expires_at_ms)),
                    None => Ok(()),
                }
            }
            Fact::ItemDeleted { before, .. } => {
                map.serialize_entry("before", &State::of(before))?;
                map.serialize_entry("after", &None::<()>)
            }
            Fact::PolicySet { kind, policy, before } => {
                map.serialize_entry("kind", kind)?;
                map.serialize_entry("before", before)?;
                map.serialize_entry("after", policy)
            }
            Fact::Resumed { shift_ms } => map.serialize_entry("shift_ms", shift_ms),
            Fact::Restored { epoch, from_seq } => {
                map.serialize_entry("epoch", epoch)?;
                map.serialize_entry("from_seq", from_seq)
            }
        }
    }
}

fn granted<M: SerializeMap>(map: &mut M, grant: &Grant, seq: u64) -> Result<(), M::Error> {
    map.serialize_entry("holder", &Holder::from(&grant.holder))?;
    map.serialize_entry("session", &grant.session)?;
    map.serialize_entry("phase", &grant.phase)?;
    map.serialize_entry("token", &seq)?;
    map.serialize_entry("ttl_ms", &grant.ttl_ms)?;
    map.serialize_entry("expires_at", &rfc3339(grant.expires_at_ms))?;
    map.serialize_entry("data", &grant.data)?;
    if let Some(forced) = &grant.forced {
        map.serialize_entry("reason", &forced.reason)?;
        map.serialize_entry("previous_holder", &forced.previous.as_ref().map(Holder::from))?;
    }
    changes(map, &grant.items)
}

/// What a grant made of its items, where it changed or created any.
fn changes<M: SerializeMap>(map: &mut M, items: &[GrantedItem]) -> Result<(), M::Error> {
    let changes = items.iter().filter_map(|item| {
        let after = State::only(item.status.as_ref()?);
        Some(Change { item: item.id.as_str(), before: item.before.as_ref().map(State::only), after })
    });
    let changes: Vec<_> = changes.collect();
    if changes.is_empty() { Ok(()) } else { map.serialize_entry("changes", &changes) }
}

fn ended<M: SerializeMap>(map: &mut M, end: &End) -> Result<(), M::Error> {
    map.serialize_entry("holder", &Holder::from(&end.holder))?;
    map.serialize_entry("state", &end.reason.state())?;
    if end.reason == tenure_core::EndReason::ForceReleased {
        // The type says how it ended; what the audit log needs is whose it was and the words.
        map.serialize_entry("reason", &end.note)?;
        map.serialize_entry("previous_holder", &Holder::from(&end.holder))?;
    } else {
        map.serialize_entry("reason", end.reason.as_str())?;
        if let Some(note) = &end.note {
            map.serialize_entry("note", note)?;
        }
    }
    map.serialize_entry("ended_at", &rfc3339(end.ended_at_ms))?;
    if end.blocked_until_ms > 0 {
        map.serialize_entry("blocked_until", &rfc3339(end.blocked_until_ms))?;
    }
    if end.writes.is_empty() {
        return Ok(());
    }
    let changes = end.writes.iter().map(|Completed { write, before }| Change {
        item: write.id.as_str(),
        before: Some(State::of(before)),
        after: State::of(write),
    });
    let changes: Vec<_> = changes.collect();
    map.serialize_entry("changes", &changes)
}

impl PartialSchema for EventView<'_> {
    fn schema() -> RefOr<Schema> {
        let object = common("What happened: these fields, then those of its type.").examples([json!({
            "seq": 2, "at": "2026-01-02T03:04:05.678Z", "type": "claim_granted",
            "actor": {"id": "u-7", "name": "Ana"}, "collection": "lock/jobs", "claim": "lock~jobs~2",
            "items": ["nightly"], "holder": {"id": "u-7", "name": "Ana"}, "session": null, "phase": "held",
            "token": 2, "ttl_ms": 30000, "expires_at": "2026-01-02T03:04:35.678Z", "data": null,
        })]);
        RefOr::T(Schema::Object(object.build()))
    }
}

impl ToSchema for EventView<'_> {
    fn name() -> std::borrow::Cow<'static, str> {
        "Event".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((Holder::name().into_owned(), Holder::schema()));
    }
}

impl PartialSchema for AuditView<'_> {
    fn schema() -> RefOr<Schema> {
        let hash = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9a-f]{64}$"))
            .examples([json!("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]);
        let object = common("An event, with the hash of its collection's chain after it.")
            .property("hash", hash)
            .required("hash");
        RefOr::T(Schema::Object(object.build()))
    }
}

impl ToSchema for AuditView<'_> {
    fn name() -> std::borrow::Cow<'static, str> {
        "AuditRow".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        EventView::schemas(schemas);
    }
}

fn common(description: &str) -> ObjectBuilder {
    let word = ObjectBuilder::new()
        .schema_type(Type::String)
        .examples([json!("claim_granted")])
        .description(Some("What happened; overrides stand out as LOCK_FORCE_RELEASE and LOCK_FORCE_CLAIM."));
    let mut object = ObjectBuilder::new()
        .description(Some(description))
        .property("seq", schema::number())
        .property("at", schema::time())
        .property("type", word)
        .property("actor", Ref::from_schema_name("Holder"))
        .property("collection", schema::collection())
        .property("claim", schema::claim_id())
        .property("items", ArrayBuilder::new().items(schema::item_id()))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    for field in ["seq", "at", "type", "actor", "collection"] {
        object = object.required(field);
    }
    object
}
