//! Reads the Dockerfile as far as that goes without an engine: what it calls and copies is there, and nothing that the
//! build needs is kept out of it. That the image builds is not shown by this.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::{read, run, said};
use crate::cargo::{self, Workspace};

const DOCKERFILE: &str = "deploy/Dockerfile";

/// Everything that can be known of it here. `program` is Tenure, as it was built for the tests.
pub(super) fn check(workspace: &Workspace, program: &Path) -> Result<(), String> {
    let text =
        String::from_utf8(read(&cargo::root().join(DOCKERFILE))?).map_err(|error| error.to_string())?;
    let steps = steps(&text);
    stages_are_there(&steps)?;
    the_toolchain_is_ours(&steps)?;
    the_build_is_ours(workspace, &steps)?;
    tenure_understands(&steps, program)?;
    nothing_needed_is_ignored()
}

/// One instruction: its word, and the rest of it with its lines joined.
type Step = (String, String);

fn steps(text: &str) -> Vec<Step> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let steps = joined.lines().filter_map(|line| line.trim().split_once(' '));
    steps.map(|(word, rest)| (word.to_owned(), rest.trim().to_owned())).collect()
}

fn of<'a>(steps: &'a [Step], word: &str) -> impl Iterator<Item = &'a str> {
    steps.iter().filter(move |(step, _)| step == word).map(|(_, rest)| rest.as_str())
}

/// What is copied from a stage comes from one that stands before, and from a folder that it made.
fn stages_are_there(steps: &[Step]) -> Result<(), String> {
    let mut stages = BTreeSet::new();
    let mut made = String::new();
    for (word, rest) in steps {
        match word.as_str() {
            "FROM" => {
                stages.extend(rest.split_once(" AS ").map(|(_, name)| name.to_owned()));
            }
            "RUN" => made += rest,
            "COPY" => {
                let Some(rest) = rest.strip_prefix("--from=") else { continue };
                let (stage, paths) = rest.split_once(' ').unwrap_or((rest, ""));
                let source = paths.split_whitespace().next().unwrap_or_default();
                if !stages.contains(stage) || !made.contains(source) {
                    return Err(format!("{DOCKERFILE}: nothing makes {source} in a stage {stage}"));
                }
            }
            _ => {}
        }
    }
    let last = of(steps, "FROM").last().unwrap_or_default();
    if last == "scratch" { Ok(()) } else { Err(format!("{DOCKERFILE}: the image is made from {last}")) }
}

/// It builds with the version that the workspace asks for.
fn the_toolchain_is_ours(steps: &[Step]) -> Result<(), String> {
    let manifest = String::from_utf8_lossy(&read(&cargo::root().join("Cargo.toml"))?).into_owned();
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .and_then(|rest| rest.strip_suffix('"'))
        .ok_or("Cargo.toml names no rust-version")?;
    let image = of(steps, "FROM").next().unwrap_or_default();
    if image.starts_with(&format!("rust:{version}-")) {
        return Ok(());
    }
    Err(format!("{DOCKERFILE} builds with {image}, and the workspace wants Rust {version}"))
}

/// Cargo understands its flags, the package is one of ours, and what it reads of the commit is what is set.
fn the_build_is_ours(workspace: &Workspace, steps: &[Step]) -> Result<(), String> {
    let commands: Vec<&str> = of(steps, "RUN").flat_map(|rest| rest.split("&&")).map(str::trim).collect();
    let build =
        commands.iter().find_map(|command| command.strip_prefix("cargo ")).ok_or("it builds nothing")?;
    let words: Vec<&str> = build.split_whitespace().collect();
    // Help is given only where all that stands before it is understood.
    let mut cargo = cargo::cargo(&words);
    run(cargo.arg("-h"))?;
    let package = words.iter().skip_while(|word| **word != "--package").nth(1).copied().unwrap_or_default();
    if !workspace.packages.iter().any(|known| known.name == package) {
        return Err(format!("{DOCKERFILE}: there is no package {package}"));
    }
    if !commands.iter().any(|command| command.starts_with("cp target/release/tenure ")) {
        return Err(format!("{DOCKERFILE}: the program is copied from elsewhere than where cargo puts it"));
    }
    let script = String::from_utf8_lossy(&read(&cargo::root().join("crates/cli/build.rs"))?).into_owned();
    for name in of(steps, "ARG") {
        if !script.contains(&format!("\"{name}\"")) {
            return Err(format!("{DOCKERFILE}: the build reads no {name}"));
        }
    }
    Ok(())
}

