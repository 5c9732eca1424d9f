//! Annotations: versions, authors, and the lock of their image.

use tenure_apps::labels::{ANNOTATIONS_MAX, DeleteQuery, EditImage, Geometry, NewAnnotation, PageQuery};
use tenure_apps::{Person, Refusal, Time};
use tenure_core::{Refusal as Rule, Status};

use super::world::{COLLECTION, PROJECT, World, at, edit, new, square};
use crate::common::{START_MS, code, keyed};

fn conflict<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> (u64, u64) {
    let refusal = outcome.expect_err("is a conflict");
    match refusal.rule() {
        Some(Rule::Conflict { expected, current }) => (*expected, *current),
        _ => panic!("{refusal}"),
    }
}

/// L1: versions begin with 1; a change over the right one adds 1 and says who and when.
#[tokio::test]
async fn l01_a_change_over_the_right_version_counts_it_up() {
    let w = World::new().await;
    let image = w.image().await;
    let made = w.annotation(&w.ana, &image).await;
    assert_eq!((made.version, made.updated_at), (1, Time(START_MS)));
    w.office.pass(1_000);
    let changed = w.labels.edit_annotation(&w.olga, &made.id, &edit(5.0, 1)).await.expect("fits").value;
    assert_eq!((changed.version, changed.class_id.as_str()), (2, "bus"));
    assert_eq!(changed.geometry, square(5.0));
    assert_eq!(changed.updated_by, Person { id: "olga".to_owned(), name: "Olga".to_owned() });
    assert_eq!((changed.author.id.as_str(), changed.updated_at), ("ana", Time(START_MS + 1_000)));
    assert_eq!((changed.created_at, &changed.id), (Time(START_MS), &made.id));
}

/// L1: a change over another version is refused with both, and changes nothing.
#[tokio::test]
async fn l01_a_change_over_another_version_is_refused_with_both() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    w.labels.edit_annotation(&w.ana, &id, &edit(5.0, 1)).await.expect("fits");
    let commits = w.office.commits();
    for version in [1, 3, u64::MAX] {
        let refused = w.labels.edit_annotation(&w.ana, &id, &edit(9.0, version)).await;
        assert_eq!(conflict(refused), (version, 2));
    }
    assert_eq!(w.office.commits(), commits);
    let kept = &w.annotations(&image).await[0];
    assert_eq!((kept.version, &kept.geometry), (2, &square(5.0)));
    let zero = w.labels.edit_annotation(&w.ana, &id, &edit(9.0, 0)).await;
    assert_eq!(code(&zero), "invalid");
}

/// L1: of many changes over one version exactly one is made: no edit is lost.
#[tokio::test]
async fn l01_of_many_changes_over_one_version_one_is_made() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    let changes = (0..40).map(|index| {
        let (labels, actor, id) = (w.labels.clone(), w.ana.clone(), id.clone());
        tokio::spawn(async move { labels.edit_annotation(&actor, &id, &edit(f64::from(index), 1)).await })
    });
    let mut made = 0;
    for change in changes.collect::<Vec<_>>() {
        match change.await.expect("ends") {
            Ok(done) => made += done.value.version - 1,
            refused => assert_eq!(conflict(refused), (1, 2)),
        }
    }
    assert_eq!((made, w.annotations(&image).await[0].version), (1, 2));
}

/// L1: deleting names a version too, if it likes; what is gone is unknown.
#[tokio::test]
async fn l01_a_deletion_can_name_its_version() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    w.labels.edit_annotation(&w.ana, &id, &edit(5.0, 1)).await.expect("fits");
    let version = |version| DeleteQuery { version, token: None };
    assert_eq!(conflict(w.labels.delete_annotation(&w.ana, &id, &version(Some(1))).await), (1, 2));
    w.labels.delete_annotation(&w.ana, &id, &version(Some(2))).await.expect("fits");
    assert_eq!((w.annotations(&image).await.len(), w.shown(&image).annotations), (0, 0));
    for refused in [
        code(&w.labels.delete_annotation(&w.ana, &id, &version(None)).await),
        code(&w.labels.edit_annotation(&w.ana, &id, &edit(5.0, 2)).await),
    ] {
        assert_eq!(refused, "not_found");
    }
}

/// L2: the author and the project's owner edit; others do not, whatever version they know.
#[tokio::test]
async fn l02_only_the_author_and_the_projects_owner_edit() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    let commits = w.office.commits();
    let refused = w.labels.edit_annotation(&w.bea, &id, &edit(5.0, 1)).await;
    assert!(matches!(&refused, Err(Refusal::NotAuthor { author, .. }) if author.id == "ana"), "{refused:?}");
    assert_eq!(code(&refused), "forbidden");
    let refused = w.labels.delete_annotation(&w.bea, &id, &DeleteQuery::default()).await;
    assert_eq!(code(&refused), "forbidden");
    assert_eq!(w.office.commits(), commits);
    w.labels.edit_annotation(&w.ana, &id, &edit(5.0, 1)).await.expect("is the author");
    w.labels.edit_annotation(&w.olga, &id, &edit(6.0, 2)).await.expect("is the owner");
    w.labels.delete_annotation(&w.olga, &id, &DeleteQuery::default()).await.expect("is the owner");
}

