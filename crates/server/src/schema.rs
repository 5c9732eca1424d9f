//! The schemas of names and other plain values, for the OpenAPI document.

use serde_json::{Value, json};
use tenure_core::Policy;
use tenure_core::limits::{ITEM_ID_BYTES_MAX, SESSION_BYTES_MAX, TEXT_BYTES_MAX};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, Object, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

const KIND: &str = "[a-z][a-z0-9_-]{0,31}";
const NAME: &str = "[A-Za-z0-9._@:+-]{1,128}";

fn text(description: &str, pattern: Option<String>, example: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .pattern(pattern)
        .examples([json!(example)])
}

/// A kind.
pub(crate) fn kind() -> Object {
    text("A kind: 1 to 32 of a-z, 0-9, - and _.", Some(format!("^{KIND}$")), "lock").build()
}

/// A collection's name.
pub(crate) fn name() -> Object {
    text("A name: 1 to 128 of A-Z, a-z, 0-9 and . _ - @ : +", Some(format!("^{NAME}$")), "jobs").build()
}

/// `kind/name`.
pub(crate) fn collection() -> Object {
    text("A collection, `kind/name`.", Some(format!("^{KIND}/{NAME}$")), "lock/jobs").build()
}

/// A claim's id.
pub(crate) fn claim_id() -> Object {
    let pattern = format!("^{KIND}~{NAME}~[1-9][0-9]{{0,18}}$");
    text("A claim, `kind~name~number`.", Some(pattern), "lock~jobs~2").build()
}

/// An item's id.
pub(crate) fn item_id() -> Object {
    let pattern = r"^[^\x00-\x1f\x7f-\x9f]+$".to_owned();
    text("An item's id: any text without control characters, up to 256 bytes.", Some(pattern), "nightly")
        .min_length(Some(1))
        .max_length(Some(ITEM_ID_BYTES_MAX))
        .build()
}

/// A status.
pub(crate) fn status() -> Object {
    text("A status: a word of the kind's policy.", Some("^[A-Za-z0-9_.-]{1,64}$".to_owned()), "open").build()
}

/// A session.
pub(crate) fn session() -> Object {
    let pattern = r"^[^\x00-\x1f\x7f-\x9f]+$".to_owned();
    text("The caller's tab or worker instance.", Some(pattern), "tab-1")
        .min_length(Some(1))
        .max_length(Some(SESSION_BYTES_MAX))
        .build()
}

/// A time.
pub(crate) fn time() -> Object {
    text("RFC 3339, UTC, to the millisecond.", None, "2026-01-02T03:04:05.678Z")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build()
}

/// Any JSON.
pub(crate) fn data() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("The application's own document: any JSON, up to 64 KiB."))
        .examples([json!({"colour": "red"})])
        .build()
}

/// A token, a version, a number of an event.
pub(crate) fn number() -> Object {
    let mut number = integer(0);
    number.examples = vec![json!(2)];
    number
}

fn integer(minimum: u64) -> Object {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(minimum)).build()
}

/// Words that people write for people.
pub(crate) fn words() -> Object {
    text("Up to 2,000 bytes, kept in the audit log.", Some(r"\S".to_owned()), "the holder went home")
        .min_length(Some(1))
        .max_length(Some(TEXT_BYTES_MAX))
        .build()
}

/// A claim's state.
pub(crate) fn state() -> Object {
    one_of("A claim's state.", &["active", "released", "completed", "expired", "cancelled", "revoked"])
}

/// Why a claim ended.
pub(crate) fn reason() -> Object {
    let reasons =
        ["released", "completed", "expired", "idle", "max_hold", "cancelled", "force_released", "taken_over"];
    one_of("Why a claim ended.", &reasons)
}

/// Why a heartbeat moved nothing.
pub(crate) fn not_renewed() -> Object {
    one_of("Why the deadline did not move.", &["idle", "max_hold", "fixed_phase"])
}

fn one_of(description: &str, words: &[&str]) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .enum_values(Some(words.iter().copied()))
        .build()
}

/// The same, or `null`.
pub(crate) fn nullable(mut object: Object) -> Object {
    if let SchemaType::Type(known) = object.schema_type {
        object.schema_type = SchemaType::from_iter([known, Type::Null]);
    }
    if let Some(values) = &mut object.enum_values {
        values.push(Value::Null);
    }
    object
}

/// The place of an audit row.
pub(crate) fn cursor() -> Object {
    let pattern = format!("^[0-9]{{1,15}}~{KIND}~{NAME}~[0-9]{{1,19}}$");
    text("Where a page begins: the `next` of the page before.", Some(pattern), "1767323045678~lock~jobs~2")
        .build()
}

/// Where a policy comes from.
pub(crate) fn source() -> Object {
    one_of("`preset` as it was built in, `own` as somebody set it.", &["preset", "own"])
}

/// What any route may answer.
pub(crate) fn any_answer() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .examples([
            json!({"renewed": true, "expires_at": "2026-01-02T03:04:35.678Z", "expires_in_ms": 30_000}),
        ])
        .build()
}

/// How a policy reads.
#[derive(Debug)]
pub(crate) struct PolicySchema;

