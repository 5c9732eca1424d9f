//! `redis` CARRIES what nodes over one database tell each other and may lose: hints that something changed,
//! and how much of a rate is used. Nothing is kept there that anybody would miss: without Redis nodes look
//! by themselves and count by themselves.
//!
//! The client is our own: four commands need a page of protocol, and a library for all of Redis some
//! thirty crates.

mod address;
mod counts;
mod limits;
mod state;
mod talk;
#[cfg(feature = "testing")]
pub mod testing;
mod wire;

use std::sync::Arc;

pub use address::Address;
pub use counts::{Count, Counted, Counts};
pub use state::{Pause, State};
pub use talk::{Listener, Speaker};

/// A Redis that nodes share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Redis(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: Address,
    hints: State,
    counts: State,
}

impl Redis {
    /// Connects to nothing yet.
    #[must_use]
    pub fn new(address: Address) -> Self {
        let hints =
            State::new("hints come over Redis", "no hints over Redis for now; nodes look by themselves");
        let counts =
            State::new("rates are counted over Redis", "no Redis for now; each node counts rates by itself");
        Self(Arc::new(Inner { address, hints, counts }))
    }

    /// Whether hints come over it.
    #[must_use]
    pub fn hints(&self) -> &State {
        &self.0.hints
    }

    /// Whether rates are counted over it.
    #[must_use]
    pub fn counts(&self) -> &State {
        &self.0.counts
    }

    fn address(&self) -> &Address {
        &self.0.address
    }
}
