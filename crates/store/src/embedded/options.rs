//! How an embedded store is opened.

use crate::limits;

/// Sizes, bounds and habits. The defaults are right for a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a journal segment, which is also the bound of one batch.
    pub segment_bytes: u64,
    /// Segments on disk; when all are full of unfolded batches, commits wait for the fold.
    pub segments_max: usize,
    /// Segments that stay on disk to be used again.
    pub segments_kept: usize,
    /// Who folds.
    pub fold: Fold,
    /// Committed bytes after which a fold begins at once.
    pub fold_bytes: u64,
    /// The longest that a batch waits to be folded.
    pub fold_after_ms: u64,
    /// Pages in the archive's log after which they are moved into its file.
    pub checkpoint_pages: u32,
    /// Events that each collection keeps at least; `None` keeps all.
    pub retain_events: Option<u64>,
    /// Ended claims in memory.
    pub ended_claims_max: usize,
    /// Kept replies that are known.
    pub kept_max: usize,
    /// Kept replies whose answer is in memory.
    pub kept_values_max: usize,
    /// Planted bugs.
    #[cfg(feature = "planted")]
    pub faults: Faults,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: limits::SEGMENT_BYTES,
            segments_max: limits::SEGMENTS_MAX,
            segments_kept: limits::SEGMENTS_KEPT,
            fold: Fold::Thread,
            fold_bytes: limits::FOLD_BYTES,
            fold_after_ms: limits::FOLD_AFTER_MS,
            checkpoint_pages: limits::CHECKPOINT_PAGES,
            retain_events: None,
            ended_claims_max: limits::ENDED_CLAIMS_MAX,
            kept_max: limits::KEPT_MAX,
            kept_values_max: limits::KEPT_VALUES_MAX,
            #[cfg(feature = "planted")]
            faults: Faults::default(),
        }
    }
}

impl Options {
    /// The planted bugs; without the feature there are none and none can be set.
    #[cfg(feature = "planted")]
    pub(crate) fn faults(&self) -> Faults {
        self.faults
    }

    #[cfg(not(feature = "planted"))]
    #[expect(clippy::unused_self, reason = "the same call with the feature and without")]
    pub(crate) fn faults(&self) -> Faults {
        Faults::default()
    }
}

/// Who moves committed batches from the journal to the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// A thread of the store's own.
    Thread,
    /// The caller, with [`crate::embedded::Embedded::fold_now`]; or a commit that finds the journal full.
    Manual,
}

/// Bugs on demand. The simulator turns each on and must catch it, which proves that it would catch a
/// real one. All are off; only with the feature `planted` can one be turned on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one bug, and any set of them may be on")]
pub struct Faults {
    /// Answers without waiting for the disk.
    pub skip_sync: bool,
    /// Takes the first bad record for the journal's end, whatever follows.
    pub stop_at_first_bad_record_silently: bool,
    /// Believes what a record says without checking its sums.
    pub ignore_crc: bool,
    /// Makes no name in the journal's folder safe.
    pub skip_dir_sync: bool,
    /// Takes what is in the archive's log for safe, and uses segments again on the strength of it.
    pub skip_log_sync: bool,
    /// Folds a batch before the journal has it.
    pub fold_before_sync: bool,
    /// Shows a batch to readers before it is safe.
    pub show_before_sync: bool,
    /// Replays the events and not the heartbeats.
    pub forget_beats_on_replay: bool,
    /// Replays the events and not the kept replies.
    pub lose_kept_on_replay: bool,
}
