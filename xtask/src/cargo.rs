//! Cargo, as a command and as the one who knows the workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What `cargo metadata` knows of the workspace.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Where build results go.
    pub target: PathBuf,
    /// Its crates.
    pub packages: Vec<Package>,
}

/// One crate of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its manifest, from the root.
    pub manifest: String,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
}

/// One dependency of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The other crate.
    pub name: String,
    /// Only its tests and examples use it.
    pub tests_only: bool,
}

impl Workspace {
    /// Asks cargo. Needs no network: nothing is resolved.
    pub fn read() -> Result<Self, String> {
        let mut command = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
        let output =
            command.output().map_err(|error| format!("could not start cargo for its metadata: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo's metadata is not JSON: {error}"))?;
        Self::from_metadata(&metadata, root())
    }

    fn from_metadata(metadata: &Value, root: &Path) -> Result<Self, String> {
        let target = PathBuf::from(text(metadata, "target_directory")?);
        let packages = list(metadata, "packages").map(|package| read_package(package, root));
        Ok(Self { target, packages: packages.collect::<Result<_, _>>()? })
    }
}

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root")
}

/// The commit that is checked out, as the program tells it.
pub fn commit() -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(["rev-parse", "--short=12", "HEAD"]).current_dir(root()).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("could not start git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git rev-parse failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A cargo command that runs at the root and reads nothing from the terminal.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a cargo command to its end; its output goes where ours goes.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    run_command(cargo(arguments), &format!("cargo {}", arguments.join(" ")))
}

/// Runs a command to its end. The sentence of a failure names it as `shown`.
pub fn run_command(mut command: Command, shown: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("could not start `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

fn read_package(package: &Value, root: &Path) -> Result<Package, String> {
    let manifest = Path::new(text(package, "manifest_path")?);
    let manifest = manifest.strip_prefix(root).unwrap_or(manifest).display().to_string();
    let dependencies = list(package, "dependencies").map(|dependency| {
        let tests_only = dependency["kind"].as_str() == Some("dev");
        Ok(Dependency { name: owned(dependency, "name")?, tests_only })
    });
    Ok(Package {
        name: owned(package, "name")?,
        manifest,
        dependencies: dependencies.collect::<Result<_, String>>()?,
    })
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, String> {
    value[field].as_str().ok_or_else(|| format!("cargo's metadata lacks {field}"))
}

fn owned(value: &Value, field: &str) -> Result<String, String> {
    text(value, field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_tells_tests_dependencies_apart() {
        let metadata = json!({
            "target_directory": "/repo/target",
            "packages": [{
                "name": "tenure-cli",
                "manifest_path": "/repo/crates/cli/Cargo.toml",
                "dependencies": [{ "name": "clap", "kind": null }, { "name": "insta", "kind": "dev" }],
            }],
        });
        let workspace = Workspace::from_metadata(&metadata, Path::new("/repo")).unwrap();
        let package = &workspace.packages[0];
        assert_eq!(package.manifest, "crates/cli/Cargo.toml");
        assert_eq!(
            package.dependencies,
            [
                Dependency { name: "clap".to_owned(), tests_only: false },
                Dependency { name: "insta".to_owned(), tests_only: true },
            ]
        );
    }

    #[test]
    fn metadata_without_a_name_is_refused() {
        let metadata = json!({ "target_directory": "/t", "packages": [{ "manifest_path": "/x" }] });
        let sentence = Workspace::from_metadata(&metadata, Path::new("/")).unwrap_err();
        assert_eq!(sentence, "cargo's metadata lacks name");
    }
}
