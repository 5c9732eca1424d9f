//! Route × role × own/other, made from the table that the checks are made from.

use axum::http::Method;
use serde_json::{Value, json};
use tenure_server::{May, Role, Rule, TABLE};

use crate::server::{Call, Reply, Server};

/// The REST routes. Those of identity need the real gate and are tested with it; those of an application
/// are tested beside it.
fn rules() -> impl Iterator<Item = &'static Rule> {
    let s = Server::new();
    let paths = s.api["paths"].as_object().expect("paths").clone();
    TABLE.iter().filter(move |rule| {
        let operation = &paths[rule.path][rule.method.to_lowercase()];
        let elsewhere = ["identity", "tasks", "labels", "jobs", "raffle", "payments"];
        let tag = operation["tags"][0].as_str().unwrap_or("");
        operation.is_object() && !elsewhere.contains(&tag)
    })
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Editor => "editor",
        Role::Worker => "worker",
        Role::Admin => "admin",
    }
}

const ROLES: [Role; 4] = [Role::Viewer, Role::Editor, Role::Worker, Role::Admin];

/// A server where `owner` holds item `a` of a raffle in its first phase, under claim 5 with token 5.
async fn server(owner: &str) -> Server {
    let s = Server::new();
    s.collection("raffle/x", &["a", "b", "c"]).await;
    let claim = json!({"collection": "raffle/x", "items": ["a", "b"]});
    s.post(&format!("{owner}:admin"), "/v1/claims", claim).await.status(201);
    s
}

/// A request of this route about what the owner holds.
fn call(who: &str, rule: &Rule) -> Call {
    let path = rule
        .path
        .replace("{id}", "raffle~x~5")
        .replace("{kind}", "raffle")
        .replace("{name}", "x")
        .replace("{item}", "a");
    let method: Method = rule.method.parse().expect("a method");
    let body: Value = match (rule.method, rule.path) {
        ("POST", "/v1/claims") => json!({"collection": "raffle/x", "items": ["a"]}),
        ("POST", "/v1/claims/{id}/heartbeat") => json!({"token": 5}),
        ("POST", "/v1/claims/{id}/items") => json!({"item": "c"}),
        ("POST", "/v1/claims/{id}/complete") => json!({"status": "sold"}),
        ("PUT", "/v1/collections/{kind}/{name}/items/{item}") => json!({"version": 1, "data": 1}),
        ("POST", path) if path.contains("/force-") => json!({"reason": "test"}),
        ("POST", "/v1/batch") => json!({"commands": [{"op": "release", "claim": "raffle~x~99"}]}),
        ("PUT", "/v1/policies/{kind}") => json!(*tenure_core::Policy::preset("raffle").expect("built in")),
        _ => json!({}),
    };
    match rule.method {
        "DELETE" if rule.path.ends_with("/items/{item}") && rule.path.contains("{kind}") => {
            // Nobody deletes what is held; `c` is held by no one.
            Call::new(who, method, &path.replace("/items/a", "/items/c")).header("if-match", "\"1\"")
        }
        "GET" | "DELETE" => Call::new(who, method, &path),
        _ => Call::new(who, method, &path).json(&body),
    }
}

fn is_allowed(reply: &Reply) -> bool {
    // A socket cannot be opened without a connection: that is as far as anybody gets here.
    reply.status.is_success() || reply.status == 426
}

#[tokio::test]
async fn e08_without_credentials_only_public_routes_answer() {
    for rule in rules() {
        let s = server("ana").await;
        let reply = s.send(call("", rule)).await;
        match rule.may {
            May::Anyone => assert!(is_allowed(&reply), "{rule:?}: {reply:?}"),
            May::Roles { .. } => drop(reply.code(401, "unauthenticated")),
        }
    }
}

#[tokio::test]
async fn e08_each_role_does_what_the_table_says_on_its_own_and_no_more() {
    for rule in rules() {
        let May::Roles { own, .. } = rule.may else { continue };
        for role in ROLES {
            let s = server("ana").await;
            let who = format!("ana:{}", word(role));
            let reply = s.send(call(&who, rule)).await;
            if own.has(role) {
                assert!(is_allowed(&reply), "{rule:?} {role:?}: {reply:?}");
            } else {
                reply.code(403, "forbidden");
                assert_unchanged(&s).await;
            }
        }
    }
}

/// T14, T15: another's claim stays as it is.
#[tokio::test]
async fn t15_each_role_does_what_the_table_says_on_anothers_and_no_more() {
    for rule in rules() {
        let May::Roles { own, other } = rule.may else { continue };
        for role in ROLES {
            let s = server("ana").await;
            let who = format!("beto:{}", word(role));
            let about_the_claim = !(rule.method == "DELETE" && rule.path.contains("{kind}"));
            let reply = s.send(call(&who, rule)).await;
            if other.has(role) {
                assert!(is_allowed(&reply), "{rule:?} {role:?}: {reply:?}");
            } else if own.has(role) && about_the_claim {
                let code = reply.json()["code"].clone();
                assert!(code == "not_holder" || code == "held", "{rule:?} {role:?}: {reply:?}");
                assert_unchanged(&s).await;
            } else if !own.has(role) {
                reply.code(403, "forbidden");
                assert_unchanged(&s).await;
            }
        }
    }
}

/// Nothing happened since the owner's claim.
async fn assert_unchanged(s: &Server) {
    let head = s.get("ana", "/v1/collections/raffle/x").await.status(200).json();
    assert_eq!(head["seq"], 5);
}

/// What a command may do in a batch is what its route may do.
#[tokio::test]
async fn e08_a_batch_gives_no_role_more_than_the_routes() {
    for role in ROLES {
        let s = server("ana").await;
        let who = format!("beto:{}", word(role));
        let force = json!({"op": "force_release", "collection": "raffle/x", "item": "a", "reason": "test"});
        let reply = s.post(&who, "/v1/batch", json!({"commands": [force]})).await;
        match role {
            Role::Viewer => drop(reply.code(403, "forbidden")),
            Role::Editor | Role::Worker => assert_eq!(reply.json()["answers"][0]["status"], 403),
            Role::Admin => assert_eq!(reply.json()["answers"][0]["status"], 200),
        }
    }
}
