//! Items of one sort within a collection: their ids begin alike, so they lie together and are listed
//! without looking at the others.

use std::sync::Arc;

use tenure_core::{Claim, CollectionKey, Item, ItemId, Status};
use tenure_engine::{ItemFilter, Page};

use crate::limits::SCAN_MAX;
use crate::{Desk, Refusal, Result};

/// A sort of items, by the beginning of their ids. `Family("")` is a whole collection.
#[derive(Clone, Copy, Debug)]
pub struct Family(pub &'static str);

/// Part of a list.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// What was kept.
    pub rows: Vec<T>,
    /// Where the next page begins; `None` on the last one. A page may be short and have a next.
    pub next: Option<String>,
}

impl Family {
    /// The item of this name. Its id is the family's beginning and the name.
    pub fn id(self, name: &str) -> Result<ItemId> {
        Ok(ItemId::new(format!("{}{name}", self.0))?)
    }

    /// The item is of this family.
    pub fn has(self, id: &str) -> bool {
        id.starts_with(self.0)
    }

    /// A page of the family in order of ids: those after `after`, at most `limit`, as `keep` shows them.
    /// Reads a while: call it in [`Desk::read`].
    pub fn page<T>(
        self,
        desk: &Desk,
        collection: &CollectionKey,
        (status, after, limit): (Option<&Status>, Option<&str>, usize),
        keep: impl FnMut(Arc<Item>) -> Result<Option<T>>,
    ) -> Result<Listed<T>> {
        self.page_of(desk, collection, "", (status, after, limit), keep)
    }

    /// The same, each with the claim that holds it.
    pub(crate) fn page_held<T>(
        self,
        desk: &Desk,
        collection: &CollectionKey,
        which: (Option<&Status>, Option<&str>, usize),
        mut keep: impl FnMut(Arc<Item>, Option<&Claim>) -> Result<Option<T>>,
    ) -> Result<Listed<T>> {
        let read = |filter: &ItemFilter, limit| desk.held_items(collection, filter, limit);
        self.page_with(
            collection,
            ("", which),
            read,
            |(item, claim)| keep(item, claim.as_ref()),
            |(item, _)| item,
        )
    }

    /// The same, of those whose names begin alike too.
    pub fn page_of<T>(
        self,
        desk: &Desk,
        collection: &CollectionKey,
        beginning: &str,
        which: (Option<&Status>, Option<&str>, usize),
        keep: impl FnMut(Arc<Item>) -> Result<Option<T>>,
    ) -> Result<Listed<T>> {
        let read = |filter: &ItemFilter, limit| Ok(desk.reader().items(collection, filter, limit)?);
        self.page_with(collection, (beginning, which), read, keep, |item| item)
    }

    /// The same, of whatever is read of an item.
    fn page_with<R, T>(
        self,
        collection: &CollectionKey,
        (beginning, (status, after, limit)): (&str, (Option<&Status>, Option<&str>, usize)),
        read: impl Fn(&ItemFilter, usize) -> Result<Page<R>>,
        mut keep: impl FnMut(R) -> Result<Option<T>>,
        item: impl Fn(&R) -> &Item,
    ) -> Result<Listed<T>> {
        let start = format!("{}{beginning}", self.0);
        // A cursor from elsewhere lists nothing outside of the family.
        let from = after.filter(|after| *after > start.as_str()).unwrap_or(&start);
        // The family of everything begins with nothing.
        let mut after = if from.is_empty() {
            None
        } else {
            Some(ItemId::new(from).map_err(|_| Refusal::invalid("after", "is no cursor"))?)
        };
        let (mut rows, mut scanned) = (Vec::new(), 0);
        loop {
            let filter = ItemFilter { held: None, status: status.cloned(), after: after.clone() };
            let page = read(&filter, limit)?;
            let count = page.rows.len();
            scanned += count;
            for (index, row) in page.rows.into_iter().enumerate() {
                let id = item(&row).id.clone();
                if !id.as_str().starts_with(&start) {
                    return Ok(Listed { rows, next: None });
                }
                match keep(row) {
                    Ok(row) => rows.extend(row),
                    // An administrator can write what no application reads. The others are shown all the same.
                    Err(Refusal::Broken) => {
                        tracing::warn!(%collection, item = %id, "left out: it cannot be read");
                    }
                    Err(refusal) => return Err(refusal),
                }
                if rows.len() == limit {
                    let more = page.more || index + 1 < count;
                    return Ok(Listed { rows, next: more.then(|| id.to_string()) });
                }
                after = Some(id);
            }
            if !page.more || count == 0 {
                return Ok(Listed { rows, next: None });
            }
            if scanned >= SCAN_MAX {
                return Ok(Listed { rows, next: after.map(|id| id.to_string()) });
            }
        }
    }
}

/// How many rows a page has: what was asked for, within bounds.
pub(crate) fn page_size(limit: Option<usize>, default: usize, max: usize) -> Result<usize> {
    match limit {
        None => Ok(default),
        Some(limit) if (1..=max).contains(&limit) => Ok(limit),
        Some(_) => Err(Refusal::invalid("limit", format!("must be 1 to {max}"))),
    }
}
