//! Every limit of the model, in one place, with its reason.

/// A collection's kind: it is a word that people configure and read in URLs.
pub const KIND_BYTES_MAX: usize = 32;
/// A collection's name: stands in URLs and in every claim id.
pub const NAME_BYTES_MAX: usize = 128;
/// An item's id: the limit for keys that clients choose.
pub const ITEM_ID_BYTES_MAX: usize = 256;
/// A status is a word out of a policy.
pub const STATUS_BYTES_MAX: usize = 64;
/// A session is a tab or a worker instance; a UUID with a prefix fits well.
pub const SESSION_BYTES_MAX: usize = 128;
/// A principal's id, as the host application knows it.
pub const PRINCIPAL_ID_BYTES_MAX: usize = 256;
/// A display name, shown in badges.
pub const PRINCIPAL_NAME_BYTES_MAX: usize = 200;
/// A document (an item's or a claim's data): the limit of a request body.
pub const DATA_BYTES_MAX: usize = 64 * 1024;
/// A reason or a message, read by people in the audit log.
pub const TEXT_BYTES_MAX: usize = 2_000;
/// Items in one claim: all of them are locked, checked and written together.
pub const ITEMS_PER_CLAIM_MAX: usize = 100;
/// Commands in one atomic group: the group is decided while its collection waits.
pub const GROUP_MAX: usize = 1_000;
/// Phases of a policy: the longest known needs four.
pub const PHASES_MAX: usize = 8;
/// Statuses named by a policy, each list.
pub const STATUSES_MAX: usize = 32;
/// The shortest lease: below it the network's own delay decides who holds.
pub const TTL_MS_MIN: i64 = 1_000;
/// The longest lease: a year, so that sums of times never overflow.
pub const TTL_MS_MAX: i64 = 366 * 24 * 3_600 * 1_000;
/// The longest wait in the queue of a held item.
pub const WAIT_MS_MAX: i64 = 10 * 60 * 1_000;
/// The longest delay after an unclean end.
pub const LOCK_DELAY_MS_MAX: i64 = 3_600 * 1_000;
/// Numbers for each millisecond of an epoch. An epoch is the time of its restore, and from there on every
/// collection counts from the epoch times this: more than it can have used since any earlier restore, of
/// whatever backup. Until the year 2500 they fit in a JavaScript integer.
pub const EPOCH_NUMBERS: u64 = 512;
/// How far a restore raises the numbers where the clock cannot be believed. Larger than anything a lost
/// tail can have held (a month at 400,000 a second).
pub const RESTORE_STEP: u64 = 1 << 40;
