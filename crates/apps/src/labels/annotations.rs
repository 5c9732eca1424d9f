//! Annotations: made, listed, changed over the version that they are based on, deleted. Each write is judged
//! together with the lock of its image.

use std::sync::Arc;

use tenure_core::{Expect, Item, Refusal as Rule, Text, Verb};

use super::images::{denied, still_open};
use super::model::{AnnotationDoc, ImageDoc};
use super::{
    ANNOTATIONS, ANNOTATIONS_MAX, Annotation, AnnotationId, AnnotationPage, DeleteQuery, EditAnnotation,
    Labels, NewAnnotation, Open, PAGE_DEFAULT, PAGE_MAX, PageQuery, guard,
};
use crate::desk::status;
use crate::family::page_size;
use crate::{Actor, Desk, Document, Done, Listed, Person, Refusal, Result, Time, put, text};

/// What an annotation's id leads to.
struct Found {
    project: Open,
    image: Document<ImageDoc>,
    annotation: Document<AnnotationDoc>,
}

impl Labels {
    /// Outlines something in an image.
    pub async fn annotate(
        &self,
        actor: &Actor,
        project: &str,
        image: &str,
        new: &NewAnnotation,
    ) -> Result<Done<Annotation>> {
        let project = self.for_change(actor, project)?;
        let policy = self.image_policy()?;
        let class_id = text::code("class_id", &new.class_id)?.to_owned();
        let author = Person::from(&actor.principal);
        let document = AnnotationDoc {
            geometry: new.geometry.clone(),
            class_id,
            author: author.clone(),
            created_at_ms: self.desk.now_ms(),
            updated_by: author,
        };
        let plan = || {
            let image = self.image(&project, image)?;
            still_open(&policy, &image)?;
            new.geometry.check(image.data.width, image.data.height)?;
            let annotations = image.data.annotations + 1;
            if annotations > ANNOTATIONS_MAX {
                let (limit, max) = (Text::from("annotations"), ANNOTATIONS_MAX as u64);
                return Err(Rule::Limit { limit, max }.into());
            }
            let guard = guard(&image.item, new.token);
            let id = ANNOTATIONS.id(&format!("{}~{}", image.item.id, self.desk.fresh_id("")))?;
            let counted = ImageDoc { annotations, ..image.data.clone() };
            Ok(Verb::Group(vec![
                image.put(&image.item.status, &counted, Some(guard.clone()))?,
                put(&id, &status("saved"), &document, Expect::Absent, Some(guard))?,
            ]))
        };
        let done = self.desk.change(actor, &project.collection, Desk::OWN_STEP, plan).await;
        let done = done.inspect_err(|refusal| denied(actor, image, "annotate", refusal))?;
        let annotation = show(&project.id, &Document::of(done.written(ANNOTATIONS)?)?);
        Ok(done.show(annotation))
    }

