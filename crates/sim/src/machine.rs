//! The machine that the server runs on: where its store lives, what can go wrong with it, and what is
//! left when the power goes.

use tenure_engine::{Ticket, Turn};
use tenure_store::{Error, Store};

use crate::rng::Rng;

/// A machine.
pub(crate) trait Machine {
    /// What keeps.
    type Store: Store;

    /// Opens the store, as a process does when it starts.
    fn start(&mut self) -> Result<Self::Store, Error>;

    /// Something will go wrong soon.
    fn arm(&mut self, rng: &mut Rng);

    /// Nothing more goes wrong. Says whether something did.
    fn disarm(&mut self) -> bool;

    /// The process dies now, and perhaps the machine with it.
    fn crash<T: Ticket>(&mut self, turn: Turn<Self::Store, T>, rng: &mut Rng);

    /// A process died while it started; nothing of it is left.
    fn reboot(&mut self, rng: &mut Rng);

    /// The process ended in good order and gave its store back.
    fn stopped(&mut self, store: Self::Store);

    /// How many events each collection keeps at least; `None` for all.
    fn retained(&self) -> Option<u64> {
        None
    }

    /// Claims that ended long ago may be unknown to the loop.
    fn forgets(&self) -> bool {
        false
    }

    /// While nobody looks, something that was safe goes bad. It must be noticed.
    fn rot(&mut self, rng: &mut Rng) -> bool {
        let _ = rng;
        false
    }

    /// What went bad is put right, as by an operator.
    fn mend(&mut self) {}

    /// Work that happens beside the turns: folding the journal into the archive.
    fn errand(&mut self, store: &mut Self::Store, rng: &mut Rng) -> Result<(), Error>;
}
