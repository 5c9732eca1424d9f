//! Rules for the files that every project of this kind has.

use super::Finding;
use super::tree::Tree;

const LINTS: &str = "lints";
const FILES: &str = "files";
const README: &str = "two commands";

pub(super) fn check<'a>(tree: &Tree, manifests: impl Iterator<Item = &'a str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in manifests {
        if !tree.text(path).is_some_and(has_workspace_lints) {
            findings.push(Finding::whole_file(LINTS, path, "lacks `[lints]` with `workspace = true`"));
        }
    }
    for path in ["Cargo.lock", "deny.toml", "LICENSE-MIT", "LICENSE-APACHE", ".ci/run"] {
        if !tree.is_tracked(path) {
            findings.push(Finding::whole_file(FILES, path, "is not in the repository"));
        }
    }
    let readme = tree.text("README.md").unwrap_or("");
    for command in ["cargo run --release -- ", "cargo xtask test"] {
        if !readme.lines().any(|line| line.trim_start().starts_with(command)) {
            let detail = format!("no line begins with `{}`", command.trim_end());
            findings.push(Finding::whole_file(README, "README.md", detail));
        }
    }
    findings
}

fn has_workspace_lints(manifest: &str) -> bool {
    let section = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    section.take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 7] = [
        ("Cargo.lock", ""),
        ("deny.toml", ""),
        ("LICENSE-MIT", ""),
        ("LICENSE-APACHE", ""),
        (".ci/run", ""),
        ("README.md", "cargo run --release -- serve --demo\ncargo xtask test\n"),
        ("crates/core/Cargo.toml", "[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"),
    ];

    fn check_with(changed: (&str, &str), expected: &[(&str, &str)]) {
        let files = WHOLE.into_iter().filter(|(path, _)| *path != changed.0).chain([changed]);
        let tree = Tree::of(&files.collect::<Vec<_>>());
        let findings = check(&tree, ["crates/core/Cargo.toml"].into_iter());
        let found: Vec<_> = findings.iter().map(|finding| (finding.rule, &*finding.path)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_whole_tree_breaks_nothing() {
        check_with(("other", ""), &[]);
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_found() {
        let path = "crates/core/Cargo.toml";
        check_with((path, "[package]\nworkspace = true"), &[(LINTS, path)]);
        check_with((path, "[lints]\n[dependencies]\nworkspace = true"), &[(LINTS, path)]);
    }

    #[test]
    fn missing_files_are_found() {
        let tree = Tree::of(&WHOLE[2..]);
        let paths: Vec<_> = check(&tree, [].into_iter()).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["Cargo.lock", "deny.toml"]);
    }

    #[test]
    fn a_readme_without_the_two_commands_is_found() {
        check_with(("README.md", "run cargo xtask test"), &[(README, "README.md"), (README, "README.md")]);
    }
}