impl PartialSchema for PolicySchema {
    fn schema() -> RefOr<Schema> {
        let ms = |description: &str| described(integer(0), description);
        let maybe = |object: Object, description: &str| described(nullable(object), description);
        let flag = |description: &str| described(Object::with_type(Type::Boolean), description);
        let statuses =
            |minimum| ArrayBuilder::new().items(status()).min_items(Some(minimum)).max_items(Some(32));
        let phase = ObjectBuilder::new()
            .property("name", status())
            .property("ttl_ms", ms("How long it lasts, or how long a heartbeat renews it for."))
            .property("renew", flag("Heartbeats renew it."))
            .property("at_end", one_of("What its end does.", &["release", "advance"]))
            .property("side", flag("Entered by its name only, by an application: `advance` passes it by."))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        let phase = ["name", "ttl_ms", "renew", "at_end"].into_iter().fold(phase, ObjectBuilder::required);
        let phases = ArrayBuilder::new().items(phase).min_items(Some(1)).max_items(Some(8));
        let required = [
            "phases",
            "heartbeat_ms",
            "max_items",
            "claimable",
            "finished",
            "create_on_claim",
            "one_claim_per_session",
            "session_exclusive",
            "max_wait_ms",
            "lock_delay_ms",
            "ttl_ms_min",
            "ttl_ms_max",
        ];
        let policy = ObjectBuilder::new()
            .description(Some("How the claims of one kind behave."))
            .property("phases", phases)
            .property(
                "idle_guard_ms",
                maybe(integer(0), "A heartbeat that tells of this much idle time renews nothing."),
            )
            .property(
                "rolling_ms",
                maybe(
                    integer(0),
                    "Heartbeats alone keep a claim no longer than this past the last real action.",
                ),
            )
            .property("heartbeat_ms", ms("How often clients should send heartbeats. A hint."))
            .property("max_items", ms("Items in one claim, at most 100."))
            .property("claimable", statuses(1))
            .property("finished", statuses(0))
            .property("status_on_claim", maybe(status(), "The status that a claim gives to its items."))
            .property("create_on_claim", flag("Claiming an unknown item or collection creates it."))
            .property("one_claim_per_session", flag("A session that has a claim gets that one back."))
            .property(
                "session_exclusive",
                flag("To another session of the same holder the item is held; no session is one of them."),
            )
            .property(
                "max_claims_per_holder",
                maybe(integer(1), "Active claims of one holder in one collection."),
            )
            .property("max_wait_ms", ms("The longest a caller may wait in the queue."))
            .property("lock_delay_ms", ms("After an unclean end nobody gets the items for this long."))
            .property("ttl_ms_min", ms("The shortest TTL that a caller may ask for in the first phase."))
            .property("ttl_ms_max", ms("The longest."))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)))
            .examples([json!(Policy::lock())]);
        let policy = required.into_iter().fold(policy, ObjectBuilder::required);
        RefOr::T(Schema::Object(policy.build()))
    }
}

impl ToSchema for PolicySchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "Policy".into()
    }
}

fn described(mut object: Object, description: &str) -> Object {
    object.description = Some(description.to_owned());
    object
}

/// A schema with a name of its own, so that a field can refer to it and say what it is there for.
macro_rules! named {
    ($($name:ident = $schema:ident;)+) => {
        $(
            #[doc = concat!("How a `", stringify!($name), "` reads.")]
            #[derive(Debug)]
            pub(crate) struct $name;

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    RefOr::T(Schema::Object($schema()))
                }
            }

            impl ToSchema for $name {
                fn name() -> std::borrow::Cow<'static, str> {
                    stringify!($name).into()
                }
            }
        )+
    };
}

named! {
    Kind = kind;
    CollectionName = name;
    CollectionKey = collection;
    ClaimId = claim_id;
    ItemId = item_id;
    Status = status;
    Session = session;
    Time = time;
    Data = data;
    Number = number;
    Words = words;
    Message = message;
    ClaimState = state;
    EndReason = reason;
    NotRenewed = not_renewed;
    PolicySource = source;
    AuditCursor = cursor;
    Problem = problem;
}

/// Words for the holder; may be empty.
fn message() -> Object {
    text("Up to 2,000 bytes, shown to the holder.", None, "may I have it?")
        .max_length(Some(TEXT_BYTES_MAX))
        .build()
}

/// A refusal.
fn problem() -> Object {
    let word = |description: &str, example: &str| {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(description))
            .examples([json!(example)])
    };
    let object = ObjectBuilder::new()
        .description(Some("A refusal (RFC 9457), with what a program needs to go on beside it."))
        .property("type", word("Where the code is explained.", "/docs/problems#not_found"))
        .property("title", word("What the code means.", "There is no such thing"))
        .property("status", ObjectBuilder::new().schema_type(Type::Integer).examples([json!(404)]))
        .property("detail", word("A sentence about this very case.", "there is no item nightly"))
        .property("code", word("The stable code.", "not_found"))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    let required = ["type", "title", "status", "detail", "code"];
    required.into_iter().fold(object, ObjectBuilder::required).build()
}
