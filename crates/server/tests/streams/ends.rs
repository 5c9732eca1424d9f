//! How sockets end: slow, dead, revoked, stopped.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;

use crate::client::{ADMIN, Running};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r13_a_slow_reader_is_closed_with_its_cursor_and_others_get_everything() {
    // In memory, where all is written long before the ten seconds are over that a farewell waits for its reader.
    let server = Running::in_memory().await;
    server.create("task/board").await;
    let bearer = format!("Bearer {ADMIN}");
    let headers = [("authorization", bearer.as_str())];
    let mut slow = server.connect("task/board/ws", &headers, Some(4_096)).await.unwrap();
    let mut healthy = server.open(ADMIN, "task/board/ws").await;
    assert_eq!(healthy.next().await["seq"], 1);
    // More than the kernel's buffers hold for one connection; whoever reads as fast as is written is healthy.
    let large = "a".repeat(30_000);
    for number in 0..400 {
        server.put("task/board", "one", json!([number, large])).await;
        assert_eq!(healthy.next().await["seq"], number + 2);
    }
    crate::client::eventually(|| server.figure("tenure_socket_closes_total{reason=\"slow\"}") > 0.5).await;
    // Now it reads what was on its way, and is told from where to come back.
    let mut seen = 0;
    let (code, reason) = loop {
        match slow.message().await.expect("a farewell") {
            tokio_tungstenite::tungstenite::Message::Close(Some(frame)) => {
                break (
                    u16::from(frame.code),
                    serde_json::from_str::<serde_json::Value>(&frame.reason).unwrap(),
                );
            }
            message => {
                let message: serde_json::Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
                seen = message["seq"].as_u64().unwrap();
            }
        }
    };
    assert_eq!((code, reason), (4008, json!({"reason": "slow", "cursor": seen, "epoch": 1})));
    let mut again = server.open(ADMIN, &format!("task/board/ws?since={seen}&epoch=1")).await;
    for seq in seen + 1..=401 {
        assert_eq!(again.next().await["seq"], seq);
    }
}

#[tokio::test]
async fn e2_a_revoked_key_closes_its_sockets_and_no_others() {
    let server = Running::start().await;
    let (key, id) = server.key("viewer").await;
    let (mut socket, mut other) =
        (server.open(&key, "task/x/ws").await, server.open(ADMIN, "task/x/ws").await);
    socket.next().await;
    other.next().await;
    assert_eq!(server.http(ADMIN, "DELETE", &format!("/v1/keys/{id}"), &json!({})).await.0, 204);
    let closed = tokio::time::timeout(Duration::from_secs(5), socket.closed()).await.expect("in time");
    assert_eq!((closed.0, &closed.1["reason"]), (4401, &json!("revoked")));
    server.create("task/x").await;
    assert_eq!(other.next().await["seq"], 1);
}

#[tokio::test]
async fn e2_a_stop_closes_with_the_code_to_come_back() {
    let mut server = Running::start().await;
    server.create("task/x").await;
    let mut socket = server.open(ADMIN, "task/x/ws").await;
    socket.next().await;
    server.stop();
    assert_eq!(socket.closed().await, (1012, json!({"reason": "stopping", "cursor": 1, "epoch": 1})));
    drop(socket);
    server.ended().await;
}

#[tokio::test(start_paused = true)]
async fn r13_the_server_pings_and_closes_who_is_silent() {
    let server = Running::in_memory().await;
    let mut socket = server.open(ADMIN, "task/x/ws").await;
    let started = tokio::time::Instant::now();
    let mut pings = 0;
    while pings < 3 {
        // Reading answers them.
        match socket.0.next().await {
            Some(Ok(message)) if message.is_ping() => pings += 1,
            Some(Ok(message)) if message.is_text() => {}
            other => panic!("{other:?}"),
        }
    }
    let took = started.elapsed().as_secs();
    assert!((160..=170).contains(&took), "{took}");
    // From here on it neither reads nor answers. It answered the last ping on its next read only.
    crate::client::eventually_paused(|| server.figure("tenure_socket_closes_total{reason=\"silent\"}") > 0.5)
        .await;
}

/// Time passes by itself here: nothing but the write deadline can be next.
#[tokio::test(start_paused = true)]
async fn r13_who_reads_nothing_is_closed_by_the_write_deadline() {
    let server = Running::in_memory().await;
    server.create("task/board").await;
    // More than the kernel's buffers hold for one connection.
    let large = "a".repeat(30_000);
    for number in 0..400 {
        server.put("task/board", &format!("item-{number}"), json!(large)).await;
    }
    let bearer = format!("Bearer {ADMIN}");
    let headers = [("authorization", bearer.as_str())];
    let _reads_nothing = server.connect("task/board/ws", &headers, Some(4_096)).await.unwrap();
    let started = tokio::time::Instant::now();
    crate::client::eventually_paused(|| {
        server.figure("tenure_socket_closes_total{reason=\"stalled\"}") > 0.5
    })
    .await;
    let took = started.elapsed().as_secs();
    assert!((10..=15).contains(&took), "{took}");
    crate::client::eventually_paused(|| server.figure("tenure_connections ") < 0.5).await;
}

#[tokio::test]
async fn r13_a_socket_counts_against_the_connections_until_it_is_gone() {
    let mut config = tenure_server::config::Config::default();
    config.limits.connections = 2;
    let server = Running::with(config).await;
    let mut sockets = vec![server.open(ADMIN, "task/x/ws").await, server.open(ADMIN, "task/x/ws").await];
    for socket in &mut sockets {
        assert_eq!(socket.next().await["type"], "snapshot");
    }
    let refused = server.figure("tenure_connections_refused_total{limit=\"connections\"}");
    let mut third = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let read = tokio::io::AsyncReadExt::read(&mut third, &mut [0; 8]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "closed at once");
    assert!(server.figure("tenure_connections_refused_total{limit=\"connections\"}") > refused);
    drop(sockets.pop());
    crate::client::eventually(|| server.figure("tenure_connections ") < 1.5).await;
    assert_eq!(server.open(ADMIN, "task/x/ws").await.next().await["type"], "snapshot");
}

/// By a code with which a client comes back: its key may be good.
#[tokio::test]
async fn e2_a_socket_whose_key_cannot_be_looked_for_is_closed_and_not_refused_for_good() {
    let server = Running::start().await;
    let (key, id) = server.key("viewer").await;
    let mut socket = server.open(&key, "task/x/ws").await;
    assert_eq!(socket.next().await["type"], "snapshot");
    server.away.set(true);
    assert_eq!(server.http(ADMIN, "DELETE", &format!("/v1/keys/{id}"), &json!({})).await.0, 204);
    let closed = socket.closed().await;
    assert_eq!((closed.0, &closed.1["reason"]), (4503, &json!("away")));
    let opened = server.try_open("task/x/ws", &[("authorization", &format!("Bearer {key}"))]).await;
    assert_eq!(opened.err(), Some(503));
    server.away.set(false);
    let opened = server.try_open("task/x/ws", &[("authorization", &format!("Bearer {key}"))]).await;
    assert_eq!(opened.err(), Some(401));
}
