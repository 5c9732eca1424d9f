//! Rubbish over sockets that are open: messages that mean nothing, and frames that are none.

use std::collections::BTreeSet;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::inputs;
use crate::judge;
use crate::random::Random;
use crate::spoil::json;
use crate::wire::{Running, SOON, UPGRADE, upgrade};
use crate::world::{ADMIN, Known, state};

type Socket = WebSocketStream<TcpStream>;

/// A socket whose snapshot has come.
async fn open(server: &Running) -> Socket {
    let url = format!("ws://{}/v1/collections/task/x/ws", server.address);
    let mut request = url.into_client_request().expect("a request");
    let bearer = format!("Bearer {ADMIN}").parse().expect("a header");
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = client_async(request, server.connect().await).await.expect("a socket");
    assert_eq!(next(&mut socket).await.expect("a snapshot")["type"], "snapshot");
    socket
}

/// The next message; `None` when the socket is closed.
async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(SOON, socket.next()).await.expect("something comes") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).expect("JSON")),
            Some(Ok(Message::Close(frame))) => {
                let reason = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                assert_eq!(judge::told(&reason), Ok(()));
                return None;
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return None,
        }
    }
}

/// Commands that would be carried out.
fn commands(known: &Known) -> [Value; 5] {
    let Known { task, task_token, raffle, .. } = known;
    [
        json!({"op": "acquire", "collection": "task/x", "items": ["b"], "session": "tab-1", "wait_ms": 0}),
        json!({"op": "complete", "claim": task, "status": "completed", "token": task_token,
            "items": [{"item": "a", "status": "ready"}]}),
        json!({"op": "put_item", "collection": "task/x", "item": "c", "status": "ready", "version": 1}),
        json!({"op": "add_item", "claim": raffle, "item": "3"}),
        json!({"op": "force_claim", "collection": "lock/jobs", "item": "bos", "reason": "it is urgent"}),
    ]
}

/// E9, R13
#[tokio::test]
async fn r13_ten_thousand_spoiled_messages_are_refused_and_change_nothing() {
    let server = Running::start().await;
    let before = state(&server.engine);
    let mut random = Random(17);
    let mut socket = open(&server).await;
    let mut ways = BTreeSet::new();
    let mut sent = 0;
    while sent < inputs() {
        let command = random.one(&commands(&server.known));
        // Its id may be almost anything, so it is not spoiled.
        let (how, text) = match random.below(3) {
            0 => {
                let whole = json!({"command": command, "idempotency_key": format!("k{sent}")});
                let Some((how, bytes)) = json(&whole, &mut random) else { continue };
                let Ok(text) = String::from_utf8(bytes) else { continue };
                (how, text)
            }
            1 => {
                let ids =
                    ["{}", "[]", "null", "true", &format!("\"{}\"", "i".repeat(200))].map(str::to_owned);
                ("a wrong id", format!(r#"{{"id":{},"command":{command}}}"#, random.one(&ids)))
            }
            _ => {
                let Some((how, bytes)) = json(&command, &mut random) else { continue };
                let Ok(text) = String::from_utf8(bytes) else { continue };
                (how, format!(r#"{{"id":{sent},"command":{text}}}"#))
            }
        };
        if how == "something follows" && text.ends_with(",}") {
            continue;
        }
        sent += 1;
        ways.insert(how);
        // The server may close before it has all gone out.
        let gone = socket.send(Message::text(text.clone())).await.is_err();
        let answer = if gone { None } else { next(&mut socket).await };
        let Some(answer) = answer else {
            assert!(text.len() > 64 * 1024, "closed for {text:.300}");
            socket = open(&server).await;
            continue;
        };
        let sort = answer["type"].as_str().unwrap_or_default();
        assert!(sort == "error" || sort == "reply", "{how}: {text:.300}\n→ {answer}");
        let verdict = judge::problem(answer["status"].as_u64().unwrap_or(0), &answer["body"].to_string());
        assert_eq!(verdict, Ok(()), "{how}: {text:.300}\n→ {answer}");
    }
    assert_eq!(state(&server.engine), before);
    assert!(ways.len() > 12, "{ways:?}");
    socket.send(Message::text(r#"{"type":"ping"}"#)).await.expect("still open");
    assert_eq!(next(&mut socket).await, Some(json!({"type": "pong"})));
}

/// A client's frame, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("short").to_be_bytes();
    [&[first, 0xfe], &length[..], &[0; 4], payload].concat()
}

/// Frames that break a rule each, and some that do not: what is spoiled of them is rubbish of every sort.
fn frames() -> Vec<Vec<u8>> {
    vec![
        frame(0xf1, b"{}"),
        frame(0x83, b"of no known sort"),
        [&[0x81, 0x02], &b"{}"[..]].concat(),
        frame(0x09, b"half a ping"),
        frame(0x89, &[0; 126]),
        frame(0x80, b"goes on with nothing"),
        frame(0x88, b"x"),
        frame(0x88, &999_u16.to_be_bytes()),
        frame(0x81, b"{\"type\":\"\xff\"}"),
        [&[0x81, 0xff], &u64::MAX.to_be_bytes()[..], &[0; 4]].concat(),
        [frame(0x01, b"{\"ty"), frame(0x81, b"pe\":\"ping\"}")].concat(),
        [&[0x82, 0xff], &(1_u64 << 40).to_be_bytes()[..], &[0; 4]].concat(),
        [frame(0x81, b"{\"type\":\"ping\"}"), frame(0x89, b"there?"), frame(0x88, b"\x03\xe8bye")].concat(),
    ]
}

/// E9, R13: over a real connection, whose own reader of requests hands over what follows the head. `tenure-fuzz socket`
/// looks at each answer.
#[tokio::test]
async fn r13_spoiled_frames_end_their_socket_and_nothing_else() {
    let server = Running::start().await;
    let before = state(&server.engine);
    let (corpus, hello) = (frames(), upgrade("GET /v1/collections/task/x/ws HTTP/1.1", UPGRADE));
    for number in 1..=tenure_spoil::inputs() {
        let bytes = tenure_spoil::mutate(&corpus, &mut tenure_spoil::Random::new(number));
        let answer = server.say(&[hello.as_bytes(), &bytes].concat()).await;
        assert!(answer.starts_with("HTTP/1.1 101"), "{number}: {} → {answer}", bytes.escape_ascii());
    }
    assert_eq!(state(&server.engine), before);
    assert!(server.is_well().await);
}
