//! The server from outside: through its whole router in this process, and through real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod away;
mod gate;
mod jwt;
mod keys;
mod operations;
mod secrets;
mod sessions;
mod short;
mod tickets;
mod tls;
mod unsure;
mod wire;
mod world;
