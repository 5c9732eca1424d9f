//! What there is to try things on: a few people with keys, a collection of things to hold, and what each
//! application has to show.

use tenure_apps::demo::People;
use tenure_apps::{Actor, Desk};
use tenure_core::command::{Acquire, PutItem};
use tenure_core::{CollectionKey, Command, Expect, ItemId, ItemWrite, Json, Principal, Reply, Text, Verb};
use tenure_engine::Reader;
use tenure_server::identity::{NewKey, demo_people};
use tenure_server::{App, Role, permissions_of};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::bench::Result;

const COLLECTION: &str = "lock/demo";
const ITEMS: &[(&str, &str)] = &[
    ("meeting-room", "The room on the second floor"),
    ("projector", "The one that works"),
    ("staging", "The staging environment"),
];

/// A database is likely to be somebody's own: only an empty one is filled, or one that was filled before.
pub(super) fn refuse_others(reader: &dyn Reader) -> Result {
    let is_ours = reader.collection(&CollectionKey::new(COLLECTION)?)?.is_some();
    if is_ours || reader.collections(None, 1)?.rows.is_empty() {
        return Ok(());
    }
    Err("--demo: the database is not empty; the demonstration is loaded only into one that is".into())
}

/// Loads it once: a data folder that has the collection already is left as it is.
pub(super) async fn load(app: &App) -> Result {
    let collection = CollectionKey::new(COLLECTION)?;
    let actor = Principal::new("demo", "Demonstration")?;
    let ask = async |actor: &Principal, verb: Verb| {
        let command = Command { collection: collection.clone(), actor: actor.clone(), verb };
        app.engine().execute(command).await.outcome
    };
    // Its own doings are no news, and would bury the keys.
    load_apps(app).with_subscriber(NoSubscriber::default()).await?;
    if app.reader().collection(&collection)?.is_some() {
        println!(
            "The demonstration is loaded. Its keys were shown when that was done; a browser needs none, and `tenure keys \
             create` makes others."
        );
        return Ok(());
    }
    for person in demo_people() {
        let (who, role) = (person.principal.name.clone(), person.role);
        let name = Text::from(format!("demonstration: {who}"));
        let new = NewKey { name, subject: person.principal, role, kinds: None };
        let made = app.identity().create_key(&actor, new, None).await.map_err(|problem| problem.detail)?;
        println!("{who}'s key ({role:?}), shown only now: {}", made.secret.expose());
    }
    // Last, so that a start that was cut off begins anew.
    ask(&actor, Verb::CreateCollection).await?;
    for (item, words) in ITEMS {
        let data = Some(Json::of(&serde_json::json!({"about": words}))?);
        let write = ItemWrite { item: ItemId::new(*item)?, status: None, data };
        ask(&actor, Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None })).await?;
    }
    let bruno = Principal::new("bruno", "Bruno")?;
    let items = vec![ItemId::new("projector")?];
    let acquire = Acquire { items, ttl_ms: Some(600_000), ..Acquire::default() };
    if let Reply::Acquired { .. } = ask(&bruno, Verb::Acquire(acquire)).await? {
        tracing::info!("Bruno holds {COLLECTION}/projector for ten minutes");
    }
    Ok(())
}

/// What each application has to show, made by the people who would have made it. One that has something
/// already is left as it is.
async fn load_apps(app: &App) -> Result {
    let with_role = |role| {
        let people = demo_people().into_iter().filter(move |person| person.role == role);
        people.map(move |person| Actor::new(person.principal, permissions_of(role)))
    };
    let mut editors = with_role(Role::Editor);
    if let (Some(admin), Some(one), Some(other)) =
        (with_role(Role::Admin).next(), editors.next(), editors.next())
    {
        let people = People { admin, editors: [one, other] };
        let desk = Desk::new(app.engine().clone());
        tenure_apps::demo::load(&desk, app.labels(), app.raffles(), &people).await?;
    }
    Ok(())
}
