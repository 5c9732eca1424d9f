//! The engine's limits, each with its reason.

/// Commands in one group commit. More would make the first of them wait for the last.
pub const BATCH_MAX: usize = 2_048;
/// Answers of a commit that is made safe by a thread of the store's own while the next is decided. To wake that thread and
/// be woken by it cost commits of some twenty answers 2 µs of processor time for each.
pub(crate) const BESIDE_MIN: usize = 128;
/// Bytes of events and kept replies in one group commit; what comes after them waits for the next. A quarter of a journal
/// segment, so that a commit always fits.
pub(crate) const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of one command's events, and as many of a group's reply: an atomic group cannot be split.
pub(crate) const COMMAND_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Expiries beside them in one commit, so that a million deadlines at once don't hold up commands.
pub(crate) const EXPIRIES_MAX: usize = 2_048;
/// Commands waiting for the loop. A longer queue only makes everyone late; refuse instead.
pub const QUEUE_MAX: usize = 16_384;
/// Callers waiting for held items, over all collections.
pub const WAITERS_MAX: usize = 100_000;
/// Events of one collection kept in memory for its live readers; a slower reader reads the store.
pub const FEED_RING_MAX: usize = 4_096;
/// What they may take together: one that writes a large document has it before and after.
pub(crate) const FEED_RING_BYTES_MAX: usize = 16 << 20;
/// Events handed to a reader at once.
pub(crate) const FEED_PAGE_MAX: usize = 512;
/// While claims are active, the time is committed at least this often: after a crash a claim gets back
/// the time since the last commit, so this bounds how much too long it can live.
pub const MARK_MS: i64 = 5_000;
/// Data whose newest time is further ahead of the clock than this is told of at the start: a clock that is slewed, or a
/// restart within a moment, is not.
pub(crate) const AHEAD_TOLD_MS: i64 = 60_000;
/// Collections that are told of a pause in one commit: some 300 bytes each at the most.
pub(crate) const RESUME_MAX: usize = 50_000;
/// After the store refused for want of room or because it is away, overdue timers wait this long: a loop
/// that tries at once would keep a core busy, and nobody else notices a fifth of a second.
pub(crate) const RETRY_MS: i64 = 200;
/// Events of an item that explaining it reads back: the last few holders, not its whole life.
pub(crate) const EXPLAIN_EVENTS_MAX: usize = 100;
/// A holder's own claims that explaining counts against the kind's limit.
pub(crate) const EXPLAIN_CLAIMS_MAX: usize = 10_000;

/// How often a node looks what others did, over a store that they share. A hint comes sooner; this is what a
/// lost hint costs.
pub(crate) const PULSE_MS: u64 = 250;
/// The longest that an answer may take to tell the time by: timers are late, and readers told too early an end,
/// by up to this.
pub(crate) const SAMPLE_MS_MAX: i64 = 1_000;
/// Readers of a feed on a node that is cut off from the store are told after this: on another node they may go on. As
/// long as a revoked key may keep its socket.
pub(crate) const STALE_MS: u64 = 5_000;
/// How long a look waits for an answer at first: it may fail, and be tried again over another connection, before readers
/// are told.
pub(crate) const LOOK_MS: u64 = 3_000;
/// How long it waits at the most, once they were: as long as a store lets a statement and its locks take.
pub(crate) const LOOK_MS_MAX: u64 = 15_000;
/// The least that it waits, so that a store that is there can answer.
pub(crate) const LOOK_MS_MIN: u64 = 500;
/// An operator is told this often of what lasts.
pub(crate) const TOLD_AGAIN_MS: u64 = 60_000;
/// Collections of one look that the store may fail to answer for in time before the look ends: the store is away,
/// and each would take as long again.
pub(crate) const AWAY_MAX: usize = 2;
/// Deadlines that come within this time are looked up with it: twice the pause, so that one look may fail.
pub(crate) const AHEAD_MS: i64 = 600;
/// Deadlines of one turn over a shared store: each may lock a collection, and commands wait for their end.
pub(crate) const DUE_MAX: usize = 512;
/// How long the deadlines of a collection wait that somebody else keeps locked, before it is tried again for them.
pub(crate) const HELD_UP_MS: i64 = 1_000;
/// Deadlines of one look: more than the turns until the next can end, some 100 bytes each.
pub(crate) const DUE_LOOK_MAX: usize = 8_192;
/// How often a commit is decided anew because another node came first; after that callers hear that the
/// store is away, and ask again.
pub(crate) const CONFLICTS_MAX: u32 = 5;
/// How often replies and batches that nobody needs any more are deleted.
pub(crate) const TIDY_MS: u64 = 60_000;
/// Writers of one node over a shared store: batches of different collections that are under way at once.
pub const LANES_MAX: usize = 16;
