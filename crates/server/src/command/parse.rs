//! The JSON form of a command: `op`, what it is about, and the same fields as the route's body, e.g.
//! `{"op": "heartbeat", "claim": "lock~jobs~2", "token": 2}`. The body is read by the route's own struct;
//! this file only takes out what stands in the route's path.

use std::borrow::Cow;
use std::vec;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_path_to_error::Track;
use tenure_core::{ClaimId, CollectionKey, ItemId};
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::ask::{
    AcquireBody, AddItemBody, CompleteBody, DeleteItemBody, ForceClaimBody, ForceReleaseBody, HeartbeatBody,
    NoBody, NudgeBody, PutItemBody,
};
use super::{Asked, Op, Stated, create_collection, no_body};
use crate::apps::check_owned;
use crate::body::without_place;
use crate::wording::ASIDE;
use crate::{App, Caller, Problem, body, schema};

/// Reads a command. The caller must be allowed to send it, and to touch its kind.
pub(crate) fn parse(app: &App, text: &str, caller: &Caller) -> Result<Asked, Problem> {
    let Parsed(asked) = body::parse(text.as_bytes(), "command")?;
    let asked = asked?;
    asked.op.check(caller)?;
    caller.check_kind(asked.collection.kind())?;
    check_owned(app, caller, &asked)?;
    Ok(asked)
}

/// What was read, or what is wrong with it although each field is right.
struct Parsed(Result<Asked, Problem>);

impl<'de> Deserialize<'de> for Parsed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CommandVisitor)
    }
}

/// A field's name, where it lies if that can be: by itself a `Cow` is always a copy.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct CommandVisitor;

impl<'de> Visitor<'de> for CommandVisitor {
    type Value = Parsed;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a command, an object with op")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parsed, A::Error> {
        // Mostly `op` comes first, and nothing is put aside.
        let mut before = Vec::new();
        let op = loop {
            match map.next_key::<Name<'de>>()? {
                Some(Name(key)) if key == "op" => break map.next_value::<Op>()?,
                Some(Name(key)) => before.push((key, map.next_value::<&'de RawValue>()?)),
                None => return Err(A::Error::missing_field("op")),
            }
        };
        let mut rest = Rest {
            before: before.into_iter(),
            map,
            aside: None,
            picks: picks(op),
            collection: None,
            item: None,
            claim: None,
        };
        read(op, &mut rest)
    }
}

/// What an operation is about: the fields that stand in its route's path.
fn picks(op: Op) -> &'static [&'static str] {
    match op {
        Op::Acquire => &[],
        Op::Heartbeat | Op::AddItem | Op::Advance | Op::Complete | Op::Cancel | Op::Release | Op::Nudge => {
            &["claim"]
        }
        Op::RemoveItem => &["claim", "item"],
        Op::CreateCollection => &["collection"],
        Op::PutItem | Op::DeleteItem | Op::ForceRelease | Op::ForceClaim => &["collection", "item"],
    }
}

fn read<'de, A: MapAccess<'de>>(op: Op, rest: &mut Rest<'de, A>) -> Result<Parsed, A::Error> {
    let asked = match op {
        Op::Acquire => rest.body::<AcquireBody>()?.ask(),
        Op::Heartbeat => rest.body::<HeartbeatBody>()?.ask(rest.claim()?),
        Op::AddItem => rest.body::<AddItemBody>()?.ask(rest.claim()?),
        Op::Complete => rest.body::<CompleteBody>()?.ask(rest.claim()?),
        Op::Nudge => rest.body::<NudgeBody>()?.ask(rest.claim()?),
        Op::RemoveItem => {
            rest.body::<NoBody>()?;
            no_body::remove_item(rest.claim()?, rest.item()?)
        }
        Op::Advance => {
            rest.body::<NoBody>()?;
            no_body::advance(rest.claim()?)
        }
        Op::Cancel => {
            rest.body::<NoBody>()?;
            no_body::cancel(rest.claim()?)
        }
        Op::Release => {
            rest.body::<NoBody>()?;
            no_body::release(rest.claim()?)
        }
        Op::CreateCollection => {
            rest.body::<NoBody>()?;
            create_collection(rest.collection()?)
        }
        Op::PutItem => {
            let body = rest.body::<PutItemBody>()?;
            return Ok(Parsed(body.ask(rest.collection()?, rest.item()?, Stated::Nothing)));
        }
        Op::DeleteItem => {
            let body = rest.body::<DeleteItemBody>()?;
            return Ok(Parsed(body.ask(rest.collection()?, rest.item()?, Stated::Nothing)));
        }
        Op::ForceRelease => rest.body::<ForceReleaseBody>()?.ask(rest.collection()?, rest.item()?),
        Op::ForceClaim => rest.body::<ForceClaimBody>()?.ask(rest.collection()?, rest.item()?),
    };
    Ok(Parsed(Ok(asked)))
}

