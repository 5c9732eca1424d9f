//! Images: uploaded, doubted, listed, served.

use std::io::Read;

use image::ImageFormat;
use tenure_apps::labels::{EditImage, Format, ImageQuery, NewImage, PageQuery, Which};
use tenure_apps::{LockState, Refusal};
use tenure_core::Status;

use super::world::{PROJECT, World, at, new, picture};
use crate::common::{code, keyed};

fn word(status: &str) -> EditImage {
    EditImage { status: Status::new(status).expect("a word") }
}

/// L6: an upload has its size, its file and a thumbnail, and all of that outlives the process.
#[tokio::test]
async fn l06_an_upload_is_kept_with_a_thumbnail() {
    let w = World::new().await;
    for (known, format) in [
        (ImageFormat::Png, Format::Png),
        (ImageFormat::Jpeg, Format::Jpeg),
        (ImageFormat::WebP, Format::Webp),
    ] {
        let bytes = picture(400, 200, known);
        let made = w.labels.upload(&w.ana, PROJECT, "crossing", bytes.clone()).await.expect("is taken").value;
        assert_eq!((made.format, made.bytes), (Some(format), Some(bytes.len() as u64)));
        assert_eq!((made.width, made.height, made.status.as_str()), (400, 200, "new"));
        assert!(w.file(&bytes));
        let mut served = w.labels.file(PROJECT, &made.id, Which::File).await.expect("is there");
        let mut found = Vec::new();
        served.reader.read_to_end(&mut found).expect("reads");
        assert_eq!((served.format, served.bytes, found == bytes), (format, bytes.len() as u64, true));
        let thumbnail = w.labels.file(PROJECT, &made.id, Which::Thumbnail).await.expect("is there");
        assert_eq!(thumbnail.format, Format::Jpeg);
    }
    let w = w.restart();
    let page = w.labels.images(&w.ana, PROJECT, ImageQuery::default()).await.expect("is read");
    assert_eq!(page.images.len(), 3);
    w.labels.file(PROJECT, &page.images[0].id, Which::Thumbnail).await.expect("is still there");
}

#[tokio::test]
async fn an_upload_that_is_no_image_leaves_nothing() {
    let w = World::new().await;
    let commits = w.office.commits();
    for bytes in [
        b"GIF89a...".to_vec(),
        b"<svg/>".to_vec(),
        Vec::new(),
        picture(9, 9, ImageFormat::Png)[..40].to_vec(),
    ] {
        let refused = w.labels.upload(&w.ana, PROJECT, "x", bytes.clone()).await;
        assert!(matches!(&refused, Err(Refusal::Invalid { field, .. }) if field == "file"), "{refused:?}");
        assert!(!w.file(&bytes));
    }
    let good = picture(9, 9, ImageFormat::Png);
    for name in ["", " ", "a\nb", &"x".repeat(201)] {
        let refused = w.labels.upload(&w.ana, PROJECT, name, good.clone()).await;
        assert!(matches!(&refused, Err(Refusal::Invalid { field, .. }) if field == "name"), "{refused:?}");
    }
    assert_eq!(code(&w.labels.upload(&w.vera, PROJECT, "x", good.clone()).await), "forbidden");
    assert_eq!(code(&w.labels.upload(&w.ana, "nowhere", "x", good.clone()).await), "not_found");
    assert_eq!(w.office.commits(), commits);
    assert!(!w.file(&good));
}

/// An image may be kept elsewhere: then there is its size, and no file.
#[tokio::test]
async fn an_image_may_be_only_its_size() {
    let w = World::new().await;
    let image = w.image().await;
    let shown = w.shown(&image);
    assert_eq!((shown.format, shown.file_url, shown.thumbnail_url), (None, None, None));
    assert_eq!(code(&w.labels.file(PROJECT, &image, Which::File).await), "not_found");
    for (width, height, field) in [(0, 5, "width"), (5, 40_000, "height"), (32_767, 32_767, "width")] {
        let new = NewImage { name: "x".to_owned(), width, height };
        let refused = w.labels.add_image(&w.ana, PROJECT, &new).await;
        assert!(matches!(&refused, Err(Refusal::Invalid { field: f, .. }) if f == field), "{refused:?}");
    }
}

