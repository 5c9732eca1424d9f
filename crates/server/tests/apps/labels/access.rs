//! Route × role, made from the table that the checks are made from.

use axum::http::Method;
use serde_json::{Value, json};
use tenure_server::{May, Role, Rule, TABLE};

use super::{PROJECT, annotation, edit, image, lock, new, server};
use crate::server::{Call, Server};

const ROLES: [Role; 4] = [Role::Viewer, Role::Editor, Role::Worker, Role::Admin];

fn rules() -> impl Iterator<Item = &'static Rule> {
    TABLE.iter().filter(|rule| rule.path.starts_with("/api/v1/"))
}

/// A request of this route about an image that Ana has locked and annotated.
async fn call(s: &Server, who: &str, rule: &Rule) -> Call {
    let image = image(s).await;
    let at_annotation = annotation(s, &image).await;
    lock(s, "ana", "acquire", &image).await.status(200);
    let path = match rule.path {
        "/api/v1/annotations/{id}" => at_annotation,
        path => path.replace("{id}", "streets").replace("{image_id}", &image),
    };
    let body: Value = match (rule.method, rule.path.rsplit('/').next().unwrap_or("")) {
        ("POST", "projects") => json!({"name": "More"}),
        ("POST", "images") => json!({"name": "x", "width": 5, "height": 5}),
        ("POST", "annotations") => new(1),
        ("PUT", _) => edit(5, 1),
        ("PATCH", _) => json!({"status": "done"}),
        _ => json!({"project_id": "streets", "image_id": image}),
    };
    let method: Method = rule.method.parse().expect("a method");
    let call = Call::new(who, method, &path);
    if matches!(rule.method, "GET" | "DELETE") { call } else { call.json(&body) }
}

fn is_file(rule: &Rule) -> bool {
    // The image of these tests is kept elsewhere.
    rule.path.ends_with("/file") || rule.path.ends_with("/thumbnail")
}

/// E8, L2: each role does on its own what the table says, and nothing without credentials or another kind's.
#[tokio::test]
async fn e08_each_role_does_what_the_table_says() {
    assert_eq!(rules().count(), 17);
    for rule in rules() {
        let May::Roles { own, .. } = rule.may else { panic!("{rule:?} is open to anyone") };
        let s = server().await;
        s.send(call(&s, "", rule).await).await.code(401, "unauthenticated");
        s.send(call(&s, "ana:admin:task", rule).await).await.code(403, "forbidden");
        for role in ROLES {
            let s = server().await;
            let reply = s.send(call(&s, &format!("ana:{}", role.as_str()), rule).await).await;
            let seq = async || s.get("root", "/v1/collections/image/streets").await.json()["seq"].clone();
            match own.has(role) {
                true if is_file(rule) => drop(reply.code(404, "not_found")),
                true => assert!(reply.status.is_success(), "{rule:?} {role:?}: {reply:?}"),
                false => {
                    reply.code(403, "forbidden");
                    // Made, an image, its annotation and the lock; nothing since.
                    assert_eq!(seq().await, 6);
                }
            }
        }
    }
}

/// L2, L4, L9: what Ana has locked and made stays as it is, whoever comes.
#[tokio::test]
async fn e08_another_does_what_the_table_says_and_no_more() {
    for rule in rules() {
        let May::Roles { own, other } = rule.may else { panic!("{rule:?} is open to anyone") };
        for role in ROLES {
            let s = server().await;
            let call = call(&s, &format!("beto:{}", role.as_str()), rule).await;
            let reply = s.send(call).await;
            if other.has(role) {
                assert!(reply.status.is_success() || is_file(rule), "{rule:?} {role:?}: {reply:?}");
            } else if own.has(role) {
                let code = reply.json()["code"].clone();
                let codes = ["held", "forbidden", "not_holder", "lost"];
                assert!(codes.iter().any(|known| code == *known), "{rule:?} {role:?}: {reply:?}");
                let seq = s.get("root", "/v1/collections/image/streets").await.json()["seq"].clone();
                assert_eq!(seq, 6, "{rule:?}");
            } else {
                reply.code(403, "forbidden");
            }
        }
    }
}

/// L2, L9: nobody gets around the application by writing its documents as plain items, alone, in a batch or
/// while completing a claim. An administrator may mend.
#[tokio::test]
async fn e08_the_applications_documents_are_written_by_it_alone() {
    let s = server().await;
    let image = image(&s).await;
    let id = annotation(&s, &image).await.rsplit('/').next().expect("an id").replacen(
        "streets~",
        "annotation-",
        1,
    );
    let seq = async || s.get("root", "/v1/collections/image/streets").await.json()["seq"].clone();
    let before = seq().await;
    for item in [id.as_str(), image.as_str(), "project", "annotation-new", "image-new"] {
        let path = format!("/v1/collections/image/streets/items/{item}");
        s.put("bea", &path, json!({"version": 1, "data": {}})).await.code(403, "forbidden");
        let delete = Call::new("bea", Method::DELETE, &path).header("if-match", "\"1\"");
        s.send(delete).await.code(403, "forbidden");
        let put = json!({"op": "put_item", "collection": "image/streets", "item": item, "data": {}});
        s.post("bea", "/v1/batch", json!({"commands": [put], "atomic": true})).await.code(403, "forbidden");
        let each = s.post("bea", "/v1/batch", json!({"commands": [put]})).await.status(200).json();
        assert_eq!(each["answers"][0]["status"], 403);
    }
    assert_eq!(seq().await, before);
    // A lock is a claim like any other; what ends it writes nothing.
    let claim = json!({"collection": "image/streets", "items": [image]});
    let (claim, _) = s.post("bea", "/v1/claims", claim).await.claim();
    let complete = format!("/v1/claims/{claim}/complete");
    s.post("bea", &complete, json!({"data": {}})).await.code(403, "forbidden");
    s.post("bea", &complete, json!({"status": "done"})).await.code(403, "forbidden");
    s.post("bea", &complete, json!({})).await.status(200);
    assert_eq!(s.get("bea", &format!("{PROJECT}/images/{image}")).await.json()["lock"]["state"], "free");
}
