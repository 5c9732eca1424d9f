//! An item, and a collection's head.

use serde::Serialize;
use tenure_core::{Collection, CollectionKey, Item, ItemId, Json, Status};
use utoipa::ToSchema;

use super::ClaimView;
use crate::schema;
use crate::time::rfc3339;

/// An item, and who holds it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Item)]
pub(crate) struct ItemView<'a> {
    #[serde(flatten)]
    pub(crate) document: DocumentView<'a>,
    /// The claim that holds it; `null` while it is free.
    pub(crate) claim: Option<ClaimView<'a>>,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    pub(crate) server_time: String,
}

/// An item's document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Document)]
pub(crate) struct DocumentView<'a> {
    /// Its id.
    #[schema(value_type = schema::ItemId)]
    pub(crate) id: &'a ItemId,
    /// Where it lives.
    #[schema(value_type = schema::CollectionKey)]
    pub(crate) collection: &'a CollectionKey,
    /// A word of the kind's policy.
    #[schema(value_type = schema::Status)]
    pub(crate) status: &'a Status,
    /// Counts changes of status or data, from 1. Also the `ETag`.
    #[schema(value_type = schema::Number)]
    pub(crate) version: u64,
    /// The document.
    #[schema(value_type = schema::Data)]
    pub(crate) data: Option<&'a Json>,
    /// The token of its newest grant; 0 before the first.
    #[schema(value_type = schema::Number)]
    pub(crate) fence: u64,
    /// When status or data last changed.
    #[schema(value_type = schema::Time)]
    pub(crate) updated_at: String,
    /// The id of who changed it.
    #[schema(example = "u-7")]
    pub(crate) updated_by: &'a str,
}

impl<'a> DocumentView<'a> {
    pub(crate) fn of(collection: &'a CollectionKey, item: &'a Item) -> Self {
        Self {
            id: &item.id,
            collection,
            status: &item.status,
            version: item.version,
            data: item.data.as_ref(),
            fence: item.fence,
            updated_at: rfc3339(item.updated_at_ms),
            updated_by: &item.updated_by,
        }
    }
}

/// A collection's head.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Collection)]
pub(crate) struct CollectionView<'a> {
    /// `kind/name`.
    #[schema(value_type = schema::CollectionKey)]
    pub(crate) collection: &'a CollectionKey,
    /// The kind.
    #[schema(value_type = schema::Kind)]
    pub(crate) kind: &'a str,
    /// The name.
    #[schema(value_type = schema::CollectionName)]
    pub(crate) name: &'a str,
    /// The number of its newest event.
    #[schema(value_type = schema::Number)]
    pub(crate) seq: u64,
    /// When it was created.
    #[schema(value_type = schema::Time)]
    pub(crate) created_at: String,
    /// The store's epoch: event numbers of another epoch mean nothing here.
    #[schema(value_type = schema::Number)]
    pub(crate) epoch: u64,
}

impl<'a> CollectionView<'a> {
    pub(crate) fn of(key: &'a CollectionKey, head: &Collection, epoch: u64) -> Self {
        Self {
            collection: key,
            kind: key.kind(),
            name: key.name(),
            seq: head.seq,
            created_at: rfc3339(head.created_at_ms),
            epoch,
        }
    }
}
