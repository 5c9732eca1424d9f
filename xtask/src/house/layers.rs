//! Which crate may depend on which. Dependencies run one way: core ← store ← engine ← server, and the
//! applications use the engine only.

use super::Finding;
use crate::cargo::Package;

const RULE: &str = "layers";

/// What one crate may use. A crate without a row here is a finding, so nothing grows unplaced.
struct Layer {
    package: &'static str,
    /// Crates of the workspace.
    uses: &'static [&'static str],
    /// Crates of the workspace that its tests may use besides.
    tests_use: &'static [&'static str],
    /// The only crates from outside, where that is limited. Tests may use others.
    outside: Option<&'static [&'static str]>,
}

const LAYERS: &[Layer] = &[
    Layer {
        // Whatever core depends on can put a clock, a file or a lock into a decision.
        outside: Some(&["postcard", "serde", "serde_json", "sha2", "smol_str"]),
        ..layer("tenure-core", &[])
    },
    // Whatever a crate reads it spoils in its own tests, and so this stands below all of them.
    layer("tenure-spoil", &[]),
    Layer { tests_use: &["tenure-spoil"], ..layer("tenure-redis", &[]) },
    Layer { tests_use: &["tenure-spoil"], ..layer("tenure-store", &["tenure-core", "tenure-redis"]) },
    Layer { tests_use: &["tenure-redis"], ..layer("tenure-engine", &["tenure-core", "tenure-store"]) },
    layer("tenure-sim", &["tenure-core", "tenure-store", "tenure-engine"]),
    Layer {
        tests_use: &["tenure-spoil", "tenure-store"],
        ..layer("tenure-apps", &["tenure-core", "tenure-engine"])
    },
    // Only the program chooses a store, so the server cannot come to lean on one of them.
    Layer {
        tests_use: &["tenure-spoil", "tenure-store"],
        ..layer("tenure-server", &["tenure-core", "tenure-redis", "tenure-engine", "tenure-apps"])
    },
    // A client shares words with the server, never its code. Its tests start a real one.
    Layer {
        tests_use: &["tenure-spoil", "tenure-store", "tenure-engine", "tenure-apps", "tenure-server"],
        ..layer("tenure-client", &["tenure-core"])
    },
    layer(
        "tenure-cli",
        &[
            "tenure-core",
            "tenure-redis",
            "tenure-store",
            "tenure-engine",
            "tenure-sim",
            "tenure-apps",
            "tenure-server",
            "tenure-client",
            "tenure-load",
        ],
    ),
    // Everything that reads bytes from outside, each on its own.
    layer(
        "tenure-fuzz",
        &[
            "tenure-spoil",
            "tenure-core",
            "tenure-store",
            "tenure-engine",
            "tenure-apps",
            "tenure-server",
            "tenure-load",
        ],
    ),
    // It sees what an outsider sees: the program and its answers.
    layer("tenure-soak", &[]),
    // What measures Tenure must not be made of it.
    layer("tenure-load", &[]),
    layer("xtask", &[]),
];

const fn layer(package: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer { package, uses, tests_use: &[], outside: None }
}

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let mut find = |detail| findings.push(Finding::whole_file(RULE, &package.manifest, detail));
        let Some(layer) = LAYERS.iter().find(|layer| layer.package == package.name) else {
            find(format!("{} has no place among the layers; give it one", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let is_ours = packages.iter().any(|ours| ours.name == name);
            let may = if is_ours {
                // A crate's tests may use the crate itself, with features that only they want.
                let tests_may = layer.tests_use.contains(&name) || name == package.name;
                layer.uses.contains(&name) || dependency.tests_only && tests_may
            } else {
                dependency.tests_only || layer.outside.is_none_or(|outside| outside.contains(&name))
            };
            if !may {
                let who = if dependency.tests_only { "'s tests" } else { "" };
                find(format!("{}{who} must not depend on {name}", package.name));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Dependency;

    /// Packages written as `name: dependency dependency`; a `?` marks what only tests use.
    fn check(packages: &[&str], expected: &[&str]) {
        let packages = packages.iter().map(|line| {
            let (name, dependencies) = line.split_once(':').unwrap();
            let dependencies = dependencies.split_whitespace().map(|name| Dependency {
                name: name.trim_end_matches('?').to_owned(),
                tests_only: name.ends_with('?'),
            });
            Package { name: name.to_owned(), manifest: String::new(), dependencies: dependencies.collect() }
        });
        let findings = super::check(&packages.collect::<Vec<_>>());
        let details: Vec<_> = findings.into_iter().map(|finding| finding.detail).collect();
        assert_eq!(details, expected);
    }

    #[test]
    fn the_designs_layers_are_allowed() {
        check(
            &[
                "tenure-core: serde proptest?",
                "tenure-store: tenure-core rusqlite",
                "tenure-engine: tenure-core tenure-store tokio",
                "tenure-apps: tenure-core tenure-engine tenure-store?",
                "tenure-server: tenure-engine tenure-apps axum",
                "tenure-cli: tenure-store tenure-server",
            ],
            &[],
        );
    }

    #[test]
    fn looking_up_is_found() {
        check(
            &["tenure-core: tenure-store?", "tenure-store: tenure-core tenure-engine", "tenure-engine:"],
            &[
                "tenure-core's tests must not depend on tenure-store",
                "tenure-store must not depend on tenure-engine",
            ],
        );
    }

    #[test]
    fn a_server_that_knows_its_store_is_found() {
        check(
            &["tenure-store:", "tenure-server: tenure-store"],
            &["tenure-server must not depend on tenure-store"],
        );
    }

    #[test]
    fn a_client_that_shares_code_with_the_server_is_found() {
        check(
            &["tenure-server:", "tenure-client: tenure-server tenure-server?"],
            &["tenure-client must not depend on tenure-server"],
        );
    }

    #[test]
    fn depending_on_the_program_or_on_the_tasks_is_found() {
        check(
            &["tenure-cli:", "xtask:", "tenure-sim: tenure-cli xtask?"],
            &["tenure-sim must not depend on tenure-cli", "tenure-sim's tests must not depend on xtask"],
        );
    }

    #[test]
    fn core_uses_nothing_else_from_outside() {
        check(&["tenure-core: serde tokio"], &["tenure-core must not depend on tokio"]);
    }

    #[test]
    fn an_unplaced_crate_is_found() {
        check(&["tenure-misc:"], &["tenure-misc has no place among the layers; give it one"]);
    }
}
