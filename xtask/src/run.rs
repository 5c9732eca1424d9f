//! Runs the steps of the plan: a heading and a time for each, and a table at the end.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::cargo::{self, Workspace};
use crate::plan::{Action, STEPS, Step};
use crate::{counts, house, package, schemathesis, soak, tools, web};

/// How to run the steps.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Go on after a failure.
    pub keep_going: bool,
    /// Only these steps; all where none is named.
    pub only: Vec<String>,
}

impl Options {
    /// Reads the arguments of `test`.
    pub fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self { keep_going: false, only: Vec::new() };
        for argument in arguments {
            if *argument == "--keep-going" {
                options.keep_going = true;
            } else if STEPS.iter().any(|step| step.name == *argument) {
                options.only.push((*argument).to_owned());
            } else {
                let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
                return Err(format!("there is no step `{argument}`; the steps are {}", names.join(", ")));
            }
        }
        Ok(options)
    }

    fn chosen(&self) -> Vec<&'static Step> {
        let chosen = |step: &&Step| self.only.is_empty() || self.only.iter().any(|name| name == step.name);
        STEPS.iter().filter(chosen).collect()
    }
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// An earlier step failed.
    NotRun,
}

/// Runs the chosen steps. `Err` when one failed.
pub fn test(workspace: &Workspace, options: &Options) -> Result<(), String> {
    let steps = options.chosen();
    // Before the first step, so that nobody learns after ten minutes that a package is missing.
    tools::provide(&steps, workspace)?;
    let mut results = Vec::new();
    let mut stopped = false;
    for step in steps {
        let start = Instant::now();
        let outcome = if stopped { Outcome::NotRun } else { take(workspace, step) };
        stopped |= outcome == Outcome::Failed && !options.keep_going;
        results.push((step.name, outcome, start.elapsed()));
    }
    println!("\n{}", summary(&results));
    match results.iter().find(|(_, outcome, _)| *outcome == Outcome::Failed) {
        Some((name, ..)) => Err(format!("`{name}` failed; run it alone with: cargo xtask test {name}")),
        None => Ok(()),
    }
}

fn take(workspace: &Workspace, step: &Step) -> Outcome {
    println!("\n── {} · {} ──", step.name, step.why);
    let result = match step.action {
        Action::Cargo(arguments) => {
            let mut command = cargo::cargo(arguments);
            command.env(tools::NEEDS, tools::needed());
            cargo::run_command(command, &format!("cargo {}", arguments.join(" ")))
        }
        Action::OverPostgres(arguments) => {
            let mut command = cargo::cargo(arguments);
            command.env("TENURE_TEST_STORE", "postgres");
            cargo::run_command(command, &format!("TENURE_TEST_STORE=postgres cargo {}", arguments.join(" ")))
        }
        Action::House => house::check(workspace).and_then(|findings| house::report(&findings)),
        Action::Deny => tools::deny(workspace),
        Action::Schemathesis => schemathesis::test(workspace),
        Action::Web => web::test(workspace),
        Action::Browser => web::browse(workspace),
        Action::Drills => soak::short(workspace),
        Action::Counts => counts::test(workspace),
        Action::Docs => web::documents(workspace),
        Action::Package => package::test(workspace),
    };
    match result {
        Ok(()) => Outcome::Passed,
        Err(sentence) => {
            eprintln!("{}: {sentence}", step.name);
            Outcome::Failed
        }
    }
}

fn summary(results: &[(&str, Outcome, Duration)]) -> String {
    let width = results.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let mut table = String::new();
    for (name, outcome, time) in results {
        let word = match outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::NotRun => "not run",
        };
        let _ = writeln!(table, "{name:<width$}  {word:<7}  {:>7.1} s", time.as_secs_f64());
    }
    let count = |wanted| results.iter().filter(|(_, outcome, _)| *outcome == wanted).count();
    let total: Duration = results.iter().map(|(.., time)| *time).sum();
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    let skipped = count(Outcome::NotRun);
    let _ = writeln!(table, "{:<width$}  {:<7}  {:>7.1} s", "all", "", total.as_secs_f64());
    let _ = write!(table, "\nsteps: {passed} passed, {failed} failed, {skipped} skipped");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_every_step_is_chosen() {
        let options = Options::parse(&["--keep-going"]).unwrap();
        assert!(options.keep_going);
        assert_eq!(options.chosen().len(), STEPS.len());
    }

    #[test]
    fn named_steps_run_in_the_plans_order() {
        let names: Vec<_> =
            Options::parse(&["tests", "fmt"]).unwrap().chosen().iter().map(|step| step.name).collect();
        assert_eq!(names, ["fmt", "tests"]);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let sentence = Options::parse(&["fnt"]).unwrap_err();
        assert!(sentence.starts_with("there is no step `fnt`; the steps are fmt, house"), "{sentence}");
    }

    #[test]
    fn the_summary_counts_what_passed_failed_and_did_not_run() {
        let second = Duration::from_secs(1);
        let table = summary(&[
            ("fmt", Outcome::Passed, second),
            ("clippy", Outcome::Failed, second * 12),
            ("sim", Outcome::NotRun, Duration::ZERO),
        ]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines[1], "clippy  FAILED      12.0 s");
        assert_eq!(lines[3], "all                 13.0 s");
        assert_eq!(lines[5], "steps: 1 passed, 1 failed, 1 skipped");
    }
}
