//! A data folder in the hands of its operator.

use std::fs;

use serde_json::Value;

use crate::process::{Server, code, serve, tenure, text};

/// I11: the power went during the first start, when the archive had its name and nothing else.
#[test]
fn i11_a_first_start_that_did_not_end_is_told_as_what_it_is() {
    let folders = tempfile::tempdir().expect("a folder");
    let (data, target) = (folders.path().join("data"), folders.path().join("target"));
    fs::create_dir_all(data.join("journal")).expect("made");
    fs::write(data.join("archive.db"), "").expect("made");
    let output = |command: &str| tenure().arg(command).arg(&data).output().expect("runs");
    let sentence = format!(
        "{} holds nothing: its first start has not ended, so nothing was ever confirmed in it; the next start makes it whole",
        data.display()
    );
    let checked = output("check");
    assert_eq!((code(&checked), text(&checked.stdout)), (0, format!("{sentence}.\n")));
    let json = tenure().args(["check", "--json"]).arg(&data).output().expect("runs");
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&json["is_unmade"], &json["problem_count"]), (&Value::Bool(true), &Value::from(0)));

    let mut backup = tenure();
    backup.arg("backup").arg(&target).arg("--data").arg(&data);
    let mut restore = tenure();
    restore.arg("restore").arg(&data).arg("--data").arg(&target);
    let mut migrate = tenure();
    // Nobody is asked there: what there is to move is looked at first.
    migrate.args(["migrate", "--to", "postgres://nobody@127.0.0.1:9/none", "--from"]).arg(&data);
    for mut command in [backup, restore, migrate] {
        let refused = command.output().expect("runs");
        assert_eq!(code(&refused), 1, "{command:?}");
        assert!(text(&refused.stderr).contains(&sentence), "{command:?}: {}", text(&refused.stderr));
        assert!(!target.exists(), "{command:?}");
    }

    drop(Server::of(serve(&data)));
    let checked = output("check");
    assert_eq!(code(&checked), 0);
    assert!(text(&checked.stdout).contains("all is well"), "{}", text(&checked.stdout));
}
