//! What is kept, what is asked and what is answered.

use serde::{Deserialize, Serialize};
use tenure_core::Status;
use utoipa::{IntoParams, ToSchema};

use super::{Format, Geometry};
use crate::files::FileId;
use crate::{Lock, Person, Time};

/// A project's document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProjectDoc {
    pub(super) name: String,
    pub(super) owner: Person,
    pub(super) created_at_ms: i64,
}

/// An image's document. Its status is the item's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImageDoc {
    pub(super) name: String,
    pub(super) width: u32,
    pub(super) height: u32,
    /// None where only its size is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<FileDoc>,
    /// How many annotations it has.
    pub(super) annotations: usize,
    pub(super) created_by: Person,
    pub(super) created_at_ms: i64,
}

/// What is known of an image's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileDoc {
    pub(super) id: FileId,
    pub(super) format: Format,
    pub(super) bytes: u64,
    pub(super) thumbnail: FileId,
    pub(super) thumbnail_bytes: u64,
}

/// An annotation's document. Its version is the item's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AnnotationDoc {
    pub(super) geometry: Geometry,
    pub(super) class_id: String,
    pub(super) author: Person,
    pub(super) created_at_ms: i64,
    pub(super) updated_by: Person,
}

/// Make a project.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "streets", "name": "Streets of the north"}))]
pub struct NewProject {
    /// Its id; one is made if it is left out.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub id: Option<String>,
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
}

/// A project as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Project {
    /// Its id.
    #[schema(example = "streets")]
    pub id: String,
    /// What people call it.
    #[schema(example = "Streets of the north")]
    pub name: String,
    /// Who made it, and may edit every annotation in it.
    pub owner: Person,
    /// Counts its changes.
    #[schema(example = 1)]
    pub version: u64,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
}

/// Which part of a list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Only after this one: the `next` of the page before.
    pub after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<usize>,
}

/// A page of projects, by id.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Projects)]
pub struct ProjectPage {
    /// The projects.
    pub projects: Vec<Project>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Add an image whose file is kept elsewhere.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "crossing.png", "width": 1920, "height": 1080}))]
pub struct NewImage {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// In pixels.
    #[schema(minimum = 1, maximum = 32_767)]
    pub width: u32,
    /// In pixels.
    #[schema(minimum = 1, maximum = 32_767)]
    pub height: u32,
}

/// Change an image.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"status": "done"}))]
pub struct EditImage {
    /// A status of the kind `image`: `new`, `in_progress`, `done` or `archived`, unless its policy says
    /// otherwise.
    #[schema(value_type = String, example = "done")]
    pub status: Status,
}

/// Which images.
#[derive(Clone, Debug, Default)]
pub struct ImageQuery {
    /// Only of this status.
    pub status: Option<Status>,
    /// Only locked, or only free ones.
    pub locked: Option<bool>,
    /// Which part.
    pub page: PageQuery,
}

/// An image as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LabelImage)]
pub struct Image {
    /// Its id.
    #[schema(example = "image-01kdzvq2me0x7f3")]
    pub id: String,
    /// Its project.
    #[schema(example = "streets")]
    pub project_id: String,
    /// What people call it.
    #[schema(example = "crossing.png")]
    pub name: String,
    /// `new`, `in_progress`, `done` or `archived`.
    #[schema(value_type = String, example = "new")]
    pub status: Status,
    /// In pixels, as it is shown.
    #[schema(example = 640)]
    pub width: u32,
    /// In pixels, as it is shown.
    #[schema(example = 480)]
    pub height: u32,
    /// How many annotations it has.
    #[schema(example = 3)]
    pub annotations: usize,
    /// What the file is; `null` where it is kept elsewhere.
    #[schema(required = true)]
    pub format: Option<Format>,
    /// The file's size in bytes.
    #[schema(required = true, example = 48_213)]
    pub bytes: Option<u64>,
    /// Where the file is.
    #[schema(required = true, example = "/api/v1/projects/streets/images/image-01kdzvq2me0x7f3/file")]
    pub file_url: Option<String>,
    /// Where a small JPEG of it is.
    #[schema(required = true, example = "/api/v1/projects/streets/images/image-01kdzvq2me0x7f3/thumbnail")]
    pub thumbnail_url: Option<String>,
    /// Who has it open.
    pub lock: Lock,
    /// Who added it.
    pub created_by: Person,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// Counts its changes, new and deleted annotations included.
    #[schema(example = 9)]
    pub version: u64,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
}

