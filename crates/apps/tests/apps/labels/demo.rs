//! The demonstration's project.

use std::collections::BTreeMap;

use tenure_apps::LockState;
use tenure_apps::demo::{self, People};
use tenure_apps::labels::{ImageQuery, PageQuery, Which};

use super::world::World;
use crate::common::person;

#[tokio::test]
async fn the_demonstration_has_twelve_images_with_annotations_by_its_people() {
    let w = World::new().await;
    let people = People { admin: person("root"), editors: [w.ana.clone(), w.bea.clone()] };
    demo::load(&w.office.desk, &w.labels, &w.office.raffles(), &people).await.expect("loads");
    let images = w.labels.images(&w.ana, "demo", ImageQuery::default()).await.expect("is read").images;
    assert_eq!(images.len(), 12);
    let mut by_status = BTreeMap::new();
    let mut authors = BTreeMap::new();
    for image in &images {
        *by_status.entry(image.status.as_str()).or_insert(0) += 1;
        w.labels.file("demo", &image.id, Which::Thumbnail).await.expect("has one");
        let page = w.labels.annotations("demo", &image.id, PageQuery::default()).await.expect("is read");
        for annotation in page.annotations {
            *authors.entry(annotation.author.id).or_insert(0) += 1;
        }
    }
    assert_eq!(by_status, BTreeMap::from([("done", 4), ("in_progress", 4), ("new", 4)]));
    assert_eq!(authors, BTreeMap::from([("ana".to_owned(), 12), ("bea".to_owned(), 12)]));
    assert_eq!(images.iter().filter(|image| image.lock.state == LockState::Locked).count(), 1);
    // Once is enough.
    let commits = w.office.commits();
    demo::load(&w.office.desk, &w.labels, &w.office.raffles(), &people).await.expect("loads");
    assert_eq!(w.office.commits(), commits);
}
