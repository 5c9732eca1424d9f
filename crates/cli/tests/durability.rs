//! The order that makes an answer durable, as the kernel saw it: written, synced, answered. Killing a
//! process proves nothing of this, since the kernel still writes what the process had handed over.

use std::process::Command;

const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

/// The system calls of one claim, in order, with the paths of their files.
fn trace_of_one_claim() -> Vec<String> {
    let folder = tempfile::tempdir().expect("the test can run");
    let (data, trace) = (folder.path().join("data"), folder.path().join("trace"));
    // The first start makes the folder; the claim of the second is what is looked at.
    let made = Command::new(TENURE)
        .args(["bench", "claim"])
        .arg(&data)
        .arg("first")
        .output()
        .expect("the test can run");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let traced = Command::new("strace")
        .args(["-f", "-y", "-e", "trace=pwrite64,write,fdatasync,fsync", "-o"])
        .arg(&trace)
        .arg(TENURE)
        .args(["bench", "claim"])
        .arg(&data)
        .arg("second")
        .output()
        .expect("strace is installed");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let text = std::fs::read_to_string(&trace).expect("the test can run");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_claim_is_synced_after_it_is_written_and_before_it_is_answered() {
    let calls = trace_of_one_claim();
    let answered = calls.iter().position(|call| call.contains("\"granted ")).expect("it was granted");
    let before = &calls[..answered];
    let in_journal = |call: &str| call.contains("/journal/") && call.contains(".journal>");
    let written = before.iter().rposition(|call| call.contains("pwrite64(") && in_journal(call));
    let written = written.expect("the claim was written to the journal");
    let synced = before[written..].iter().any(|call| {
        (call.contains("fdatasync(") && in_journal(call) && call.ends_with("= 0"))
            // A call that another thread's line interrupted is finished on a line of its own.
            || (call.contains("fdatasync resumed") && call.ends_with("= 0"))
    });
    assert!(synced, "no sync between the write and the answer:\n{}", before[written..].join("\n"));
}

/// The journal's segments are used again on the strength of this one. SQLite's own syncs are `fsync`, and of other moments.
#[test]
fn what_is_folded_is_synced_after_it_is_written() {
    let calls = trace_of_one_claim();
    let in_log = |call: &str| call.contains("/archive.db-wal>");
    let written = calls.iter().rposition(|call| call.contains("pwrite64(") && in_log(call));
    let written = written.expect("the claim was folded when the store was closed");
    let next = calls[written + 1..].iter().find(|call| call.contains("/archive.db"));
    let next = next.expect("something follows");
    assert!(next.contains("fdatasync(") && in_log(next), "not synced: {next}");
}
