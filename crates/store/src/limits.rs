//! Every limit of the stores, in one place, with its reason.

use std::time::Duration;

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

/// Committed bytes after which a fold begins at once. More in one fold merges more writes of one row.
pub const FOLD_BYTES: u64 = 32 << 20;
/// The longest that a commit waits to be folded while the server is quiet. It bounds the replay. A fold's
/// syncs hold up the journal's, so they should be rare.
pub const FOLD_AFTER_MS: u64 = 3_000;
/// How much a fold that nobody waits for gives way to other threads, of 19: a tenth of a processor remains to it beside one
/// that is always busy.
pub const FOLD_NICE: i32 = 10;
/// Pages (of 8 KiB) in the archive's log after which they are moved into its file: a page once instead of with
/// each fold. It bounds the log, to 100 MB beyond one fold while nobody reads an old state of it.
pub const CHECKPOINT_PAGES: u32 = 12_800;
/// What of the archive's log the disk is given at once.
pub const LOG_STEP_BYTES: usize = 512 << 10;
/// The pause after it: some 300 MB a second, which leaves the disk to commits for most of the time.
pub const LOG_STEP_PAUSE: Duration = Duration::from_micros(1_500);
/// The longest pause between two tries of a fold that found no room.
pub const FOLD_RETRY_MS_MAX: u64 = 10_000;

/// Event bytes in one chunk of the archive: a page of events reads one or two of them.
pub const CHUNK_BYTES_MAX: usize = 128 << 10;
/// A newest chunk below this is rewritten together with what comes next, so that a quiet collection
/// does not end up with one row for each event.
pub const CHUNK_BYTES_SMALL: usize = 8 << 10;
/// Kept replies in one chunk of the archive, in bytes: finding one reads one chunk. A larger reply has one of its own.
pub const KEPT_CHUNK_BYTES_MAX: usize = 32 << 10;

/// Ended claims in memory, so that a late heartbeat hears why it was too late. Older ones are found
/// in the events, by readers only.
pub const ENDED_CLAIMS_MAX: usize = 100_000;
/// What they may take together, documents and all.
pub const ENDED_BYTES_MAX: usize = 128 << 20;
/// Ended claims that a commit lets go of beyond twice as many as it ended: a fold may set a hundred thousand free, which
/// would hold everyone up.
pub const FORGET_MIN: usize = 256;
/// A claim is in memory for so long after its lock delay: those who wait for its items are told by the engine, which may be
/// behind with its timers.
pub const DELAY_OVER_MS: i64 = 60_000;
/// Kept replies that are known at all, about 100 bytes of memory each at the worst. Beyond it the
/// oldest are forgotten before their day is over.
pub const KEPT_MAX: usize = 2_000_000;
/// Kept replies whose answer is in memory; an older one is read from the archive.
pub const KEPT_VALUES_MAX: usize = 100_000;
/// What those answers may take together: each may show a document of 64 KiB, or a group's of 8 MiB.
pub const KEPT_VALUES_BYTES_MAX: usize = 128 << 20;

/// Read-only connections to the archive that are at work at once, some three open files each; more readers wait. Reads
/// share the disk and the cores anyway.
pub const ARCHIVE_READERS_MAX: usize = 32;
/// Those that stay open.
pub const ARCHIVE_READERS_IDLE_MAX: usize = 4;

