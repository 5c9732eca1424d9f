//! Secrets are in no log, reply, event, audit entry or backup.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_apps::payments::BAC_CREDOMATIC;
use tenure_core::CollectionKey;
use tenure_engine::EventPage;
use tenure_server::gateway::fake::API_KEY;

use super::world::{APPROVED, Shop};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn r17_secrets_of_payments_are_nowhere_to_be_read() {
    let captured = Captured::default();
    let writer = captured.clone();
    let logs =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    // For all tests of this program: what a thread alone hears depends on which test came first.
    tracing::subscriber::set_global_default(logs.json().finish()).expect("is the only one");

    let shop = Shop::new().await;
    let payment = shop.start(BAC_CREDOMATIC).await;
    let token =
        payment["payment_url"].as_str().expect("a page").rsplit('/').next().expect("a token").to_owned();
    let secrets = std::fs::read_dir(shop.folder.path().join("secrets")).expect("a folder");
    let mut kept = Vec::new();
    for file in secrets {
        let file = file.expect("a file");
        assert_eq!(file.metadata().expect("is there").permissions().mode() & 0o777, 0o600);
        kept.push(std::fs::read_to_string(file.path()).expect("reads"));
    }
    let handle = kept.iter().find_map(|text| {
        let pocket: serde_json::Value = serde_json::from_str(text).ok()?;
        Some(pocket["handle"].as_str()?.to_owned())
    });
    let handle = handle.expect("what confirms it is kept");
    let (path, body) = shop.browse(&payment, APPROVED).await;
    shop.back(&format!("{path}0"), &body).await.code(404, "not_found");
    shop.back(&path, &body).await.status(200);
    assert_eq!(shop.state(&payment).await, "succeeded");

    let events = |key: &str| {
        let key = CollectionKey::new(key).expect("a key");
        match shop.server.engine.reader().events(&key, 0, usize::MAX).expect("reads") {
            EventPage::Events(events) => format!("{events:?}"),
            EventPage::Resync { .. } => panic!("all events are retained"),
        }
    };
    let mut replies = String::new();
    for path in
        ["/admin/payments", "/admin/payment-providers", "/v1/audit", "/v1/collections/raffle/navidad/events"]
    {
        replies.push_str(shop.server.get("root", path).await.status(200).text());
    }
    let places = [
        ("logs", String::from_utf8(captured.0.lock().clone()).expect("text")),
        ("events of the raffle", events("raffle/navidad")),
        ("events of payments", events("tenure/payments")),
        ("replies", replies),
        ("debug", format!("{:?}", shop.app)),
    ];
    assert!(places[0].1.contains("a token that is not its own"), "the logs are captured");
    assert!(places[1].1.contains("attempt-") && places[2].1.contains("merchant_id"), "the events are read");
    for (place, text) in &places {
        for secret in [API_KEY, &token, &handle, "RedirectData", "document.getElementById"] {
            assert!(!text.contains(secret), "{secret} is in the {place}");
        }
    }
    let left = std::fs::read_dir(shop.folder.path().join("secrets")).expect("a folder").count();
    assert_eq!(left, 1, "of what is over nothing is kept but the gateway's key");
}
