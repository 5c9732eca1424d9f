//! The server that steps test against.

use std::path::PathBuf;

use crate::cargo::{self, Workspace};

/// Builds it as the tests did: with the same packages in one command, or cargo would choose other features and
/// compile every dependency again.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    cargo::run(&["test", "--workspace", "--locked", "--no-run", "--quiet"])?;
    Ok(workspace.target.join("debug/tenure"))
}
