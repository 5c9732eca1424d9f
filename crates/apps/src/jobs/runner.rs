//! What runs an analysis, and how it is told to stop. Knows nothing of claims beyond the token that it may
//! hand on.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::{Json, Text};
use tokio::sync::watch;
use utoipa::ToSchema;

use super::{MESSAGE_BYTES_MAX, REASON_BYTES_MAX, RESULT_BYTES_MAX};

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The analysis' id.
    pub analysis: Text,
    /// What to analyse.
    pub input: Text,
    /// The claim under which it runs.
    pub claim: Text,
    /// Its fencing token: whatever the run changes elsewhere should check it.
    pub token: u64,
}

/// A run under way. Whoever drops it, drops the run.
pub type Running = Pin<Box<dyn Future<Output = Result<Json, Failure>> + Send>>;

/// Runs analyses: in this process, by HTTP, by a command.
pub trait Runner: fmt::Debug + Send + Sync + 'static {
    /// Runs one. When `stop` says so the lock is lost, or about to be: the run has effects no longer, and its
    /// result will be refused. It is dropped shortly after.
    fn run(&self, job: Job, stop: Stop) -> Running;
}

/// Why nothing came of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AnalysisError, example = json!({"reason": "exit", "message": "exit code 3: out of memory"}))]
pub struct Failure {
    /// The reason, for a program.
    #[schema(pattern = "^[a-z0-9_]{1,64}$")]
    pub reason: String,
    /// The reason, for a person.
    #[schema(max_length = 2000)]
    pub message: String,
    /// It says nothing about the analysis: another run may well succeed.
    #[serde(skip)]
    pub(super) is_passing: bool,
}

impl Failure {
    /// A failure in the runner's own words, made fit to be kept: without control characters but for
    /// newlines, and of a long text the end, where programs say what went wrong.
    pub fn new(reason: &str, message: &str) -> Self {
        let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
        let message: String = message.chars().map(plain).collect();
        let message = message.trim();
        let mut from = message.len().saturating_sub(MESSAGE_BYTES_MAX);
        while !message.is_char_boundary(from) {
            from += 1;
        }
        Self { reason: reason.to_owned(), message: message[from..].to_owned(), is_passing: false }
    }

    /// One that has nothing to do with the analysis, such as a server that is away: nothing is written, and
    /// whoever delivered it is told to do so again.
    pub fn passing(reason: &str, message: &str) -> Self {
        Self { is_passing: true, ..Self::new(reason, message) }
    }

    /// What is wrong with a failure that came from outside, by field.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let Self { reason, message, .. } = self;
        if reason.is_empty() || reason.len() > REASON_BYTES_MAX || !reason.bytes().all(is_word) {
            return Err(("error.reason", "has 1 to 64 of a-z, 0-9 and _"));
        }
        if message.len() > MESSAGE_BYTES_MAX || message.chars().any(|c| c.is_control() && c != '\n') {
            return Err(("error.message", "has at most 2,000 bytes and no control characters but newlines"));
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

/// What a program or a server said, as a result: JSON as it is, any other text as a string.
pub fn result_of(said: &[u8]) -> Result<Json, Failure> {
    let text = String::from_utf8_lossy(said);
    let text = text.trim();
    let result = Json::parse(text, "result").or_else(|_| Json::of(&text));
    let too_large = || Failure::new("result_too_large", "the result is larger than 16 KiB");
    let result = result.ok().filter(|result| result.as_str().len() <= RESULT_BYTES_MAX);
    let result = result.ok_or_else(too_large)?;
    let too_deep = || Failure::new("result_too_deep", "the result is nested too deeply");
    fits(&result).then_some(result).ok_or_else(too_deep)
}

/// It can stand in a document, one level deeper than by itself.
pub(super) fn fits(result: &Json) -> bool {
    Json::of(&[result]).is_ok()
}

/// Tells a run when to stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// The other end: says it.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stop {
    /// A pair.
    pub fn new() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Self(receiver))
    }

    /// When this says so.
    pub(super) fn when(sender: &watch::Sender<bool>) -> Self {
        Self(sender.subscribe())
    }

    /// Ends when the run must.
    pub async fn asked(&mut self) {
        // Nobody is left to say so: the run is alone, and must end too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

impl Stopper {
    /// Says it.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// How the worker in the server waits between heartbeats: by the wall's clock, or by a test's.
pub trait Pace: fmt::Debug + Send + Sync + 'static {
    /// Ends after this time.
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The runtime's timer.
#[derive(Debug)]
pub struct WallPace;

impl Pace for WallPace {
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_end_of_what_was_said() {
        let long = format!("{}é\u{1b}[31mthe end\n", "x".repeat(5_000));
        let failure = Failure::new("exit", &long);
        assert!(failure.message.ends_with("é [31mthe end") && failure.message.len() == MESSAGE_BYTES_MAX);
        assert_eq!(failure.check(), Ok(()));
        let accents = Failure::new("exit", &"é".repeat(MESSAGE_BYTES_MAX + 1));
        assert_eq!(accents.message.chars().count(), MESSAGE_BYTES_MAX / 2);
    }

    #[test]
    fn what_is_said_is_json_or_a_text() {
        let check = |said: &[u8], expected: Option<&str>| {
            assert_eq!(result_of(said).ok().map(|json| json.as_str().to_owned()).as_deref(), expected);
        };
        check(b" {\"words\": 9}\n", Some("{\"words\": 9}"));
        check(b"42", Some("42"));
        check(b"nine words\n", Some("\"nine words\""));
        check(b"\xff", Some("\"\u{fffd}\""));
        check(b"", Some("\"\""));
        check(&[b'x'; RESULT_BYTES_MAX - 1], None);
        check(&[b'['; 10_000], Some(&format!("\"{}\"", "[".repeat(10_000))));
    }
}
