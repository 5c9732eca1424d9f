//! The server that steps test against.

use std::path::PathBuf;

use crate::cargo::{self, Workspace};

/// Builds it with the profile of the tests, which have just been built.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    cargo::run(&["build", "--profile", "test", "--locked", "--package", "tenure-cli", "--bin", "tenure"])?;
    Ok(workspace.target.join("debug/tenure"))
}
