//! Items as documents: versions by header and by body, guards, lists.

use axum::http::Method;
use serde_json::json;

use crate::server::{Call, NOW, Reply, Server, at, person};

const PATH: &str = "/v1/collections/image/p/items/i";

async fn with_item() -> Server {
    let s = Server::new();
    s.collection("image/p", &["i"]).await;
    s
}

async fn put(s: &Server, who: &str, headers: &[(&'static str, &str)], body: serde_json::Value) -> Reply {
    let call = Call::new(who, Method::PUT, PATH).json(&body);
    s.send(headers.iter().fold(call, |call, (name, value)| call.header(name, value))).await
}

#[tokio::test]
async fn l01_an_item_is_created_with_version_1_and_read_with_its_etag() {
    let s = Server::new();
    s.collection("image/p", &[]).await;
    let created = put(&s, "ana", &[("if-none-match", "*")], json!({"data": {"a": [1, 2.0, "x"]}})).await;
    assert_eq!(created.header("etag"), "\"1\"");
    let document = json!({
        "id": "i", "collection": "image/p", "status": "new", "version": 1, "data": {"a": [1, 2.0, "x"]},
        "fence": 0, "updated_at": NOW, "updated_by": "ana",
    });
    created.is(201, document.clone());
    let read = s.get("beto", PATH).await;
    assert_eq!(read.header("etag"), "\"1\"");
    let mut item = document;
    item["claim"] = json!(null);
    item["server_time"] = json!(NOW);
    read.is(200, item);
    s.get("ana", "/v1/collections/image/p/items/none").await.refuses(
        404,
        "not_found",
        json!({"what": "item", "id": "none"}),
    );
    s.put("ana", "/v1/collections/image/none/items/i", json!({})).await.code(404, "not_found");
}

/// L1 with headers: a mismatch is 412.
#[tokio::test]
async fn l01_if_match_takes_the_newest_version_or_is_412() {
    let s = with_item().await;
    s.pass(5);
    let changed = put(&s, "ana", &[("if-match", "\"1\"")], json!({"data": 1})).await.status(200);
    assert_eq!(changed.header("etag"), "\"2\"");
    let versions = json!({"expected_version": 1, "current_version": 2});
    put(&s, "beto", &[("if-match", "\"1\"")], json!({"data": 2})).await.refuses(
        412,
        "precondition_failed",
        versions,
    );
    put(&s, "beto", &[("if-match", "2")], json!({})).await.invalid("If-Match");
    for never in ["\"02\"", "W/\"x\""] {
        let current = json!({"current_version": 2});
        put(&s, "beto", &[("if-match", never)], json!({})).await.refuses(412, "precondition_failed", current);
    }
    let versions = json!({"expected_version": 0, "current_version": 2});
    put(&s, "beto", &[("if-none-match", "*")], json!({})).await.refuses(412, "precondition_failed", versions);
    // What becomes of it behind a proxy that compresses.
    put(&s, "beto", &[("if-match", "W/\"1\"")], json!({})).await.status(412);
    let item =
        put(&s, "beto", &[("if-match", "W/\"2\"")], json!({"status": "done"})).await.status(200).json();
    assert_eq!((&item["version"], &item["data"], &item["updated_at"]), (&json!(3), &json!(1), &json!(at(5))));
}

#[tokio::test]
async fn if_match_on_an_item_that_is_not_there_is_412() {
    let s = Server::new();
    s.collection("image/p", &[]).await;
    put(&s, "ana", &[("if-match", "*")], json!({})).await.refuses(412, "precondition_failed", json!({}));
    let versions = json!({"expected_version": 1, "current_version": 0});
    put(&s, "ana", &[("if-match", "\"1\"")], json!({})).await.refuses(412, "precondition_failed", versions);
    s.get("ana", PATH).await.status(404);
}

/// L1 with a version in the body: a mismatch is 409.
#[tokio::test]
async fn l01_a_version_in_the_body_that_is_not_the_newest_is_409_with_both() {
    let s = with_item().await;
    put(&s, "ana", &[], json!({"data": 1, "version": 1})).await.status(200);
    let versions = json!({"expected_version": 1, "current_version": 2});
    put(&s, "beto", &[], json!({"data": 2, "version": 1})).await.refuses(409, "conflict", versions);
    let versions = json!({"expected_version": 0, "current_version": 2});
    put(&s, "beto", &[], json!({"version": 0})).await.refuses(409, "conflict", versions);
    assert_eq!(s.get("ana", PATH).await.json()["data"], 1);
}

#[tokio::test]
async fn changing_an_existing_item_without_saying_which_version_is_428() {
    let s = with_item().await;
    put(&s, "ana", &[], json!({"data": 1})).await.refuses(
        428,
        "precondition_required",
        json!({"current_version": 1}),
    );
    s.delete("ana", PATH).await.refuses(428, "precondition_required", json!({"current_version": 1}));
    assert_eq!(s.get("ana", PATH).await.json()["version"], 1);
}

#[tokio::test]
async fn preconditions_that_say_two_things_are_422() {
    let s = with_item().await;
    put(&s, "ana", &[("if-match", "\"1\"")], json!({"version": 1})).await.invalid("version");
    put(&s, "ana", &[("if-match", "\"1\""), ("if-none-match", "*")], json!({}))
        .await
        .invalid("If-None-Match");
    put(&s, "ana", &[("if-match", "\"1\", \"2\"")], json!({})).await.invalid("If-Match");
    put(&s, "ana", &[("if-match", "\"1\""), ("if-match", "\"2\"")], json!({})).await.invalid("If-Match");
    put(&s, "ana", &[("if-none-match", "\"1\"")], json!({})).await.invalid("If-None-Match");
    put(&s, "ana", &[], json!({"token": 1})).await.invalid("claim_id");
    put(&s, "ana", &[], json!({"claim_id": "image~p~3"})).await.invalid("token");
    put(&s, "ana", &[], json!({"claim_id": "image~q~3", "token": 1})).await.invalid("claim_id");
    put(&s, "ana", &[], json!({"claim_id": "nonsense", "token": 1})).await.invalid("claim_id");
    put(&s, "ana", &[], json!({"status": "no spaces"})).await.invalid("status");
}

/// E1, T13, J8: a write under a claim needs the holder, the token and the time.
#[tokio::test]
async fn e01_a_write_under_a_claim_is_403_with_a_wrong_token_and_410_when_it_is_lost() {
    let s = with_item().await;
    let (id, token) =
        s.post("ana", "/v1/claims", json!({"collection": "image/p", "items": ["i"]})).await.claim();
    let under = |token: u64| json!({"data": token, "claim_id": id, "token": token});
    put(&s, "ana", &[], under(token)).await.status(200);
    put(&s, "ana", &[], under(token + 9)).await.code(403, "stale_token");
    put(&s, "beto", &[], under(token)).await.code(403, "not_holder");
    let read = s.get("beto", PATH).await.json();
    assert_eq!((&read["claim"]["holder"], &read["claim"]["id"]), (&person("ana"), &json!(id)));
    assert_eq!(read["fence"], token);
    s.pass(300_000);
    put(&s, "ana", &[], under(token)).await.code(410, "lost");
    assert_eq!(s.get("ana", PATH).await.json()["version"], 2);
}

/// L9: also with the right version.
#[tokio::test]
async fn l09_what_another_holds_cannot_be_written_or_deleted() {
    let s = with_item().await;
    s.post("ana", "/v1/claims", json!({"collection": "image/p", "items": ["i"]})).await.status(201);
    let held = put(&s, "beto", &[], json!({"data": 1, "version": 1})).await.code(409, "held");
    assert_eq!(held.header("retry-after"), "300");
    s.delete("beto", &format!("{PATH}?version=1")).await.code(409, "held");
    s.delete("ana", &format!("{PATH}?version=1")).await.code(409, "held");
}

#[tokio::test]
async fn an_item_is_deleted_at_the_version_that_the_caller_knows() {
    let s = with_item().await;
    let delete = |etag: &str| s.send(Call::new("ana", Method::DELETE, PATH).header("if-match", etag));
    delete("\"7\"").await.refuses(
        412,
        "precondition_failed",
        json!({"expected_version": 7, "current_version": 1}),
    );
    s.delete("ana", &format!("{PATH}?version=7")).await.code(409, "conflict");
    s.delete("ana", &format!("{PATH}?version=x")).await.invalid("version");
    s.delete("ana", &format!("{PATH}?token=1")).await.invalid("claim_id");
    assert!(delete("\"1\"").await.status(204).bytes.is_empty());
    delete("\"1\"").await.code(404, "not_found");
    put(&s, "ana", &[], json!({})).await.status(201);
    s.delete("ana", &format!("{PATH}?version=1")).await.status(204);
}

/// T7, L5
#[tokio::test]
async fn items_are_listed_by_status_and_by_who_holds_them() {
    let s = Server::new();
    s.collection("raffle/x", &["1", "2", "3", "4"]).await;
    let (_, _) = s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["2"]})).await.claim();
    s.put("root", "/v1/collections/raffle/x/items/4", json!({"status": "sold", "version": 1}))
        .await
        .status(200);
    let ids = async |query: &str| {
        let page = s.get("beto", &format!("/v1/collections/raffle/x/items{query}")).await.status(200).json();
        let ids = page["items"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| row["id"].as_str().expect("id").to_owned());
        (ids.collect::<Vec<_>>().join(" "), page["next"].clone())
    };
    assert_eq!(ids("").await, ("1 2 3 4".to_owned(), json!(null)));
    assert_eq!(ids("?held=true").await.0, "2");
    assert_eq!(ids("?held=false").await.0, "1 3 4");
    assert_eq!(ids("?status=sold").await.0, "4");
    assert_eq!(ids("?held=false&limit=2").await, ("1 3".to_owned(), json!("3")));
    assert_eq!(ids("?limit=2&after=2").await, ("3 4".to_owned(), json!(null)));
    // Nobody swept: the phase went on by itself, then the claim ran out.
    s.pass(600_000);
    assert_eq!(ids("?held=true").await.0, "2");
    s.pass(300_000);
    assert_eq!(ids("?held=true").await.0, "");
    s.get("ana", "/v1/collections/raffle/none/items").await.code(404, "not_found");
    s.get("ana", "/v1/collections/raffle/x/items?held=maybe").await.invalid("held");
    s.get("ana", "/v1/collections/raffle/x/items?after=%07").await.invalid("after");
}

