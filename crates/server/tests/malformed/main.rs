//! More than ten thousand requests that cannot be right, made from a seed, against every route of the access
//! table: each is refused clearly, nothing changes, nothing breaks, nothing of the inside is told.
//!
//! Requests are made by spoiling good ones, and the good ones are tried first: a request that would be
//! refused anyway proves nothing.

mod judge;
mod random;
mod templates;
mod world;

mod http;
mod sockets;
mod spoil;
mod wire;

/// How many of each: ten thousand, and more in a soak.
fn inputs() -> usize {
    usize::try_from(tenure_spoil::inputs()).expect("fits")
}
