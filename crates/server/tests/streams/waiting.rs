//! Long polls over real connections: who leaves, is sent away or meets a stopping server waits no more.

use serde_json::{Value, json};
use tenure_core::{CollectionKey, ItemId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{ADMIN, Running, SOON, eventually};

const JOBS: &str = "lock/jobs";

fn waiting(server: &Running) -> usize {
    server.engine.waiting(&CollectionKey::new(JOBS).unwrap(), &ItemId::new("nightly").unwrap())
}

fn wait() -> Value {
    json!({"collection": JOBS, "items": ["nightly"], "session": "another", "wait_ms": 50_000})
}

/// The same as a batch.
fn wait_in_batch() -> Value {
    let mut command = wait();
    command["op"] = json!("acquire");
    json!({"commands": [command]})
}

/// A server on which somebody holds what everyone waits for; the holder's claim.
async fn held() -> (Running, String) {
    let server = Running::start().await;
    let body = json!({"collection": JOBS, "items": ["nightly"], "ttl_ms": 3_600_000});
    let (status, claim) = server.http(ADMIN, "POST", "/v1/claims", &body).await;
    assert_eq!(status, 201, "{claim}");
    let id = claim["id"].as_str().unwrap().to_owned();
    (server, id)
}

/// Sends a request and does not read its answer. `more` comes behind it.
async fn post(server: &Running, key: &str, path: &str, body: &Value, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}{more}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The answer's status and body.
async fn answer(stream: &mut TcpStream) -> (u16, Value) {
    let mut text = String::new();
    while !text.contains("\r\n\r\n") || text.ends_with("\r\n\r\n") {
        let mut bytes = vec![0; 16_384];
        let length = tokio::time::timeout(SOON, stream.read(&mut bytes)).await.expect("an answer").unwrap();
        assert!(length > 0, "it ended: {text}");
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
    }
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// E5, I7: also where something more was sent behind the request, which nobody reads before the answer.
#[tokio::test]
async fn e05_who_disconnects_leaves_the_queue_although_more_was_sent() {
    let (server, id) = held().await;
    for (path, body) in [("/v1/claims", wait()), ("/v1/batch", wait_in_batch())] {
        for more in ["", "G", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
            let stream = post(&server, ADMIN, path, &body, more).await;
            eventually(|| waiting(&server) == 1).await;
            drop(stream);
            eventually(|| waiting(&server) == 0).await;
        }
    }
    let (status, _) = server.http(ADMIN, "DELETE", &format!("/v1/claims/{id}"), &json!({})).await;
    assert_eq!(status, 204);
    let (_, item) = server.http(ADMIN, "GET", "/v1/collections/lock/jobs/items/nightly", &json!({})).await;
    assert_eq!(item["claim"], json!(null));
}

/// E5, I7: also of a socket that has as many commands under way as it may, so that nothing is read from it.
#[tokio::test]
async fn e05_a_full_socket_that_disconnects_leaves_the_queue() {
    let (server, _) = held().await;
    for says_goodbye in [false, true] {
        let mut socket = server.open(ADMIN, "lock/jobs/ws").await;
        for number in 0..1_024 {
            let command = json!({"op": "acquire", "collection": JOBS, "items": ["nightly"],
                "session": format!("s{number}"), "wait_ms": 50_000});
            socket.command(json!(number), command).await;
        }
        eventually(|| waiting(&server) == 1_024).await;
        // These are not read any more.
        for number in 0..10 {
            socket.command(json!(number), json!({"op": "release", "claim": "lock~jobs~9"})).await;
        }
        if says_goodbye {
            let _ = socket.0.close(None).await;
        }
        drop(socket);
        eventually(|| waiting(&server) == 0).await;
    }
}

/// E8: whoever is no longer known gets nothing, also if it began to wait before.
#[tokio::test]
async fn e08_a_revoked_key_waits_no_more() {
    let (server, claim) = held().await;
    for (path, body) in [("/v1/claims", wait()), ("/v1/batch", wait_in_batch())] {
        let (key, id) = server.key("editor").await;
        let mut stream = post(&server, &key, path, &body, "").await;
        eventually(|| waiting(&server) == 1).await;
        let (status, _) = server.http(ADMIN, "DELETE", &format!("/v1/keys/{id}"), &json!({})).await;
        assert_eq!(status, 204);
        let (status, problem) = answer(&mut stream).await;
        assert_eq!((status, &problem["code"]), (401, &json!("unauthenticated")));
        eventually(|| waiting(&server) == 0).await;
    }
    server.http(ADMIN, "DELETE", &format!("/v1/claims/{claim}"), &json!({})).await;
    let (_, item) = server.http(ADMIN, "GET", "/v1/collections/lock/jobs/items/nightly", &json!({})).await;
    assert_eq!(item["claim"], json!(null));
}

/// A stop does not wait for those who wait.
#[tokio::test]
async fn a_stop_answers_those_who_wait() {
    let (mut server, _) = held().await;
    let mut stream = post(&server, ADMIN, "/v1/claims", &wait(), "").await;
    eventually(|| waiting(&server) == 1).await;
    let started = std::time::Instant::now();
    server.stop();
    let (status, problem) = answer(&mut stream).await;
    assert_eq!((status, &problem["code"]), (503, &json!("stopped")));
    // The time for what is in flight is ten seconds.
    server.ended().await;
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}
