//! `Idempotency-Key` on what buyers do with a payment.

use axum::http::Method;
use serde_json::{Value, json};
use tenure_apps::payments::{BAC_CREDOMATIC, SINPE_MOVIL};

use super::world::Shop;
use crate::server::Call;

/// I13: a retry of a cancel or of a transfer gets the first answer; the same key for anything else is refused.
#[tokio::test]
async fn r19_a_retry_of_a_cancel_or_a_transfer_is_the_same_request() {
    let shop = Shop::new().await;
    let payment = shop.start(SINPE_MOVIL).await;
    let id = payment["id"].as_str().expect("an id");
    let transfer =
        |reference: &str| json!({"reference": reference, "payer_phone": "88880001", "amount_minor": 200_000});
    let tell = async |reference: &str, key: &str| {
        let path = format!("/payments/{id}/transfer");
        shop.server.send(Call::new("ana", Method::POST, &path).json(&transfer(reference)).key(key)).await
    };
    let first = tell("1234567890", "k1").await.status(200);
    assert_eq!(
        (first.json()["state"].as_str(), first.header("idempotency-replayed")),
        (Some("pending_review"), "")
    );
    let again = tell("1234567890", "k1").await.status(200);
    assert_eq!(again.json()["state"], "pending_review");
    assert_eq!(again.header("idempotency-replayed"), "true");
    tell("9999999999", "k1").await.code(422, "key_reused");
    // Also when there is nothing to tell any more.
    let reject = format!("/admin/payments/{id}/reject");
    shop.server.post("root", &reject, json!({"reason": "not there"})).await.status(200);
    assert_eq!(tell("1234567890", "k1").await.status(200).json()["state"], "failed", "as it is now");
    tell("9999999999", "k1").await.code(422, "key_reused");
    tell("1234567890", "k2").await.code(409, "wrong_status");

    let reservation = shop.reserve("ana", &[20]).await;
    let body = json!({"reservation_id": reservation, "provider": BAC_CREDOMATIC});
    let payment = shop.server.post("ana", "/payments", body).await.status(201).json();
    let path = format!("/payments/{}/cancel", payment["id"].as_str().expect("an id"));
    let cancel = async |who: &str, body: Value, key: &str| {
        shop.server.send(Call::new(who, Method::POST, &path).json(&body).key(key)).await
    };
    cancel("ana", json!({}), "k1").await.code(422, "key_reused");
    // The operator's keys are the operator's.
    let first = cancel("root", json!({}), "k3").await.status(200);
    assert_eq!(
        (first.json()["state"].as_str(), first.header("idempotency-replayed")),
        (Some("canceled"), "")
    );
    assert_eq!(cancel("root", json!({}), "k3").await.status(200).header("idempotency-replayed"), "true");
    let other = format!("/payments/{id}/cancel");
    shop.server
        .send(Call::new("root", Method::POST, &other).json(&json!({})).key("k3"))
        .await
        .code(422, "key_reused");
    let own = cancel("ana", json!({}), "k3").await.status(200);
    assert_eq!(own.header("idempotency-replayed"), "", "hers is another key");

    let body = json!({"reservation_id": reservation, "provider": BAC_CREDOMATIC});
    let payment = shop.server.post("ana", "/payments", body.clone()).await.status(201).json();
    let path = format!("/payments/{}/cancel", payment["id"].as_str().expect("an id"));
    let cancel = || Call::new("ana", Method::POST, &path).json(&json!({})).key("k4");
    shop.server.send(cancel()).await.status(200);
    let begun = shop.server.send(Call::new("ana", Method::POST, "/payments").json(&body).key("k4")).await;
    begun.code(422, "key_reused");
    let again = shop.server.send(cancel()).await.status(200);
    assert_eq!(again.header("idempotency-replayed"), "true");
}
