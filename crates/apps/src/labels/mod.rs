//! Labels: annotators open images, one at a time per image, and edit versioned annotations.
//!
//! A project is a collection of the kind `image`. Its own document, its images and their annotations are
//! items of that collection, so that a write to an annotation, its version and the lock of its image are
//! judged in one commit. An annotation's version is its item's.
//!
//! ```text
//!  image/streets ─┬─ project                              name, owner
//!                 ├─ image-01k…                           size, files; what is locked
//!                 └─ annotation-image-01k…~01k…           shape, class, author
//! ```
//!
//! Which statuses an image has and which can be locked is the policy of the kind; who holds it, and whether
//! a version is current, is the engine's to say.

mod annotations;
mod demo;
mod geometry;
mod images;
mod locks;
mod model;
mod picture;
mod projects;

use std::sync::Arc;

use tenure_core::{Claim, CollectionKey, Guard, Item, ItemId};
use tokio::sync::Semaphore;

pub(crate) use demo::load_demo;
pub use geometry::Geometry;
pub use images::{Served, Which};
pub use model::{
    Annotation, AnnotationPage, DeleteQuery, EditAnnotation, EditImage, Image, ImageAt, ImagePage,
    ImageQuery, LockAnswer, LockedBy, NewAnnotation, NewImage, NewProject, PageQuery, Project, ProjectPage,
    Released,
};
pub use picture::Format;

use crate::files::Files;
use crate::{Desk, Document, Family, Refusal, Result};
use model::{ImageDoc, ProjectDoc};

/// Projects are the collections of this kind.
pub const KIND: &str = "image";

const PROJECT: Family = Family("project");
const IMAGES: Family = Family("image-");
const ANNOTATIONS: Family = Family("annotation-");

/// An uploaded file.
pub const FILE_BYTES_MAX: usize = 20 * 1024 * 1024;
/// A name is a line on a page.
pub const NAME_BYTES_MAX: usize = 200;
/// A side of an image: what browsers can draw on.
pub const SIDE_MAX: u32 = 32_767;
/// Pixels of an image: large cameras have fewer, and a small file can claim any number.
pub const PIXELS_MAX: u64 = 50_000_000;
/// What an unpacked image may take: that many pixels, of four bytes each.
pub const DECODED_BYTES_MAX: u64 = 4 * PIXELS_MAX;
/// Images that are unpacked at once: each may take [`DECODED_BYTES_MAX`], and as much again on the way.
pub const DECODING_MAX: usize = 2;
/// A thumbnail's longer side, twice what the list shows, for fine screens.
pub const THUMBNAIL_SIDE: u32 = 256;
/// Annotations of one image: more can neither be seen nor told apart.
pub const ANNOTATIONS_MAX: usize = 1_000;
/// Points of a polygon: a document with that many still fits.
pub const POINTS_MAX: usize = 1_000;
/// Rows on a page when nobody says.
pub const PAGE_DEFAULT: usize = 50;
/// Rows on a page: annotations come with all their points.
pub const PAGE_MAX: usize = 200;
/// Locks that one answer shows: a project where more people work at once is several projects.
pub const LOCKS_MAX: usize = 10_000;

/// The application. Cheap to clone; one for the whole process, since it counts what is unpacked at once.
#[derive(Clone, Debug)]
pub struct Labels {
    desk: Desk,
    files: Arc<dyn Files>,
    decoding: Arc<Semaphore>,
}

impl Labels {
    /// On a desk, with a place for the files.
    pub fn new(desk: Desk, files: Arc<dyn Files>) -> Self {
        Self { desk, files, decoding: Arc::new(Semaphore::new(DECODING_MAX)) }
    }

    /// A project as it is, and where it lives.
    fn open(&self, id: &str) -> Result<Open> {
        let unknown = || Refusal::not_found("project", id);
        let collection = CollectionKey::from_parts(KIND, id).map_err(|_| unknown())?;
        let document = self.desk.find(&collection, &PROJECT.id("")?)?.ok_or_else(unknown)?;
        Ok(Open { id: id.to_owned(), collection, document })
    }

    /// An image of a project as it is.
    fn image(&self, project: &Open, id: &str) -> Result<Document<ImageDoc>> {
        self.desk.find(&project.collection, &item_of(id)?)?.ok_or_else(|| unknown(id))
    }

    /// The same with the claim that holds it now.
    fn held(&self, project: &Open, id: &str) -> Result<(Document<ImageDoc>, Option<Claim>)> {
        let found = self.desk.find_held(&project.collection, &item_of(id)?, self.desk.now_ms())?;
        found.ok_or_else(|| unknown(id))
    }
}

/// Annotations are items of the collection too, and are no images.
fn item_of(id: &str) -> Result<ItemId> {
    ItemId::new(id).ok().filter(|_| IMAGES.has(id)).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Refusal {
    Refusal::not_found("image", id)
}

/// A project that is there.
#[derive(Clone, Debug)]
struct Open {
    id: String,
    collection: CollectionKey,
    document: Document<ProjectDoc>,
}

/// What an annotation's id says: it leads to the project, the image and the item. It opens nothing: who may
/// is judged by what is found there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AnnotationId {
    project: String,
    image: String,
    tail: String,
}

impl AnnotationId {
    /// `project~image~tail`: a tilde stands in none of the three.
    fn parse(id: &str) -> Result<Self> {
        let mut parts = id.split('~');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(project), Some(image), Some(tail), None) if !tail.is_empty() => {
                let (project, image, tail) = (project.to_owned(), image.to_owned(), tail.to_owned());
                Ok(Self { project, image, tail })
            }
            _ => Err(Refusal::not_found("annotation", id)),
        }
    }

    /// The id of an item, for people outside.
    fn of(project: &str, item: &ItemId) -> String {
        format!("{project}~{}", &item.as_str()[ANNOTATIONS.0.len()..])
    }

    fn item(&self) -> Result<ItemId> {
        ANNOTATIONS.id(&format!("{}~{}", self.image, self.tail))
    }
}

/// Projects, images and annotations are the application's.
pub(crate) fn is_own(collection: &CollectionKey, item: Option<&ItemId>) -> bool {
    let mut families = [PROJECT, IMAGES, ANNOTATIONS].into_iter();
    collection.kind() == KIND && item.is_none_or(|item| families.any(|family| family.has(item.as_str())))
}

/// Who may write to an image and its annotations: whoever likes while nobody else has it locked, or, with a
/// token, only under that very lock.
fn guard(image: &Item, token: Option<u64>) -> Guard {
    let item = image.id.clone();
    match token {
        None => Guard::NotHeldByOther { item },
        Some(_) => Guard::Holds { item, token },
    }
}
