//! Projects: made once, listed, each a world of its own.

use tenure_apps::Refusal;
use tenure_apps::labels::{NewProject, PageQuery};
use tenure_core::{CollectionKey, Command, Verb};

use super::world::{PROJECT, World};
use crate::common::{code, keyed};

fn project(id: Option<&str>) -> NewProject {
    NewProject { id: id.map(str::to_owned), name: "Streets".to_owned() }
}

#[tokio::test]
async fn a_project_is_its_makers_and_is_made_once() {
    let w = World::new().await;
    let found = w.labels.project(PROJECT).expect("is there");
    assert_eq!((found.name.as_str(), found.owner.id.as_str(), found.version), ("Streets", "olga", 1));
    assert_eq!(code(&w.labels.create_project(&w.bea, &project(Some(PROJECT))).await), "conflict");
    assert_eq!(w.labels.project(PROJECT).expect("is there").owner.id, "olga");
    assert_eq!(code(&w.labels.create_project(&w.vera, &project(None)).await), "forbidden");
    for id in ["", "a/b", "a~b", "..", "a b", &"x".repeat(65)] {
        let refused = w.labels.create_project(&w.ana, &project(Some(id))).await;
        assert!(
            matches!(&refused, Err(Refusal::Invalid { field, .. }) if field == "id"),
            "{id}: {refused:?}"
        );
        assert_eq!(code(&w.labels.project(id)), "not_found", "{id}");
    }
}

/// E4: a retry without an id comes to the project that the first one made.
#[tokio::test]
async fn e04_a_retried_project_is_the_first_one() {
    let w = World::new().await;
    let make = async |actor, key| {
        w.labels.create_project(&keyed(actor, key), &project(None)).await.expect("is made")
    };
    let first = make(&w.ana, "k").await;
    let again = make(&w.ana, "k").await;
    assert_eq!((&first.value.id, again.replayed), (&again.value.id, true));
    let others = [make(&w.bea, "k").await.value.id, make(&w.ana, "l").await.value.id];
    assert!(!others.contains(&first.value.id) && others[0] != others[1]);
}

#[tokio::test]
async fn projects_are_listed_by_id_and_nothing_else_is() {
    let w = World::new().await;
    for id in ["a", "b", "zz"] {
        w.labels.create_project(&w.ana, &project(Some(id))).await.expect("is made");
    }
    // Other kinds, and a collection of this kind that is no project.
    for key in ["image-x/a", "imagf/a", "image/none", "task/a"] {
        let (collection, actor) = (CollectionKey::new(key).expect("a key"), w.ana.principal.clone());
        let command = Command { collection, actor, verb: Verb::CreateCollection };
        // A kind without a policy has no collections.
        let _ = w.office.engine.execute(command).await;
    }
    let list = async |after: Option<String>, limit| {
        let page = w.labels.projects(PageQuery { after, limit }).await.expect("is read");
        (page.projects.into_iter().map(|project| project.id).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(list(None, None).await.0, ["a", "b", PROJECT, "zz"]);
    let (first, next) = list(None, Some(2)).await;
    assert_eq!((first, next.as_deref()), (vec!["a".to_owned(), "b".to_owned()], Some("b")));
    assert_eq!(list(next, Some(2)).await.0, [PROJECT, "zz"]);
    assert_eq!(list(Some("zz".to_owned()), None).await, (Vec::new(), None));
    let too_many = PageQuery { after: None, limit: Some(201) };
    assert_eq!(code(&w.labels.projects(too_many).await), "invalid");
}
