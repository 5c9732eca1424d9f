//! The short way answers as the long one does, and hands over what is not for it.

use std::time::Duration;

use axum::Router;
use tenure_server::config::Config;
use tenure_server::identity::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire::Running;
use crate::world::ADMIN;

/// A header that says nothing here and sends a connection the long way.
const LONG: &str = "te: trailers\r\n";

/// A request that goes this way.
type Made<'a> = dyn Fn(&str) -> String + 'a;

fn config() -> Config {
    Config { admin_key: Some(Secret::new(ADMIN)), ..Config::default() }
}

fn request(line: &str, more: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("{line} HTTP/1.1\r\nhost: a\r\n{more}{length}\r\n{body}")
}

fn signed(line: &str, more: &str, body: &str) -> String {
    let json = "content-type: application/json\r\n";
    request(line, &format!("authorization: Bearer {ADMIN}\r\n{json}{more}"), body)
}

fn claim(item: &str) -> String {
    format!(r#"{{"collection":"lock/short","items":["{item}"]}}"#)
}

/// One answer, without what differs from one to the next.
async fn answer(stream: &mut TcpStream) -> (Vec<String>, String) {
    let read = async {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            bytes.push(stream.read_u8().await.expect("an answer"));
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.unwrap();
        let differs = ["date: ", "x-request-id: ", "ratelimit: "];
        let stays = |line: &&str| !differs.iter().any(|name| line.starts_with(name));
        let mut lines: Vec<String> = head.lines().filter(stays).map(str::to_owned).collect();
        lines[1..].sort();
        (lines, String::from_utf8(body).unwrap())
    };
    tokio::time::timeout(Duration::from_secs(20), read).await.expect("an answer in time")
}

async fn ask(stream: &mut TcpStream, request: &str) -> (Vec<String>, String) {
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

/// The other end closes, and says nothing more.
async fn closed(stream: &mut TcpStream) {
    let mut left = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut left)).await;
    assert!(closed.is_ok() && left.is_empty());
}

