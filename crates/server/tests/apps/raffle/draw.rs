//! The draw over HTTP.

use serde_json::json;
use tenure_apps::raffle::Draw;

use super::{becomes, reserved, sell, server};

#[tokio::test]
async fn a_draw_is_revealed_once_and_can_be_done_again() {
    let s = server().await;
    let bound = s.get("ana", "/raffles/navidad").await.status(200).json()["seed_hash"].clone();
    sell(&s, &reserved(&s, "ana", &[5, 6]).await).await;
    s.post("root", "/raffles/navidad/draw", json!({})).await.code(409, "wrong_status");
    becomes(&s, "paused").await.status(200);
    s.get("ana", "/raffles/navidad/draw").await.code(404, "not_found");
    let drawn = s.post("root", "/raffles/navidad/draw", json!({})).await.status(200).json();
    assert_eq!((&drawn["seed_hash"], &drawn["sold"]), (&bound, &json!([5, 6])));
    s.get("ana", "/raffles/navidad/draw").await.is(200, drawn.clone());
    let draw: Draw = serde_json::from_value(drawn.clone()).expect("a draw");
    assert_eq!(draw.verify(), Ok(()));
    s.post("root", "/raffles/navidad/draw", json!({})).await.code(409, "wrong_status");
    assert_eq!(s.get("ana", "/raffles/navidad").await.json()["winner"], drawn["winner"]);
    becomes(&s, "active").await.code(409, "wrong_status");
}

/// Before the draw no route tells the seed, whoever asks.
#[tokio::test]
async fn no_route_tells_the_seed_before_the_draw() {
    let s = server().await;
    sell(&s, &reserved(&s, "ana", &[5, 6]).await).await;
    becomes(&s, "paused").await.status(200);
    let mut told = String::new();
    for path in [
        "/raffles",
        "/raffles/navidad",
        "/raffles/navidad/numbers",
        "/v1/audit?limit=1000",
        "/v1/collections/raffle/navidad/events?since=0&limit=1000",
        "/v1/collections/raffle/navidad/items?limit=1000",
        "/v1/collections/raffle/navidad/items/raffle",
        "/v1/claims?collection=raffle/navidad",
    ] {
        told.push_str(s.get("root", path).await.status(200).text());
    }
    let seed = s.post("root", "/raffles/navidad/draw", json!({})).await.status(200).json()["seed"].clone();
    assert!(!told.contains(seed.as_str().expect("a text")));
}
