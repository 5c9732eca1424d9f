//! Instructions that a command costs, counted by callgrind and kept in the repository: unlike times they are the same on a
//! busy machine, so a rise is the change's own.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{self, Workspace};

/// A claim of one item and its release.
const ALONE: &str = "one_item";
/// What is counted beside that: a name, the items in each claim, and what happens to it before it is released, which then
/// counts by itself.
const BESIDE: [(&str, &str, Option<&str>); 4] = [
    ("ten_items", "10", None),
    ("heartbeat", "1", Some("heartbeat")),
    ("refusal", "1", Some("refuse")),
    ("write", "1", Some("write")),
];
/// Two runs of different length: what starting costs is in both, and drops out.
const SHORT: u64 = 640;
const LONG: u64 = 3_200;
/// More than this is a change for the worse that somebody must have meant. Maps are seeded at random: repeats lie up to
/// 3 % apart, of what is smallest.
const RISE_MAX_PERCENT: u64 = 10;

/// Counts, and compares with what the repository says.
pub fn test(workspace: &Workspace) -> Result<(), String> {
    let text = fs::read_to_string(kept()).map_err(|error| format!("{}: {error}", kept().display()))?;
    let mut risen = Vec::new();
    for (name, now) in count(workspace)? {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
        let before: u64 = line
            .and_then(|number| number.trim().parse().ok())
            .ok_or_else(|| format!("{name} is not kept"))?;
        println!("{name}: {now} instructions, {before} before");
        if now * 100 > before * (100 + RISE_MAX_PERCENT) {
            risen.push(format!("{name} rose from {before} to {now}"));
        }
    }
    if risen.is_empty() {
        return Ok(());
    }
    Err(format!("{}: mend it, or keep it with `cargo xtask count` and say why", risen.join(", ")))
}

/// Counts, and keeps it.
pub fn keep(workspace: &Workspace) -> Result<(), String> {
    let mut text = String::from(
        "# Instructions by callgrind, written by `cargo xtask count`: for a claim of one item or ten with its release, and \
         for what one command costs a claim beside that.\n",
    );
    for (name, number) in count(workspace)? {
        let _ = writeln!(text, "{name} = {number}");
        println!("{name} = {number}");
    }
    fs::write(kept(), text).map_err(|error| format!("{}: {error}", kept().display()))
}

fn kept() -> PathBuf {
    cargo::root().join("bench/instructions.toml")
}

fn count(workspace: &Workspace) -> Result<Vec<(&'static str, u64)>, String> {
    cargo::run(&["build", "--profile", "sim", "--locked", "--package", "tenure-sim", "--bins"])?;
    let program = workspace.target.join("sim/tenure-count");
    let each = |items, between| {
        let [short, long] = [SHORT, LONG].map(|claims| instructions(&program, items, between, claims));
        Ok::<_, String>((long? - short?) / (LONG - SHORT))
    };
    let alone = each("1", None)?;
    let mut counted = vec![(ALONE, alone)];
    for (name, items, between) in BESIDE {
        let number = each(items, between)?;
        counted.push((name, if between.is_some() { number.saturating_sub(alone) } else { number }));
    }
    Ok(counted)
}

fn instructions(program: &Path, items: &str, between: Option<&str>, claims: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([items, &claims.to_string()])
        .args(between);
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("valgrind: {}", said.trim()));
    }
    let collected = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .map(|(_, number)| number.trim().to_owned());
    collected
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("valgrind counted nothing: {}", said.trim()))
}
