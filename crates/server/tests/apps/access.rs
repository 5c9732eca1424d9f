//! Route × role × own/other for an application's routes, made from the access table.

use axum::http::Method;
use serde_json::Value;
use tenure_server::{May, Role, Rule, TABLE};

use crate::server::{Call, Server};

const ROLES: [Role; 4] = [Role::Viewer, Role::Editor, Role::Worker, Role::Admin];

/// An application, prepared for one request to one of its routes.
pub(crate) struct Ready {
    pub(crate) server: Server,
    /// The request's path.
    pub(crate) path: String,
    /// The request's body.
    pub(crate) body: Value,
    /// The application's collection.
    pub(crate) collection: &'static str,
}

/// Tries every route under this tag as everyone, on what Ana holds. `prepare` makes a server where she does
/// and says what to ask of the route.
pub(crate) async fn check(tag: &str, prepare: impl AsyncFn(&Rule) -> Ready) {
    let api = Server::new().api;
    let rules =
        TABLE.iter().filter(|rule| api["paths"][rule.path][rule.method.to_lowercase()]["tags"][0] == tag);
    let mut count = 0;
    for rule in rules {
        count += 1;
        let May::Roles { own, other } = rule.may else { continue };
        for (who, allowed) in [("ana", own), ("bea", other)] {
            for role in ROLES {
                let ready = prepare(rule).await;
                let before =
                    ready.server.get("root", &format!("/v1/collections/{}", ready.collection)).await.json();
                let method: Method = rule.method.parse().expect("a method");
                let call = Call::new(&format!("{who}:{}", role.as_str()), method, &ready.path);
                let call = if rule.method == "GET" { call } else { call.json(&ready.body) };
                let reply = ready.server.send(call).await;
                let at = format!("{} {} as {who}, {role:?}: {reply:?}", rule.method, rule.path);
                if allowed.has(role) {
                    // A socket cannot be opened without a connection: that is as far as anybody gets here.
                    assert!(reply.status.is_success() || reply.status == 426, "{at}");
                    continue;
                }
                let code = reply.json()["code"].as_str().unwrap_or("").to_owned();
                // What another made, and not only holds, is forbidden too.
                let others: &[&str] = &["held", "not_holder", "lost", "forbidden"];
                let expected = if own.has(role) { others } else { &["forbidden"] };
                assert!(expected.contains(&&*code), "{at}");
                let after =
                    ready.server.get("root", &format!("/v1/collections/{}", ready.collection)).await.json();
                assert_eq!(before, after, "{at}: something changed");
            }
        }
        let ready = prepare(rule).await;
        let call = Call::new("", rule.method.parse().expect("a method"), &ready.path);
        ready.server.send(call).await.code(401, "unauthenticated");
    }
    assert!(count > 0, "no route is tagged {tag}");
}
