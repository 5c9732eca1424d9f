//! Images of a project: added, listed, given a status, served.

use std::io::{self, Read};
use std::sync::Arc;

use tenure_core::{Claim, Expect, Item, Policy};
use tenure_engine::Refused;

use super::model::{FileDoc, ImageDoc};
use super::picture::develop;
use super::{
    EditImage, FILE_BYTES_MAX, Format, IMAGES, Image, ImagePage, ImageQuery, KIND, Labels, NAME_BYTES_MAX,
    NewImage, Open, PAGE_DEFAULT, PAGE_MAX, PIXELS_MAX, SIDE_MAX,
};
use crate::family::page_size;
use crate::files::FileId;
use crate::{
    Actor, Desk, Document, Done, Listed, Lock, LockState, Permission, Person, Refusal, Result, Time, put,
    text,
};

/// Which of an image's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// As it was uploaded.
    File,
    /// The small one.
    Thumbnail,
}

/// A file on its way out.
pub struct Served {
    /// What it is.
    pub format: Format,
    /// Its size.
    pub bytes: u64,
    /// Its hash: it never changes.
    pub id: FileId,
    /// The file. Reading blocks.
    pub reader: Box<dyn Read + Send>,
}

impl Labels {
    /// Adds an image whose file is kept elsewhere.
    pub async fn add_image(&self, actor: &Actor, project: &str, new: &NewImage) -> Result<Done<Image>> {
        let project = self.for_change(actor, project)?;
        let name = text::title("name", &new.name, NAME_BYTES_MAX)?;
        for (field, side) in [("width", new.width), ("height", new.height)] {
            if !(1..=SIDE_MAX).contains(&side) {
                return Err(Refusal::invalid(field, format!("must be 1 to {SIDE_MAX}")));
            }
        }
        if u64::from(new.width) * u64::from(new.height) > PIXELS_MAX {
            let message = format!("an image has at most {} megapixels", PIXELS_MAX / 1_000_000);
            return Err(Refusal::invalid("width", message));
        }
        self.put_image(actor, &project, (name, new.width, new.height), None).await
    }

