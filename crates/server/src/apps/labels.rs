//! `/api/v1/projects`, `/api/v1/annotations` and `/api/v1/locks`.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use tenure_apps::Actor;
use tenure_apps::labels::{
    Annotation, AnnotationPage, DeleteQuery, EditAnnotation, EditImage, Image, ImageAt, ImagePage,
    ImageQuery, KIND, Labels, LockAnswer, LockedBy, NewAnnotation, NewImage, NewProject, PageQuery, Project,
    ProjectPage, Released, Which,
};
use tenure_core::Status;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::upload::{Upload, UploadForm};
use super::{actor, created, done, served, upload};
use crate::body::Body;
use crate::command::Rendered;
use crate::document::Refusals;
use crate::idempotency::Key;
use crate::params::{Ids, Nothing, Query};
use crate::{App, Caller, Problem, schema};

/// The application's routes.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(create_project, list_projects))
        .routes(routes!(get_project))
        .routes(routes!(add_image, list_images))
        .routes(routes!(get_image, edit_image))
        .routes(routes!(get_image_file))
        .routes(routes!(get_image_thumbnail))
        .routes(routes!(create_annotation, list_annotations))
        .routes(routes!(edit_annotation, delete_annotation))
        .routes(routes!(acquire_image_lock))
        .routes(routes!(release_image_lock))
        .routes(routes!(heartbeat_image_lock))
        .routes(routes!(list_image_locks))
}

const FOUND: &[&str] = &["not_found"];
/// A write to an image or an annotation.
const WRITTEN: &[&str] = &["not_found", "held", "not_held", "stale_token", "wrong_status", "conflict"];

/// The routes' own refusals.
pub(crate) const REFUSALS: &[Refusals] = &[
    ("POST", "/api/v1/projects", &["conflict"], &[]),
    ("GET", "/api/v1/projects/{id}", FOUND, &[]),
    ("POST", "/api/v1/projects/{id}/images", FOUND, &[]),
    ("GET", "/api/v1/projects/{id}/images", FOUND, &[]),
    ("GET", "/api/v1/projects/{id}/images/{image_id}", FOUND, &[]),
    ("PATCH", "/api/v1/projects/{id}/images/{image_id}", FOUND, &["held", "wrong_status", "conflict"]),
    ("GET", "/api/v1/projects/{id}/images/{image_id}/file", FOUND, &[]),
    ("GET", "/api/v1/projects/{id}/images/{image_id}/thumbnail", FOUND, &[]),
    ("POST", "/api/v1/projects/{id}/images/{image_id}/annotations", WRITTEN, &["limit"]),
    ("GET", "/api/v1/projects/{id}/images/{image_id}/annotations", FOUND, &[]),
    ("PUT", "/api/v1/annotations/{id}", WRITTEN, &[]),
    ("DELETE", "/api/v1/annotations/{id}", WRITTEN, &[]),
    ("POST", "/api/v1/locks/acquire", FOUND, &["finished", "not_claimable", "limit"]),
    ("POST", "/api/v1/locks/release", FOUND, &["not_holder", "not_held", "lost"]),
    ("POST", "/api/v1/locks/heartbeat", FOUND, &["lost"]),
    ("GET", "/api/v1/projects/{id}/locks", FOUND, &[]),
];

/// Which images.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ImagesQuery {
    /// Only of this status.
    #[param(value_type = schema::Status, required = false)]
    status: Option<Status>,
    /// Only locked, or only free ones.
    locked: Option<bool>,
    /// Only after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// A project in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only the document is made of it")]
struct AtProject {
    /// The project's id.
    #[param(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "streets")]
    id: String,
}

/// An image in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only the document is made of it")]
struct AtImage {
    /// The project's id.
    #[param(pattern = "^[A-Za-z0-9._-]{1,64}$", example = "streets")]
    id: String,
    /// The image's id.
    #[param(example = "image-01kdzvq2me0x7f3")]
    image_id: String,
}

/// An annotation in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only the document is made of it")]
struct AtAnnotation {
    /// The annotation's id.
    #[param(example = "streets~image-01kdzvq2me0x7f3~01kdzvr0w4q8z2b")]
    id: String,
}

/// The application, and who asks it.
fn labels(app: &App, caller: &Caller, key: Option<&Key>) -> Result<(Labels, Actor), Problem> {
    Ok((app.labels().clone(), actor(caller, KIND, key)?))
}

/// Make a project
///
/// It is the caller's, who may edit every annotation in it.
#[utoipa::path(post, path = "/api/v1/projects", tag = "labels", request_body = NewProject,
    responses((status = 201, description = "The project.", body = Project, headers(("Location" = String)))))]
async fn create_project(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewProject>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, key.as_ref())?;
    let made = labels.create_project(&actor, &value).await?;
    let location = format!("/api/v1/projects/{}", made.value.id);
    created(&made, location)
}

