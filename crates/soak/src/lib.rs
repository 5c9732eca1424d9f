//! Drills for the real server: what operators meet at 3 a.m., on purpose and in minutes.
//!
//! Each starts the binary in a folder of its own, does something bad to it, and compares what callers were told with the
//! server's own record. `cargo xtask test drills` runs each a few times, `cargo xtask soak` for hours.
//!
//! Read in this order: `history` (what must hold), `load` (who calls), `drills`.

pub mod drills;
mod heard;
pub mod history;
pub mod http;
pub mod load;
pub mod random;
pub mod server;
mod time;

use std::fmt;

/// Why a drill did not end well.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be run here.
    Skipped(String),
    /// Something is wrong.
    Broken(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(why) => write!(f, "skipped: {why}"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Self::Broken(why.to_owned())
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

macro_rules! broken_by {
    ($($error:ty),*) => { $(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Broken(error.to_string())
            }
        }
    )* };
}

broken_by!(
    std::io::Error,
    rustix::io::Errno,
    rusqlite::Error,
    std::num::ParseIntError,
    std::num::TryFromIntError
);
