//! The engine's tests: one program, one file per promise. Time is moved by hand; nothing sleeps for a
//! deadline. Most drive a [`tenure_engine::Turn`] directly; what needs the thread blocks its store.

mod ahead;
mod bytes;
mod common;
mod feed;
mod group_commit;
mod hints;
mod idempotency;
mod nodes;
mod pressure;
mod shared;
mod smoke;
mod stuck;
mod time;
mod timers;
mod waiters;
