//! `cargo xtask bench`: builds Tenure and what measures it, sees that the peers are there, and runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cargo::{self, Workspace};
use crate::tools;

/// Runs it. Arguments go to `tenure-peers`, which knows them.
pub fn run(workspace: &Workspace, arguments: &[&str]) -> Result<(), String> {
    let etcd = tools::provide_peers(&workspace.target);
    cargo::run(&["build", "--release", "--locked", "--package", "tenure-cli", "--package", "tenure-load"])?;
    let release = workspace.target.join("release");
    let mut command = Command::new(release.join("tenure-peers"));
    command.arg("--tenure").arg(release.join("tenure")).args(arguments);
    if !arguments.iter().any(|argument| argument.starts_with("--out")) {
        command.arg("--out").arg(PathBuf::from("bench/runs").join(today()?));
    }
    if let Some(etcd) = etcd {
        command.arg("--etcd").arg(etcd);
    }
    command.current_dir(cargo::root());
    cargo::run_command(command, "tenure-peers")
}

/// The day in UTC, as folders are named.
fn today() -> Result<String, String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970")?;
    Ok(date(since.as_secs() / 86_400))
}

/// The date of a day since 1970, by counting years and months.
fn date(mut days: u64) -> String {
    let (mut year, mut month) = (1970, 0);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (days, words) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_773, "2026-11-16")]
        {
            assert_eq!(date(days), words);
        }
    }
}
