//! Structured logs on standard error: pretty on a terminal, JSON otherwise. Secrets never reach them: the
//! types that hold one hide it, and no body or header is logged.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts logging, once in a process.
pub fn init(log: &Log) -> Result<(), String> {
    let filter = filter(&log.level)?;
    let is_terminal = std::io::stderr().is_terminal();
    let pretty = match log.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Pretty => true,
        LogFormat::Json => false,
    };
    // A line that cannot be written is lost. Saying so where it could not be written panics in the thread that logs,
    // which is what a full disk used to do to requests.
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let started = if pretty {
        logs.with_ansi(is_terminal).with_target(false).try_init()
    } else {
        logs.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    };
    started.map_err(|error| error.to_string())
}

/// What is logged. The library takes a misspelt level for a module of that name and then logs nothing; so
/// it is looked at first.
pub(crate) fn filter(level: &str) -> Result<EnvFilter, String> {
    for part in level.split(',') {
        let word = part.rsplit('=').next().unwrap_or("").trim();
        let known = ["error", "warn", "info", "debug", "trace", "off"];
        if !known.iter().any(|known| word.eq_ignore_ascii_case(known)) {
            return Err(format!("{word:?} is not error, warn, info, debug, trace or off"));
        }
    }
    EnvFilter::try_new(level).map_err(|error| format!("cannot be read: {error}"))
}
