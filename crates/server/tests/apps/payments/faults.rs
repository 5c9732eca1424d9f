//! What a gateway, a network, a crash or a liar can do.

use serde_json::json;
use tenure_apps::payments::BAC_CREDOMATIC;
use tenure_server::gateway::fake::Fault;

use super::browser::encode;
use super::world::{APPROVED, PUBLIC_URL, Shop};

/// Two simultaneous callbacks → one charge.
#[tokio::test]
async fn r19_two_callbacks_at_once_charge_once() {
    let shop = Shop::new().await;
    shop.fake.set(Fault::ChargeSlow);
    let payment = shop.start(BAC_CREDOMATIC).await;
    let (path, body) = shop.browse(&payment, APPROVED).await;
    let (one, other) = tokio::join!(shop.back(&path, &body), shop.back(&path, &body));
    let states = [one.status(200).text().to_owned(), other.status(200).text().to_owned()];
    assert!(states.iter().any(|page| page.contains("succeeded")), "{states:?}");
    assert_eq!((shop.fake.charges(), shop.state(&payment).await.as_str()), (1, "succeeded"));
    let again = shop.back(&path, &body).await.status(200);
    assert!(again.text().contains("succeeded") && shop.fake.charges() == 1, "the same answer");
}

/// A forged `Approved = true`, without and with the gateway's page: only the gateway's own word counts.
#[tokio::test]
async fn r19_a_forged_approval_sells_nothing() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let path = payment["payment_url"].as_str().expect("a page").strip_prefix(PUBLIC_URL).expect("ours");
    let path = path.replacen("/pay/", "/payments/callback/", 1);
    let forged =
        json!({"Approved": true, "IsoResponseCode": "3D0", "TotalAmount": 2000.00, "CurrencyCode": "188"});
    let page = shop.back(&path, &encode(&[("Response".to_owned(), forged.to_string())])).await.status(200);
    assert!(!page.text().contains("succeeded"));
    assert_ne!(shop.state(&payment).await, "succeeded");
    assert_eq!((shop.fake.charges(), &shop.grid().await[6..8]), (0, "rr"));

    let shop = Shop::new().await;
    shop.fake.set(Fault::ForgedApproval);
    let payment = shop.start(BAC_CREDOMATIC).await;
    assert_eq!(shop.pay(&payment, APPROVED).await, "failed");
    assert_eq!(&shop.grid().await[6..8], "rr");
}

/// What goes wrong, what the payment is then, and what it is after the gateway was looked up.
#[tokio::test]
async fn r19_every_fault_ends_with_numbers_or_without_a_charge() {
    let faults = [
        (Fault::ChargeFails, "unknown", "failed", 0),
        (Fault::ChargeHangs, "unknown", "failed", 0),
        (Fault::AnswerLost, "unknown", "succeeded", 200_000),
        (Fault::ChargeSlow, "succeeded", "succeeded", 200_000),
        (Fault::WrongAmount, "conflicted", "conflicted", 20_000_000),
        (Fault::WrongCurrency, "conflicted", "conflicted", 200_000),
    ];
    for (fault, then, after, taken_minor) in faults {
        let shop = Shop::new().await;
        let payment = shop.start(BAC_CREDOMATIC).await;
        let (path, body) = shop.browse(&payment, APPROVED).await;
        shop.fake.set(fault);
        shop.back(&path, &body).await.status(200);
        assert_eq!(shop.state(&payment).await, then, "{fault:?}");
        shop.fake.set(Fault::None);
        shop.wait(61_000).await;
        assert_eq!(shop.state(&payment).await, after, "{fault:?}");
        let numbers = if after == "succeeded" { "ss" } else { "rr" };
        assert_eq!((shop.fake.taken_minor(), &shop.grid().await[6..8]), (taken_minor, numbers), "{fault:?}");
        assert!(shop.fake.charges() <= 1);
    }
}

/// A gateway that begins no sale fails the attempt and keeps the reservation.
#[tokio::test]
async fn r19_a_gateway_that_is_down_fails_the_attempt_only() {
    let shop = Shop::new().await;
    shop.fake.set(Fault::SaleFails);
    let payment = shop.start(BAC_CREDOMATIC).await;
    assert_eq!((payment["state"].as_str(), payment["reason"].as_str()), (Some("failed"), Some("status")));
    assert_eq!(&shop.grid().await[6..8], "rr");
}

/// The process dies after the charge, before its outcome is written: the next one asks and sells.
#[tokio::test]
async fn r19_after_a_restart_open_payments_are_looked_up_and_settled() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let (path, body) = shop.browse(&payment, APPROVED).await;
    shop.fake.set(Fault::ChargeHangs);
    tokio::select! {
        // It has been asked, and is not answered.
        _ = shop.back(&path, &body) => panic!("the gateway never answers"),
        () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {}
    }
    assert_eq!(shop.state(&payment).await, "processing");
    shop.fake.set(Fault::None);
    let shop = shop.restart().await;
    assert_eq!(shop.state(&payment).await, "unknown", "not there, but perhaps on its way");
    shop.wait(61_000).await;
    assert_eq!((shop.state(&payment).await.as_str(), shop.fake.taken_minor()), ("failed", 0));

    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let (path, body) = shop.browse(&payment, APPROVED).await;
    shop.fake.set(Fault::AnswerLost);
    shop.back(&path, &body).await.status(200);
    shop.fake.set(Fault::None);
    let shop = shop.restart().await;
    assert_eq!((shop.state(&payment).await.as_str(), shop.fake.charges()), ("succeeded", 1));
    assert_eq!(&shop.grid().await[6..8], "ss");
}

/// Money that is owed goes back as it was taken, never ×100, and a gateway that refuses is no secret.
#[tokio::test]
async fn r19_what_was_charged_wrongly_is_refunded_as_it_was_charged() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let (path, body) = shop.browse(&payment, APPROVED).await;
    shop.fake.set(Fault::WrongAmount);
    shop.back(&path, &body).await.status(200);
    shop.fake.set(Fault::RefundFails);
    let refund = format!("/admin/payments/{}/refund", payment["id"].as_str().expect("an id"));
    let failed = shop.server.post("root", &refund, json!({})).await.status(200).json();
    assert_eq!(failed["state"], "refund_failed");
    let metrics = shop.server.get("", "/metrics").await.status(200);
    assert!(metrics.text().contains("tenure_refunds_open 1"), "{}", metrics.text());
    shop.fake.set(Fault::None);
    let done = shop.server.post("root", &refund, json!({})).await.status(200).json();
    assert_eq!((done["state"].as_str(), shop.fake.refunds()), (Some("refunded"), vec![20_000_000]));
    assert_eq!(shop.fake.taken_minor(), 0);
    let metrics = shop.server.get("", "/metrics").await.status(200);
    assert!(metrics.text().contains("tenure_refunds_open 0"));
    assert!(metrics.text().contains("tenure_payments_started{provider=\"bac_credomatic\"} 1"));
}

/// Disabled in the middle: new ones are refused, this one is finished.
#[tokio::test]
async fn r17_a_provider_disabled_in_the_middle_finishes_what_runs() {
    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let (path, body) = shop.browse(&payment, APPROVED).await;
    shop.patch(BAC_CREDOMATIC, json!({"is_enabled": false})).await.status(200);
    let reservation = shop.reserve("bea", &[20]).await;
    let body_of_bea = json!({"reservation_id": reservation, "provider": BAC_CREDOMATIC});
    shop.server.post("bea", "/payments", body_of_bea).await.code(409, "wrong_status");
    shop.back(&path, &body).await.status(200);
    assert_eq!(shop.state(&payment).await, "succeeded");
}