#[tokio::test]
async fn both_ways_answer_the_same() {
    // The first claim of a new server is always the same.
    let (id, keyed) = ("lock~short~2", "idempotency-key: k\r\n");
    let (create, beat) = ("POST /v1/claims", "POST /v1/claims/lock~short~2/heartbeat");
    let release = "DELETE /v1/claims/lock~short~2";
    let cases: &[(&str, &Made<'_>)] = &[
        ("201", &|way| signed(create, way, &claim("a"))),
        ("200", &|way| signed(create, way, &claim("a"))),
        ("200", &|way| signed(beat, way, r#"{"token":2}"#)),
        ("403", &|way| signed(beat, way, r#"{"token":1}"#)),
        ("422", &|way| signed(beat, way, r#"{"token":2,"more":1}"#)),
        ("201", &|way| signed(create, &format!("{way}{keyed}"), &claim("b"))),
        ("201", &|way| signed(create, &format!("{way}{keyed}"), &claim("b"))),
        ("422", &|way| signed(create, &format!("{way}{keyed}"), &claim("c"))),
        ("422", &|way| signed(create, way, "")),
        ("400", &|way| signed(create, way, "{")),
        ("422", &|way| signed(create, way, r#"{"collection":"lock/short","items":["a"],"color":1}"#)),
        ("404", &|way| signed(create, way, r#"{"collection":"nowhere/short","items":["a"]}"#)),
        ("403", &|way| signed(create, way, r#"{"collection":"tenure/keys","items":["a"]}"#)),
        ("415", &|way| request(create, &format!("authorization: Bearer {ADMIN}\r\n{way}"), &claim("a"))),
        ("401", &|way| request(create, way, "")),
        ("401", &|way| request(release, &format!("authorization: Bearer nobody\r\n{way}"), "")),
        ("403", &|way| signed("DELETE /v1/claims/tenure~keys~1", way, "")),
        ("404", &|way| signed("DELETE /v1/claims/lock~short~99", way, "")),
        ("204", &|way| signed(release, way, "")),
        ("204", &|way| signed(release, way, "")),
        ("410", &|way| signed(beat, way, r#"{"token":2}"#)),
    ];
    let (one, other) = (Running::start_whole(config()).await, Running::start_whole(config()).await);
    let (mut short, mut long) = (one.connect().await, other.connect().await);
    for (number, (status, made)) in cases.iter().enumerate() {
        let (by_short, by_long) = (ask(&mut short, &made("")).await, ask(&mut long, &made(LONG)).await);
        assert!(by_long.0[0].starts_with(&format!("HTTP/1.1 {status}")), "{number} of {id}: {by_long:?}");
        assert_eq!(by_short, by_long, "{number}");
    }
}

#[tokio::test]
async fn plain_requests_go_the_short_way_and_others_do_not() {
    // Without a router that knows the route only the short way leads there.
    let server = Running::start(config(), Router::new()).await;
    let mut stream = server.connect().await;
    let (lines, _) = ask(&mut stream, &signed("POST /v1/claims", "", &claim("a"))).await;
    assert!(lines[0].starts_with("HTTP/1.1 201"), "{lines:?}");
    let (lines, _) = ask(&mut stream, &signed("POST /v1/claims", LONG, &claim("b"))).await;
    assert!(lines[0].starts_with("HTTP/1.1 404"), "{lines:?}");
    let (lines, _) = ask(&mut stream, &signed("POST /v1/claims", "", &claim("c"))).await;
    assert!(lines[0].starts_with("HTTP/1.1 404"), "hyper has it now: {lines:?}");
}

#[tokio::test]
async fn whoever_asks_for_something_else_goes_on_where_it_was() {
    let server = Running::start_whole(config()).await;
    let mut stream = server.connect().await;
    // Two at once, and the beginning of a third.
    let look = signed("GET /v1/claims/lock~short~2", "", "");
    let (first, second) = look.split_at(20);
    let both =
        signed("POST /v1/claims", "", &claim("a")) + &signed("POST /v1/claims", "", &claim("b")) + first;
    let (lines, body) = ask(&mut stream, &both).await;
    assert!(lines[0].starts_with("HTTP/1.1 201") && body.contains("lock~short~2"), "{lines:?} {body}");
    let (lines, body) = answer(&mut stream).await;
    assert!(lines[0].starts_with("HTTP/1.1 201") && body.contains("lock~short~3"), "{lines:?} {body}");
    let (lines, body) = ask(&mut stream, second).await;
    assert!(lines[0].starts_with("HTTP/1.1 200") && body.contains("lock~short~2"), "{lines:?} {body}");
    let (lines, _) = ask(&mut stream, &signed("DELETE /v1/claims/lock~short~2", "", "")).await;
    assert!(lines[0].starts_with("HTTP/1.1 204"), "{lines:?}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_when_the_server_stops() {
    let mut server = Running::start_whole(config()).await;
    let mut idle = server.connect().await;
    ask(&mut idle, &signed("POST /v1/claims", "", &claim("a"))).await;
    server.stop();
    closed(&mut idle).await;
    server.ended().await;
}

#[tokio::test]
async fn a_waiting_claim_is_answered_when_the_server_stops_and_its_connection_closed() {
    let mut server = Running::start_whole(config()).await;
    let (mut holds, mut waits) = (server.connect().await, server.connect().await);
    let held = r#"{"collection":"lock/short","items":["a"],"session":"one"}"#;
    ask(&mut holds, &signed("POST /v1/claims", "", held)).await;
    let wanted = r#"{"collection":"lock/short","items":["a"],"session":"two","wait_ms":20000}"#;
    waits.write_all(signed("POST /v1/claims", "", wanted).as_bytes()).await.unwrap();
    crate::world::eventually(async || server.waiting("lock/short", "a") == 1).await;
    server.stop();
    let (lines, _) = answer(&mut waits).await;
    assert!(lines[0].starts_with("HTTP/1.1 503"), "{lines:?}");
    assert!(lines.contains(&"connection: close".to_owned()), "{lines:?}");
    server.ended().await;
}

#[tokio::test]
async fn a_client_that_has_been_answered_and_is_silent_is_cut_off() {
    let mut config = config();
    config.limits.headers_timeout_ms = 100;
    let server = Running::start_whole(config).await;
    let mut stream = server.connect().await;
    ask(&mut stream, &signed("POST /v1/claims", "", &claim("a"))).await;
    closed(&mut stream).await;
}

/// A connection remembers whose key it last saw.
#[tokio::test]
async fn e8_a_key_that_is_revoked_opens_nothing_on_a_connection_that_knew_it_either() {
    let server = Running::start_whole(config()).await;
    let (mut admin, mut short) = (server.connect().await, server.connect().await);
    let new = r#"{"name":"import","subject":{"id":"imp","name":"Import"},"role":"editor"}"#;
    let (lines, made) = ask(&mut admin, &signed("POST /v1/keys", "", new)).await;
    assert!(lines[0].starts_with("HTTP/1.1 201"), "{lines:?}");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    let by = |key: &str, item: &str| {
        let more = format!("authorization: Bearer {key}\r\ncontent-type: application/json\r\n");
        request("POST /v1/claims", &more, &claim(item))
    };
    // Each request is its own key's, in whatever order they come.
    for (number, who) in ["imp", "imp", "admin", "imp"].into_iter().enumerate() {
        let key = if who == "imp" { key } else { ADMIN };
        let (lines, body) = ask(&mut short, &by(key, &number.to_string())).await;
        assert!(lines[0].starts_with("HTTP/1.1 201"), "{lines:?} {body}");
        let claim: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(claim["holder"]["id"], who);
    }
    let (lines, _) = ask(&mut admin, &signed(&format!("DELETE /v1/keys/{id}"), "", "")).await;
    assert!(lines[0].starts_with("HTTP/1.1 204"), "{lines:?}");
    let (lines, body) = ask(&mut short, &by(key, "late")).await;
    assert!(lines[0].starts_with("HTTP/1.1 401") && body.contains("revoked"), "{lines:?} {body}");
    let (lines, _) = ask(&mut short, &by(&format!("{key}x"), "late")).await;
    assert!(lines[0].starts_with("HTTP/1.1 401"), "{lines:?}");
}
