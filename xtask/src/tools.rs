//! What the machine must have. Missing Debian packages are installed where that is allowed; elsewhere
//! one sentence says what to install. `cargo-deny` is built into the target folder where nobody has it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{self, Workspace};
use crate::plan::Step;

/// A command and where it comes from.
#[derive(Debug)]
pub struct Tool {
    /// What a step calls.
    pub command: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// With these arguments it must succeed, where being there is not enough.
    pub proof: &'static [&'static str],
}

/// Every command that a step needs.
pub const TOOLS: &[Tool] = &[
    Tool { command: "git", package: "git", proof: &[] },
    Tool { command: "npm", package: "npm", proof: &[] },
    // Without the windows of a whole browser, which take as much of the processor as the pages.
    Tool { command: "chromium-headless-shell", package: "chromium-headless-shell", proof: &["--version"] },
    Tool { command: "nginx", package: "nginx-light", proof: &["-v"] },
    Tool { command: "strace", package: "strace", proof: &[] },
    Tool { command: "valgrind", package: "valgrind", proof: &[] },
    Tool { command: "curl", package: "curl", proof: &[] },
    Tool { command: "dpkg-deb", package: "dpkg", proof: &[] },
    Tool { command: "dpkg-shlibdeps", package: "dpkg-dev", proof: &[] },
    Tool { command: "groff", package: "groff-base", proof: &[] },
    Tool { command: "systemd-analyze", package: "systemd", proof: &[] },
    // Parses what the documents show of it, 3 MB.
    Tool { command: "php", package: "php-cli", proof: &["--version"] },
    Tool { command: "jq", package: "jq", proof: &[] },
    Tool { command: "sqlite3", package: "sqlite3", proof: &[] },
    // Comes with the library that moves a process's clock.
    Tool { command: "faketime", package: "faketime", proof: &[] },
    // What starts a cluster of one's own lies beside it, in no folder of the path.
    Tool { command: "pg_ctlcluster", package: "postgresql", proof: &[] },
    Tool { command: "pgbouncer", package: "pgbouncer", proof: &[] },
    Tool { command: "redis-server", package: "redis-server", proof: &[] },
    // Debian's own Python comes without what makes an environment.
    Tool { command: "python3", package: "python3-venv", proof: &["-c", "import ensurepip, venv"] },
];

/// Names of commands, with commas: a machine that cannot have them goes on without, and what needs them is left out or
/// fails. Nothing is left out in silence.
const WITHOUT: &str = "TENURE_TEST_WITHOUT";
/// Tells tests that do without a command by themselves which ones must be there.
pub const NEEDS: &str = "TENURE_TEST_NEEDS";

const DENY_VERSION: &str = "0.20.2";

/// Sees that everything that these steps need is there.
pub fn provide(steps: &[&Step], workspace: &Workspace) -> Result<(), String> {
    provide_packages(steps)?;
    // After the packages, whose lists it is found by.
    if steps.iter().any(|step| step.name == "tests") && !is_left_out("promtool") {
        provide_promtool(&workspace.target)?;
    }
    Ok(())
}

/// What must be there for tests that would otherwise do without.
pub fn needed() -> &'static str {
    if is_left_out("promtool") { "" } else { "promtool" }
}

fn is_left_out(command: &str) -> bool {
    env::var(WITHOUT).is_ok_and(|names| names.split(',').any(|name| name.trim() == command))
}

fn provide_packages(steps: &[&Step]) -> Result<(), String> {
    let missing = missing(steps, |tool| is_left_out(tool.command) || is_there(tool));
    if missing.is_empty() {
        return Ok(());
    }
    if !(is_root() && find("apt-get").is_some()) {
        return Err(what_to_install(&missing));
    }
    let packages: Vec<_> = missing.iter().map(|need| need.tool.package).collect();
    println!("installing {}", packages.join(", "));
    apt_get(&["update"])?;
    apt_get(&[&["install", "-y", "--no-install-recommends"], &packages[..]].concat())?;
    match missing.iter().find(|need| !is_there(need.tool)) {
        None => Ok(()),
        Some(need) => Err(format!(
            "the package {} is installed but has no {} that works",
            need.tool.package, need.tool.command
        )),
    }
}

