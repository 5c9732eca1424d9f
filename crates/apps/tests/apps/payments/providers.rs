//! Providers: two from the start, changed by their operator, with secrets that nobody reads.

use serde_json::json;
use tenure_apps::payments::{BAC_CREDOMATIC, NewProvider, SINPE_MOVIL, State};

use super::world::{MINUTE_MS, Shop, token};
use crate::common::code;
use crate::raffle::world::field;

fn new(value: serde_json::Value) -> NewProvider {
    serde_json::from_value(value).expect("a provider")
}

#[tokio::test]
async fn r16_two_providers_are_there_from_the_start() {
    let shop = Shop::empty().await;
    let list = shop.payments.providers(&shop.world.root).await.expect("reads").providers;
    let shown: Vec<_> = list
        .iter()
        .map(|provider| (&*provider.code, provider.is_enabled, provider.is_automatic, provider.priority))
        .collect();
    assert_eq!(shown, [(BAC_CREDOMATIC, false, true, 1), (SINPE_MOVIL, true, false, 2)]);
    assert_eq!(list[0].config["environment"], "sandbox");
    assert_eq!(list[0].missing, ["merchant_id", "api_key"]);
    assert_eq!(list[1].missing, ["phone_number", "account_holder"]);
    assert_eq!(shop.payments.choices().await.expect("reads").providers, [], "nobody can pay to nobody");
    assert_eq!(code(&shop.payments.providers(&shop.world.ana).await), "forbidden");
}

#[tokio::test]
async fn r16_a_provider_that_is_wrong_is_refused_by_field() {
    let shop = Shop::empty().await;
    let root = &shop.world.root;
    let edit = async |code: &str, value| field(shop.edit(code, value).await);
    assert_eq!(edit(BAC_CREDOMATIC, json!({"is_enabled": true})).await, "config.merchant_id");
    assert_eq!(edit(BAC_CREDOMATIC, json!({"config": {"environment": "test"}})).await, "config.environment");
    assert_eq!(edit(BAC_CREDOMATIC, json!({"config": {"apikey": "x"}})).await, "config.apikey");
    assert_eq!(edit(BAC_CREDOMATIC, json!({"config": {"api_key": 7}})).await, "config.api_key");
    assert_eq!(edit(BAC_CREDOMATIC, json!({"config": {"api_key": " "}})).await, "config.api_key");
    assert_eq!(edit(SINPE_MOVIL, json!({"config": {"phone_number": "12"}})).await, "config.phone_number");
    assert_eq!(
        edit(SINPE_MOVIL, json!({"config": {"account_holder": "x".repeat(101)}})).await,
        "config.account_holder"
    );
    assert_eq!(edit(SINPE_MOVIL, json!({"priority": 1001})).await, "priority");
    assert_eq!(edit(SINPE_MOVIL, json!({"name": " "})).await, "name");
    assert_eq!(code(&shop.edit("nobody", json!({})).await), "not_found");
    let add = async |value| field(shop.payments.add_provider(root, new(value)).await);
    let good = json!({"code": "norte", "name": "Norte", "is_automatic": false, "priority": 0,
        "config": {"phone_number": "8888-0000", "account_holder": "Norte"}});
    let with = |name: &str, value: serde_json::Value| {
        let mut other = good.clone();
        other[name] = value;
        other
    };
    assert_eq!(add(with("code", json!(SINPE_MOVIL))).await, "code");
    assert_eq!(add(with("code", json!("a b"))).await, "code");
    assert_eq!(add(with("is_automatic", json!(true))).await, "code", "there is no such gateway");
    assert_eq!(add(with("config", json!({"phone_number": "x"}))).await, "config.phone_number");
    let mut half = with("config", json!({"phone_number": "8888-0000"}));
    half["is_enabled"] = json!(true);
    assert_eq!(add(half).await, "config.account_holder");
    shop.payments.add_provider(root, new(with("is_enabled", json!(true)))).await.expect("is added");
    assert_eq!(add(good.clone()).await, "code", "is taken");
    let choices = shop.payments.choices().await.expect("reads").providers;
    assert_eq!(choices.iter().map(|choice| &*choice.code).collect::<Vec<_>>(), ["norte"]);
}