/// L2: whoever owns one project has no say in another, and an id cannot be bent to lead elsewhere.
#[tokio::test]
async fn l02_an_id_opens_nothing_in_another_project() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    let other = tenure_apps::labels::NewProject { id: Some("other".to_owned()), name: "Other".to_owned() };
    w.labels.create_project(&w.bea, &other).await.expect("is made");
    let (_, tail) = id.split_once('~').expect("has parts");
    let mut parts = id.split('~');
    let (_, in_image, name) = (parts.next(), parts.next().expect("an image"), parts.next().expect("a tail"));
    for bent in [
        format!("other~{tail}"),
        format!("{PROJECT}~image-0~{name}"),
        format!("{PROJECT}~{in_image}~"),
        format!("{PROJECT}~{in_image}"),
        format!("{id}~x"),
        format!("{PROJECT}~project~{name}"),
        format!("{PROJECT}~~{name}"),
        format!("{PROJECT}~{in_image}~\u{7}"),
        format!("../{id}"),
        in_image.to_owned(),
        String::new(),
        "x".repeat(10_000),
    ] {
        assert_eq!(
            code(&w.labels.edit_annotation(&w.bea, &bent, &edit(5.0, 1)).await),
            "not_found",
            "{bent}"
        );
    }
    assert_eq!(code(&w.labels.edit_annotation(&w.bea, &id, &edit(5.0, 1)).await), "forbidden");
}

/// L2: without the permission nothing is written.
#[tokio::test]
async fn l02_who_only_looks_writes_nothing() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    let commits = w.office.commits();
    for refused in [
        code(&w.labels.annotate(&w.vera, PROJECT, &image, &new(1.0)).await),
        code(&w.labels.edit_annotation(&w.vera, &id, &edit(5.0, 1)).await),
        code(&w.labels.delete_annotation(&w.vera, &id, &DeleteQuery::default()).await),
        code(&w.labels.acquire(&w.vera, &at(&image)).await),
        code(&w.labels.heartbeat(&w.vera, &at(&image)).await),
        code(&w.labels.release(&w.vera, &at(&image)).await),
    ] {
        assert_eq!(refused, "forbidden");
    }
    assert_eq!(w.office.commits(), commits);
}

/// L9: while another has the image locked, nothing in it is written, also with the right version; and as
/// soon as the lock is over it is.
#[tokio::test]
async fn l09_an_image_that_another_has_locked_is_not_written_to() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    w.labels.acquire(&w.bea, &at(&image)).await.expect("is free");
    let done = EditImage { status: Status::new("done").expect("a word") };
    let events = w.office.actions(COLLECTION).len();
    w.office.pass(299_999);
    for actor in [&w.ana, &w.olga] {
        for refused in [
            code(&w.labels.annotate(actor, PROJECT, &image, &new(1.0)).await),
            code(&w.labels.edit_annotation(actor, &id, &edit(5.0, 1)).await),
            code(&w.labels.delete_annotation(actor, &id, &DeleteQuery::default()).await),
            code(&w.labels.edit_image(actor, PROJECT, &image, &done).await),
        ] {
            assert_eq!(refused, "held");
        }
    }
    assert_eq!(w.office.actions(COLLECTION).len(), events);
    assert_eq!(w.annotations(&image).await[0].version, 1);
    w.office.pass(1);
    w.labels.edit_annotation(&w.ana, &id, &edit(5.0, 1)).await.expect("the lock is over");
}

/// L9: the one who has it locked writes, another image is free, and so is one that nobody has locked.
#[tokio::test]
async fn l09_the_holder_writes_and_other_images_are_free() {
    let w = World::new().await;
    let (image, another) = (w.image().await, w.image().await);
    w.labels.acquire(&w.ana, &at(&image)).await.expect("is free");
    let id = w.annotation(&w.ana, &image).await.id;
    w.labels.edit_annotation(&w.ana, &id, &edit(5.0, 1)).await.expect("holds it");
    w.annotation(&w.bea, &another).await;
    assert_eq!((w.shown(&image).annotations, w.shown(&another).annotations), (1, 1));
}

/// E1, L9: a write that names the lock's token is made under that lock or not at all.
#[tokio::test]
async fn e01_a_write_under_an_old_token_is_refused() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    let lock = async || w.labels.acquire(&w.ana, &at(&image)).await.expect("is free").value.token;
    let first = lock().await;
    w.office.pass(300_000);
    let under = |token| tenure_apps::labels::EditAnnotation { token, ..edit(5.0, 1) };
    assert_eq!(code(&w.labels.edit_annotation(&w.ana, &id, &under(first)).await), "not_held");
    let second = lock().await;
    assert!(second > first);
    assert_eq!(code(&w.labels.edit_annotation(&w.ana, &id, &under(first)).await), "stale_token");
    let stale = NewAnnotation { token: first, ..new(1.0) };
    assert_eq!(code(&w.labels.annotate(&w.ana, PROJECT, &image, &stale).await), "stale_token");
    w.labels.edit_annotation(&w.ana, &id, &under(second)).await.expect("the lock is this one");
}

