//! `sim` DOUBTS. A seed makes a world: collections, clients, a network that loses and repeats, a machine
//! that fails. The real engine and rules run in it, in one thread; an auditor that shares no decision
//! with them judges every answer, event and row. The same seed is the same history.
//!
//! Read [`auditor`] for what is checked, `driver` and `server` for what happens, `client` for who asks.

pub mod auditor;
mod bugs;
mod calm;
mod client;
mod disk;
mod driver;
mod embedded;
mod flaky;
pub mod history;
mod machine;
pub mod rng;
mod server;
mod world;

use auditor::{Figures, Violation};
pub use bugs::{Bug, StoreBug};
use driver::Driver;
pub use driver::Tally;
use embedded::DiskMachine;
use flaky::FlakyMachine;
use history::History;
use machine::Machine;

/// Happenings before the faults stop, unless somebody says otherwise.
pub const STEPS: u64 = 4_000;

/// What came of a seed.
#[derive(Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What broke, if anything did.
    pub violation: Option<Violation>,
    /// What happened.
    pub history: History,
    /// What the driver did.
    pub tally: Tally,
    /// What the auditor judged.
    pub figures: Figures,
}

/// How seeds are run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Happenings before the faults stop.
    pub steps: u64,
    /// A planted bug.
    pub bug: Option<Bug>,
    /// Lines of history that are kept.
    pub lines: usize,
    /// Which store the server runs on.
    pub on: On,
}

/// Which store the server runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum On {
    /// The embedded one, on a simulated disk.
    #[default]
    Disk,
    /// The one in memory, whose commits fail by themselves.
    Memory,
}

impl Default for Options {
    fn default() -> Self {
        Self { steps: STEPS, bug: None, lines: 40, on: On::Disk }
    }
}

/// Runs a seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    match options.on {
        On::Disk => run_on(DiskMachine::new(seed, options.bug), seed, options),
        On::Memory => run_on(FlakyMachine::new(), seed, options),
    }
}

fn run_on<M: Machine>(machine: M, seed: u64, options: &Options) -> Outcome {
    let mut driver = Driver::new(seed, options, machine);
    let violation = driver.run(options.steps).err();
    Outcome {
        seed,
        violation,
        figures: driver.auditor.figures(),
        history: driver.history,
        tally: driver.tally,
    }
}
