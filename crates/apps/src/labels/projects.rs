//! Projects: each is a collection, with a document of its own.

use tenure_core::{CollectionKey, Expect, Verb};

use super::model::ProjectDoc;
use super::{KIND, Labels, NAME_BYTES_MAX, NewProject, PAGE_DEFAULT, PAGE_MAX, PROJECT, PageQuery, Project};
use super::{Open, ProjectPage};
use crate::desk::status;
use crate::family::page_size;
use crate::limits::SCAN_MAX;
use crate::{Actor, Desk, Document, Done, Permission, Person, Refusal, Result, Time, put, text};

impl Labels {
    /// Makes a project, which then is the actor's.
    pub async fn create_project(&self, actor: &Actor, new: &NewProject) -> Result<Done<Project>> {
        actor.require(Permission::LabelsManage)?;
        let name = text::title("name", &new.name, NAME_BYTES_MAX)?;
        let id = match (&new.id, &actor.key) {
            (Some(id), _) => text::code("id", id)?.to_owned(),
            // A retry has to come to the same collection.
            (None, Some(key)) => key.id("project-", &actor.principal),
            (None, None) => self.desk.fresh_id("project-"),
        };
        let collection = CollectionKey::from_parts(KIND, &id)?;
        let (owner, created_at_ms) = (Person::from(&actor.principal), self.desk.now_ms());
        let document = ProjectDoc { name, owner, created_at_ms };
        let made = put(&PROJECT.id("")?, &status("open"), &document, Expect::Absent, None)?;
        let group = Verb::Group(vec![Verb::CreateCollection, made]);
        let done = self.desk.change_once(actor, &collection, Desk::OWN_STEP, || Ok(group.clone())).await?;
        let document = Document::of(done.written(PROJECT)?)?;
        Ok(done.show(show(&Open { id, collection, document })))
    }

    /// One project.
    pub fn project(&self, id: &str) -> Result<Project> {
        Ok(show(&self.open(id)?))
    }

    /// A page of projects, by id.
    pub async fn projects(&self, query: PageQuery) -> Result<ProjectPage> {
        let limit = page_size(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        let after = match query.after {
            Some(id) => CollectionKey::from_parts(KIND, text::code("after", &id)?)?,
            None => before_the_first()?,
        };
        self.desk.read(move |desk| page(desk, after, limit)).await
    }
}

fn page(desk: &Desk, mut after: CollectionKey, limit: usize) -> Result<ProjectPage> {
    let (mut projects, mut scanned, mut next) = (Vec::new(), 0, None);
    'pages: loop {
        let page = desk.reader().collections(Some(&after), limit)?;
        for (collection, _) in &page.rows {
            if collection.kind() != KIND {
                break 'pages;
            }
            if projects.len() == limit || scanned == SCAN_MAX {
                next = Some(after.name().to_owned());
                break 'pages;
            }
            scanned += 1;
            after = collection.clone();
            // Others may have made a collection of this kind that is no project.
            if let Some(document) = desk.find(collection, &PROJECT.id("")?)? {
                let (id, collection) = (collection.name().to_owned(), collection.clone());
                projects.push(show(&Open { id, collection, document }));
            }
        }
        if !page.more || page.rows.is_empty() {
            break;
        }
    }
    Ok(ProjectPage { projects, next, server_time: Time(desk.now_ms()) })
}

/// The greatest key that lies before every collection of the kind.
fn before_the_first() -> Result<CollectionKey> {
    let kind = format!("{KIND}-{:z<26}", "");
    Ok(CollectionKey::from_parts(&kind, &"z".repeat(tenure_core::limits::NAME_BYTES_MAX))?)
}

fn show(Open { id, document: Document { item, data }, .. }: &Open) -> Project {
    Project {
        id: id.clone(),
        name: data.name.clone(),
        owner: data.owner.clone(),
        version: item.version,
        created_at: Time(data.created_at_ms),
        updated_at: Time(item.updated_at_ms),
    }
}

impl Open {
    /// The actor made the project.
    pub(super) fn is_owned_by(&self, actor: &Actor) -> bool {
        *self.document.data.owner.id == *actor.principal.id
    }

    /// Refuses whoever neither made the annotation nor the project.
    pub(super) fn require_author(&self, actor: &Actor, id: &str, author: &Person) -> Result<()> {
        if *author.id == *actor.principal.id || self.is_owned_by(actor) {
            return Ok(());
        }
        tracing::info!(actor = &*actor.principal.id, annotation = id, "refused: another's annotation");
        Err(Refusal::NotAuthor { what: "annotation", id: id.to_owned(), author: author.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_between_the_start_and_the_first_project() {
        let start = before_the_first().expect("is a key");
        let key = |text: &str| CollectionKey::new(text).expect("is a key");
        assert!(key("image-x/zzz") < start && key("imagd/zzz") < start);
        assert!(start < key("image/+") && start < key("image/a"));
    }
}
