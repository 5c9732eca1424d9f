//! What the test command does a few times, done as often as takes hours.

use std::process::Command;

use crate::cargo::{self, Workspace};
use crate::server;

/// The parts that are no drills of the real server, with cargo's arguments. Tests see `TENURE_SOAK`.
#[rustfmt::skip] // One line each reads as the table that it is.
const PARTS: &[(&str, &[&str])] = &[
    ("crashes", &["test", "--locked", "--package", "tenure-store", "--test", "crash"]),
    ("commits", &["test", "--locked", "--package", "tenure-store", "--test", "postgres", "lost::"]),
    ("buyers", &["test", "--locked", "--package", "tenure-cli", "--test", "cli", "e09_r20_", "--", "--nocapture"]),
    ("inputs", &["run", "--release", "--locked", "--package", "tenure-fuzz", "--", "--inputs", "10000000"]),
    ("seeds", &["run", "--profile", "sim", "--locked", "--package", "tenure-sim", "--", "--seeds", "100000"]),
];

/// A few of each drill, against the server that the tests built.
pub fn short(workspace: &Workspace) -> Result<(), String> {
    let program = server::build(workspace)?;
    let mut command = Command::new(workspace.target.join("debug/tenure-soak"));
    command.arg("--tenure").arg(program);
    cargo::run_command(command, "tenure-soak")
}

/// Hours of it: all drills, in release, and every other part; or only what is named.
pub fn long(workspace: &Workspace, names: &[&str]) -> Result<(), String> {
    let (parts, drills): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| PARTS.iter().any(|(part, _)| part == *name));
    if names.is_empty() || !drills.is_empty() {
        drill(workspace, &drills)?;
    }
    for (part, arguments) in PARTS.iter().filter(|(part, _)| names.is_empty() || parts.contains(part)) {
        println!("\n── {part} ──");
        let mut command = cargo::cargo(arguments);
        command.env("TENURE_SOAK", "1");
        cargo::run_command(command, &format!("TENURE_SOAK=1 cargo {}", arguments.join(" ")))?;
    }
    Ok(())
}

fn drill(workspace: &Workspace, drills: &[&str]) -> Result<(), String> {
    cargo::run(&["build", "--release", "--locked", "--package", "tenure-cli", "--package", "tenure-soak"])?;
    let release = workspace.target.join("release");
    let mut command = Command::new(release.join("tenure-soak"));
    command.arg("--long").arg("--tenure").arg(release.join("tenure")).args(drills);
    cargo::run_command(command, "tenure-soak --long")
}
