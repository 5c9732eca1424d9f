//! Tests what browsers get: the types, the logic under a clock of its own, and the SDK against the server.

use std::process::{Command, Stdio};

use crate::cargo::{self, Workspace};
use crate::server;

/// Runs it. Packages are installed by the lock file.
pub fn test(workspace: &Workspace) -> Result<(), String> {
    install()?;
    npm(&["run", "types"], None)?;
    npm(&["test"], None)?;
    let program = server::build(workspace)?;
    npm(&["run", "test:server"], Some(program.as_os_str()))
}

/// As many spoiled inputs for the SDK's readers as take hours.
pub fn soak() -> Result<(), String> {
    let mut command = Command::new("node");
    command
        .args(["--test", "sdk/test/spoiled.test.js"])
        .current_dir(cargo::root().join("web"))
        .stdin(Stdio::null());
    command.env("TENURE_SOAK", "1");
    cargo::run_command(command, "TENURE_SOAK=1 node --test sdk/test/spoiled.test.js")
}

/// Goes through the pages in Debian's Chromium. A journey that fails leaves a screenshot and a trace.
pub fn browse(workspace: &Workspace) -> Result<(), String> {
    install()?;
    let program = server::build(workspace)?;
    npm(&["run", "test:browser"], Some(program.as_os_str()))
}

/// The tests of the documents: they are done, their words are looked up, and so is what `deploy/` has.
const DOCUMENTS: [&str; 3] =
    ["docs/test/docs.test.mjs", "docs/test/words.test.mjs", "docs/test/deploy.test.mjs"];

/// Does what the documents say, in order. Parsing what they show of pages needs the packages of `web`.
pub fn documents(workspace: &Workspace) -> Result<(), String> {
    install()?;
    let program = server::build(workspace)?;
    let mut command = Command::new("node");
    command.args(["--test", "--test-concurrency=1"]).args(DOCUMENTS);
    command.current_dir(cargo::root()).stdin(Stdio::null()).env("TENURE_BIN", program);
    cargo::run_command(command, &format!("node --test {}", DOCUMENTS.join(" ")))
}

fn install() -> Result<(), String> {
    npm(&["ci", "--no-audit", "--no-fund"], None)
}

fn npm(arguments: &[&str], program: Option<&std::ffi::OsStr>) -> Result<(), String> {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(cargo::root().join("web")).stdin(Stdio::null());
    if let Some(program) = program {
        command.env("TENURE_BIN", program);
    }
    cargo::run_command(command, &format!("npm {}", arguments.join(" ")))
}
