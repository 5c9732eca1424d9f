//! What every store must do, as one suite. A store is run beside the reference ([`crate::memory`]) on
//! the same commands, and everything that a reader can see of the two is compared.
//!
//! ```text
//! tenure_store::conformance::run(|| MyStore::new());
//! tenure_store::conformance::run_durable(|| MyStore::new(), |store| store.close_and_open_again());
//! ```

mod any;
mod cases;
mod compare;
mod harness;
mod held;
mod holding;
mod pooler;
mod proxy;
mod server;

pub use any::{AnyStore, AnyView, TEST_STORE, is_over_postgres, times};
pub use compare::readers as assert_same;
pub use harness::{Harness, Outcome, Overlay, command, key, wants_of};
pub use holding::Holding;
pub use pooler::Pooler;
pub use proxy::{Asked, Cut, Proxy};
pub use server::{AS_VERSION_3, Server};

use crate::Store;

/// Runs every case on a store of its own.
pub fn run<S: Store>(make: impl Fn() -> S) {
    run_durable(make, |store| store);
}

/// The same for a store that survives: in every case it is opened again now and then, and once more
/// before the last comparison.
pub fn run_durable<S: Store>(make: impl Fn() -> S, reopen: impl Fn(S) -> S) {
    for (name, case) in cases::all::<S>() {
        let mut harness = Harness::new(make(), &reopen);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            case(&mut harness);
            harness.compare();
            harness.reopen();
            harness.compare();
        }));
        if let Err(panic) = outcome {
            eprintln!("conformance: the case that failed is {name:?}");
            std::panic::resume_unwind(panic);
        }
    }
}
