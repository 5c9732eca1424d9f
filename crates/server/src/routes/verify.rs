//! Walking the audit chains: each event is hashed onto the one before it, so a changed, dropped or moved
//! one shows. Reads a page at a time; stops when the caller has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use serde::Serialize;
use tenure_core::chain::link;
use tenure_core::{Collection, CollectionKey, Hash};
use tenure_engine::{EventPage, Reader, StoreError};
use utoipa::ToSchema;

use crate::command::Rendered;
use crate::limits::{PAGE_MAX, VERIFY_BREAKS_MAX, VERIFY_PAGE};
use crate::params::{Nothing, Query};
use crate::time::rfc3339;
use crate::{App, Caller, Problem, schema};

/// What walking the chains found.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = Verification)]
pub(crate) struct VerificationView {
    /// Every link holds.
    verified: bool,
    /// The same, in words.
    #[schema(example = "2 events in 1 collection: every link holds")]
    summary: String,
    /// Chains walked.
    #[schema(value_type = schema::Number)]
    collections: u64,
    /// Events hashed.
    #[schema(value_type = schema::Number)]
    events: u64,
    /// Chains whose oldest events are not retained, walked from the oldest that is.
    #[schema(value_type = schema::Number)]
    shortened: u64,
    /// Breaks found.
    #[schema(value_type = schema::Number)]
    broken: u64,
    /// The first of them.
    breaks: Vec<BreakView>,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    server_time: String,
}

/// Where a chain breaks.
#[derive(Serialize, ToSchema)]
#[schema(as = Break)]
pub(crate) struct BreakView {
    /// The chain.
    #[schema(value_type = schema::CollectionKey)]
    collection: CollectionKey,
    /// The event.
    #[schema(value_type = schema::Number)]
    seq: u64,
    /// What is wrong.
    #[schema(example = "the event does not hash to what was kept")]
    what: &'static str,
}

/// Verify the audit log
///
/// Walks the chain of every collection from its first event to its head. One walk at a time.
#[utoipa::path(get, path = "/v1/audit/verify", tag = "audit",
    responses((status = 200, description = "What was found.", body = VerificationView)))]
pub(crate) async fn verify_audit(
    State(app): State<App>,
    caller: Caller,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let _turn = app.verifying().acquire().await.map_err(|_| Problem::internal())?;
    let gone = Gone::default();
    let asked = gone.clone();
    // Who is bound to some kinds hears of those alone; Tenure's own chains are the whole store's.
    let wanted = move |kind: &str| caller.kinds.is_none() || caller.covers(kind);
    let found = app.read(move |reader| walk(reader, &wanted, &asked)).await?;
    drop(gone);
    let plural = |count: u64, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let outcome = match found.broken {
        0 => "every link holds".to_owned(),
        broken => format!("{} found", plural(broken, "break")),
    };
    let summary = format!(
        "{} in {}: {outcome}",
        plural(found.events, "event"),
        plural(found.collections, "collection")
    );
    let server_time = rfc3339(app.now_ms());
    Rendered::json(&VerificationView { verified: found.broken == 0, summary, server_time, ..found })
}

/// Set when the handler's future is dropped.
#[derive(Clone, Default)]
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn walk(
    reader: &dyn Reader,
    wanted: &dyn Fn(&str) -> bool,
    gone: &Gone,
) -> Result<VerificationView, StoreError> {
    let mut found = VerificationView::default();
    let mut after = None;
    loop {
        let page = reader.collections(after.as_ref(), PAGE_MAX)?;
        for (key, head) in &page.rows {
            if gone.0.load(Ordering::Relaxed) {
                return Ok(found);
            }
            if wanted(key.kind()) {
                walk_chain(reader, key, head, gone, &mut found)?;
            }
        }
        match page.rows.into_iter().next_back() {
            Some((last, _)) if page.more => after = Some(last),
            _ => return Ok(found),
        }
    }
}

/// From the chain's beginning at least up to the head, which was read before the events.
fn walk_chain(
    reader: &dyn Reader,
    key: &CollectionKey,
    head: &Collection,
    gone: &Gone,
    found: &mut VerificationView,
) -> Result<(), StoreError> {
    found.collections += 1;
    let mut previous = Some(Hash::default());
    let mut since = 0;
    let mut head_hash = None;
    while since < head.seq && !gone.0.load(Ordering::Relaxed) {
        let page = match reader.events(key, since, VERIFY_PAGE)? {
            EventPage::Events(page) => page,
            EventPage::Resync { first, .. } if since == 0 && first > 1 => {
                // The oldest are gone: begin with the first that is there, whose own link nobody can check.
                found.shortened += 1;
                previous = None;
                since = first - 1;
                continue;
            }
            EventPage::Resync { .. } => Vec::new(),
        };
        if page.is_empty() {
            found.note(key, since, "the events end before the collection's head");
            return Ok(());
        }
        for sealed in &page {
            let seq = sealed.event.seq;
            if previous.is_some_and(|previous| link(&previous, &sealed.bytes) != sealed.hash) {
                found.note(key, seq, "the event does not hash to what was kept");
            }
            if seq == head.seq {
                head_hash = Some(sealed.hash);
            }
            previous = Some(sealed.hash);
            since = seq;
            found.events += 1;
        }
    }
    if head.seq > 0 && since >= head.seq && head_hash != Some(head.hash) {
        found.note(key, head.seq, "the collection's head is not the end of its chain");
    }
    Ok(())
}

impl VerificationView {
    fn note(&mut self, collection: &CollectionKey, seq: u64, what: &'static str) {
        self.broken += 1;
        if self.breaks.len() < VERIFY_BREAKS_MAX {
            self.breaks.push(BreakView { collection: collection.clone(), seq, what });
        }
    }
}
