//! Rules for Rust code, beside what rustc and clippy see: those skip what is configured out.

use super::Finding;
use super::scrub::code_only;
use super::text::has_word;
use super::tree::Tree;

const IGNORED: &str = "ignored test";
const DEBUG: &str = "debugging";
const SLEEP: &str = "sleep";
const UNSAFE: &str = "unsafe";
const LINT: &str = "lint";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.iter().filter(|(path, _)| path.rsplit_once('.').is_some_and(|(_, end)| end == "rs"));
    sources.flat_map(|(path, source)| check_source(path, &code_only(source))).collect()
}

fn check_source(path: &str, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_tests = path.ends_with("tests.rs") || path.split('/').any(|folder| folder == "tests");
    for (index, line) in code.lines().enumerate() {
        let mut find = |rule, detail| findings.push(Finding::at(rule, path, index + 1, detail));
        // A test module closes its file.
        in_tests |= line.starts_with("#[cfg(test)]");
        if has_word(line, "dbg!") {
            find(DEBUG, "dbg! is for your own machine");
        }
        if in_tests && line.contains("thread::sleep") {
            find(SLEEP, "a test moves time by hand, or waits for what it needs");
        }
        if has_word(line, "unsafe") {
            find(UNSAFE, "needs an audit and an exception");
        }
    }
    for (line, attribute) in attributes(code) {
        let first = attribute.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        let conditional = first == "cfg_attr";
        if first == "ignore" || conditional && has_word(attribute, "ignore") {
            findings.push(Finding::at(IGNORED, path, line, "mend the test or delete it"));
        }
        let says = |word| first == word || conditional && has_word(attribute, word);
        if (says("allow") || says("expect")) && !has_word(attribute, "reason") {
            findings.push(Finding::at(LINT, path, line, "a lint is set aside without a reason"));
        }
    }
    findings
}

/// The inside of each attribute, with its line.
fn attributes(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices('#').filter_map(|(start, _)| {
        let rest = code[start + 1..].strip_prefix('!').unwrap_or(&code[start + 1..]);
        let inside = rest.strip_prefix('[')?;
        let mut depth = 1;
        let end = inside.find(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        })?;
        Some((code[..start].matches('\n').count() + 1, inside[..end].trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, source: &str, expected: &[(&str, usize)]) {
        let findings = super::check(&Tree::of(&[(path, source)]));
        let found: Vec<_> = findings.iter().map(|finding| (finding.rule, finding.line)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn ignored_tests_are_found() {
        check("a.rs", "#[test]\n#[ignore]\nfn a() {}", &[(IGNORED, 2)]);
        check("a.rs", "#[ignore = \"slow\"]\nfn a() {}", &[(IGNORED, 1)]);
        check("a.rs", "#[cfg_attr(not(unix), ignore)]\nfn a() {}", &[(IGNORED, 1)]);
        check("a.rs", "// #[ignore]\n#[arg(ignore_case = true)]\nfn a() {}", &[]);
    }

    #[test]
    fn debugging_is_found() {
        check("a.rs", "let a = dbg!(1);", &[(DEBUG, 1)]);
        check("a.rs", "let a = \"dbg!(1)\";", &[]);
    }

    #[test]
    fn sleep_is_found_in_tests_alone() {
        let sleep = "std::thread::sleep(second);";
        check("crates/store/tests/a.rs", sleep, &[(SLEEP, 1)]);
        check("crates/store/src/tests.rs", sleep, &[(SLEEP, 1)]);
        check("crates/store/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {sleep} }}"), &[(SLEEP, 2)]);
        check("crates/store/src/a.rs", sleep, &[]);
    }

    #[test]
    fn unsafe_code_is_found() {
        check("a.rs", "let a = unsafe { *p };", &[(UNSAFE, 1)]);
        check("a.rs", "#![forbid(unsafe_code)] // unsafe", &[]);
        check("a.txt", "unsafe", &[]);
    }

    #[test]
    fn a_lint_set_aside_needs_a_reason() {
        check("a.rs", "#[allow(dead_code)]\nfn a() {}", &[(LINT, 1)]);
        check("a.rs", "fn a() {}\n#![expect(\n  dead_code,\n)]", &[(LINT, 2)]);
        check("a.rs", "#[cfg_attr(test, expect(dead_code))]\nfn a() {}", &[(LINT, 1)]);
        check("a.rs", "#[expect(dead_code, reason = \"kept for\")]\nfn a() {}", &[]);
        check("a.rs", "a().expect(\"there\");", &[]);
    }
}
