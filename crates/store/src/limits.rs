//! Every limit of the stores, in one place, with its reason.

/// One journal segment: large enough that rolling over is rare, small enough to replay in a moment.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// The smallest segment that can be configured: a header page and some records. For tests.
pub const SEGMENT_BYTES_MIN: u64 = 4 * 4096;
/// The largest: a record's length is 32 bits, and a segment is read whole into memory.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Segments on disk. When the fold lags behind this much, commits wait for it.
pub const SEGMENTS_MAX: usize = 16;
/// Segments that stay on disk to be used again; what a burst needed beyond them is given back.
pub const SEGMENTS_KEPT: usize = 4;

/// Journal bytes after which a fold begins at once. More in one fold merges more writes of one row.
pub const FOLD_BYTES: u64 = 32 << 20;
/// The longest that a commit waits to be folded while the server is quiet. It bounds the replay.
pub const FOLD_AFTER_MS: u64 = 1_000;
/// The longest pause between two tries of a fold that found no room.
pub const FOLD_RETRY_MS_MAX: u64 = 10_000;

/// Event bytes in one chunk of the archive: a page of events reads one or two of them.
pub const CHUNK_BYTES_MAX: usize = 128 << 10;
/// A newest chunk below this is rewritten together with what comes next, so that a quiet collection
/// does not end up with one row for each event.
pub const CHUNK_BYTES_SMALL: usize = 8 << 10;
/// Kept replies in one chunk of the archive, in bytes: finding one reads one chunk.
pub const KEPT_CHUNK_BYTES_MAX: usize = 32 << 10;

/// Ended claims in memory, so that a late heartbeat hears why it was too late. Older ones are found
/// in the events, by readers only.
pub const ENDED_CLAIMS_MAX: usize = 100_000;
/// Kept replies that are known at all, about 100 bytes of memory each at the worst. Beyond it the
/// oldest are forgotten before their day is over.
pub const KEPT_MAX: usize = 2_000_000;
/// Kept replies whose answer is in memory; an older one is read from the archive.
pub const KEPT_VALUES_MAX: usize = 100_000;

/// Read-only connections to the archive that stay open.
pub const ARCHIVE_READERS_MAX: usize = 4;
