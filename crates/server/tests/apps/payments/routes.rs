//! What the routes say, and to whom.

use axum::http::Method;
use serde_json::{Value, json};
use tenure_apps::Permission;
use tenure_apps::payments::{BAC_CREDOMATIC, EditProvider, FileVault, Provider, SINPE_MOVIL, Till};
use tenure_server::App;
use tenure_server::gateway::{PowerTranz, PowerTranzSettings};

use super::world::{PUBLIC_URL, Shop, actor};
use crate::access::{Ready, check};
use crate::server::Call;

#[tokio::test]
async fn r17_providers_are_listed_and_changed() {
    let shop = Shop::new().await;
    let shown = shop.server.get("vera:viewer", "/payment-providers").await.status(200).json();
    let codes: Vec<_> =
        shown["providers"].as_array().expect("a list").iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, [BAC_CREDOMATIC, SINPE_MOVIL]);
    assert!(shown.to_string().find("config").is_none(), "{shown}");
    let all = shop.server.get("root", "/admin/payment-providers").await.status(200).json();
    assert_eq!(all["providers"][0]["config"]["api_key"], "********");
    shop.patch(BAC_CREDOMATIC, json!({"config": {"environment": "production"}}))
        .await
        .invalid("config.environment");
    shop.patch(BAC_CREDOMATIC, json!({"priority": -1})).await.invalid("priority");
    shop.patch(BAC_CREDOMATIC, json!({"config": {"colour": "red"}})).await.invalid("config.colour");
    shop.patch("nobody", json!({})).await.code(404, "not_found");
    let new = json!({"code": "norte", "name": "Norte", "is_automatic": false, "priority": 3});
    let made = shop.server.post("root", "/admin/payment-providers", new.clone()).await.status(201);
    assert_eq!(made.header("location"), "/admin/payment-providers/norte");
    shop.server.post("root", "/admin/payment-providers", new).await.invalid("code");
}

/// R19: the manual flow.
#[tokio::test]
async fn r19_a_transfer_is_told_compared_and_sold() {
    let shop = Shop::new().await;
    let payment = shop.start(SINPE_MOVIL).await;
    let instructions = &payment["instructions"];
    assert_eq!(instructions["phone_number"], "8888-0000");
    assert_eq!(instructions["amount"], "₡2,000.00");
    let id = payment["id"].as_str().expect("an id");
    let told =
        json!({"reference": "2026 0102-1234567890", "payer_phone": "8888-0001", "amount_minor": 200_000});
    let path = format!("/payments/{id}/transfer");
    shop.server.post("bea", &path, told.clone()).await.code(403, "forbidden");
    shop.server
        .post("ana", &path, json!({"reference": "x", "payer_phone": "88880001", "amount_minor": 1}))
        .await
        .invalid("reference");
    let review = shop.server.post("ana", &path, told).await.status(200).json();
    assert_eq!(review["state"], "pending_review");
    let list = shop.server.get("root", "/admin/payments?state=pending_review").await.status(200).json();
    let listed = &list["payments"][0];
    assert_eq!(
        (&listed["id"], &listed["transfer"]["reference"]),
        (&payment["id"], &"202601021234567890".into())
    );
    assert_eq!(
        shop.server.get("root", "/admin/payments?state=succeeded").await.json()["payments"],
        json!([])
    );
    shop.server.get("root", "/admin/payments?state=nothing").await.invalid("state");
    let approve = format!("/admin/payments/{id}/approve");
    shop.server.post("root", &approve, json!({"bank_amount_minor": -1})).await.invalid("bank_amount_minor");
    shop.server
        .post("ana:admin", &approve, json!({"bank_amount_minor": 200_000}))
        .await
        .code(403, "forbidden");
    let call =
        || Call::new("root", Method::POST, &approve).json(&json!({"bank_amount_minor": 200_000})).key("k1");
    let sold = shop.server.send(call()).await.status(200).json();
    assert_eq!(
        (sold["state"].as_str(), sold["decided_by"]["id"].as_str()),
        (Some("succeeded"), Some("root"))
    );
    assert_eq!(shop.server.send(call()).await.status(200).json()["state"], "succeeded", "a retry");
    assert_eq!(&shop.grid().await[6..8], "ss");
}

#[tokio::test]
async fn r19_a_payment_shows_each_what_is_theirs() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let path = format!("/payments/{}", payment["id"].as_str().expect("an id"));
    let own = shop.server.get("ana", &path).await.status(200).json();
    assert_eq!((&own["payment_url"], own.get("buyer")), (&payment["payment_url"], None));
    let manager = shop.server.get("root", &path).await.status(200).json();
    assert_eq!((manager.get("payment_url"), &manager["buyer"]["id"]), (None, &"ana".into()));
    shop.server.get("bea", &path).await.code(403, "forbidden");
    shop.server.get("ana", "/payments/navidad~x").await.code(404, "not_found");
    shop.server.get("ana", "/payments/x").await.code(404, "not_found");
    // Nobody sees a token, a phone or a page in what is kept: not even who may read all of it.
    let items = shop.server.get("root", "/v1/collections/raffle/navidad/items?limit=1000").await.status(200);
    let token = payment["payment_url"].as_str().expect("a page").rsplit('/').next().expect("a token");
    assert!(!items.text().contains(token) && items.text().contains("requires_action"));
    // And nobody writes around the application.
    let item = "/v1/collections/raffle/navidad/items/attempt-x";
    shop.server.put("ana", item, json!({"data": {}})).await.code(403, "forbidden");
}

