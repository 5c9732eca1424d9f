//! Route × role, and no way around the application.

use axum::http::Method;
use image::ImageFormat;
use serde_json::{Value, json};
use tenure_server::Rule;

use super::files::{picture, upload};
use super::{PROJECT, annotation, edit, image, lock, new, server};
use crate::access::{self, Ready};
use crate::server::Call;

/// A request of this route about an image that Ana has locked and annotated.
async fn prepare(rule: &Rule) -> Ready {
    let server = server().await;
    let made = upload(&server, &picture(100, 50, ImageFormat::Png)).await.status(201).json();
    let image = made["id"].as_str().expect("an id");
    let at_annotation = annotation(&server, image).await;
    lock(&server, "ana", "acquire", image).await.status(200);
    let path = match rule.path {
        "/api/v1/annotations/{id}" => at_annotation,
        path => path.replace("{id}", "streets").replace("{image_id}", image),
    };
    let body: Value = match (rule.method, rule.path.rsplit('/').next().unwrap_or("")) {
        ("POST", "projects") => json!({"name": "More"}),
        ("POST", "images") => json!({"name": "x", "width": 5, "height": 5}),
        ("POST", "annotations") => new(1),
        ("PUT", _) => edit(5, 1),
        ("PATCH", _) => json!({"status": "done"}),
        _ => json!({"project_id": "streets", "image_id": image}),
    };
    Ready { server, path, body, collection: "image/streets" }
}

/// E8, L2, L4, L9: each role does what the table says, and what Ana has made and locked stays as it is.
#[tokio::test]
async fn e08_each_role_does_what_the_table_says() {
    access::check("labels", prepare).await;
}

/// E8: a key of another kind opens nothing.
#[tokio::test]
async fn e08_a_key_of_another_kind_opens_nothing() {
    for rule in tenure_server::TABLE.iter().filter(|rule| rule.path.starts_with("/api/v1/")) {
        let Ready { server, path, body, .. } = prepare(rule).await;
        let call = Call::new("ana:admin:task", rule.method.parse().expect("a method"), &path);
        server.send(call.json(&body)).await.code(403, "forbidden");
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

/// L3: the general routes lock an image for nobody whom the application would refuse.
#[tokio::test]
async fn e08_a_claim_on_an_image_needs_the_applications_permission() {
    let s = server().await;
    let claim = json!({"collection": "image/streets", "items": [image(&s).await]});
    s.post("wes:worker", "/v1/claims", claim.clone()).await.code(403, "forbidden");
    s.post("ana", "/v1/claims", claim).await.status(201);
}
