//! The server's limits, each with its reason.

use std::time::Duration;

/// A request body. A document is at most this large; images and batches have their own.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// A batch of a thousand commands.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Commands in one batch.
pub const BATCH_COMMANDS_MAX: usize = 1_000;
/// Rows in one page of a list.
pub const PAGE_MAX: usize = 1_000;
/// Rows in a page when nobody says.
pub const PAGE_DEFAULT: usize = 100;
/// The whole head of a request.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
/// Time to send the head: a client that dribbles is cut.
pub const HEADERS_TIME_MAX: Duration = Duration::from_secs(10);
/// Time to send the body.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// An idempotency key.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 256;
/// A socket ticket lives this long.
pub const TICKET_MS_MAX: i64 = 30_000;
/// A socket without a ticket must say who it is within this time.
pub const SOCKET_HELLO_MAX: Duration = Duration::from_secs(5);
/// One message from a socket.
pub const SOCKET_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// What waits to be written to one socket; beyond it the reader is too slow and is closed.
pub const SOCKET_QUEUE_BYTES_MAX: usize = 256 * 1024;
/// The same, in events.
pub const SOCKET_QUEUE_EVENTS_MAX: usize = 1_000;
/// The server's ping.
pub const SOCKET_PING_EVERY: Duration = Duration::from_secs(54);
/// A socket that has been silent this long is dead.
pub const SOCKET_SILENCE_MAX: Duration = Duration::from_mins(1);
/// One write to a socket.
pub const SOCKET_WRITE_MAX: Duration = Duration::from_secs(10);
/// A revoked key's sockets are closed within this.
pub const REVOKE_WITHIN: Duration = Duration::from_secs(5);
/// Rows that one page of a list looks at. A filter that keeps few of them gets a short page and a cursor.
pub const SCAN_MAX: usize = 10_000;
/// Events that verifying reads at once.
pub const VERIFY_PAGE: usize = 1_000;
/// Breaks of the chain that verifying names; the rest are only counted.
pub const VERIFY_BREAKS_MAX: usize = 100;
