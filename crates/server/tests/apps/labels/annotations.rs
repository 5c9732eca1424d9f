//! Annotations: versions, authors, and the lock of their image.

use axum::http::Method;
use serde_json::{Value, json};

use super::{PROJECT, annotation, edit, image, lock, new, patch, server, square};
use crate::server::{Call, NOW, at, person};

/// A float reads back as one.
fn floats(x: f64) -> Value {
    json!({"type": "rectangle", "x": x, "y": 2.0, "width": 10.0, "height": 10.0})
}

/// L1: a change over the right version adds 1 and says who and when.
#[tokio::test]
async fn l01_a_change_over_the_right_version_counts_it_up() {
    let s = server().await;
    let image = image(&s).await;
    let path = annotation(&s, &image).await;
    s.pass(1_000);
    let changed = s.put("olga", &path, edit(5, 1)).await;
    assert_eq!(changed.header("etag"), "\"2\"");
    let id = path.rsplit('/').next().expect("an id");
    changed.is(
        200,
        json!({"id": id, "project_id": "streets", "image_id": image, "geometry": floats(5.0),
            "class_id": "bus", "version": 2, "author": person("ana"), "created_at": NOW,
            "updated_by": person("olga"), "updated_at": at(1_000)}),
    );
    let list =
        s.get("vera:viewer", &format!("{PROJECT}/images/{image}/annotations")).await.status(200).json();
    assert_eq!((&list["annotations"][0]["version"], &list["next"]), (&json!(2), &json!(null)));
}

/// L1: a change over another version is 409 with `error`, `message` and both versions, and a problem too.
#[tokio::test]
async fn l01_a_change_over_another_version_is_a_conflict() {
    let s = server().await;
    let image = image(&s).await;
    let path = annotation(&s, &image).await;
    s.put("ana", &path, edit(5, 1)).await.status(200);
    let message = "somebody has changed this annotation since; load the newer version and try again";
    let both = json!({"error": "conflict", "message": message, "expected_version": 1, "current_version": 2});
    s.put("ana", &path, edit(9, 1)).await.refuses(409, "conflict", both.clone());
    s.delete("ana", &format!("{path}?version=1")).await.refuses(409, "conflict", both);
    let list = s.get("ana", &format!("{PROJECT}/images/{image}/annotations")).await.json();
    assert_eq!(list["annotations"][0]["geometry"], floats(5.0));
    s.put("ana", &path, json!({"geometry": square(1), "class_id": "car"})).await.invalid("version");
    s.put("ana", &path, edit(9, 0)).await.invalid("version");
    s.delete("ana", &format!("{path}?version=2")).await.status(204);
}

/// L2: 403 for others, 404 for what is not there.
#[tokio::test]
async fn l02_only_the_author_and_the_projects_owner_edit() {
    let s = server().await;
    let image = image(&s).await;
    let path = annotation(&s, &image).await;
    let id = path.rsplit('/').next().expect("an id").to_owned();
    let anas = json!({"what": "annotation", "id": id, "author": person("ana")});
    s.put("bea", &path, edit(5, 1)).await.refuses(403, "forbidden", anas.clone());
    s.delete("bea", &path).await.refuses(403, "forbidden", anas.clone());
    // An administrator is neither of the two.
    s.put("root", &path, edit(5, 1)).await.refuses(403, "forbidden", anas);
    s.put("ana", &path, edit(5, 1)).await.status(200);
    s.put("olga", &path, edit(6, 2)).await.status(200);
    s.delete("olga", &path).await.status(204);
    let gone = json!({"what": "annotation", "id": id});
    s.put("ana", &path, edit(5, 3)).await.refuses(404, "not_found", gone.clone());
    s.delete("ana", &path).await.refuses(404, "not_found", gone);
    for bent in ["x", "streets~x~y", "other~image-1~y", "..%2F..", "streets~~", "%00~%00~%00"] {
        s.put("ana", &format!("/api/v1/annotations/{bent}"), edit(5, 1)).await.code(404, "not_found");
    }
}

/// L9: nothing in an image that another has locked is written, also with the right version.
#[tokio::test]
async fn l09_an_image_that_another_has_locked_is_not_written_to() {
    let s = server().await;
    let image = image(&s).await;
    let path = annotation(&s, &image).await;
    lock(&s, "bea", "acquire", &image).await.status(200);
    let at_image = format!("{PROJECT}/images/{image}");
    for who in ["ana", "olga"] {
        let held = s.put(who, &path, edit(5, 1)).await.code(409, "held").json();
        assert_eq!((&held["items"][0]["item"], &held["items"][0]["holder"]), (&json!(image), &person("bea")));
        s.delete(who, &path).await.code(409, "held");
        s.post(who, &format!("{at_image}/annotations"), new(1)).await.code(409, "held");
        patch(&s, who, &at_image, json!({"status": "done"})).await.code(409, "held");
    }
    let seen = s.get("ana", &at_image).await.json();
    assert_eq!((&seen["status"], &seen["annotations"]), (&json!("new"), &json!(1)));
    // Who has it locked writes; and once it is over, so do the others.
    s.post("bea", &format!("{at_image}/annotations"), new(1)).await.status(201);
    s.pass(300_000);
    s.put("ana", &path, edit(5, 1)).await.status(200);
    patch(&s, "ana", &at_image, json!({"status": "done"})).await.status(200);
}

