//! Health, readiness and figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tenure_server::TABLE;

use crate::world::{ADMIN, World};

#[tokio::test]
async fn health_is_the_process_and_readiness_the_store() {
    let world = World::new().await;
    assert_eq!(world.send("GET", "/healthz", &[], "").await.text, "ok\n");
    assert_eq!(world.send("GET", "/readyz", &[], "").await.text, "ready\n");
    assert_eq!(world.send("HEAD", "/healthz", &[], "").await.short(), "200");
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_keep_browsers_safe() {
    let world = World::new().await;
    for (method, path) in
        [("GET", "/healthz"), ("GET", "/v1/nothing"), ("GET", "/v1/keys"), ("PUT", "/v1/keys")]
    {
        let reply = world.send(method, path, &[], "").await;
        let csp = reply.header("content-security-policy");
        assert!(csp.starts_with("default-src 'none'") && csp.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert_eq!(reply.header("strict-transport-security"), "", "only with TLS");
        assert!(!reply.header("x-request-id").is_empty());
    }
    let reply = world.send("GET", "/healthz", &[("x-request-id", "mine-1")], "").await;
    assert_eq!(reply.header("x-request-id"), "mine-1");
    let reply = world.send("GET", "/healthz", &[("x-request-id", "<b>")], "").await;
    assert_ne!(reply.header("x-request-id"), "<b>");
}

#[tokio::test]
async fn figures_are_in_prometheus_form() {
    let world = World::new().await;
    world.ask(ADMIN, "GET", "/v1/keys", "").await;
    world.ask("nobody", "GET", "/v1/keys", "").await;
    world.send("BREW", "/v1/nothing", &[], "").await;
    let _stream = world.app.metrics().stream("ws");
    world.app.metrics().resumed("replayed");
    let reply = world.send("GET", "/metrics", &[], "").await;
    assert!(reply.header("content-type").starts_with("text/plain; version=0.0.4"));
    lint(&reply.text);
    if let Some((is_well, said)) = promtool(&["check", "metrics"], &reply.text) {
        assert!(is_well && said.is_empty(), "{said}");
    }
    let has = |line: &str| {
        assert!(reply.text.lines().any(|found| found.starts_with(line)), "{line} in {}", reply.text);
    };
    has(
        "tenure_http_request_seconds_bucket{route=\"/v1/keys\",method=\"GET\",status=\"2xx\",le=\"0.00025\"}",
    );
    has("tenure_http_request_seconds_count{route=\"none\",method=\"other\",status=\"4xx\"} 1");
    has("tenure_refusals_total{code=\"unauthenticated\"} 1");
    has("tenure_batch_commands_count ");
    has("tenure_commit_seconds_count ");
    has("tenure_queue_length 0");
    has("tenure_sockets{sort=\"ws\"} 1");
    has("tenure_resumes_total{outcome=\"replayed\"} 1");
    has("tenure_fold_lag_seconds 0");
    has("tenure_store_answers 1");
    has("# HELP tenure_commit_seconds ");
}

#[test]
fn the_sample_alerts_are_rules_that_prometheus_takes() {
    let rules = include_str!("../../../../deploy/prometheus/tenure.rules.yml");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    let Some((is_well, said)) = promtool(&["check", "rules", file.path().to_str().unwrap()], "") else {
        return;
    };
    assert!(is_well && said.contains("SUCCESS"), "{said}");
}

/// Each panel's expressions, as rules: Prometheus has no other way to read one without a server.
#[test]
fn the_sample_dashboards_expressions_are_ones_that_prometheus_takes() {
    let dashboard = include_str!("../../../../deploy/grafana/tenure.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let mut rules = "groups:\n  - name: dashboard\n    rules:\n".to_owned();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
            let expression = serde_json::Value::from(expression);
            writeln!(
                rules,
                "      - {{record: \"panel:{}:{}\", expr: {expression}}}",
                panel["id"],
                target["refId"].as_str().unwrap()
            )
            .unwrap();
        }
    }
    assert!(rules.lines().count() > 20, "{rules}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    let Some((is_well, said)) = promtool(&["check", "rules", file.path().to_str().unwrap()], "") else {
        return;
    };
    assert!(is_well && said.contains("SUCCESS"), "{said}");
}

/// What `promtool` says, where the machine has it or the test command has fetched it.
fn promtool(arguments: &[&str], page: &str) -> Option<(bool, String)> {
    let fetched = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tools/prometheus/usr/bin/promtool");
    let program = if fetched.is_file() { fetched } else { PathBuf::from("promtool") };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        // The test command has fetched it; whoever runs this test alone may do without.
        let needed = std::env::var("TENURE_TEST_NEEDS").unwrap_or_default();
        assert!(!needed.contains("promtool"), "promtool is not here");
        println!("promtool is not here: only our own look was taken");
        return None;
    };
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), said.into_owned()))
}

/// What `promtool check metrics` looks for, as far as it concerns us.
fn lint(page: &str) {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helped = Vec::new();
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, words) = rest.split_once(' ').unwrap();
            assert!(!words.is_empty());
            helped.push(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(kinds.insert(name, kind).is_none(), "{name} is typed twice");
            assert!(helped.contains(&name), "{name} has no help");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let known =
                kinds.contains_key(name) || base.is_some_and(|base| kinds.get(base) == Some(&"histogram"));
            assert!(known, "{name} has no type");
        }
    }
    assert!(kinds.len() > 10);
}

#[test]
fn every_route_here_has_a_row_and_every_row_stands_once() {
    let routes = tenure_server::own_routes().into_openapi();
    for (path, item) in &routes.paths.paths {
        let methods = [
            ("GET", item.get.is_some()),
            ("POST", item.post.is_some()),
            ("DELETE", item.delete.is_some()),
            ("PUT", item.put.is_some()),
        ];
        for (method, _) in methods.iter().filter(|(_, is_there)| *is_there) {
            let rows = TABLE.iter().filter(|rule| rule.path == path && rule.method == *method).count();
            assert_eq!(rows, 1, "{method} {path}");
        }
    }
}
