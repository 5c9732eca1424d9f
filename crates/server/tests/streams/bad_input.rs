//! Rubbish over a socket: a clear answer, nothing changed.

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::client::{ADMIN, Running};

#[tokio::test]
async fn r13_what_cannot_be_read_is_said_and_the_socket_goes_on() {
    let server = Running::start().await;
    let mut socket = server.open(ADMIN, "task/x/ws").await;
    socket.next().await;
    for (text, code) in [
        ("", "malformed"),
        ("{", "malformed"),
        ("[]", "invalid"),
        ("7", "invalid"),
        ("{}", "invalid"),
        (r#"{"type":"dance"}"#, "invalid"),
        (r#"{"id":{},"command":{}}"#, "invalid"),
        (r#"{"type":"hello","key":"x"}"#, "invalid"),
    ] {
        socket.send(text).await;
        let message = socket.next().await;
        assert_eq!((&message["type"], &message["body"]["code"]), (&json!("error"), &json!(code)), "{text}");
    }
    // Where its id can be read, the answer carries it.
    socket.send(r#"{"id":1,"command":{},"more":1}"#).await;
    let message = socket.next().await;
    assert_eq!(
        (&message["type"], &message["id"], &message["status"]),
        (&json!("reply"), &json!(1), &json!(422))
    );
    for (command, status) in [
        (json!({"op": "dance"}), 422),
        (json!({}), 422),
        (json!("acquire"), 422),
        (json!({"op": "acquire", "collection": "task/x", "items": [], "more": 1}), 422),
        (json!({"op": "acquire", "collection": "no", "items": ["a"]}), 422),
    ] {
        assert_eq!(socket.ask(command.clone()).await.0, status, "{command}");
    }
    socket.send(r#"{"type":"ping"}"#).await;
    assert_eq!(socket.next().await, json!({"type": "pong"}));
}

#[tokio::test]
async fn r13_binary_frames_and_large_messages_close_the_socket() {
    let server = Running::start().await;
    let mut socket = server.open(ADMIN, "task/x/ws").await;
    socket.next().await;
    socket.0.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(socket.closed().await, (1003, json!({"reason": "binary", "cursor": 0, "epoch": 1})));
    let mut socket = server.open(ADMIN, "task/x/ws").await;
    socket.next().await;
    // The server may close before it has all gone out.
    let _ = socket.0.send(Message::text("a".repeat(70_000))).await;
    let (code, reason) = socket.closed().await;
    assert_eq!((code, &reason["reason"]), (1009, &json!("too_large")));
    assert!((server.figure("tenure_socket_closes_total{reason=\"too_large\"}") - 1.0).abs() < 0.1);
}
