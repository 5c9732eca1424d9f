//! What the test command does a few times, done as often as takes hours.

use std::process::Command;

use crate::cargo::{self, Workspace};
use crate::server;

/// A part of a soak that is no drill of the real server.
#[derive(Clone, Copy, Debug)]
struct Part {
    name: &'static str,
    /// Cargo's arguments. Its tests see `TENURE_SOAK`.
    arguments: &'static [&'static str],
}

/// Each with the numbers that it takes there.
#[rustfmt::skip] // One line each reads as the table that it is.
const PARTS: &[Part] = &[
    part("crashes", &["test", "--locked", "--package", "tenure-store", "--test", "crash"]),
    part("commits", &["test", "--locked", "--package", "tenure-store", "--test", "postgres", "lost::"]),
    part("buyers", &["test", "--locked", "--package", "tenure-cli", "--test", "cli", "e09_r20_", "--", "--nocapture"]),
    part("inputs", &["run", "--release", "--locked", "--package", "tenure-fuzz", "--", "--inputs", "10000000"]),
    part("seeds", &["run", "--profile", "sim", "--locked", "--package", "tenure-sim", "--", "--seeds", "100000"]),
];

const fn part(name: &'static str, arguments: &'static [&'static str]) -> Part {
    Part { name, arguments }
}

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
        names.iter().partition(|name| PARTS.iter().any(|part| part.name == **name));
    if names.is_empty() || !drills.is_empty() {
        drill(workspace, &drills)?;
    }
    for part in PARTS.iter().filter(|part| names.is_empty() || parts.contains(&part.name)) {
        println!("\n── {} ──", part.name);
        let mut command = cargo::cargo(part.arguments);
        command.env("TENURE_SOAK", "1");
        cargo::run_command(command, &format!("TENURE_SOAK=1 cargo {}", part.arguments.join(" ")))?;
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