/// List projects
#[utoipa::path(get, path = "/api/v1/projects", tag = "labels", params(PageQuery),
    responses((status = 200, description = "A page, by id.", body = ProjectPage)))]
async fn list_projects(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Rendered, Problem> {
    let (labels, _) = labels(&app, &caller, None)?;
    Rendered::json(&labels.projects(query).await?)
}

/// Read a project
#[utoipa::path(get, path = "/api/v1/projects/{id}", tag = "labels", params(AtProject),
    responses((status = 200, description = "The project.", body = Project)))]
async fn get_project(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (labels, _) = labels(&app, &caller, None)?;
    Rendered::json(&labels.project(&id)?)
}

/// Add an image
///
/// A form with a file, whose content is checked and which gets a thumbnail; or JSON about a file that is kept
/// elsewhere. An upload with an `Idempotency-Key` is the same if its file and its name are.
#[utoipa::path(post, path = "/api/v1/projects/{id}/images", tag = "labels", params(AtProject),
    request_body(content((UploadForm = "multipart/form-data"), (NewImage = "application/json"))),
    responses((status = 201, description = "The image.", body = Image, headers(("Location" = String)))))]
async fn add_image(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    request: Request,
) -> Result<Rendered, Problem> {
    // Whoever may not need not send twenty megabytes to hear it.
    let (labels, asking) = self::labels(&app, &caller, None)?;
    labels.for_upload(&asking, &id)?;
    let made = match upload::read(&app, &caller, request).await? {
        Upload::Metadata(Body { value, key }) => {
            labels.add_image(&actor(&caller, KIND, key.as_ref())?, &id, &value).await?
        }
        Upload::File { name, bytes, key, slot } => {
            let made = labels.upload(&actor(&caller, KIND, key.as_ref())?, &id, &name, bytes).await?;
            drop(slot);
            made
        }
    };
    let location = format!("/api/v1/projects/{id}/images/{}", made.value.id);
    created(&made, location)
}

/// List images
///
/// Oldest first, each with its lock as it is at the time of the answer.
#[utoipa::path(get, path = "/api/v1/projects/{id}/images", tag = "labels", params(AtProject, ImagesQuery),
    responses((status = 200, description = "A page.", body = ImagePage)))]
async fn list_images(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(ImagesQuery { status, locked, after, limit }): Query<ImagesQuery>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, None)?;
    let query = ImageQuery { status, locked, page: PageQuery { after, limit } };
    Rendered::json(&labels.images(&actor, &id, query).await?)
}

/// Read an image
#[utoipa::path(get, path = "/api/v1/projects/{id}/images/{image_id}", tag = "labels", params(AtImage),
    responses((status = 200, description = "The image.", body = Image)))]
async fn get_image(
    State(app): State<App>,
    caller: Caller,
    Ids([id, image]): Ids<2>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, None)?;
    Rendered::json(&labels.get_image(&actor, &id, &image)?)
}

/// Change an image's status
///
/// Refused while another has it locked. An archived image stays archived.
#[utoipa::path(patch, path = "/api/v1/projects/{id}/images/{image_id}", tag = "labels", params(AtImage),
    request_body = EditImage,
    responses((status = 200, description = "The image.", body = Image)))]
async fn edit_image(
    State(app): State<App>,
    caller: Caller,
    Ids([id, image]): Ids<2>,
    Body { value, .. }: Body<EditImage>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, None)?;
    done(&labels.edit_image(&actor, &id, &image, &value).await?)
}

/// Fetch an image's file
///
/// It never changes: keep it as long as you like, and ask with `If-None-Match`.
#[utoipa::path(get, path = "/api/v1/projects/{id}/images/{image_id}/file", tag = "labels", params(AtImage),
    responses((status = 200, description = "The file.", content(
        (Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"), (Vec<u8> = "image/webp")),
        headers(("ETag" = String))),
        (status = 304, description = "You have it.")))]
async fn get_image_file(
    State(app): State<App>,
    caller: Caller,
    Ids([id, image]): Ids<2>,
    Query(Nothing {}): Query<Nothing>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    serve(&app, &caller, (id, image), Which::File, &headers).await
}

/// Fetch an image's thumbnail
///
/// A JPEG of 256 pixels at most on its longer side. It never changes.
#[utoipa::path(get, path = "/api/v1/projects/{id}/images/{image_id}/thumbnail", tag = "labels", params(AtImage),
    responses((status = 200, description = "The thumbnail.", body = Vec<u8>, content_type = "image/jpeg",
        headers(("ETag" = String))),
        (status = 304, description = "You have it.")))]
async fn get_image_thumbnail(
    State(app): State<App>,
    caller: Caller,
    Ids([id, image]): Ids<2>,
    Query(Nothing {}): Query<Nothing>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    serve(&app, &caller, (id, image), Which::Thumbnail, &headers).await
}

