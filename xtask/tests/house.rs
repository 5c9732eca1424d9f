//! The house rules hold in this tree.

use xtask::cargo::Workspace;
use xtask::house;

#[test]
fn every_house_rule_holds() {
    let workspace = Workspace::read().unwrap();
    assert!(!workspace.packages.is_empty());
    let findings = house::check(&workspace).unwrap();
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}
