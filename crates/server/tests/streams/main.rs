//! Live streams from outside, through real sockets on this machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../server/away.rs"]
mod away;
mod bad_input;
mod client;
mod commands;
mod ends;
mod fan;
mod raffle;
mod resume;
mod sse;
mod waiting;
mod who;