/// Checks the dependencies, with whatever cargo-deny the machine has, or else with one of our own.
pub fn deny(workspace: &Workspace) -> Result<(), String> {
    let program = match find("cargo-deny") {
        Some(program) => program,
        None => own_deny(&workspace.target)?,
    };
    let arguments = ["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cargo::root()).stdin(Stdio::null());
    cargo::run_command(command, &format!("cargo-deny {}", arguments.join(" ")))
}

/// The version stands in the folder's name: raising it builds anew.
fn own_deny(target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("tools").join(format!("cargo-deny-{DENY_VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !program.is_file() {
        println!("building cargo-deny {DENY_VERSION}, once: a few minutes");
        let folder = folder.to_str().ok_or("the target folder's path is not UTF-8")?;
        // Unoptimised: it builds sooner, and the check still takes a second.
        let arguments =
            ["install", "cargo-deny", "--locked", "--version", DENY_VERSION, "--debug", "--root", folder];
        let mut command = cargo::cargo(&arguments);
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo::run_command(command, &format!("cargo {}", arguments.join(" ")))?;
    }
    Ok(program)
}

/// `promtool` checks the figures, the alerts and the dashboard. Its package is unpacked and not installed, since
/// installing it starts a service.
fn provide_promtool(target: &Path) -> Result<(), String> {
    let folder = target.join("tools/prometheus");
    if find("promtool").is_some() || folder.join("usr/bin/promtool").is_file() {
        return Ok(());
    }
    let fetch = || quietly("apt-get", &["download", "prometheus"], &folder);
    let got = std::fs::create_dir_all(&folder).is_ok()
        && (fetch() || is_root() && apt_get(&["update"]).is_ok() && fetch())
        && quietly("sh", &["-c", "dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb"], &folder);
    if got {
        return Ok(());
    }
    Err(format!(
        "promtool (tests) is missing and could not be fetched: on Debian it is in the package prometheus. \
         {WITHOUT}=promtool goes on without it"
    ))
}

/// What `cargo xtask bench` measures beside Tenure. Whoever cannot be had is named, and it goes on without.
/// Answers where etcd is, if not on the path.
pub fn provide_peers(target: &Path) -> Option<PathBuf> {
    let installed: &[Tool] = &[
        Tool { command: "redis-server", package: "redis-server", proof: &["--version"] },
        Tool { command: "redis-benchmark", package: "redis-tools", proof: &["--version"] },
        Tool { command: "pg_ctlcluster", package: "postgresql", proof: &[] },
        // Slows down the syncs of etcd, which makes its system calls by itself.
        Tool { command: "strace", package: "strace", proof: &[] },
    ];
    for tool in installed.iter().filter(|tool| !is_there(tool)) {
        let got = is_root()
            && find("apt-get").is_some()
            && apt_get(&["update"]).is_ok()
            && apt_get(&["install", "-y", "--no-install-recommends", tool.package]).is_ok();
        if !got {
            println!("without {}: on Debian, as root, apt-get install {}", tool.command, tool.package);
        }
    }
    if find("etcd").is_some() {
        return None;
    }
    // One program without libraries: unpacked and not installed, since installing it starts a service.
    let folder = target.join("tools/etcd");
    let program = folder.join("usr/bin/etcd");
    let got = program.is_file()
        || std::fs::create_dir_all(&folder).is_ok()
            && quietly("apt-get", &["download", "etcd-server"], &folder)
            && quietly(
                "sh",
                &["-c", "dpkg-deb --extract etcd-server_*.deb . && rm etcd-server_*.deb"],
                &folder,
            );
    if !got {
        println!("without etcd: on Debian, apt-get install etcd-server");
    }
    got.then_some(program)
}

fn quietly(program: &str, arguments: &[&str], folder: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

struct Need {
    tool: &'static Tool,
    steps: Vec<&'static str>,
}

fn missing(steps: &[&Step], is_there: impl Fn(&Tool) -> bool) -> Vec<Need> {
    let needs = TOOLS.iter().map(|tool| {
        let of = |step: &&&Step| step.needs.contains(&tool.command);
        Need { tool, steps: steps.iter().filter(of).map(|step| step.name).collect() }
    });
    needs.filter(|need| !need.steps.is_empty() && !is_there(need.tool)).collect()
}

fn what_to_install(missing: &[Need]) -> String {
    let needs = missing.iter().map(|need| format!("{} ({})", need.tool.command, need.steps.join(", ")));
    let needs: Vec<_> = needs.collect();
    let packages: Vec<_> = missing.iter().map(|need| need.tool.package).collect();
    format!(
        "these commands are missing: {}. Install them and run this again; on Debian, as root: \
         apt-get install -y --no-install-recommends {}. Or {WITHOUT}=… names those to go on without",
        needs.join(", "),
        packages.join(" ")
    )
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    cargo::run_command(command, &format!("apt-get {}", arguments.join(" ")))
}

fn is_there(tool: &Tool) -> bool {
    let works = |program: PathBuf| {
        let mut command = Command::new(program);
        command.args(tool.proof).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        tool.proof.is_empty() || command.status().is_ok_and(|status| status.success())
    };
    find(tool.command).is_some_and(works)
}

pub(crate) fn find(command: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::STEPS;

    fn steps() -> Vec<&'static Step> {
        STEPS.iter().collect()
    }

    #[test]
    fn a_machine_that_has_everything_misses_nothing() {
        assert!(missing(&steps(), |_| true).is_empty());
    }

    #[test]
    fn only_what_the_chosen_steps_need_is_missed() {
        let fmt: Vec<_> = STEPS.iter().filter(|step| step.name == "fmt").collect();
        assert!(missing(&fmt, |_| false).is_empty());
        assert_eq!(missing(&steps(), |_| false).len(), TOOLS.len());
    }

    #[test]
    fn the_sentence_names_the_command_who_needs_it_and_the_package() {
        let sentence = what_to_install(&missing(&steps(), |tool| tool.command != "strace"));
        assert!(sentence.contains("missing: strace (tests)."), "{sentence}");
        assert!(sentence.contains("--no-install-recommends strace. Or"), "{sentence}");
    }
}
