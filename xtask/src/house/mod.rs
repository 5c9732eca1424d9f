//! The rules of the house that no other tool checks. They read the tree; they change nothing.
//!
//! `cargo xtask house` runs them, and so does `cargo test`. Each is a function from a tree to
//! findings, tried on small trees of its own.

mod layers;
mod manifest;
mod rust;
mod scrub;
mod text;
mod tree;

use std::fmt;

use crate::cargo::{self, Workspace};
use tree::Tree;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule, in a word or two.
    pub rule: &'static str,
    /// The file, from the root.
    pub path: String,
    /// Its line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub detail: String,
}

/// A file that may break a rule.
struct Exception {
    rule: &'static str,
    path: &'static str,
    reason: &'static str,
}

/// Every exception there is.
const EXCEPTIONS: &[Exception] = &[
    Exception { rule: text::LEFTOVER, path: "xtask/src/house/text.rs", reason: "it names what it looks for" },
    Exception { rule: text::MACHINE, path: "xtask/src/house/text.rs", reason: "it names what it looks for" },
    Exception { rule: text::REGISTRY, path: "xtask/src/house/text.rs", reason: "it names what it looks for" },
];

/// Checks every rule.
pub fn check(workspace: &Workspace) -> Result<Vec<Finding>, String> {
    let tree = Tree::read(cargo::root())?;
    let manifests = workspace.packages.iter().map(|package| package.manifest.as_str());
    let findings = [text::check(&tree), rust::check(&tree), manifest::check(&tree, manifests)].concat();
    let mut findings = without_exceptions(findings, EXCEPTIONS);
    findings.extend(check_layers(workspace));
    Ok(findings)
}

/// Checks only which crate depends on which.
pub fn check_layers(workspace: &Workspace) -> Vec<Finding> {
    layers::check(&workspace.packages)
}

/// Prints the findings. `Err` when there are any.
pub fn report(findings: &[Finding]) -> Result<(), String> {
    for finding in findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("no rule is broken");
            Ok(())
        }
        1 => Err("one rule is broken, see above".to_owned()),
        count => Err(format!("{count} places break a rule, see above")),
    }
}

/// An exception that nothing needs is a finding too: it would hide the next one.
fn without_exceptions(mut findings: Vec<Finding>, exceptions: &[Exception]) -> Vec<Finding> {
    for exception in exceptions {
        let before = findings.len();
        findings.retain(|finding| finding.rule != exception.rule || finding.path != exception.path);
        if findings.len() == before {
            let detail = format!("nothing here needs its exception ({}); remove it", exception.reason);
            findings.push(Finding::whole_file(exception.rule, exception.path, detail));
        }
    }
    findings
}

impl Finding {
    fn at(rule: &'static str, path: &str, line: usize, detail: impl Into<String>) -> Self {
        Self { rule, path: path.to_owned(), line, detail: detail.into() }
    }

    fn whole_file(rule: &'static str, path: &str, detail: impl Into<String>) -> Self {
        Self::at(rule, path, 0, detail)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, path, line, detail } = self;
        match line {
            0 => write!(f, "{path}: {rule}: {detail}"),
            line => write!(f, "{path}:{line}: {rule}: {detail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCEPTION: Exception = Exception { rule: "size", path: "big.rs", reason: "a table" };

    #[test]
    fn an_exception_covers_its_rule_in_its_file_alone() {
        let finding = |rule, path| Finding::whole_file(rule, path, "");
        let findings = vec![finding("size", "big.rs"), finding("size", "b.rs"), finding("unsafe", "big.rs")];
        let left = without_exceptions(findings, &[EXCEPTION]);
        assert_eq!(left, [finding("size", "b.rs"), finding("unsafe", "big.rs")]);
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        let left = without_exceptions(Vec::new(), &[EXCEPTION]);
        assert_eq!(
            left[0].to_string(),
            "big.rs: size: nothing here needs its exception (a table); remove it"
        );
    }

    #[test]
    fn findings_fail_the_report() {
        assert!(report(&[]).is_ok());
        assert!(report(&[Finding::at("size", "a.rs", 7, "too long")]).is_err());
    }
}
