//! What the benchmarks share: how a measurement is taken, and the designs that people would use instead.
//!
//! Deliberately absent: every other crate of the workspace. What measures Tenure must not be made of it.

mod measured;
pub mod quiet;
pub mod row_locks;
pub mod scratch;
pub mod wire;

pub use memchr;

pub use measured::{Dice, Measured, as_f64, median, micros, new_histogram, spread};

/// What a benchmark says when it cannot go on.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