async fn serve(
    app: &App,
    caller: &Caller,
    (id, image): (String, String),
    which: Which,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (labels, _) = labels(app, caller, None)?;
    let file = labels.file(&id, &image, which).await?;
    let name = if which == Which::File { image } else { format!("{image}-thumbnail") };
    served::serve(file, &name, headers)
}

/// Outline something in an image
///
/// Refused while another has the image locked.
#[utoipa::path(post, path = "/api/v1/projects/{id}/images/{image_id}/annotations", tag = "labels",
    params(AtImage), request_body = NewAnnotation,
    responses((status = 201, description = "The annotation.", body = Annotation)))]
async fn create_annotation(
    State(app): State<App>,
    caller: Caller,
    Ids([id, image]): Ids<2>,
    Body { value, key }: Body<NewAnnotation>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, key.as_ref())?;
    let made = labels.annotate(&actor, &id, &image, &value).await?;
    let version = made.value.version;
    let location = format!("/api/v1/annotations/{}", made.value.id);
    Ok(created(&made, location)?.with_etag(version))
}

/// List an image's annotations
#[utoipa::path(get, path = "/api/v1/projects/{id}/images/{image_id}/annotations", tag = "labels",
    params(AtImage, PageQuery),
    responses((status = 200, description = "A page, oldest first.", body = AnnotationPage)))]
async fn list_annotations(
    State(app): State<App>,
    caller: Caller,
    Ids([id, image]): Ids<2>,
    Query(query): Query<PageQuery>,
) -> Result<Rendered, Problem> {
    let (labels, _) = labels(&app, &caller, None)?;
    Rendered::json(&labels.annotations(&id, &image, query).await?)
}

/// Change an annotation
///
/// Its author and the project's owner may, over the version that the change is based on, and not while another
/// has the image locked.
#[utoipa::path(put, path = "/api/v1/annotations/{id}", tag = "labels", params(AtAnnotation),
    request_body = EditAnnotation,
    responses((status = 200, description = "The annotation, one version on.", body = Annotation)))]
async fn edit_annotation(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, .. }: Body<EditAnnotation>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, None)?;
    let changed = labels.edit_annotation(&actor, &id, &value).await.map_err(conflict)?;
    let version = changed.value.version;
    Ok(done(&changed)?.with_etag(version))
}

/// Delete an annotation
///
/// Its author and the project's owner may, and not while another has the image locked.
#[utoipa::path(delete, path = "/api/v1/annotations/{id}", tag = "labels", params(AtAnnotation, DeleteQuery),
    responses((status = 204, description = "It is gone.")))]
async fn delete_annotation(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(query): Query<DeleteQuery>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, None)?;
    labels.delete_annotation(&actor, &id, &query).await.map_err(conflict)?;
    Ok(Rendered::no_content())
}

/// A conflict also in the words that annotators' programs know: `error` and `message`.
fn conflict(refusal: tenure_apps::Refusal) -> Problem {
    let problem = Problem::from(refusal);
    if problem.code != "conflict" {
        return problem;
    }
    let message = "somebody has changed this annotation since; load the newer version and try again";
    problem.with("error", "conflict").with("message", message)
}

/// Lock an image
///
/// The caller's own lock is refreshed. That another has it is an answer too: `success` is false, and the rest
/// says who has it, since when and until when.
#[utoipa::path(post, path = "/api/v1/locks/acquire", tag = "labels", request_body = ImageAt,
    responses((status = 200, description = "Whose lock it is.", body = LockAnswer)))]
async fn acquire_image_lock(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<ImageAt>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, key.as_ref())?;
    done(&labels.acquire(&actor, &value).await?)
}

/// Unlock an image
///
/// Only who has it locked can. Letting go twice is letting go.
#[utoipa::path(post, path = "/api/v1/locks/release", tag = "labels", request_body = ImageAt,
    responses((status = 200, description = "It is free.", body = Released)))]
async fn release_image_lock(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<ImageAt>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, key.as_ref())?;
    done(&labels.release(&actor, &value).await?)
}

/// Heartbeat of an image's lock
///
/// About every `heartbeat_ms`. 410 when the lock has been lost: stop writing.
#[utoipa::path(post, path = "/api/v1/locks/heartbeat", tag = "labels", request_body = ImageAt,
    responses((status = 200, description = "Still yours.", body = LockAnswer)))]
async fn heartbeat_image_lock(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<ImageAt>,
) -> Result<Rendered, Problem> {
    let (labels, actor) = labels(&app, &caller, key.as_ref())?;
    done(&labels.heartbeat(&actor, &value).await?)
}

/// List a project's locks
///
/// By the image's id. Those whose time is up are left out.
#[utoipa::path(get, path = "/api/v1/projects/{id}/locks", tag = "labels", params(AtProject),
    responses((status = 200, description = "Who has which image locked, 10,000 at most.",
        body = BTreeMap<String, LockedBy>)))]
async fn list_image_locks(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (labels, _) = labels(&app, &caller, None)?;
    Rendered::json(&labels.locks(&id).await?)
}
