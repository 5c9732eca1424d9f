//! What is printed for people and programs. Whoever reads it may stop before the end (`tenure ls | head -1`):
//! then nobody is left to print for, and the program ends as any other does.

use std::fmt;
use std::io::{self, ErrorKind, Write};

/// As a shell tells that a pipe was closed: 128 and the number of SIGPIPE.
const PIPE_CLOSED: i32 = 141;

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Prints a line beside what was asked for, on standard error. Where that cannot be written (its disk is full), it is
/// lost: the standard library's macro would panic instead, and take what goes on with it.
macro_rules! note {
    ($($text:tt)*) => { $crate::out::aside(format_args!($($text)*)) };
}
pub(crate) use note;

pub(crate) fn aside(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

pub(crate) fn line(text: fmt::Arguments<'_>) {
    bytes(format!("{text}\n").as_bytes());
}

/// Prints what is already text.
pub(crate) fn bytes(text: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text).and_then(|()| out.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            note!("tenure: what there is to say cannot be written: {error}");
        }
        std::process::exit(PIPE_CLOSED);
    }
}