#[tokio::test]
async fn an_items_id_may_have_any_text_in_the_path() {
    let s = Server::new();
    s.collection("image/p", &[]).await;
    let path = "/v1/collections/image/p/items/a%20b%2Fc%3F%C3%A1";
    assert_eq!(s.put("ana", path, json!({})).await.status(201).json()["id"], "a b/c?á");
    assert_eq!(s.get("ana", path).await.status(200).json()["id"], "a b/c?á");
}

/// A page is bounded in bytes too: large documents come on more pages, and none is left out.
#[tokio::test]
async fn pages_of_large_documents_are_short_and_leave_nothing_out() {
    let s = Server::new();
    s.collection("image/p", &[]).await;
    let large = "x".repeat(60_000);
    for number in 0..40 {
        let path = format!("/v1/collections/image/p/items/i{number:02}");
        s.put("root", &path, json!({"data": large})).await.status(201);
    }
    for (path, list, cursor, from) in [
        ("/v1/collections/image/p/items", "items", "next", "after"),
        ("/v1/collections/image/p/events", "events", "last", "since"),
        ("/v1/audit", "rows", "next", "cursor"),
    ] {
        let (mut found, mut pages, mut at) = (0, 0, String::new());
        loop {
            let page = s.get("root", &format!("{path}?limit=1000{at}")).await.status(200);
            assert!(page.bytes.len() < 1_300_000, "{path}: {} bytes", page.bytes.len());
            let page = page.json();
            let rows = page[list].as_array().expect("rows").iter();
            let count = rows.filter(|row| row.to_string().len() > 60_000).count();
            found += count;
            pages += 1;
            let is_last =
                if list == "events" { page["last"] == page["newest"] } else { page["next"].is_null() };
            if is_last {
                break;
            }
            assert!(count > 0, "{path}: a page without anything new");
            at = format!("&{from}={}", page[cursor].to_string().trim_matches('"'));
        }
        assert_eq!(found, 40, "{path}");
        assert!(pages >= 3, "{path}: {pages} pages");
    }
    // What comes with the rows counts too.
    for number in 0..40 {
        let body = json!({"collection": "lock/jobs", "items": [format!("i{number:02}")], "data": large});
        s.post("ana", "/v1/claims", body).await.status(201);
    }
    for path in ["/v1/collections/lock/jobs/items", "/v1/claims"] {
        let page = s.get("root", &format!("{path}?limit=1000")).await.status(200);
        assert!(
            page.bytes.len() < 1_300_000 && !page.json()["next"].is_null(),
            "{path}: {} bytes",
            page.bytes.len()
        );
    }
}
