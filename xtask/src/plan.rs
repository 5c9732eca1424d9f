//! What `cargo xtask test` does, in order: a new step is one entry here.
//!
//! Cheap steps come first, so that a slip is known within seconds. Nothing runs beside anything else:
//! one build already fills two cores, and tests that measure time must not share them.

/// One thing that must hold.
#[derive(Debug)]
pub struct Step {
    /// Its name, as in `cargo xtask test NAME`.
    pub name: &'static str,
    /// What holds when it passes.
    pub why: &'static str,
    /// What is done.
    pub action: Action,
    /// Commands that it needs beside cargo; each stands in [`crate::tools::TOOLS`].
    pub needs: &'static [&'static str],
}

/// What a step does.
#[derive(Debug)]
pub enum Action {
    /// Runs cargo.
    Cargo(&'static [&'static str]),
    /// Runs cargo, for tests that can run over several stores, over PostgreSQL.
    OverPostgres(&'static [&'static str]),
    /// Checks the house rules.
    House,
    /// Checks the dependencies against `deny.toml`.
    Deny,
    /// Tests the API from its own document.
    Schemathesis,
    /// Tests what browsers get.
    Web,
    /// Goes the ways of people through the pages, in a browser.
    Browser,
    /// Does bad things to the real server.
    Drills,
    /// Counts instructions.
    Counts,
    /// Does what the documents say.
    Docs,
    /// Builds a package.
    Package,
}

/// The steps.
#[rustfmt::skip] // One line each reads as the table that it is.
pub const STEPS: &[Step] = &[
    cargo("fmt", "the code is formatted", &["fmt", "--all", "--check"]),
    step("house", "the layers and the house rules hold", Action::House).needs(&["git"]),
    cargo("clippy", "no warning anywhere", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    cargo("tests", "unit, integration and documentation tests pass", &["test", "--workspace", "--locked", "--no-fail-fast"]).needs(&["git", "nginx", "pg_ctlcluster", "pgbouncer", "redis-server", "strace"]),
    step("postgres", "applications, routes, sockets and sessions behave over PostgreSQL as they do in memory", Action::OverPostgres(&["test", "--workspace", "--locked", "--no-fail-fast", "--test", "applications", "--test", "apps", "--test", "rest", "--test", "server", "--test", "streams"])).needs(&["pg_ctlcluster"]),
    step("schemathesis", "the API answers as its document says", Action::Schemathesis).needs(&["python3"]),
    step("web", "types, logic and SDK of what browsers get", Action::Web).needs(&["npm"]),
    step("browser", "people at two browsers come through every page", Action::Browser).needs(&["chromium-headless-shell", "npm"]),
    step("drills", "the server is killed, paused, out of room and under a wrong clock, and keeps its word", Action::Drills).needs(&["faketime"]),
    step("docs", "every command in the documents works", Action::Docs).needs(&["curl", "git", "jq", "nginx", "npm", "pg_ctlcluster", "php", "python3", "redis-server", "sqlite3"]),
    step("package", "a Debian package installs, runs and goes; the program installs from source", Action::Package).needs(&["dpkg-deb", "dpkg-shlibdeps", "git", "groff", "systemd-analyze"]),
    step("deny", "dependencies: bans, licences, sources", Action::Deny),
    cargo("sim", "a thousand seeds satisfy the auditor", &["run", "--profile", "sim", "--locked", "--package", "tenure-sim", "--", "--seeds", "1000"]),
    step("counts", "no command costs a tenth more instructions than it did", Action::Counts).needs(&["valgrind"]),
];

const fn step(name: &'static str, why: &'static str, action: Action) -> Step {
    Step { name, why, action, needs: &[] }
}

const fn cargo(name: &'static str, why: &'static str, arguments: &'static [&'static str]) -> Step {
    step(name, why, Action::Cargo(arguments))
}

impl Step {
    const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tools::TOOLS;

    #[test]
    fn each_step_has_a_name_of_its_own() {
        let names: BTreeSet<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn what_steps_need_is_what_can_be_installed() {
        let needed: BTreeSet<_> = STEPS.iter().flat_map(|step| step.needs).copied().collect();
        let known: BTreeSet<_> = TOOLS.iter().map(|tool| tool.command).collect();
        assert_eq!(needed, known);
    }
}