#[tokio::test]
async fn r19_a_callback_that_is_none_changes_nothing() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let path = payment["payment_url"].as_str().expect("a page");
    let path = path.strip_prefix(super::world::PUBLIC_URL).expect("ours").replacen(
        "/pay/",
        "/payments/callback/",
        1,
    );
    let call = |path: &str| Call::new("", Method::POST, path);
    shop.server.send(call(&path).json(&json!({"Response": "{}"}))).await.code(415, "unsupported_media_type");
    shop.back(&path, "").await.invalid("Response");
    shop.back(&path, "Response=%7B").await.invalid("Response");
    shop.back(&path, &"x".repeat(70_000)).await.code(413, "too_large");
    shop.back(&format!("{path}x"), "Response=%7B%7D").await.code(404, "not_found");
    shop.back("/payments/callback/navidad~x/y", "Response=%7B%7D").await.code(404, "not_found");
    shop.server.get("", "/pay/navidad~x/y").await.code(404, "not_found");
    assert_eq!(shop.state(&payment).await, "requires_action");
}

/// Route × role. What Cora pays is neither Ana's nor Bea's, so that nobody reviews their own.
#[tokio::test]
async fn e08_every_route_of_payments_by_role() {
    // Each server has its gateway and its folder as long as it is asked.
    let kept = parking_lot::Mutex::new(Vec::new());
    check("payments", async |rule| {
        let shop = Shop::new().await;
        let (who, provider) = match rule.path {
            path if path.starts_with("/admin/payments/") => ("cora", SINPE_MOVIL),
            "/payments/{id}/transfer" => ("ana", SINPE_MOVIL),
            _ => ("ana", BAC_CREDOMATIC),
        };
        let reservation = shop.reserve(who, &[7, 8]).await;
        let mut body = json!({"reservation_id": reservation, "provider": provider});
        let mut path = rule.path.to_owned();
        let transfer = json!({"reference": "1234567890", "payer_phone": "88880001", "amount_minor": 200_000});
        if rule.path.contains("payments/{id}") {
            let payment = shop.server.post(who, "/payments", body).await.status(201).json();
            let id = payment["id"].as_str().expect("an id");
            path = path.replace("{id}", id);
            if rule.path.starts_with("/admin/") {
                shop.server
                    .post(who, &format!("/payments/{id}/transfer"), transfer.clone())
                    .await
                    .status(200);
            }
            body = match rule.path {
                "/payments/{id}/transfer" => transfer,
                "/admin/payments/{id}/approve" => json!({"bank_amount_minor": 200_000}),
                "/admin/payments/{id}/reject" => json!({"reason": "no"}),
                _ => json!({}),
            };
            if rule.path.ends_with("/refund") {
                let approve = format!("/admin/payments/{id}/approve");
                shop.server.post("root", &approve, json!({"bank_amount_minor": 1})).await.status(200);
            }
        } else if rule.path.starts_with("/admin/payment-providers") {
            path = path.replace("{id}", SINPE_MOVIL);
            body = match rule.method {
                "POST" => json!({"code": "norte", "name": "Norte", "is_automatic": false, "priority": 3}),
                _ => json!({"priority": 4}),
            };
        }
        let Shop { server, fake, folder, .. } = shop;
        kept.lock().push((fake, folder));
        Ready { server, path, body: Value::clone(&body), collection: "raffle/navidad" }
    })
    .await;
}

/// What was fine with one gateway is not with another: nobody pays real money at a test gateway, whatever the
/// server was started with when production was chosen.
#[tokio::test]
async fn r17_production_at_a_gateway_that_is_not_for_it_is_not_offered() {
    let shop = Shop::new().await;
    let real = App::new(shop.server.engine.clone());
    let vault = FileVault::new(shop.folder.path().join("secrets"));
    let gateway = PowerTranz::new(PowerTranzSettings::default()).expect("is configured");
    real.open_till(Till::new(vault, PUBLIC_URL).with(BAC_CREDOMATIC, gateway));
    let root = actor("root", &[Permission::PaymentsManage]);
    let config = json!({"environment": "production"}).as_object().cloned();
    let edit = EditProvider { config, ..EditProvider::default() };
    real.payments().edit_provider(&root, BAC_CREDOMATIC, &edit).await.expect("its gateway is for real money");
    let all = shop.server.get("root", "/admin/payment-providers").await.status(200).json();
    let cards = all["providers"].as_array().expect("a list").iter().find(|one| one["code"] == BAC_CREDOMATIC);
    assert_eq!(cards.expect("is there")["missing"], json!(["environment"]));
    let offered = shop.server.get("ana", "/payment-providers").await.status(200).json();
    assert!(!offered.to_string().contains(BAC_CREDOMATIC), "{offered}");
    let reservation = shop.reserve("ana", &[7]).await;
    let body = json!({"reservation_id": reservation, "provider": BAC_CREDOMATIC});
    shop.server.post("ana", "/payments", body).await.code(409, "wrong_status");

    // Whatever case its name is written in.
    let base = Some("https://STAGING.ptranz.com/api".to_owned());
    let gateway = PowerTranz::new(PowerTranzSettings { base, ..PowerTranzSettings::default() });
    let config = json!({"environment": "production"});
    let refusal = gateway.expect("is configured").validate_config(config.as_object().expect("fields"));
    assert!(refusal.is_err());
}