    /// A page of an image's annotations, oldest first.
    pub async fn annotations(&self, project: &str, image: &str, query: PageQuery) -> Result<AnnotationPage> {
        let limit = page_size(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        let project = self.open(project)?;
        let beginning = format!("{}~", self.image(&project, image)?.item.id);
        self.desk
            .read(move |desk| {
                let keep = |item: Arc<Item>| Ok(Some(show(&project.id, &Document::of(item)?)));
                // A cursor is an annotation's id, which names the item in its own way.
                let after = query.after.as_deref().map(|id| AnnotationId::parse(id)?.item()).transpose();
                let after = after.map_err(|_| Refusal::invalid("after", "is no annotation's id"))?;
                let which = (None, after.as_ref().map(tenure_core::ItemId::as_str), limit);
                let Listed { rows, next } =
                    ANNOTATIONS.page_of(desk, &project.collection, &beginning, which, keep)?;
                let next = next.map(|id| format!("{}~{}", project.id, &id[ANNOTATIONS.0.len()..]));
                Ok(AnnotationPage { annotations: rows, next, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    /// Changes an annotation over the version that the change is based on.
    pub async fn edit_annotation(
        &self,
        actor: &Actor,
        id: &str,
        edit: &EditAnnotation,
    ) -> Result<Done<Annotation>> {
        let Found { project, image, annotation } = self.found(actor, id)?;
        let class_id = text::code("class_id", &edit.class_id)?.to_owned();
        if edit.version == 0 {
            return Err(Refusal::invalid("version", "begins with 1"));
        }
        edit.geometry.check(image.data.width, image.data.height)?;
        still_open(&*self.image_policy()?, &image)?;
        let document = AnnotationDoc {
            geometry: edit.geometry.clone(),
            class_id,
            updated_by: Person::from(&actor.principal),
            ..annotation.data
        };
        let item = &annotation.item;
        let (expect, guard) = (Expect::Version(edit.version), guard(&image.item, edit.token));
        let write = put(&item.id, &item.status, &document, expect, Some(guard))?;
        let done =
            self.desk.change_once(actor, &project.collection, Desk::OWN_STEP, || Ok(write.clone())).await;
        let done = done.map_err(|refusal| unknown(id, refusal));
        let done = done.inspect_err(|refusal| denied(actor, image.item.id.as_str(), "edit", refusal))?;
        let annotation = show(&project.id, &Document::of(done.written(ANNOTATIONS)?)?);
        Ok(done.show(annotation))
    }

    /// Deletes an annotation.
    pub async fn delete_annotation(&self, actor: &Actor, id: &str, query: &DeleteQuery) -> Result<Done<()>> {
        let Found { project, image, annotation } = self.found(actor, id)?;
        let policy = self.image_policy()?;
        let plan = || {
            let image = self.image(&project, image.item.id.as_str())?;
            still_open(&policy, &image)?;
            let guard = guard(&image.item, query.token);
            let annotations = image.data.annotations.saturating_sub(1);
            let counted = ImageDoc { annotations, ..image.data.clone() };
            Ok(Verb::Group(vec![
                Verb::DeleteItem {
                    item: annotation.item.id.clone(),
                    expect: query.version.map_or(Expect::Present, Expect::Version),
                    guard: Some(guard.clone()),
                },
                image.put(&image.item.status, &counted, Some(guard))?,
            ]))
        };
        // Only the count was read; the annotation is as the actor says, or the answer is no.
        let is_race = |refusal: &Refusal| refusal.index() == Some(1);
        let step = (actor, &project.collection, Desk::OWN_STEP);
        let done = self.desk.change_unless_raced(step, is_race, plan).await;
        let done = done.map_err(|refusal| unknown(id, refusal));
        let done = done.inspect_err(|refusal| denied(actor, image.item.id.as_str(), "delete", refusal))?;
        Ok(done.show(()))
    }

    /// The annotation, for somebody who may change it.
    fn found(&self, actor: &Actor, id: &str) -> Result<Found> {
        let at = AnnotationId::parse(id)?;
        let named = |refusal| match refusal {
            Refusal::NotFound { .. } => Refusal::not_found("annotation", id),
            refusal => refusal,
        };
        let project = self.for_change(actor, &at.project).map_err(named)?;
        let image = self.image(&project, &at.image).map_err(named)?;
        let item = at.item().map_err(|_| Refusal::not_found("annotation", id))?;
        let annotation: Document<AnnotationDoc> = self
            .desk
            .find(&project.collection, &item)?
            .ok_or_else(|| Refusal::not_found("annotation", id))?;
        project.require_author(actor, id, &annotation.data.author)?;
        Ok(Found { project, image, annotation })
    }
}

/// It was there a moment ago, and is deleted now.
fn unknown(id: &str, refusal: Refusal) -> Refusal {
    match refusal.rule() {
        Some(Rule::Conflict { current: 0, .. }) => Refusal::not_found("annotation", id),
        Some(Rule::NotFound { what, .. }) if &**what == "item" => Refusal::not_found("annotation", id),
        _ => refusal,
    }
}

fn show(project: &str, Document { item, data }: &Document<AnnotationDoc>) -> Annotation {
    let id = AnnotationId::of(project, &item.id);
    let image_id = id.split('~').nth(1).unwrap_or("").to_owned();
    Annotation {
        id,
        project_id: project.to_owned(),
        image_id,
        geometry: data.geometry.clone(),
        class_id: data.class_id.clone(),
        version: item.version,
        author: data.author.clone(),
        created_at: Time(data.created_at_ms),
        updated_by: data.updated_by.clone(),
        updated_at: Time(item.updated_at_ms),
    }
}
