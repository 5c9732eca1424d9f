//! `cargo install --path crates/cli --locked`, with which the tutorials begin. That the program builds without what only
//! tests ask of its crates is not shown here; `cargo xtask package` builds it so.

use std::path::Path;

use super::{proof, remove};
use crate::cargo;

/// What tests ask of the program's crates beside what it asks itself. With the same, cargo installs what the tests have
/// built; without, it would compile a minute's worth of it anew, and so it does where one is missing here.
const AS_TESTED: &str = "rustix/pty,tenure-engine/planted,tenure-redis/testing,tenure-store/conformance,\
                         tenure-store/planted,tokio/test-util";

/// Installs it, unoptimised, and asks it for its version.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let place = folder.join("from-source");
    remove(&place)?;
    let mut command =
        cargo::cargo(&["install", "--path", "crates/cli", "--locked", "--debug", "--no-track", "--quiet"]);
    command.args(["--features", AS_TESTED, "--root"]).arg(&place);
    cargo::run_command(command, "cargo install --path crates/cli --locked")?;
    let version = proof::the_commit_is_told(&place.join("bin/tenure"))?;
    println!("installed from source: {}", version.trim());
    Ok(())
}
