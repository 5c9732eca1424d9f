//! A snapshot's text, made piece by piece: a collection may have a hundred thousand items, and as many
//! readers may come at once.

use std::fmt::Write;
use std::sync::Arc;

use serde::Serialize;
use tenure_core::{ClaimState, CollectionKey, Policy, seen_at};
use tenure_engine::Snapshot;

use crate::time::rfc3339;
use crate::view::{ClaimView, DocumentView};

/// `{"type":"snapshot","epoch":…,"seq":…,"server_time":…,"items":[…],"claims":[…]}`, to be taken in pieces.
#[derive(Debug)]
pub(crate) struct SnapshotText {
    key: CollectionKey,
    snapshot: Option<Box<Snapshot>>,
    seq: u64,
    policy: Option<Arc<Policy>>,
    epoch: u64,
    now_ms: i64,
    at: At,
    /// Nothing stands in the list yet.
    is_first: bool,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Head,
    Items(usize),
    Claims(usize),
    Done,
}

impl SnapshotText {
    pub(super) fn new(
        key: CollectionKey,
        snapshot: Option<Box<Snapshot>>,
        epoch: u64,
        policy: Option<Arc<Policy>>,
        now_ms: i64,
    ) -> Self {
        let seq = snapshot.as_ref().map_or(0, |snapshot| snapshot.head.seq);
        Self { key, snapshot, seq, policy, epoch, now_ms, at: At::Head, is_first: true }
    }

    /// The number of the newest event that it shows.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.at, At::Done)
    }

    /// Its epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next piece, of about this many bytes; `None` after the last.
    pub(crate) fn piece(&mut self, bytes: usize) -> Option<String> {
        if self.is_done() {
            return None;
        }
        let mut text = String::with_capacity(bytes + 512);
        while text.len() < bytes && self.step(&mut text) {}
        Some(text)
    }

    /// Adds one row or one bracket; `false` at the end.
    fn step(&mut self, text: &mut String) -> bool {
        let rows = self.snapshot.as_deref();
        match self.at {
            At::Head => {
                // Writing into a string cannot fail.
                let (epoch, seq, time) = (self.epoch, self.seq(), rfc3339(self.now_ms));
                let collection = &self.key;
                let _ = write!(
                    text,
                    r#"{{"type":"snapshot","collection":"{collection}","epoch":{epoch},"seq":{seq},"server_time":"{time}","items":["#
                );
                self.at = At::Items(0);
            }
            At::Items(index) => {
                if let Some(item) = rows.and_then(|rows| rows.items.get(index)) {
                    add(text, &mut self.is_first, &DocumentView::of(&self.key, item));
                    self.at = At::Items(index + 1);
                } else {
                    text.push_str(r#"],"claims":["#);
                    self.is_first = true;
                    self.at = At::Claims(0);
                }
            }
            At::Claims(index) => {
                if let Some(claim) = rows.and_then(|rows| rows.claims.get(index)) {
                    let seen = self.policy.as_ref().map(|policy| seen_at(claim, policy, self.now_ms));
                    let claim = seen.as_ref().unwrap_or(claim);
                    // Past its deadline it is over, whether or not anyone has swept.
                    if claim.state == ClaimState::Active {
                        add(text, &mut self.is_first, &ClaimView::of(&self.key, claim, self.now_ms));
                    }
                    self.at = At::Claims(index + 1);
                } else {
                    text.push_str("]}");
                    self.at = At::Done;
                    // The rows are many; the message may wait for its reader.
                    self.snapshot = None;
                }
            }
            At::Done => return false,
        }
        true
    }
}

fn add(text: &mut String, is_first: &mut bool, row: &impl Serialize) {
    match serde_json::to_string(row) {
        Ok(row) => {
            if !std::mem::take(is_first) {
                text.push(',');
            }
            text.push_str(&row);
        }
        Err(error) => tracing::error!(%error, "a row could not be written as JSON"),
    }
}
