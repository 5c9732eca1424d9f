//! The server's limits, each with its reason.

use std::time::Duration;

/// A request body. A document is at most this large; images and batches have their own.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// A form with an image: the file, and room for its name and the form itself.
pub const UPLOAD_BYTES_MAX: usize = tenure_apps::labels::FILE_BYTES_MAX + 64 * 1024;
/// Time to send it: 20 MiB in this time are 1.4 Mbit/s.
pub const UPLOAD_TIME_MAX: Duration = Duration::from_mins(2);
/// Uploads at once: each is held in memory until it is kept.
pub const UPLOADS_MAX: usize = 8;
/// Of one person: nobody keeps everyone else from uploading.
pub const UPLOADS_PER_PERSON_MAX: usize = 2;
/// An upload that sends nothing for so long is cut: it holds a place.
pub const UPLOAD_PAUSE_MAX: Duration = Duration::from_secs(10);
/// What is read of a file at once on its way out.
pub const FILE_PIECE_BYTES: usize = 64 * 1024;
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
/// Words that say what a key is for.
pub const KEY_NAME_BYTES_MAX: usize = 200;
/// Kinds that one key is limited to; with more, leave them out and it covers all.
pub const KEY_KINDS_MAX: usize = 32;
/// A first key that the operator chose: shorter ones can be guessed.
pub const OWN_KEY_BYTES_MIN: usize = 16;
/// A person's browsers. The next sign-in ends the one that was used least recently.
pub const SESSIONS_PER_PRINCIPAL_MAX: usize = 100;
/// A session in use is noted once in this share of its idle time, since each note is a commit.
pub const SESSION_TOUCH_SHARE: i64 = 20;
/// Unknown keys, and as many sessions, that are looked for in the store in a second. People who sign in at once on one
/// node and ask another are fewer; those who guess, and whoever comes beside them, are asked to come again. Tokens of the
/// host application are never looked for.
pub const MIRROR_LOOKS_PER_SECOND: u32 = 200;
/// How often a revocation is tried that others' revocations overtake.
pub const REVOKE_TRIES: usize = 8;
/// Sessions or tickets that one sweep removes, so that it never holds up commands.
pub const SWEEP_MAX: usize = 256;
/// How often what has run out is removed. Nothing relies on it: what has run out is void by itself.
pub const SWEEP_EVERY: Duration = Duration::from_secs(15);
/// A token of the host application. Larger ones do not fit beside the other headers.
pub const JWT_BYTES_MAX: usize = 6 * 1024;
/// How far the host application's clock may be off.
pub const JWT_LEEWAY_S: i64 = 5;
/// Principals and addresses counted in one rate group. Beyond it newcomers share one count.
pub const RATE_KEYS_MAX: usize = 100_000;
/// How often those who have been quiet are forgotten.
pub const RATE_FORGET_EVERY: Duration = Duration::from_secs(30);
/// How often the log warns of a certificate that ends soon, while nobody stops the server or gives it a new one.
pub const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_hours(24);
/// A client that takes nothing of its answer for this long is cut off.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// Header lines of one request.
pub const HEADERS_MAX: usize = 100;
/// Kinds that have figures of their own; the rest share `other`.
pub const METRIC_KINDS_MAX: usize = 100;
/// Active claims that one count by kind walks through, so that a scrape stays cheap.
pub const METRIC_CLAIMS_MAX: usize = 200_000;
/// Texts of one collection's newest events, kept for all that follow it.
pub const STREAM_TEXTS_MAX: usize = 1_024;
/// The same, in bytes.
pub const STREAM_TEXTS_BYTES_MAX: usize = 1024 * 1024;
/// A long message goes out in pieces of this size, so that no reader's buffer ever grows to a snapshot's.
pub const STREAM_PIECE_BYTES: usize = 8 * 1024;
/// A quiet stream of server-sent events shows that it is alive: proxies close what is silent for a minute.
pub const SSE_HEARTBEAT_EVERY: Duration = Duration::from_secs(15);
/// What a socket reads at once; allocated for each of them.
pub const SOCKET_READ_BYTES: usize = 4 * 1024;
/// What a socket collects before it writes: some forty answers. Grows only as far as it is needed.
pub const SOCKET_WRITE_BYTES: usize = 16 * 1024;
/// What it can collect at most: what it collects before it writes, and a piece, with room to spare.
pub const SOCKET_WRITE_BYTES_MAX: usize = 32 * 1024;
/// Sockets that are told an event in one go, before others are served: a third of a millisecond.
pub const FAN_TURN: usize = 64;
/// Events that are written to many sockets at once, in bytes; a single one may be larger.
pub const FAN_BATCH_BYTES: usize = 16 * 1024;
/// While a socket takes what is written, no more than this is queued for it.
pub const SOCKET_FILL_BYTES: usize = 32 * 1024;
/// Commands of one socket that wait for their answers; beyond it nothing more is read from it.
pub const SOCKET_IN_FLIGHT_MAX: usize = 1_024;
/// Messages of one socket that are taken before anything else is looked at.
pub const SOCKET_TURN: usize = 64;
/// A command's id, as the client wrote it.
pub const SOCKET_ID_BYTES_MAX: usize = 128;
/// Time for the last words to a socket that is closed.
pub const SOCKET_CLOSE_MAX: Duration = Duration::from_secs(5);
/// The head of a runner's answer. Its body is an analysis' result, which has a limit of its own.
pub const RUNNER_HEAD_BYTES_MAX: usize = 16 * 1024;
/// How often a line is looked at that has something on it which nobody reads: whoever left is gone from the queue
/// after this.
pub const LINE_LOOK_EVERY: Duration = Duration::from_millis(500);
/// What is read from a connection at once. A request's head fits twice.
pub const READ_BYTES_MAX: usize = 16 * 1024;
/// What is read at once on the short way: several plain requests. Who sends a larger one is read by hyper.
pub const SHORT_READ_BYTES: usize = 4 * 1024;
/// Documents in one page, in bytes: the row that passes this is the page's last. A thousand rows of 64 KiB would
/// otherwise be held in memory for each of many callers.
pub const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Rows that a page reads at once, since it may end before the next.
pub const PAGE_READ_ROWS: usize = 100;
