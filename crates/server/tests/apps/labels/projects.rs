//! Projects and their images.

use axum::http::Method;
use serde_json::json;

use super::{PROJECT, image, patch, server};
use crate::server::{Call, NOW, person};

#[tokio::test]
async fn a_project_is_made_once_and_read_by_everyone() {
    let s = server().await;
    let project = json!({"id": "streets", "name": "Streets", "owner": person("olga"), "version": 1,
        "created_at": NOW, "updated_at": NOW});
    s.get("vera:viewer", PROJECT).await.is(200, project.clone());
    let all = json!({"projects": [project], "next": null, "server_time": NOW});
    s.get("vera:viewer", "/api/v1/projects").await.is(200, all);
    s.post("bea", "/api/v1/projects", json!({"id": "streets", "name": "Mine"})).await.code(409, "conflict");
    for (field, body) in [
        ("name", json!({})),
        ("name", json!({"name": " "})),
        ("name", json!({"name": "x".repeat(201)})),
        ("id", json!({"name": "x", "id": "a/b"})),
        ("id", json!({"name": "x", "id": ".."})),
        ("colour", json!({"name": "x", "colour": "red"})),
    ] {
        s.post("ana", "/api/v1/projects", body).await.invalid(field);
    }
    let unknown = json!({"what": "project", "id": "none"});
    s.get("ana", "/api/v1/projects/none").await.refuses(404, "not_found", unknown);
    s.get("ana", "/api/v1/projects/..%2Fx").await.code(404, "not_found");
    s.get("ana", "/api/v1/projects?limit=201").await.invalid("limit");
    s.get("ana", "/api/v1/projects?after=a%2Fb").await.invalid("after");
}

/// E4: a retry without an id finds the project of the first one.
#[tokio::test]
async fn e04_a_retried_project_is_the_first_one() {
    let s = server().await;
    let call =
        |name: &str| Call::new("ana", Method::POST, "/api/v1/projects").json(&json!({"name": name})).key("k");
    let first = s.send(call("A")).await.status(201).json();
    let s = s.restart();
    let again = s.send(call("A")).await.status(201);
    assert_eq!((again.header("idempotency-replayed"), again.json()), ("true", first));
    s.send(call("B")).await.code(422, "key_reused");
}

/// An image may be only its size; a status is one of the kind's.
#[tokio::test]
async fn an_image_may_be_only_its_size() {
    let s = server().await;
    let one = image(&s).await;
    let path = format!("{PROJECT}/images/{one}");
    let free = json!({"state": "free", "locked_by": null, "locked_at": null, "heartbeat_at": null,
        "expires_at": null, "expires_in_ms": null, "mine": false});
    let shown = json!({"id": one, "project_id": "streets", "name": "crossing", "status": "new", "width": 100,
        "height": 50, "annotations": 0, "format": null, "bytes": null, "file_url": null,
        "thumbnail_url": null, "lock": free, "created_by": person("ana"), "created_at": NOW, "version": 1,
        "updated_at": NOW});
    s.get("vera:viewer", &path).await.is(200, shown);
    s.get("ana", &format!("{path}/file")).await.refuses(404, "not_found", json!({"what": "file", "id": one}));
    s.get("ana", &format!("{path}/thumbnail")).await.code(404, "not_found");
    assert_eq!(patch(&s, "bea", &path, json!({"status": "done"})).await.status(200).json()["status"], "done");
    patch(&s, "bea", &path, json!({"status": "sold"})).await.invalid("status");
    patch(&s, "bea", &path, json!({})).await.invalid("status");
    let listed = |status: &str| format!("{PROJECT}/images?status={status}");
    assert_eq!(s.get("ana", &listed("done")).await.json()["images"].as_array().map(Vec::len), Some(1));
    assert_eq!(s.get("ana", &listed("new")).await.json()["images"], json!([]));
    patch(&s, "bea", &path, json!({"status": "archived"})).await.status(200);
    patch(&s, "bea", &path, json!({"status": "new"})).await.code(409, "wrong_status");
    let images = format!("{PROJECT}/images");
    for (field, body) in [
        ("name", json!({"width": 1, "height": 1})),
        ("width", json!({"name": "x", "width": 0, "height": 1})),
        ("height", json!({"name": "x", "width": 1, "height": 32_768})),
        ("width", json!({"name": "x", "width": 30_000, "height": 30_000})),
        ("width", json!({"name": "x", "width": -1, "height": 1})),
        ("url", json!({"name": "x", "width": 1, "height": 1, "url": "http://localhost/"})),
    ] {
        s.post("ana", &images, body).await.invalid(field);
    }
    s.send(Call::new("ana", Method::POST, &images).raw("text/plain", "hello"))
        .await
        .code(415, "unsupported_media_type");
    s.post("ana", "/api/v1/projects/none/images", json!({"name": "x"})).await.code(404, "not_found");
}
