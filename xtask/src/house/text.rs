//! Rules for every text: no leftovers, nothing that ties it to one machine, files of a readable size.

use super::Finding;
use super::tree::Tree;

pub(super) const LEFTOVER: &str = "leftover";
pub(super) const MACHINE: &str = "machine's path";
pub(super) const REGISTRY: &str = "registry's host";
const SIZE: &str = "size";

/// A file of code is one idea, at about 400 lines; past this it is surely two.
const LINES_MAX: usize = 700;

const LEFTOVERS: [&str; 3] = ["TODO", "FIXME", "XXX"];
/// Folders that exist on somebody's machine only. A bare `/home` may well be a page.
const MACHINES: [&str; 4] = ["/work", "/root", "/home/", "/Users/"];
/// Whoever builds this may use a mirror: clients know their registries, the project does not.
const REGISTRIES: [&str; 6] =
    ["crates.io", "npmjs.org", "npmjs.com", "pypi.org", "pythonhosted.org", "deb.debian.org"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.iter().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = path.rsplit('/').next().unwrap_or(path);
    // Lock files are written by their tools: hashes may spell anything, sources stand in fixed fields.
    let is_lock = matches!(name, "Cargo.lock" | "package-lock.json");
    for (index, line) in text.lines().enumerate() {
        let mut find = |rule, detail| findings.push(Finding::at(rule, path, index + 1, detail));
        if !is_lock && let Some(word) = LEFTOVERS.iter().find(|word| has_word(line, word)) {
            find(LEFTOVER, format!("{word}: do it now, or file an issue"));
        }
        if let Some(folder) = MACHINES.iter().find(|folder| has_folder(line, folder)) {
            find(MACHINE, format!("{folder} is a folder of one machine"));
        }
        let is_source = is_lock && ["source = ", "\"resolved\": "].iter().any(|field| is_field(line, field));
        if !is_source && let Some(host) = REGISTRIES.iter().find(|host| line.contains(*host)) {
            find(REGISTRY, format!("{host}: name the package, not where it comes from"));
        }
    }
    let lines = text.lines().count();
    let is_code = [".rs", ".js", ".mjs"].iter().any(|ending| name.ends_with(ending));
    if is_code && lines > LINES_MAX {
        let detail = format!("{lines} lines, {LINES_MAX} at most: split it by ideas");
        findings.push(Finding::whole_file(SIZE, path, detail));
    }
    findings
}

/// Whether the word stands by itself in the line.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether the line names the absolute folder or something below it; `lib/work` and `/workers` are other
/// things.
fn has_folder(line: &str, folder: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-".contains(c);
    line.match_indices(folder).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + folder.len()..]);
        let ends = after.starts_with(is_part) == folder.ends_with('/');
        ends && !before.ends_with(|c| is_part(c) || "./~}".contains(c))
    })
}

fn is_field(line: &str, field: &str) -> bool {
    line.trim_start().starts_with(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(path: &str, line: &str, expected: &[&str]) {
        let rules: Vec<_> = check_file(path, line).iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, expected, "{line}");
    }

    #[test]
    fn leftovers_are_found_as_words() {
        check_line("a.md", "and TODO: the rest", &[LEFTOVER]);
        check_line("a.rs", "// FIXME", &[LEFTOVER]);
        check_line("a.js", "/* XXX */", &[LEFTOVER]);
        check_line("a.sh", "mktemp -d tenure.XXXXXX", &[]);
        check_line("Cargo.lock", "checksum = \"TODO\"", &[]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        check_line("a.md", "cd /work/main", &[MACHINE]);
        check_line("a.toml", "path = \"/home/ana/tenure\"", &[MACHINE]);
        check_line("a.rs", "let path = \"/root/.cargo\";", &[MACHINE]);
        check_line("a.sh", "HOME=/root", &[MACHINE]);
        check_line("a.rs", ".route(\"/home\", get(home))", &[]);
        check_line("a.rs", ".route(\"/workers/{id}\", get(worker))", &[]);
        check_line("a.rs", "crates/work/src", &[]);
    }

    #[test]
    fn hosts_of_registries_are_found_outside_the_fields_of_lock_files() {
        check_line("a.md", "see https://crates.io/crates/x", &[REGISTRY]);
        check_line("web/package-lock.json", "  \"resolved\": \"https://registry.npmjs.org/x.tgz\",", &[]);
        check_line("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"", &[]);
        check_line("Cargo.lock", "# crates.io", &[REGISTRY]);
    }

    #[test]
    fn long_code_is_found_and_long_prose_is_not() {
        let long = "x\n".repeat(LINES_MAX + 1);
        check_line("a.rs", &long, &[SIZE]);
        check_line("web/a.js", &long, &[SIZE]);
        check_line("a.md", &long, &[]);
        check_line("a.rs", &"x\n".repeat(LINES_MAX), &[]);
    }
}
