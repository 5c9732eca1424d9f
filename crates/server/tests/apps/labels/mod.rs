//! `/api/v1/projects`, `/api/v1/annotations` and `/api/v1/locks`: L1 to L9.

mod access;
mod annotations;
mod files;
mod locks;
mod projects;

use axum::http::Method;
use serde_json::{Value, json};

use crate::server::{Call, Reply, Server};

pub(crate) const PROJECT: &str = "/api/v1/projects/streets";

/// A server with a project of Olga's.
async fn server() -> Server {
    let s = Server::new();
    let new = json!({"id": "streets", "name": "Streets"});
    let made = s.post("olga", "/api/v1/projects", new).await.status(201);
    assert_eq!(made.header("location"), PROJECT);
    s
}

/// An image of 100 × 50; gives its id.
async fn image(s: &Server) -> String {
    let new = json!({"name": "crossing", "width": 100, "height": 50});
    let made = s.post("ana", &format!("{PROJECT}/images"), new).await.status(201);
    made.json()["id"].as_str().expect("an id").to_owned()
}

/// A box of Ana's in an image; gives its path.
async fn annotation(s: &Server, image: &str) -> String {
    let made = s.post("ana", &format!("{PROJECT}/images/{image}/annotations"), new(1)).await.status(201);
    made.header("location").to_owned()
}

async fn lock(s: &Server, who: &str, verb: &str, image: &str) -> Reply {
    let at = json!({"project_id": "streets", "image_id": image});
    s.post(who, &format!("/api/v1/locks/{verb}"), at).await
}

async fn patch(s: &Server, who: &str, path: &str, body: Value) -> Reply {
    s.send(Call::new(who, Method::PATCH, path).json(&body)).await
}

fn square(x: i64) -> Value {
    json!({"type": "rectangle", "x": x, "y": 2, "width": 10, "height": 10})
}

fn new(x: i64) -> Value {
    json!({"geometry": square(x), "class_id": "car"})
}

fn edit(x: i64, version: u64) -> Value {
    json!({"geometry": square(x), "class_id": "bus", "version": version})
}
