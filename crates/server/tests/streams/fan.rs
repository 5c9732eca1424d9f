//! Many sockets that are told together: each hears what it would have heard alone.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tenure_server::{Rate, config::Config};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::client::{ADMIN, Running, SOON, Socket};

/// A server without rates.
async fn server() -> Running {
    let mut config = Config::default();
    let free = Rate { per_second: 0, burst: 0 };
    (config.rates.read, config.rates.write, config.rates.stream) = (free, free, free);
    let server = Running::with(config).await;
    server.create("task/board").await;
    server
}

/// A socket that has heard everything up to this number.
async fn open(server: &Running, seq: u64) -> Socket {
    let mut socket = server.open(ADMIN, "task/board/ws").await;
    assert_eq!(socket.next().await["seq"], seq);
    socket
}

/// Hears every event up to this number, once and in order; what else came.
async fn hear(socket: &mut Socket, mut seq: u64, until: u64) -> Vec<Value> {
    let mut others = Vec::new();
    while seq < until {
        let message = socket.next().await;
        if message["type"] == "event" {
            assert_eq!(message["seq"], seq + 1);
            seq += 1;
        } else {
            others.push(message);
        }
    }
    others
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r13_each_of_many_hears_every_event_once_and_in_order_whatever_it_does_beside() {
    const EVENTS: u64 = 150;
    let server = Arc::new(server().await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..150 {
        let mut socket = open(&server, 1).await;
        tasks.spawn(async move {
            let (mut seq, mut others) = (1, Vec::new());
            while seq < EVENTS + 1 {
                match number % 3 {
                    0 => socket.0.send(Message::Ping("still there?".into())).await.unwrap(),
                    1 => {
                        let items = [format!("{number}-{seq}")];
                        let command = json!({"op": "acquire", "collection": "lock/own", "items": items});
                        socket.command(json!(seq), command).await;
                    }
                    _ => {}
                }
                let until = (seq + 5).min(EVENTS + 1);
                others.extend(hear(&mut socket, seq, until).await);
                seq = until;
            }
            let asked = if number % 3 == 1 { usize::try_from(EVENTS.div_ceil(5)).unwrap() } else { 0 };
            while others.len() < asked {
                others.push(socket.next().await);
            }
            assert!(others.len() == asked && others.iter().all(|reply| reply["status"] == 201), "{others:?}");
        });
    }
    for number in 0..EVENTS {
        let size = if number % 10 == 0 { 20_000 } else { 20 };
        server.put("task/board", "one", json!("a".repeat(size))).await;
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// A socket's own task sends large messages in pieces. Who has nothing else to say is told together with others.
#[tokio::test]
async fn r13_who_only_listens_is_told_together_with_others() {
    let server = server().await;
    let mut socket = open(&server, 1).await;
    server.put("task/board", "one", json!(0)).await;
    hear(&mut socket, 1, 2).await;
    // Once more after it has written something itself.
    for seq in 3..5 {
        server.put("task/board", "one", json!("a".repeat(20_000))).await;
        let stream = socket.0.get_mut();
        let mut head = [0; 4];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(head[..2], [0x81, 126], "a whole text");
        let mut text = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
        stream.read_exact(&mut text).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap()["seq"], seq);
        socket.send(r#"{"type":"ping"}"#).await;
        assert_eq!(socket.next().await, json!({"type": "pong"}));
    }
}

/// More happens than is kept in memory before the server gets to tell anybody.
#[tokio::test]
async fn r14_who_falls_behind_what_is_kept_in_memory_misses_nothing() {
    // In memory: thousands of commits of a database take longer than a server may stand still without its sockets
    // being taken for dead.
    let server = Running::in_memory().await;
    server.create("task/board").await;
    let mut sockets = [open(&server, 1).await, open(&server, 1).await];
    server.put("task/board", "one", json!(0)).await;
    for socket in &mut sockets {
        hear(socket, 1, 2).await;
    }
    // The feed keeps 4,096.
    let events = 4_200;
    std::thread::scope(|scope| {
        let write = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let one = || server.put("task/board", "one", json!(0));
            runtime.block_on(async {
                for _ in 0..events {
                    one().await;
                }
            });
        };
        // The server stands still meanwhile: this thread is the only one it has.
        scope.spawn(write).join().unwrap();
    });
    let (first, second) = sockets.split_at_mut(1);
    tokio::join!(hear(&mut first[0], 2, events + 2), hear(&mut second[0], 2, events + 2));
}

/// What is encrypted cannot be shared: each such socket is told by its own task.
#[tokio::test]
async fn r13_sockets_over_tls_hear_every_event_too() {
    let (folder, mut config, mut roots) =
        (tempfile::tempdir().unwrap(), Config::default(), RootCertStore::empty());
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (config.tls.cert, config.tls.key) = (Some(certificate), Some(key));
    roots.add(made.cert.der().clone()).unwrap();
    let server = Running::with(config).await;
    server.create("task/board").await;
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let client = client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let stream = TcpStream::connect(server.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(client.with_no_client_auth()));
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let mut request = "wss://localhost/v1/collections/task/board/ws".into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {ADMIN}").parse().unwrap());
    let (mut socket, _) = client_async(request, stream).await.unwrap();
    for seq in 1..5 {
        let text = tokio::time::timeout(SOON, socket.next()).await.expect("it comes").unwrap().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text.to_text().unwrap()).unwrap()["seq"], seq);
        server.put("task/board", "one", json!("a".repeat(10_000))).await;
    }
}
