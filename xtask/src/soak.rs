//! What the test command does a few times, done as often as takes hours.

use std::process::Command;

use crate::cargo::{self, Workspace};
use crate::{server, web};

/// The drills of the real server. They stand in `tenure-soak`, which has to be built before it can be asked.
const DRILLS: &[&str] = &["kills", "clock", "paused", "full", "stalled", "memory"];

/// The parts that are no drills of the real server, with cargo's arguments. Tests see `TENURE_SOAK`. A part is all rows of
/// its name.
#[rustfmt::skip] // One line each reads as the table that it is.
const PARTS: &[(&str, &[&str])] = &[
    ("crashes", &["test", "--locked", "--package", "tenure-store", "--test", "crash", "--test", "power"]),
    ("commits", &["test", "--locked", "--package", "tenure-store", "--test", "postgres", "lost::"]),
    ("buyers", &["test", "--locked", "--package", "tenure-cli", "--test", "cli", "e09_r20_", "--", "--nocapture"]),
    ("inputs", &["run", "--release", "--locked", "--package", "tenure-fuzz", "--", "--inputs", "10000000"]),
    ("inputs", &["test", "--release", "--locked", "--package", "tenure-redis", "--package", "tenure-store", "--package", "tenure-apps", "--package", "tenure-server", "--package", "tenure-client", "--lib", "--test", "malformed", "spoiled"]),
    ("seeds", &["run", "--profile", "sim", "--locked", "--package", "tenure-sim", "--", "--seeds", "100000"]),
];

/// Everything that can be named.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = DRILLS.iter().copied().chain(PARTS.iter().map(|(part, _)| *part)).collect();
    // Rows of one name stand together.
    names.dedup();
    names
}

/// What cargo is asked for, row by row; nothing for a drill.
fn rows_of(part: &str) -> impl Iterator<Item = &'static [&'static str]> {
    PARTS.iter().filter(move |(name, _)| *name == part).map(|(_, arguments)| *arguments)
}

/// The parts of these names, or all. An unknown one is refused before anything is built.
pub fn chosen(named: &[&str]) -> Result<Vec<&'static str>, String> {
    let all = names();
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        return Err(format!("there is no part `{unknown}`; the parts are {}", all.join(", ")));
    }
    Ok(all.into_iter().filter(|part| named.is_empty() || named.contains(part)).collect())
}

/// A few of each drill, against the server that the tests built.
pub fn short(workspace: &Workspace) -> Result<(), String> {
    let program = server::build(workspace)?;
    let mut command = Command::new(workspace.target.join("debug/tenure-soak"));
    command.arg("--tenure").arg(program);
    cargo::run_command(command, "tenure-soak")
}

/// Hours of it: all drills, in release, and every other part; or only what is named. One that fails keeps none of the
/// others from being run.
pub fn long(workspace: &Workspace, parts: &[&str]) -> Result<(), String> {
    let mut failed = Vec::new();
    for &part in parts {
        println!("\n── {part} ──");
        let mut results: Vec<_> = rows_of(part).map(asked).collect();
        if part == "inputs" {
            // What browsers read is spoiled where they read it.
            results.push(web::soak());
        }
        if DRILLS.contains(&part) {
            results.push(drill(workspace, part));
        }
        let sentences: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        for sentence in &sentences {
            eprintln!("{part}: {sentence}");
        }
        if !sentences.is_empty() {
            failed.push(part);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("these failed: {}", failed.join(", "))) }
}

fn asked(arguments: &'static [&'static str]) -> Result<(), String> {
    let mut command = cargo::cargo(arguments);
    command.env("TENURE_SOAK", "1");
    cargo::run_command(command, &format!("TENURE_SOAK=1 cargo {}", arguments.join(" ")))
}

fn drill(workspace: &Workspace, drill: &str) -> Result<(), String> {
    cargo::run(&["build", "--release", "--locked", "--package", "tenure-cli", "--package", "tenure-soak"])?;
    let release = workspace.target.join("release");
    let mut command = Command::new(release.join("tenure-soak"));
    command.arg("--long").arg("--tenure").arg(release.join("tenure")).arg(drill);
    cargo::run_command(command, &format!("tenure-soak --long {drill}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drills_are_those_that_there_are() {
        let source = std::fs::read_to_string(cargo::root().join("crates/soak/src/main.rs")).unwrap();
        let rows = source.lines().filter_map(|line| line.trim().strip_prefix("Drill { name: \""));
        let names: Vec<_> = rows.filter_map(|row| row.split('"').next()).collect();
        assert_eq!(names, DRILLS);
    }

    #[test]
    fn without_names_every_part_is_chosen() {
        assert_eq!(chosen(&[]).unwrap(), names());
        assert_eq!(chosen(&["seeds", "clock"]).unwrap(), ["clock", "seeds"]);
    }

    #[test]
    fn each_row_is_run_once_by_its_name_and_each_name_is_said_once() {
        let run: Vec<_> = names().into_iter().flat_map(rows_of).collect();
        assert_eq!(run, PARTS.iter().map(|(_, arguments)| *arguments).collect::<Vec<_>>());
        let names = names();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name} twice");
            assert!(DRILLS.contains(name) != (rows_of(name).count() > 0), "{name} is a drill or has rows");
        }
    }

    #[test]
    fn an_unknown_part_is_refused_with_all_there_are() {
        let sentence = chosen(&["clock", "sedes"]).unwrap_err();
        assert!(sentence.starts_with("there is no part `sedes`; the parts are kills, clock"), "{sentence}");
        assert!(sentence.ends_with("inputs, seeds"), "{sentence}");
    }
}