#[tokio::test]
async fn r17_buyers_see_what_is_on_by_priority() {
    let shop = Shop::new().await;
    let codes = async || {
        let choices = shop.payments.choices().await.expect("reads").providers;
        choices.into_iter().map(|choice| choice.code).collect::<Vec<_>>()
    };
    assert_eq!(codes().await, [BAC_CREDOMATIC, SINPE_MOVIL]);
    shop.edit(SINPE_MOVIL, json!({"priority": 0})).await.expect("is changed");
    assert_eq!(codes().await, [SINPE_MOVIL, BAC_CREDOMATIC]);
    shop.edit(SINPE_MOVIL, json!({"is_enabled": false})).await.expect("is changed");
    assert_eq!(codes().await, [BAC_CREDOMATIC]);
    let id = shop.reserved(&shop.world.ana).await;
    assert_eq!(code(&shop.start(&shop.world.ana, &id, SINPE_MOVIL).await), "wrong_status");
    assert_eq!(field(shop.start(&shop.world.ana, &id, "nobody").await), "provider");
}

/// Disabling stops new payments; running ones finish.
#[tokio::test]
async fn r17_a_provider_disabled_in_the_middle_finishes_what_runs() {
    let shop = Shop::new().await;
    let payment = shop.paying().await;
    shop.edit(BAC_CREDOMATIC, json!({"is_enabled": false})).await.expect("is changed");
    let id = shop.world.reserve(&shop.world.bea, &[20]).await.expect("is free").id;
    assert_eq!(code(&shop.start(&shop.world.bea, &id, BAC_CREDOMATIC).await), "wrong_status");
    assert_eq!(shop.back(&payment).await.expect("is answered"), State::Succeeded);
}

/// Secrets are write-only: in no reply, document, event or name of a file.
#[tokio::test]
async fn r17_secrets_are_in_no_reply_and_no_event() {
    let shop = Shop::new().await;
    let list = shop.payments.providers(&shop.world.root).await.expect("reads");
    let shown = serde_json::to_string(&list).expect("JSON");
    assert!(shown.contains("\"api_key\":\"********\"") && !shown.contains("the-secret-key"), "{shown}");
    // A page that sends back what it was shown changes nothing.
    shop.edit(BAC_CREDOMATIC, json!({"config": {"api_key": "********"}})).await.expect("is the same");
    let payment = shop.paying().await;
    let (secret, page) = (token(&payment).to_owned(), "the page");
    shop.back(&payment).await.expect("is answered");
    shop.wait(MINUTE_MS).await;
    for collection in ["raffle/navidad", "tenure/payments"] {
        let events = format!("{:?}", shop.world.office.events(collection));
        for hidden in ["the-secret-key", &secret, page, "the-handle"] {
            assert!(!events.contains(hidden), "{hidden} is in {collection}");
        }
    }
    let replies = serde_json::to_string(&shop.now(&payment)).expect("JSON");
    assert!(!replies.contains(&secret) && !replies.contains("the-handle"));
    assert!(!format!("{:?}", shop.payments).contains("the-secret-key"));
    // A secret that is replaced or taken away is gone.
    shop.edit(BAC_CREDOMATIC, json!({"is_enabled": false, "config": {"api_key": null}}))
        .await
        .expect("is taken away");
    let list = shop.payments.providers(&shop.world.root).await.expect("reads").providers;
    assert_eq!(list[0].missing, ["api_key"]);
}

/// Many changes of a key at once: one of them counts, and nothing of the others is left. Who did it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r17_a_key_that_is_replaced_leaves_nothing_behind() {
    let shop = Shop::new().await;
    let edits: Vec<_> = (0..8)
        .map(|index| {
            let (payments, root) = (shop.payments.clone(), shop.world.root.clone());
            let edit = json!({"config": {"api_key": format!("key-{index}")}});
            tokio::spawn(async move {
                let edit = serde_json::from_value(edit).expect("an edit");
                payments.edit_provider(&root, BAC_CREDOMATIC, &edit).await
            })
        })
        .collect();
    for edit in edits {
        edit.await.expect("ends").expect("is changed");
    }
    let mut kept = shop.vault.names();
    kept.retain(|name| name.starts_with("provider."));
    assert_eq!(kept.len(), 1, "{kept:?}");
    let all = shop.payments.providers(&shop.world.root).await.expect("reads").providers;
    let card = all.iter().find(|provider| provider.code == BAC_CREDOMATIC).expect("is there");
    assert_eq!(card.updated_by.as_ref().map(|by| &*by.id), Some("root"));
    assert!(card.missing.is_empty(), "the one that counts is there");
}
