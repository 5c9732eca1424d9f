//! Server-sent events.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{ADMIN, Running, SOON, eventually};

/// A stream of server-sent events.
struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    async fn open(server: &Running, key: &str, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = format!(
            "GET /v1/collections/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             accept: text/event-stream\r\n{more}\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, text: String::new() }
    }

    /// More text; `false` at the end.
    async fn read(&mut self) -> bool {
        let mut bytes = vec![0; 16_384];
        let length = tokio::time::timeout(SOON, self.stream.read(&mut bytes)).await.unwrap().unwrap_or(0);
        self.text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        length > 0
    }

    /// The next event's id, type and data.
    async fn next(&mut self) -> (String, String, Value) {
        loop {
            // Chunk sizes stand on lines of their own, with \r\n, where no event has one.
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                    line.unwrap_or_default()
                };
                if !field("data: ").is_empty() {
                    let data = serde_json::from_str(&field("data: ")).unwrap_or(Value::Null);
                    return (field("id: "), field("event: "), data);
                }
            }
            assert!(self.read().await, "it ended: {}", self.text);
        }
    }
}

/// As over a socket.
#[tokio::test]
async fn e2_who_watches_what_is_not_there_yet_hears_of_the_first_claim() {
    let server = Running::start().await;
    let mut events = Events::open(&server, ADMIN, "lock/new/events", "").await;
    while !events.text.contains("]}") {
        assert!(events.read().await);
    }
    assert!(events.text.contains("id: 1-0\nevent: snapshot\n"), "{}", events.text);
    events.text.clear();
    server.create("lock/new").await;
    let (id, event, _) = events.next().await;
    assert_eq!((id.as_str(), event.as_str()), ("1-1", "collection_created"));
}

#[tokio::test]
async fn e2_events_come_with_their_ids_and_a_reader_comes_back_with_the_last() {
    let server = Running::start().await;
    server.create("task/x").await;
    let mut events = Events::open(&server, ADMIN, "task/x/events?since=0", "").await;
    let (id, event, data) = events.next().await;
    assert_eq!((id.as_str(), event.as_str(), &data["seq"]), ("1-1", "collection_created", &json!(1)));
    for number in 0..5 {
        server.put("task/x", "a", json!({"line": "one\ntwo", "number": number})).await;
    }
    assert_eq!(events.next().await.0, "1-2");
    drop(events);
    let mut again = Events::open(&server, ADMIN, "task/x/events", "last-event-id: 1-2\r\n").await;
    for seq in 3..=6 {
        let (id, event, data) = again.next().await;
        assert_eq!((id, event.as_str(), &data["seq"]), (format!("1-{seq}"), "item_put", &json!(seq)));
        assert_eq!(data["after"]["data"]["line"], "one\ntwo");
    }
}

#[tokio::test]
async fn e2_another_epoch_says_resync_and_gives_a_snapshot() {
    let server = Running::start().await;
    server.create("task/x").await;
    let mut events = Events::open(&server, ADMIN, "task/x/events", "last-event-id: 7-1\r\n").await;
    // Its place stands in the data and not as an id: a browser that is cut off before the snapshot would come
    // back with that id, and never see the snapshot.
    let told = json!({"reason": "other_epoch", "epoch": 1, "seq": 1});
    assert_eq!(events.next().await, (String::new(), "resync".to_owned(), told));
    assert!(events.read().await || !events.text.is_empty());
    while !events.text.contains("]}") {
        assert!(events.read().await);
    }
    assert!(events.text.contains("id: 1-1\nevent: snapshot\n"), "{}", events.text);
    let (status, _) = server.http(ADMIN, "GET", "/v1/collections/task/x/events?since=9", &json!({})).await;
    assert_eq!(status, 410);
}

#[tokio::test]
async fn e2_a_stop_and_a_revocation_end_the_stream() {
    let mut server = Running::start().await;
    server.create("task/x").await;
    let (key, id) = server.key("viewer").await;
    let mut revoked = Events::open(&server, &key, "task/x/events?since=1", "").await;
    let mut stopped = Events::open(&server, ADMIN, "task/x/events?since=1", "").await;
    eventually(|| server.figure("tenure_sockets{sort=\"sse\"}") > 1.5).await;
    server.http(ADMIN, "DELETE", &format!("/v1/keys/{id}"), &json!({})).await;
    while revoked.read().await && !revoked.text.contains("\r\n0\r\n") {}
    eventually(|| server.figure("tenure_sockets{sort=\"sse\"}") < 1.5).await;
    server.stop();
    while stopped.read().await && !stopped.text.contains("\r\n0\r\n") {}
    eventually(|| server.figure("tenure_sockets{sort=\"sse\"}") < 0.5).await;
    drop((revoked, stopped));
    server.ended().await;
}

#[tokio::test(start_paused = true)]
async fn e2_a_quiet_stream_shows_that_it_is_alive() {
    let server = Running::in_memory().await;
    server.create("task/x").await;
    let started = tokio::time::Instant::now();
    let mut events = Events::open(&server, ADMIN, "task/x/events?since=1", "").await;
    while events.text.matches("\n:\n\n").count() < 4 {
        assert!(events.read().await);
    }
    let took = started.elapsed().as_secs();
    assert!((45..=60).contains(&took), "{took}");
}
