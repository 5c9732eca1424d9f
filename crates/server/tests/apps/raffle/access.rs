//! Route × role, and no way around the application.

use axum::http::Method;
use serde_json::{Value, json};
use tenure_server::Rule;

use super::{becomes, grid, reserved, sell, server};
use crate::access::{self, Ready};
use crate::server::Call;

/// A request of this route about what Ana has reserved.
async fn prepare(rule: &Rule) -> Ready {
    let server = server().await;
    let id = reserved(&server, "ana", &[1, 2]).await;
    if rule.path.ends_with("/draw") {
        sell(&server, &id).await;
        becomes(&server, "paused").await.status(200);
        if rule.method == "GET" {
            server.post("root", "/raffles/navidad/draw", json!({})).await.status(200);
        }
    }
    let path = if rule.path.starts_with("/raffles") {
        rule.path.replace("{id}", "navidad")
    } else if rule.path == "/admin/reservations" {
        "/admin/reservations?raffle_id=navidad".to_owned()
    } else {
        rule.path.replace("{id}", &id).replace("{number}", "2")
    };
    let body: Value = match (rule.method, rule.path) {
        ("POST", "/raffles") => json!({"title": "More", "numbers": 1, "price_minor": 1, "currency": "USD"}),
        ("PATCH", _) => json!({"status": "paused"}),
        ("POST", "/reservations") => {
            json!({"raffle_id": "navidad", "number_ids": [3], "session_id": "another"})
        }
        ("POST", path) if path.ends_with("/numbers") => json!({"number_id": 3}),
        _ => json!({}),
    };
    Ready { server, path, body, collection: "raffle/navidad" }
}

/// E8: each role does what the table says, and what Ana has reserved stays hers.
#[tokio::test]
async fn e08_each_role_does_what_the_table_says() {
    access::check("raffle", prepare).await;
}

/// E8: a key of another kind opens nothing.
#[tokio::test]
async fn e08_a_key_of_another_kind_opens_nothing() {
    let own = |rule: &&Rule| ["/raffles", "/reservations"].iter().any(|start| rule.path.starts_with(start));
    for rule in tenure_server::TABLE.iter().filter(own) {
        let Ready { server, path, body, .. } = prepare(rule).await;
        let call = Call::new("ana:admin:task", rule.method.parse().expect("a method"), &path);
        let call = if rule.method == "GET" { call } else { call.json(&body) };
        server.send(call).await.code(403, "forbidden");
    }
}

/// R24: nobody gets around the limits and the documents by the general routes: neither by a claim of their
/// own nor by ending one, nor by writing. An administrator may mend, and no more.
#[tokio::test]
async fn r24_numbers_are_reserved_through_the_application_alone() {
    let s = server().await;
    reserved(&s, "ana", &[1, 2]).await;
    let claims = s.get("root", "/v1/claims?collection=raffle/navidad").await.status(200).json();
    let claim = claims["claims"][0]["id"].as_str().expect("a claim").to_owned();
    let ask = async |method: Method, path: &str, body: Value| {
        let call = Call::new("ana", method, path);
        s.send(call.json(&body)).await.code(403, "forbidden");
    };
    ask(Method::POST, "/v1/claims", json!({"collection": "raffle/navidad", "items": ["1"]})).await;
    for action in ["advance", "cancel", "complete"] {
        ask(Method::POST, &format!("/v1/claims/{claim}/{action}"), json!({})).await;
    }
    ask(Method::POST, &format!("/v1/claims/{claim}/items"), json!({"item": "2"})).await;
    s.delete("ana", &format!("/v1/claims/{claim}")).await.code(403, "forbidden");
    for item in ["raffle", "1", "77", "buyer-x", "reservation-x"] {
        let path = format!("/v1/collections/raffle/navidad/items/{item}");
        ask(Method::PUT, &path, json!({"status": "sold", "data": {}, "version": 1})).await;
    }
    let batch = json!({"commands": [{"op": "cancel", "claim": claim}]});
    let answers = s.post("ana", "/v1/batch", batch).await.json();
    assert_eq!(answers["answers"][0]["status"], 403);
    assert_eq!(grid(&s, "ana").await[..3], *"mm-");
    // An administrator neither claims nor sells one without a reservation; only frees what is stuck.
    for (method, path, body) in [
        (Method::POST, "/v1/claims", json!({"collection": "raffle/navidad", "items": ["3"]})),
        (Method::PUT, "/v1/collections/raffle/navidad/items/3", json!({"status": "sold"})),
        (Method::DELETE, "/v1/collections/raffle/navidad/items/1", json!({})),
        (Method::POST, "/v1/collections/raffle/navidad/items/1/force-claim", json!({"reason": "mine"})),
    ] {
        let refused = s.send(Call::new("root", method, path).json(&body)).await.code(403, "forbidden");
        assert!(refused.json()["detail"].as_str().expect("words").contains("/reservations"), "{path}");
    }
    let batch = json!({"commands": [{"op": "acquire", "collection": "raffle/navidad", "items": ["3"]}]});
    assert_eq!(s.post("root", "/v1/batch", batch).await.json()["answers"][0]["status"], 403);
    assert_eq!(grid(&s, "ana").await[..3], *"mm-");
    let free = "/v1/collections/raffle/navidad/items/1/force-release";
    s.post("root", free, json!({"reason": "stuck"})).await.status(200);
    assert_eq!(grid(&s, "ana").await[..3], *"---");
    // What is no raffle of the application's is anybody's.
    s.collection("raffle/plain", &["1"]).await;
    s.post("ana", "/v1/claims", json!({"collection": "raffle/plain", "items": ["1"]})).await.status(201);
    s.get("ana", "/raffles/plain").await.code(404, "not_found");
    let taken = json!({"id": "plain", "title": "x", "numbers": 1, "price_minor": 1, "currency": "CRC"});
    s.post("root", "/raffles", taken).await.invalid("id");
}

/// Who wants which number is told to an administrator, and to nobody else by any way around.
#[tokio::test]
async fn r12_the_general_routes_tell_nobody_whose_a_number_is() {
    let s = server().await;
    reserved(&s, "ana", &[1, 2]).await;
    let claims = s.get("root", "/v1/claims?collection=raffle/navidad").await.status(200).json();
    let claim = claims["claims"][0]["id"].as_str().expect("a claim").to_owned();
    for path in [
        "/v1/collections/raffle/navidad",
        "/v1/collections/raffle/navidad/items",
        "/v1/collections/raffle/navidad/items/1",
        "/v1/collections/raffle/navidad/items/1/explain",
        "/v1/collections/raffle/navidad/events?since=0",
        "/v1/claims?collection=raffle/navidad",
        &format!("/v1/claims/{claim}"),
    ] {
        s.get("root", path).await.status(200);
        for who in ["ana", "bea", "vera:viewer", "wes:worker"] {
            s.get(who, path).await.code(403, "forbidden");
        }
    }
    assert_eq!(s.get("bea", "/v1/claims").await.status(200).json()["claims"], json!([]));
    s.post("bea", &format!("/v1/claims/{claim}/nudge"), json!({})).await.code(403, "forbidden");
}
