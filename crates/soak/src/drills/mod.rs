//! One file for each thing that goes wrong; `stalling` and `listening` are the two sorts of clients of `stalled`.

pub mod clock;
pub mod full;
pub mod kills;
mod listening;
pub mod memory;
pub mod paused;
pub mod stalled;
mod stalling;

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;

use crate::Failure;
use crate::history::{LATE, LATE_SHORT};

/// What a drill is given.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The binary.
    pub program: &'a Path,
    /// An empty folder of its own.
    pub folder: &'a Path,
    /// How often.
    pub count: u64,
    /// The run for hours, on a machine that does nothing else.
    pub is_long: bool,
    /// Where it says how far it is.
    pub bar: &'a ProgressBar,
}

impl Given<'_> {
    /// How late an expiry may be noticed.
    pub fn late(&self) -> Duration {
        if self.is_long { LATE } else { LATE_SHORT }
    }
}

/// What it says when it went well, or what did not.
pub type Outcome = Result<String, Failure>;
