//! The command line of the drills; `cargo xtask test drills` runs them.

use std::process::Command;

#[test]
fn an_unknown_drill_is_refused_with_the_known_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-soak")).arg("kilns").output().expect("runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no drill kilns") && said.contains("kills, clock"), "{said}");
}
