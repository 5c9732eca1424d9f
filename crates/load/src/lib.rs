//! What the benchmarks share: how a measurement is taken, and the designs that people would use instead.
//!
//! Deliberately absent: every other crate of the workspace. What measures Tenure must not be made of it.

mod measured;
pub mod quiet;
pub mod row_locks;
pub mod scratch;
pub mod wire;

use std::path::Path;
use std::process::Command;

pub use memchr;

pub use measured::{Dice, Measured, as_f64, median, micros, new_histogram, spread};

/// A program of Tenure's, by itself: what the caller's environment says of another server is not meant.
pub fn tenure(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command
}

/// The same for a server: without rates, which would be what is measured.
pub fn server(program: &Path) -> Command {
    let mut command = tenure(program);
    for group in ["READ", "WRITE", "STREAM", "ADMIN", "SIGN_IN"] {
        command.env(format!("TENURE_RATES_{group}_PER_SECOND"), "0");
    }
    command
}

/// What a benchmark says when it cannot go on.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
