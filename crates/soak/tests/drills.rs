//! The command line of the drills; `cargo xtask test drills` runs them.

use std::process::Command;

#[test]
fn an_unknown_drill_is_refused_with_the_known_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_tenure-soak")).arg("kilns").output().expect("runs");
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no drill kilns") && said.contains("kills, clock"), "{said}");
}

#[test]
fn a_drill_that_cannot_be_run_fails_unless_it_may_be_skipped() {
    // Without mount on the path no disk can be filled.
    let drill = |may_skip: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-soak"));
        command.args(["--tenure", env!("CARGO_BIN_EXE_tenure-soak"), "full"]).env("PATH", "");
        match may_skip {
            Some(names) => command.env("TENURE_DRILLS_MAY_SKIP", names),
            None => command.env_remove("TENURE_DRILLS_MAY_SKIP"),
        };
        let output = command.output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = drill(None);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("skipped: needs to mount") && said.contains("TENURE_DRILLS_MAY_SKIP=full"),
        "{said}"
    );
    let (code, said) = drill(Some("clock,full"));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("skipped: needs to mount"), "{said}");
    assert_eq!(drill(Some("fool")).0, Some(64));
}