/// E1: a write that names a token is made under that lock alone.
#[tokio::test]
async fn e01_a_write_under_an_old_token_is_refused() {
    let s = server().await;
    let image = image(&s).await;
    let path = annotation(&s, &image).await;
    let token = lock(&s, "ana", "acquire", &image).await.json()["token"].clone();
    s.pass(300_000);
    let mut under = edit(5, 1);
    under["token"] = token.clone();
    s.put("ana", &path, under.clone()).await.code(409, "not_held");
    lock(&s, "ana", "acquire", &image).await.status(200);
    s.put("ana", &path, under).await.code(403, "stale_token");
    s.delete("ana", &format!("{path}?token={token}")).await.code(403, "stale_token");
}

/// E4: a retried POST gets the first answer.
#[tokio::test]
async fn e04_a_retried_annotation_is_the_first_one() {
    let s = server().await;
    let image = image(&s).await;
    let path = format!("{PROJECT}/images/{image}/annotations");
    let call = |body: &Value| Call::new("ana", Method::POST, &path).json(body).key("k-1");
    let first = s.send(call(&new(1))).await.status(201).json();
    let s = s.restart();
    let again = s.send(call(&new(1))).await.status(201);
    assert_eq!((again.header("idempotency-replayed"), again.json()), ("true", first));
    s.send(call(&new(2))).await.code(422, "key_reused");
    assert_eq!(s.get("ana", &path).await.json()["annotations"].as_array().map(Vec::len), Some(1));
}

/// Bad input is 422 with the field, and nothing comes of it.
#[tokio::test]
async fn bad_input_is_refused_with_the_field() {
    let s = server().await;
    let image = image(&s).await;
    let path = format!("{PROJECT}/images/{image}/annotations");
    for (field, geometry) in [
        ("geometry", json!(null)),
        ("geometry.type", json!({"type": "circle", "x": 1})),
        ("geometry.height", json!({"type": "rectangle", "x": 1, "y": 1, "width": 1})),
        ("geometry.z", json!({"type": "rectangle", "x": 1, "y": 1, "width": 1, "height": 1, "z": 1})),
        ("geometry", json!({"type": "rectangle", "x": "1", "y": 1, "width": 1, "height": 1})),
        ("geometry.x", json!({"type": "rectangle", "x": -1, "y": 1, "width": 1, "height": 1})),
        ("geometry.height", json!({"type": "rectangle", "x": 1, "y": 1, "width": 1, "height": 50})),
        ("geometry.width", json!({"type": "rectangle", "x": 1, "y": 1, "width": 1e300, "height": 1})),
        ("geometry.points", json!({"type": "polygon", "points": [[1, 1], [2, 2]]})),
        ("geometry.points[2][1]", json!({"type": "polygon", "points": [[1, 1], [9, 9], [1, 51]]})),
        ("geometry", json!({"type": "polygon", "points": [[1, 1, 1], [9, 9], [1, 5]]})),
    ] {
        let body = json!({"geometry": geometry, "class_id": "car"});
        s.post("ana", &path, body).await.invalid(field);
    }
    for class_id in [json!(""), json!("a b"), json!(7), json!("x".repeat(65))] {
        let body = json!({"geometry": square(1), "class_id": class_id});
        s.post("ana", &path, body).await.invalid("class_id");
    }
    let infinite = r#"{"geometry": {"type": "rectangle", "x": 1e999, "y": 1, "width": 1, "height": 1}, "class_id": "a"}"#;
    s.send(Call::new("ana", Method::POST, &path).raw("application/json", infinite)).await.status(400);
    s.post("ana", &path, json!({"class_id": "car"})).await.invalid("geometry");
    s.post("ana", &path, json!({"geometry": square(1), "class_id": "car", "colour": 1}))
        .await
        .invalid("colour");
    s.get("ana", &format!("{path}?limit=0")).await.invalid("limit");
    s.get("ana", &format!("{path}?limit=201")).await.invalid("limit");
    s.get("ana", &format!("{path}?after=x")).await.invalid("after");
    let missing = format!("{PROJECT}/images/image-none/annotations");
    s.post("ana", &missing, new(1)).await.refuses(
        404,
        "not_found",
        json!({"what": "image", "id": "image-none"}),
    );
    s.get("ana", &missing).await.code(404, "not_found");
    assert_eq!(s.get("ana", &path).await.json()["annotations"], json!([]));
}