/// Its settings, its command and its question after health.
fn tenure_understands(steps: &[Step], program: &Path) -> Result<(), String> {
    let shown = said(Command::new(program).args(["config", "show"]))?;
    for name in of(steps, "ENV").flat_map(str::split_whitespace).filter_map(|word| word.split_once('=')) {
        if name.0 != "TENURE_COMMIT" && !shown.contains(&format!("({})", name.0)) {
            return Err(format!("{DOCKERFILE}: there is no setting {}", name.0));
        }
    }
    let commands = of(steps, "CMD")
        .chain(of(steps, "HEALTHCHECK").filter_map(|rest| rest.split_once(" CMD ")).map(|(_, rest)| rest));
    for command in commands {
        let words: Vec<String> =
            serde_json::from_str(command).map_err(|error| format!("{command}: {error}"))?;
        let words = words.iter().filter(|word| *word != "/usr/bin/tenure");
        run(Command::new(program).args(words).arg("--help"))?;
    }
    Ok(())
}

/// None of the files that the program is made of may be kept from the engine.
fn nothing_needed_is_ignored() -> Result<(), String> {
    let ignored = read(&cargo::root().join("deploy/Dockerfile.dockerignore"))?;
    let ignored = String::from_utf8(ignored).map_err(|error| error.to_string())?;
    // Not what cargo has written down: it does so for `build` alone, and tests are built by `test`.
    let mut git = Command::new("git");
    git.args(["ls-files", "Cargo.toml", "Cargo.lock", "crates/*/Cargo.toml", "crates/*/src/**"]);
    let made = said(git.current_dir(cargo::root()))?;
    let files: Vec<&str> = made.lines().collect();
    if files.len() < 100 {
        return Err(format!("git names {} files of the program", files.len()));
    }
    // Pages are inside of a release only, so that no file of theirs is named for what the tests built.
    let web = String::from_utf8_lossy(&read(&cargo::root().join("crates/server/src/web.rs"))?).into_owned();
    let pages: Vec<String> = web
        .lines()
        .filter_map(|line| line.strip_prefix("#[include = \"")?.split_once('/'))
        .map(|(folder, _)| format!("web/{folder}"))
        .collect();
    if let Some(folder) = pages.iter().find(|folder| !cargo::root().join(folder).is_dir()) {
        return Err(format!("there is no {folder}"));
    }
    for file in files.into_iter().chain(pages.iter().map(String::as_str)) {
        if let Some(line) = ignored.lines().find(|line| is_ignored(file, line)) {
            return Err(format!("{file} is a part of the program, and `{line}` keeps it from the engine"));
        }
    }
    Ok(())
}

/// A path from the root, or with `**/` a name in any folder: that is all that the file uses.
fn is_ignored(file: &str, line: &str) -> bool {
    match line.strip_prefix("**/") {
        Some(name) => file.split('/').any(|part| part == name),
        None => file == line || file.strip_prefix(line).is_some_and(|rest| rest.starts_with('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_go_on_are_one_instruction() {
        let steps = steps("# what\nFROM a AS b\nRUN one \\\n && two\n");
        assert_eq!(of(&steps, "RUN").collect::<Vec<_>>(), ["one   && two"]);
        assert_eq!(of(&steps, "FROM").collect::<Vec<_>>(), ["a AS b"]);
    }

    #[test]
    fn a_stage_that_nobody_makes_is_named() {
        let steps = steps("FROM a AS build\nRUN mkdir /image\nFROM scratch\nCOPY --from=bild /image /\n");
        assert_eq!(
            stages_are_there(&steps).unwrap_err(),
            "deploy/Dockerfile: nothing makes /image in a stage bild"
        );
    }

    #[test]
    fn folders_are_ignored_with_what_is_in_them() {
        assert!(
            is_ignored("target/debug/tenure", "target")
                && is_ignored("web/node_modules/x", "**/node_modules")
        );
        assert!(!is_ignored("targets/x", "target") && !is_ignored("web/sdk/tenure.js", "**/node_modules"));
    }
}