/// A page of images, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LabelImages)]
pub struct ImagePage {
    /// The images.
    pub images: Vec<Image>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Outline something.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"geometry": {"type": "rectangle", "x": 40, "y": 32.5, "width": 120, "height": 80},
    "class_id": "car"}))]
pub struct NewAnnotation {
    /// Where it is.
    #[serde(deserialize_with = "tenure_core::object::object")]
    pub geometry: Geometry,
    /// What it is.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "car")]
    pub class_id: String,
    /// Write only under this lock: the `token` that locking the image gave.
    pub token: Option<u64>,
}

/// Change an annotation.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"geometry": {"type": "polygon", "points": [[40, 30], [160, 30], [100, 112.5]]},
    "class_id": "car", "version": 1}))]
pub struct EditAnnotation {
    /// Where it is.
    #[serde(deserialize_with = "tenure_core::object::object")]
    pub geometry: Geometry,
    /// What it is.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "car")]
    pub class_id: String,
    /// The version that the change is based on.
    #[schema(minimum = 1)]
    pub version: u64,
    /// Write only under this lock: the `token` that locking the image gave.
    pub token: Option<u64>,
}

/// Under which conditions to delete.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteQuery {
    /// Only this version.
    #[param(minimum = 1)]
    pub version: Option<u64>,
    /// Only under this lock.
    pub token: Option<u64>,
}

/// An annotation as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Annotation {
    /// Its id.
    #[schema(example = "streets~image-01kdzvq2me0x7f3~01kdzvr0w4q8z2b")]
    pub id: String,
    /// Its project.
    #[schema(example = "streets")]
    pub project_id: String,
    /// Its image.
    #[schema(example = "image-01kdzvq2me0x7f3")]
    pub image_id: String,
    /// Where it is.
    pub geometry: Geometry,
    /// What it is.
    #[schema(example = "car")]
    pub class_id: String,
    /// Counts its changes, from 1. A change names the one that it is based on.
    #[schema(minimum = 1, example = 2)]
    pub version: u64,
    /// Who made it.
    pub author: Person,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// Who last changed it.
    pub updated_by: Person,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
}

/// A page of an image's annotations, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Annotations)]
pub struct AnnotationPage {
    /// The annotations.
    pub annotations: Vec<Annotation>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Which image.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"project_id": "streets", "image_id": "image-01kdzvq2me0x7f3"}))]
pub struct ImageAt {
    /// Its project.
    pub project_id: String,
    /// Its id.
    pub image_id: String,
}

/// Whose lock it is: the caller's with `success`, another's without.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ImageLock)]
pub struct LockAnswer {
    /// The caller has it.
    pub success: bool,
    /// Who has it, by id.
    #[schema(example = "u-7")]
    pub locked_by: String,
    /// Who has it, for people.
    #[schema(example = "Ana")]
    pub locked_by_name: String,
    /// Since when. Refreshing keeps it. `null` for one who lost it and whose time to come back still runs.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub locked_at: Option<Time>,
    /// Until when, if there is no heartbeat.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Time,
    /// The time left. Count down from this, not from your own clock.
    #[schema(example = 28_000)]
    pub expires_in_ms: i64,
    /// The lock's fencing token, for the one who has it.
    #[schema(example = 7)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// How often to send a heartbeat.
    #[schema(example = 10_000)]
    pub heartbeat_ms: i64,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// The image is free.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ImageReleased)]
pub struct Released {
    /// Always true.
    pub success: bool,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Who has an image open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ImageLockedBy)]
pub struct LockedBy {
    /// By id.
    #[schema(example = "u-7")]
    pub user_id: String,
    /// For people.
    #[schema(example = "Ana")]
    pub user_name: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    pub locked_at: Time,
    /// Until when, if there is no heartbeat.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Time,
}
