//! R20–R22: a thousand buyers at once over real HTTP, and a hundred pages that watch them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../server/away.rs"]
#[expect(dead_code, reason = "the harness is shared with the streams' tests")]
mod away;

#[path = "../streams/client.rs"]
#[expect(dead_code, reason = "the harness is shared with the streams' tests")]
mod client;

#[path = "../apps/payments/browser.rs"]
mod browser;

mod audit;
mod buyer;
mod crowd;
mod mixed;
mod pages;
mod watchers;