/// A shape lies inside its image, and a class is a word.
#[tokio::test]
async fn geometry_and_class_are_checked_against_the_image() {
    let w = World::new().await;
    let image = w.image().await;
    let id = w.annotation(&w.ana, &image).await.id;
    let field = |outcome: Result<(), Refusal>| match outcome {
        Err(Refusal::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let outside = NewAnnotation { geometry: square(95.0), ..new(1.0) };
    let refused = w.labels.annotate(&w.ana, PROJECT, &image, &outside).await.map(drop);
    assert_eq!(field(refused), "geometry.width");
    let refused = w.labels.edit_annotation(&w.ana, &id, &edit(-1.0, 1)).await.map(drop);
    assert_eq!(field(refused), "geometry.x");
    let points = vec![[0.0, 0.0], [50.0, 0.0], [50.0, 51.0]];
    let polygon = NewAnnotation { geometry: Geometry::Polygon { points }, ..new(1.0) };
    let refused = w.labels.annotate(&w.ana, PROJECT, &image, &polygon).await.map(drop);
    assert_eq!(field(refused), "geometry.points[2][1]");
    for class_id in ["", "a b", "a~b", &"x".repeat(65), "ñ"] {
        let wrong = NewAnnotation { class_id: class_id.to_owned(), ..new(1.0) };
        let refused = w.labels.annotate(&w.ana, PROJECT, &image, &wrong).await.map(drop);
        assert_eq!(field(refused), "class_id", "{class_id}");
    }
    assert_eq!(w.annotations(&image).await.len(), 1);
}

/// The limit holds however many come at once, and the count is right.
#[tokio::test]
async fn an_image_has_so_many_annotations_and_no_more() {
    let w = World::new().await;
    let image = w.image().await;
    for _ in 0..ANNOTATIONS_MAX - 2 {
        w.annotation(&w.ana, &image).await;
    }
    let tries = (0..8).map(|_| {
        let (labels, actor, image) = (w.labels.clone(), w.ana.clone(), image.clone());
        tokio::spawn(async move { code(&labels.annotate(&actor, PROJECT, &image, &new(1.0)).await) })
    });
    let mut made = 0;
    for outcome in tries.collect::<Vec<_>>() {
        match outcome.await.expect("ends") {
            "ok" => made += 1,
            refused => assert_eq!(refused, "limit"),
        }
    }
    assert_eq!((made, w.shown(&image).annotations), (2, ANNOTATIONS_MAX));
    // And page by page there is each of them once.
    let (mut seen, mut after) = (std::collections::BTreeSet::new(), None);
    loop {
        let page = w.labels.annotations(PROJECT, &image, PageQuery { after, limit: Some(200) }).await;
        let page = page.expect("is read");
        seen.extend(page.annotations.into_iter().map(|annotation| annotation.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), ANNOTATIONS_MAX);
}

/// One image's annotations are not another's, even where ids begin alike.
#[tokio::test]
async fn an_image_shows_its_own_annotations() {
    let w = World::new().await;
    let (one, other) = (w.image().await, w.image().await);
    let mine = w.annotation(&w.ana, &one).await;
    w.annotation(&w.ana, &other).await;
    let ids = |annotations: Vec<tenure_apps::labels::Annotation>| -> Vec<String> {
        annotations.into_iter().map(|annotation| annotation.id).collect()
    };
    assert_eq!(ids(w.annotations(&one).await), std::slice::from_ref(&mine.id));
    assert_eq!((mine.project_id.as_str(), mine.image_id.as_str()), (PROJECT, one.as_str()));
    let strange = PageQuery { after: Some("not a cursor".to_owned()), limit: None };
    assert_eq!(code(&w.labels.annotations(PROJECT, &one, strange).await), "invalid");
}

/// E4: a retry makes no second annotation, also after a crash that nobody was told of.
#[tokio::test]
async fn e04_a_retried_annotation_is_the_first_one() {
    let w = World::new().await;
    let image = w.image().await;
    let ana = keyed(&w.ana, "box-1");
    let first = w.labels.annotate(&ana, PROJECT, &image, &new(1.0)).await.expect("is made");
    let again = w.labels.annotate(&ana, PROJECT, &image, &new(1.0)).await.expect("is shown");
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.value.id, again.value.id);
    w.office.crash_after(0, true);
    let other = keyed(&w.ana, "box-2");
    let lost = w.labels.annotate(&other, PROJECT, &image, &new(2.0)).await;
    assert_eq!(code(&lost), "stopped");
    let w = w.restart();
    let found = w.labels.annotate(&other, PROJECT, &image, &new(2.0)).await.expect("is shown");
    assert!(found.replayed);
    assert_eq!((w.annotations(&image).await.len(), w.shown(&image).annotations), (2, 2));
}
