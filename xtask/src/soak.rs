//! Drills for the real server: a few of each in the test command, many on demand.

use std::process::Command;

use crate::cargo::{self, Workspace};
use crate::server;

/// Seeds of the simulator in a soak.
const SEEDS: &str = "100000";

/// A few of each, against the server that the tests built.
pub fn short(workspace: &Workspace) -> Result<(), String> {
    let program = server::build(workspace)?;
    let mut command = Command::new(workspace.target.join("debug/tenure-soak"));
    command.arg("--tenure").arg(program);
    cargo::run_command(command, "tenure-soak")
}

/// Hours of it, in release: all drills and the simulator, or only the named drills.
pub fn long(workspace: &Workspace, drills: &[&str]) -> Result<(), String> {
    cargo::run(&["build", "--release", "--locked", "--package", "tenure-cli", "--package", "tenure-soak"])?;
    let release = workspace.target.join("release");
    let mut command = Command::new(release.join("tenure-soak"));
    command.arg("--long").arg("--tenure").arg(release.join("tenure")).args(drills);
    cargo::run_command(command, "tenure-soak --long")?;
    if drills.is_empty() {
        cargo::run(&["run", "--release", "--locked", "--package", "tenure-sim", "--", "--seeds", SEEDS])?;
    }
    Ok(())
}
