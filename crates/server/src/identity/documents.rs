//! Tenure's own documents: how they are written through the engine like anybody's.

use std::sync::Arc;

use serde::Serialize;
use tenure_core::command::PutItem;
use tenure_core::{
    Collection, CollectionKey, Command, Expect, Item, ItemId, ItemWrite, Json, Principal, Reply, Verb,
};
use tenure_engine::{Engine, Request};

use crate::Problem;
use crate::idempotency::Key;

pub(super) const KEYS: &str = "keys";
pub(super) const SESSIONS: &str = "sessions";
pub(super) const TICKETS: &str = "tickets";

/// One of Tenure's own collections.
pub(super) fn collection(name: &str) -> CollectionKey {
    CollectionKey::from_parts(tenure_core::names::SYSTEM_KIND, name).expect("the names above are valid")
}

/// Writes a document.
pub(super) fn put(item: ItemId, document: &impl Serialize, expect: Expect) -> Result<Verb, Problem> {
    let data = Some(Json::of(document)?);
    Ok(Verb::PutItem(PutItem { write: ItemWrite { item, status: None, data }, expect, guard: None }))
}

/// Deletes a document.
pub(super) fn delete(item: ItemId, expect: Expect) -> Verb {
    Verb::DeleteItem { item, expect, guard: None }
}

/// Makes sure that the collection is there.
pub(super) async fn begin(engine: &Engine, name: &str) -> Result<Arc<Collection>, Problem> {
    let command =
        Command { collection: collection(name), actor: Principal::system(), verb: Verb::CreateCollection };
    let answer = engine.execute(command).await;
    match answer.outcome {
        Ok(Reply::Collection { collection, .. }) => Ok(collection),
        Ok(_) => Err(Problem::internal()),
        Err(refused) => Err(Problem::from_refused(&refused, answer.server_time_ms)),
    }
}

/// Asks the engine; the written document, if one was written.
pub(super) async fn write(
    engine: &Engine,
    name: &str,
    actor: &Principal,
    verb: Verb,
    retry: Option<&Key>,
) -> Result<Option<Arc<Item>>, Problem> {
    let command = Command { collection: collection(name), actor: actor.clone(), verb };
    let answer = engine.execute(Request { command, idempotency: retry.map(Key::idempotency) }).await;
    match answer.outcome {
        Ok(Reply::Item { item, .. }) => Ok(Some(item)),
        Ok(_) => Ok(None),
        Err(refused) => Err(Problem::from_refused(&refused, answer.server_time_ms)),
    }
}