    /// Adds an image with its file, which is doubted, kept, and made a thumbnail of.
    pub async fn upload(
        &self,
        actor: &Actor,
        project: &str,
        name: &str,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Done<Image>> {
        let project = self.for_change(actor, project)?;
        let name = text::title("name", name, NAME_BYTES_MAX)?;
        if bytes.as_ref().len() > FILE_BYTES_MAX {
            return Err(Refusal::invalid("file", format!("has more than {FILE_BYTES_MAX} bytes")));
        }
        let permit = self.decoding.clone().acquire_owned().await.map_err(|_| Refusal::Broken)?;
        let files = self.files.clone();
        let developed = self.desk.read(move |desk| {
            // Held until the work is done, also for a caller who has gone.
            let _permit = permit;
            let bytes = bytes.as_ref();
            let picture = develop(bytes)?;
            let keep = |bytes: &[u8]| files.keep(bytes).map_err(|error| not_kept(&error, desk.now_ms()));
            let file = FileDoc {
                id: keep(bytes)?,
                format: picture.format,
                bytes: bytes.len() as u64,
                thumbnail: keep(&picture.thumbnail)?,
                thumbnail_bytes: picture.thumbnail.len() as u64,
            };
            Ok((picture.width, picture.height, file))
        });
        let (width, height, file) = developed.await?;
        self.put_image(actor, &project, (name, width, height), Some(file)).await
    }

    /// Refuses who may not add to a project, before anything is read.
    pub fn for_upload(&self, actor: &Actor, project: &str) -> Result<()> {
        self.for_change(actor, project).map(drop)
    }

    /// One image.
    pub fn get_image(&self, actor: &Actor, project: &str, id: &str) -> Result<Image> {
        let project = self.open(project)?;
        self.show_image(actor, &project, id)
    }

    /// A page of a project's images, oldest first.
    pub async fn images(&self, actor: &Actor, project: &str, query: ImageQuery) -> Result<ImagePage> {
        let ImageQuery { status, locked, page } = query;
        let limit = page_size(page.limit, PAGE_DEFAULT, PAGE_MAX)?;
        let project = self.open(project)?;
        let (labels, actor) = (self.clone(), actor.clone());
        self.desk
            .read(move |desk| {
                let keep = |item: Arc<Item>, claim: Option<&Claim>| {
                    let image = labels.show_held(&actor, &project, &Document::of(item)?, claim);
                    let is_locked = image.lock.state == LockState::Locked;
                    Ok(locked.is_none_or(|locked| locked == is_locked).then_some(image))
                };
                let which = (status.as_ref(), page.after.as_deref(), limit);
                let Listed { rows, next } = IMAGES.page_held(desk, &project.collection, which, keep)?;
                Ok(ImagePage { images: rows, next, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    /// Gives an image another status.
    pub async fn edit_image(
        &self,
        actor: &Actor,
        project: &str,
        id: &str,
        edit: &EditImage,
    ) -> Result<Done<Image>> {
        let project = self.for_change(actor, project)?;
        let policy = self.image_policy()?;
        let mut known = policy.claimable.iter().chain(&policy.finished);
        if !known.any(|status| *status == edit.status) {
            let words: Vec<_> =
                policy.claimable.iter().chain(&policy.finished).map(ToString::to_string).collect();
            return Err(Refusal::invalid("status", format!("must be one of {}", words.join(", "))));
        }
        let plan = || {
            let image = self.image(&project, id)?;
            if image.item.status == edit.status {
                return Ok(None);
            }
            still_open(&policy, &image)?;
            Ok(Some(image.put(&edit.status, &image.data, None)?))
        };
        let done = self.desk.change_if(actor, &project.collection, Desk::OWN_STEP, plan).await;
        let done = done.inspect_err(|refusal| denied(actor, id, "status", refusal))?;
        let image = self.show_image(actor, &project, id)?;
        Ok(match done {
            Some(done) => done.show(image),
            None => Done { value: image, at_ms: self.desk.now_ms(), replayed: false },
        })
    }

    /// An image's file.
    pub async fn file(&self, project: &str, id: &str, which: Which) -> Result<Served> {
        let (labels, project, id) = (self.clone(), project.to_owned(), id.to_owned());
        self.desk.read(move |_| labels.open_file(&project, &id, which)).await
    }

    fn open_file(&self, project: &str, id: &str, which: Which) -> Result<Served> {
        let project = self.open(project)?;
        let image = self.image(&project, id)?;
        let none = || Refusal::not_found("file", id);
        let file = image.data.file.as_ref().ok_or_else(none)?;
        let (format, bytes, file) = match which {
            Which::File => (file.format, file.bytes, &file.id),
            Which::Thumbnail => (Format::Jpeg, file.thumbnail_bytes, &file.thumbnail),
        };
        match self.files.open(file) {
            Ok(Some(reader)) => Ok(Served { format, bytes, id: file.clone(), reader }),
            Ok(None) => {
                tracing::error!(image = id, file = file.as_str(), "an image's file is missing");
                Err(none())
            }
            Err(error) => {
                tracing::error!(image = id, file = file.as_str(), %error, "a file cannot be opened");
                Err(Refusal::Broken)
            }
        }
    }

    /// The project, for somebody who may change what is in it.
    pub(super) fn for_change(&self, actor: &Actor, project: &str) -> Result<Open> {
        actor.require(Permission::LabelsManage)?;
        self.open(project)
    }

    pub(super) fn image_policy(&self) -> Result<Arc<Policy>> {
        self.desk.policy(KIND)?.ok_or(Refusal::Broken)
    }

    async fn put_image(
        &self,
        actor: &Actor,
        project: &Open,
        (name, width, height): (String, u32, u32),
        file: Option<FileDoc>,
    ) -> Result<Done<Image>> {
        let (created_by, created_at_ms) = (Person::from(&actor.principal), self.desk.now_ms());
        let document = ImageDoc { name, width, height, file, annotations: 0, created_by, created_at_ms };
        let status = self.image_policy()?.initial_status().clone();
        let plan = || {
            let id = IMAGES.id(&self.desk.fresh_id(""))?;
            put(&id, &status, &document, Expect::Absent, None)
        };
        let done = self.desk.change(actor, &project.collection, Desk::OWN_STEP, plan).await?;
        // Nobody had it before it was there.
        let image = self.show_held(actor, project, &Document::of(done.written(IMAGES)?)?, None);
        Ok(done.show(image))
    }

    fn show_image(&self, actor: &Actor, project: &Open, id: &str) -> Result<Image> {
        let (image, claim) = self.held(project, id)?;
        Ok(self.show_held(actor, project, &image, claim.as_ref()))
    }

    fn show_held(
        &self,
        actor: &Actor,
        project: &Open,
        image: &Document<ImageDoc>,
        claim: Option<&Claim>,
    ) -> Image {
        let Document { item, data } = image;
        let at = |which: &str| {
            data.file.as_ref().map(|_| format!("/api/v1/projects/{}/images/{}/{which}", project.id, item.id))
        };
        Image {
            id: item.id.to_string(),
            project_id: project.id.clone(),
            name: data.name.clone(),
            status: item.status.clone(),
            width: data.width,
            height: data.height,
            annotations: data.annotations,
            format: data.file.as_ref().map(|file| file.format),
            bytes: data.file.as_ref().map(|file| file.bytes),
            file_url: at("file"),
            thumbnail_url: at("thumbnail"),
            lock: Lock::of(claim, actor, self.desk.now_ms()),
            created_by: data.created_by.clone(),
            created_at: Time(data.created_at_ms),
            version: item.version,
            updated_at: Time(item.updated_at_ms),
        }
    }
}

/// Refuses an image that is history.
pub(super) fn still_open(policy: &Policy, image: &Document<ImageDoc>) -> Result<()> {
    if !policy.finished.contains(&image.item.status) {
        return Ok(());
    }
    let (id, status) = (image.item.id.to_string(), image.item.status.to_string());
    Err(Refusal::WrongStatus { what: "image", id, status, message: "it cannot change any more".into() })
}

/// Logs what was refused, since a refusal leaves no event.
pub(super) fn denied(actor: &Actor, image: &str, action: &str, refusal: &Refusal) {
    let code = refusal.code();
    tracing::info!(actor = &*actor.principal.id, image, action, code, "image denied: {refusal}");
}

/// A file that could not be written.
fn not_kept(error: &io::Error, now_ms: i64) -> Refusal {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            tracing::warn!(%error, "there is no room for a file");
            Refusal::engine(Refused::NoRoom, now_ms)
        }
        _ => {
            tracing::error!(%error, "a file could not be kept");
            Refusal::Broken
        }
    }
}
