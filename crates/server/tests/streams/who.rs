//! Who may open a socket, and what it may do.

use serde_json::json;
use tenure_server::config::Config;

use crate::client::{ADMIN, Running};

#[tokio::test]
async fn e2_a_page_of_an_unknown_origin_is_refused_whatever_it_brings() {
    let mut config = Config::default();
    config.network.allowed_origins = vec!["https://app.example".to_owned()];
    let server = Running::with(config).await;
    let bearer = format!("Bearer {ADMIN}");
    let own = format!("http://{}", server.address);
    for (origin, allowed) in [
        ("https://evil.example", false),
        ("null", false),
        ("https://app.example", true),
        (own.as_str(), true),
    ] {
        let opened = server.try_open("task/x/ws", &[("authorization", &bearer), ("origin", origin)]).await;
        assert_eq!(opened.err(), (!allowed).then_some(403), "{origin}");
        let hello = server.try_open("task/x/ws", &[("origin", origin)]).await;
        assert_eq!(hello.err(), (!allowed).then_some(403), "{origin}");
    }
}

#[tokio::test]
async fn e2_a_session_opens_a_socket_from_its_own_page_only() {
    let server = Running::start().await;
    let secret = {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let body = json!({"key": ADMIN}).to_string();
        let request = format!(
            "POST /v1/session HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        line.split(';').next().unwrap().to_owned()
    };
    let own = format!("http://{}", server.address);
    let mut socket = server.try_open("task/x/ws", &[("cookie", &secret), ("origin", &own)]).await.unwrap();
    assert_eq!(socket.next().await["type"], "snapshot");
    assert_eq!(server.try_open("task/x/ws", &[("cookie", &secret)]).await.err(), Some(403));
    let evil = [("cookie", secret.as_str()), ("origin", "http://evil.example")];
    assert_eq!(server.try_open("task/x/ws", &evil).await.err(), Some(403));
}

#[tokio::test]
async fn e2_a_ticket_opens_one_socket_and_a_key_in_the_query_none() {
    let server = Running::start().await;
    let ticket = server.ticket(ADMIN).await;
    let path = format!("task/x/ws?ticket={ticket}");
    let mut socket = server.try_open(&path, &[]).await.unwrap();
    assert_eq!(socket.next().await["type"], "snapshot");
    assert_eq!(server.try_open(&path, &[]).await.err(), Some(401));
    assert_eq!(server.try_open(&format!("task/x/ws?key={ADMIN}"), &[]).await.err(), Some(422));
    assert_eq!(server.try_open("task/x/ws", &[("authorization", "Bearer wrong")]).await.err(), Some(401));
    assert_eq!(
        server.try_open("tenure/keys/ws", &[("authorization", &format!("Bearer {ADMIN}"))]).await.err(),
        Some(403)
    );
    let (status, problem) = server.http(ADMIN, "GET", "/v1/collections/task/x/ws", &json!({})).await;
    assert_eq!((status, &problem["code"]), (426, &json!("upgrade_required")));
}

#[tokio::test]
async fn e2_a_first_message_says_who_it_is() {
    let server = Running::start().await;
    let mut socket = server.try_open("task/x/ws", &[]).await.unwrap();
    socket.send(json!({"type": "hello", "key": ADMIN}).to_string()).await;
    assert_eq!(socket.next().await["type"], "snapshot");
    for wrong in [
        json!({"type": "hello", "key": "tnr_wrong"}),
        json!({"id": 1, "command": {"op": "create_collection", "collection": "task/x"}}),
    ] {
        let mut socket = server.try_open("task/x/ws", &[]).await.unwrap();
        socket.send(wrong.to_string()).await;
        assert_eq!(socket.closed().await, (4401, json!({"reason": "unauthenticated"})));
    }
}

#[tokio::test(start_paused = true)]
async fn e2_who_does_not_say_hello_within_five_seconds_is_closed() {
    let server = Running::in_memory().await;
    let started = tokio::time::Instant::now();
    let mut socket = server.try_open("task/x/ws", &[]).await.unwrap();
    assert_eq!(socket.closed().await, (4401, json!({"reason": "no_hello"})));
    assert!(started.elapsed().as_secs() < 10);
}

#[tokio::test]
async fn e2_each_message_is_authorised_by_itself() {
    let server = Running::start().await;
    server.create("task/x").await;
    server.put("task/x", "a", json!(1)).await;
    let acquire = json!({"op": "acquire", "collection": "task/x", "items": ["a"]});
    let force = json!({"op": "force_release", "collection": "task/x", "item": "a", "reason": "test"});
    let own_kind = json!({"op": "create_collection", "collection": "tenure/keys"});
    for (role, claims, forces) in [("viewer", 403, 403), ("editor", 201, 403), ("admin", 409, 200)] {
        let (key, _) = server.key(role).await;
        let mut socket = server.open(&key, "task/x/ws").await;
        assert_eq!(socket.ask(acquire.clone()).await.0, claims, "{role}");
        assert_eq!(socket.ask(force.clone()).await.0, forces, "{role}");
        assert_eq!(socket.ask(own_kind.clone()).await.0, 403, "{role}");
    }
}