/// The fields that are left: what the command is about is put aside, the rest goes to its body.
struct Rest<'de, A> {
    before: vec::IntoIter<(Cow<'de, str>, &'de RawValue)>,
    map: A,
    /// The key that was just given and its value, if it came before `op`.
    aside: Option<(Cow<'de, str>, &'de RawValue)>,
    picks: &'static [&'static str],
    collection: Option<CollectionKey>,
    item: Option<ItemId>,
    claim: Option<ClaimId>,
}

impl<'de, A: MapAccess<'de>> Rest<'de, A> {
    fn body<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(self))
    }

    fn collection(&mut self) -> Result<CollectionKey, A::Error> {
        self.collection.take().ok_or_else(|| A::Error::missing_field("collection"))
    }

    fn item(&mut self) -> Result<ItemId, A::Error> {
        self.item.take().ok_or_else(|| A::Error::missing_field("item"))
    }

    fn claim(&mut self) -> Result<ClaimId, A::Error> {
        self.claim.take().ok_or_else(|| A::Error::missing_field("claim"))
    }

    fn pick(&mut self, field: &'static str) -> Result<(), A::Error> {
        let twice = match field {
            "collection" => self.collection.is_some(),
            "item" => self.item.is_some(),
            _ => self.claim.is_some(),
        };
        if twice {
            return Err(A::Error::duplicate_field(field));
        }
        match field {
            "collection" => self.collection = Some(self.next_value()?),
            "item" => self.item = Some(self.next_value()?),
            _ => self.claim = Some(self.next_value()?),
        }
        Ok(())
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            let key = match self.before.next() {
                Some((key, value)) => {
                    self.aside = Some((key.clone(), value));
                    key
                }
                None => match self.map.next_key::<Name<'de>>()? {
                    Some(Name(key)) => key,
                    None => return Ok(None),
                },
            };
            if key == "op" {
                return Err(A::Error::duplicate_field("op"));
            }
            match self.picks.iter().copied().find(|pick| *pick == key) {
                Some(field) => self.pick(field)?,
                None => return seed.deserialize(key.into_deserializer()).map(Some),
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.aside.take() {
            Some((name, value)) => {
                let mut track = Track::new();
                let read = seed.deserialize(serde_path_to_error::Deserializer::new(value, &mut track));
                read.map_err(|error| {
                    let inner = track.path().to_string();
                    let dot = if inner.starts_with('[') { "" } else { "." };
                    let path = if inner == "." { name.into_owned() } else { format!("{name}{dot}{inner}") };
                    A::Error::custom(format_args!("{ASIDE}{path}`: {}", without_place(&error.to_string())))
                })
            }
            None => self.map.next_value_seed(seed),
        }
    }
}

/// How a command reads in the OpenAPI document.
#[derive(Debug)]
pub(crate) struct CommandSchema;

impl PartialSchema for CommandSchema {
    fn schema() -> RefOr<Schema> {
        let forms = [
            form::<AcquireBody>("acquire", Op::Acquire),
            form::<HeartbeatBody>("heartbeat", Op::Heartbeat),
            form::<AddItemBody>("add_item", Op::AddItem),
            form::<NoBody>("remove_item", Op::RemoveItem),
            form::<NoBody>("advance", Op::Advance),
            form::<CompleteBody>("complete", Op::Complete),
            form::<NoBody>("cancel", Op::Cancel),
            form::<NoBody>("release", Op::Release),
            form::<NudgeBody>("nudge", Op::Nudge),
            form::<NoBody>("create_collection", Op::CreateCollection),
            form::<PutItemBody>("put_item", Op::PutItem),
            form::<DeleteItemBody>("delete_item", Op::DeleteItem),
            form::<ForceReleaseBody>("force_release", Op::ForceRelease),
            form::<ForceClaimBody>("force_claim", Op::ForceClaim),
        ];
        let one_of = OneOfBuilder::new()
            .description(Some("A command: `op`, what it is about, and the fields of its route's body."));
        let one_of = forms.into_iter().fold(one_of, OneOfBuilder::item);
        RefOr::T(Schema::OneOf(one_of.build()))
    }
}

impl ToSchema for CommandSchema {
    fn name() -> Cow<'static, str> {
        "Command".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        AcquireBody::schemas(schemas);
        CompleteBody::schemas(schemas);
        PutItemBody::schemas(schemas);
        ForceClaimBody::schemas(schemas);
        NudgeBody::schemas(schemas);
    }
}

/// The body's schema with `op` and what the command is about.
fn form<T: PartialSchema>(word: &str, op: Op) -> Object {
    let mut object = match T::schema() {
        RefOr::T(Schema::Object(object)) => object,
        _ => Object::new(),
    };
    object.example = None;
    object.description = None;
    object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([word])).build();
    object.properties.insert("op".to_owned(), name.into());
    object.required.push("op".to_owned());
    for pick in picks(op) {
        let about = match *pick {
            "collection" => schema::collection(),
            "item" => schema::item_id(),
            _ => schema::claim_id(),
        };
        object.properties.insert((*pick).to_owned(), about.into());
        object.required.push((*pick).to_owned());
    }
    object
}
