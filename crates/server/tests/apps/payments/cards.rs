//! The gateway's public test cards, from the first click to the numbers.

use tenure_apps::payments::BAC_CREDOMATIC;

use super::browser::encode;
use super::world::{APPROVED, PUBLIC_URL, Shop};

/// R19: a page, a card, the numbers; and nothing of the card on this server.
#[tokio::test]
async fn r19_a_newcomer_pays_with_a_test_card_from_end_to_end() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    assert_eq!((&payment["state"], &payment["amount_minor"]), (&"requires_action".into(), &200_000.into()));
    let path =
        payment["payment_url"].as_str().expect("a page").strip_prefix(PUBLIC_URL).expect("ours").to_owned();
    let page = shop.server.get("", &path).await.status(200);
    let policy = page.header("content-security-policy").to_owned();
    let origin = shop.fake.base().trim_end_matches("/api").to_owned();
    for part in ["default-src 'none'", "sandbox allow-forms allow-scripts", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(
        policy.contains(&format!("form-action {origin}")) && !policy.contains("allow-same-origin"),
        "{policy}"
    );
    assert_eq!(
        (page.header("cache-control"), page.header("content-type")),
        ("no-store", "text/html; charset=utf-8")
    );
    assert_eq!(shop.pay(&payment, APPROVED).await, "succeeded");
    assert_eq!((shop.fake.charges(), shop.fake.taken_minor()), (1, 200_000));
    assert_eq!(&shop.grid().await[6..8], "ss");
    shop.server.get("", &path).await.code(404, "not_found");
    assert!(shop.get(&payment).await["payment_url"].is_null());
}

/// R19: what each card comes to.
#[tokio::test]
async fn r19_each_test_card_comes_to_what_the_gateway_says() {
    let cards = [
        ("4012000000020071", "succeeded", None),
        ("4012000000020006", "succeeded", None),
        ("4012000000020121", "failed", Some("3ds_n")),
        ("4666666666662222", "failed", Some("05")),
        ("4111111111110000", "failed", Some("91")),
        ("5100270000000072", "failed", Some("3ds_r")),
        ("5555666666662222", "failed", Some("3ds_u")),
    ];
    for (card, state, reason) in cards {
        let shop = Shop::new().await;
        let payment = shop.start(BAC_CREDOMATIC).await;
        assert_eq!(shop.pay(&payment, card).await, state, "{card}");
        assert_eq!(shop.get(&payment).await["reason"].as_str(), reason, "{card}");
        let is_paid = state == "succeeded";
        assert_eq!(shop.fake.taken_minor(), if is_paid { 200_000 } else { 0 }, "{card}");
        assert_eq!(&shop.grid().await[6..8], if is_paid { "ss" } else { "rr" }, "{card}");
    }
}

/// A bank that could not say is believed only where the operator wants it.
#[tokio::test]
async fn r19_3ds_u_is_charged_only_if_configured() {
    let shop = Shop::new().await;
    shop.patch(BAC_CREDOMATIC, serde_json::json!({"config": {"accept_3ds_u": true}})).await.status(200);
    let payment = shop.start(BAC_CREDOMATIC).await;
    assert_eq!(shop.pay(&payment, "5555666666662222").await, "failed");
    assert_eq!(shop.get(&payment).await["reason"], "05", "it was asked, and declined");
}

/// A declined card leaves time for another.
#[tokio::test]
async fn r19_after_a_declined_card_another_can_pay() {
    let shop = Shop::new().await;
    let first = shop.start(BAC_CREDOMATIC).await;
    assert_eq!(shop.pay(&first, "4666666666662222").await, "failed");
    let body = serde_json::json!({"reservation_id": first["reservation_id"], "provider": BAC_CREDOMATIC});
    let second = shop.server.post("ana", "/payments", body).await.status(201).json();
    assert_eq!(shop.pay(&second, APPROVED).await, "succeeded");
    assert_eq!((shop.fake.charges(), shop.fake.taken_minor()), (1, 200_000));
}

/// What the browser brings can be written by anybody: a letter that is missing or forged charges nobody.
#[tokio::test]
async fn r19_3ds_is_the_gateways_word_and_not_the_browsers() {
    let forged = [
        (
            "4012000000020121",
            r#"{"IsoResponseCode":"3D0","RiskManagement":{"ThreeDSecure":{"AuthenticationStatus":"Y"}}}"#,
            "3ds_n",
        ),
        (
            "5100270000000072",
            r#"{"IsoResponseCode":"3D0","RiskManagement":{"ThreeDSecure":{"AuthenticationStatus":"Y"}}}"#,
            "3ds_r",
        ),
        ("4012000000020071", r#"{"IsoResponseCode":"3D0"}"#, "3ds_missing"),
        (
            "4012000000020071",
            r#"{"IsoResponseCode":"HP0","RiskManagement":{"ThreeDSecure":{"AuthenticationStatus":"Z"}}}"#,
            "3ds_missing",
        ),
    ];
    for (card, response, reason) in forged {
        let shop = Shop::new().await;
        let payment = shop.start(BAC_CREDOMATIC).await;
        let (path, _) = shop.browse(&payment, card).await;
        shop.back(&path, &encode(&[("Response".to_owned(), response.to_owned())])).await.status(200);
        let payment = shop.get(&payment).await;
        assert_eq!(
            (payment["state"].as_str(), payment["reason"].as_str()),
            (Some("failed"), Some(reason)),
            "{card}"
        );
        assert_eq!(shop.fake.charges(), 0, "{card}");
    }
}
