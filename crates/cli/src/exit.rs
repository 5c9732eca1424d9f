//! Exit codes other than 0 and 1, and the sentence that goes with each.

use crate::out::note;
use std::fmt;
use std::process::ExitCode;

/// The claim could not be had.
pub(crate) const NOT_ACQUIRED: u8 = 11;
/// The claim was lost while the command ran; the command was stopped.
pub(crate) const LOST: u8 = 20;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 64;
/// The server cannot be reached.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The server does not accept the key, or its role.
pub(crate) const NOT_ALLOWED: u8 = 77;
/// The command cannot be run, and is not there: as shells say it.
pub(crate) const CANNOT_RUN: u8 = 126;
pub(crate) const NOT_THERE: u8 = 127;

/// An end with a code of its own.
#[derive(Debug)]
pub(crate) struct Exit {
    code: u8,
    message: String,
}

impl Exit {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Ends with this code; whatever there was to say has been said.
    pub(crate) fn silent(code: u8) -> Self {
        Self::new(code, "")
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Exit {}

/// Says what went wrong, and gives the code to end with.
pub(crate) fn report(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let exit = error.downcast_ref::<Exit>();
    if exit.is_none_or(|exit| !exit.message.is_empty()) {
        note!("tenure: {error}");
    }
    exit.map_or(ExitCode::FAILURE, |exit| ExitCode::from(exit.code))
}