/// L6: the list shows each image with its lock and its status, page by page.
#[tokio::test]
async fn l06_the_list_shows_locks_and_statuses() {
    let w = World::new().await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(w.image().await);
        w.office.pass(1);
    }
    w.labels.acquire(&w.ana, &at(&ids[1])).await.expect("is free");
    w.labels.acquire(&w.bea, &at(&ids[2])).await.expect("is free");
    w.labels.edit_image(&w.ana, PROJECT, &ids[3], &word("done")).await.expect("is free");
    let list = async |query: ImageQuery| w.labels.images(&w.ana, PROJECT, query).await.expect("is read");
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let query = ImageQuery { page: PageQuery { after, limit: Some(3) }, ..ImageQuery::default() };
        let page = list(query).await;
        seen.extend(page.images);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.iter().map(|image| image.id.clone()).collect::<Vec<_>>(), ids);
    let locks: Vec<_> = seen.iter().map(|image| (image.lock.state, image.lock.mine)).collect();
    assert_eq!(locks[..3], [(LockState::Free, false), (LockState::Locked, true), (LockState::Locked, false)]);
    let name = seen[2].lock.locked_by.as_ref().map(|person| person.name.as_str());
    assert_eq!(name, Some("Bea"));
    let count = async |query| list(query).await.images.len();
    assert_eq!(count(ImageQuery { locked: Some(true), ..ImageQuery::default() }).await, 2);
    assert_eq!(count(ImageQuery { locked: Some(false), ..ImageQuery::default() }).await, 5);
    let done = Some(Status::new("done").expect("a word"));
    assert_eq!(count(ImageQuery { status: done, ..ImageQuery::default() }).await, 1);
    let strange = PageQuery { after: Some("\u{7}".to_owned()), limit: Some(2) };
    let strange = w.labels.images(&w.ana, PROJECT, ImageQuery { page: strange, ..ImageQuery::default() });
    assert_ne!(code(&strange.await), "internal");
}

/// A status is one of the kind's; what is archived stays as it is.
#[tokio::test]
async fn a_status_is_one_of_the_kinds_and_archived_is_the_last() {
    let w = World::new().await;
    let image = w.image().await;
    let edit = async |status: &str| w.labels.edit_image(&w.bea, PROJECT, &image, &word(status)).await;
    assert_eq!(edit("in_progress").await.expect("is free").value.status.as_str(), "in_progress");
    let version = w.shown(&image).version;
    assert_eq!(edit("in_progress").await.expect("is that already").value.version, version);
    assert!(matches!(edit("sold").await, Err(Refusal::Invalid { field, .. }) if field == "status"));
    edit("archived").await.expect("is free");
    assert_eq!(code(&edit("new").await), "wrong_status");
    assert_eq!(code(&w.labels.annotate(&w.ana, PROJECT, &image, &new(1.0)).await), "wrong_status");
    assert_eq!(code(&w.labels.edit_image(&w.bea, PROJECT, "image-none", &word("done")).await), "not_found");
}

/// E4: a retried upload is the first one.
#[tokio::test]
async fn e04_a_retried_upload_is_the_first_one() {
    let w = World::new().await;
    let (ana, bytes) = (keyed(&w.ana, "upload-1"), picture(20, 20, ImageFormat::Png));
    let first = w.labels.upload(&ana, PROJECT, "x", bytes.clone()).await.expect("is taken");
    let again = w.labels.upload(&ana, PROJECT, "x", bytes).await.expect("is shown");
    assert_eq!((first.value.id, again.replayed), (again.value.id, true));
    assert_eq!(
        w.labels.images(&w.ana, PROJECT, ImageQuery::default()).await.expect("is read").images.len(),
        1
    );
}