/// The longest that a batch waits for a collection that another node works on. A batch takes milliseconds;
/// who waits this long waits for a node that is stuck, and that one is thrown out after the same time.
pub const LOCK_MS: u64 = 5_000;
/// The longest that one statement of a batch may take: the largest takes a second or two.
pub const STATEMENT_MS: u64 = 10_000;
/// The longest that a connection may take: as long as callers would wait for a node that has none.
pub const CONNECT_MS: u64 = 3_000;
/// How long the outcome of a commit is looked for whose answer was lost: a failover takes some seconds.
pub const RESOLVE_MS: u64 = 15_000;
/// The pause between two such looks.
pub const RESOLVE_PAUSE_MS: u64 = 100;
/// Connections of one node for readers: as many as a small database has cores to spare.
pub const READERS_MAX: usize = 8;
/// Readers that may wait for one of them. Each keeps a thread of the server waiting, of which there are 512; the
/// rest is for everything else that the server does. A crowd of a few hundred gets through.
pub const READERS_WAITING_MAX: usize = 400;
/// The longest that a reader waits for one.
pub const READER_WAIT_MS: u64 = 5_000;
/// Bytes of events after which a page of them is full, however few they are: what one commit may hold. A page of
/// the largest events would otherwise take longer than a statement may.
pub const EVENT_PAGE_BYTES: usize = 16 << 20;
/// How old figures may be that read whole tables.
pub const STATS_MS: u64 = 15_000;
/// The longest that a change of the tables waits for one of them once nobody writes any more: readers that are under
/// way end in seconds.
pub const MIGRATE_LOCK_MS: u64 = 300_000;
/// How often two connections are compared to find a pooler between: others may come in between once or twice.
pub(crate) const POOLER_LOOKS: usize = 3;
/// How often a batch is begun anew when a head came or went meanwhile; each time somebody else got on.
pub const LOAD_TRIES: usize = 10;
/// How often a batch that got no lock in time looks which collections are locked: one that is only busy is free in one of
/// these moments, or has got on between two of them.
pub const STUCK_LOOKS: u32 = 6;
/// The first pause between two of those looks, and each is twice as long as the one before. A batch takes some
/// milliseconds, or a few hundred where each commit is confirmed from far away.
pub const STUCK_PAUSE_MS: u64 = 25;
/// How long such a look waits for whoever makes a head that is not there yet.
pub const STUCK_MAKING_MS: u64 = 5;
/// The longest that such a look takes: it waits for no collection.
pub const STUCK_LOCK_MS: u64 = 1_000;
/// Read from a connection at once: about what the answers to a batch come to.
pub(crate) const HUSH_READ_BYTES: usize = 16 * 1024;
/// What a connection has not taken yet may grow to this before more is translated.
pub(crate) const HUSH_WRITE_BYTES_MAX: usize = 256 * 1024;
/// Heads of which a writer remembers that they are there: some 100 bytes each.
pub const KNOWN_HEADS_MAX: usize = 100_000;
/// How often in a row a writer must have been alone in a collection before it relies on being it once more: who
/// relies on it and is not reads with one round trip more, under the lock.
pub const RECENT_TURNS: u32 = 3;
/// What a writer keeps from its last batches, in units of 256 bytes, of which a row takes one or two: 20 to 30 MiB.
pub const RECENT_WEIGHT_MAX: usize = 65_536;
/// A collection may be this far ahead of the database's clock before the operator is told: clocks that are kept
/// together differ by less.
pub const HEAD_AHEAD_MS: i64 = 1_000;
/// The operator is told of what lasts this often.
pub const TOLD_AGAIN_MS: u64 = 60_000;
/// Collections that begin an epoch in one commit: each is locked and read.
pub const RESTORE_MAX: usize = 1_000;
/// How long a batch's own row stays: far longer than anyone looks for the answer to its commit.
pub const BATCH_ROW_MS: i64 = 3_600_000;
/// Rows that one tidying deletes of each table: a moment's work, so that nobody waits for their locks. While
/// there are more it goes on.
pub const TIDY_MAX: i64 = 5_000;
/// The least time between two hints of one node: they are coalesced, since each locks the others out.
pub const HINT_PAUSE_MS: u64 = 10;
/// The longest hint: PostgreSQL takes less than 8,000 bytes. More collections than fit are told as all.
pub const HINT_BYTES_MAX: usize = 7_900;
/// Hints that wait to be sent.
pub const HINT_QUEUE_MAX: usize = 1_024;
/// How long a move waits for nodes that were just stopped: their connections end a moment after them.
pub const NODES_GONE_MS: u64 = 3_000;
