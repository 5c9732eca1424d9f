//! From a request to one `tenure serve` to a socket of another.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::Server as Database;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::process::{ADMIN, Server, tenure};

/// Events of a burst, and how many bursts there are at most: a machine that does other things besides may be slow for
/// a while, and hints that do not come are so always.
const EVENTS: usize = 20;
const BURSTS: usize = 20;
/// Nodes that only look find an event after an eighth of a second, as often as not.
const MEDIAN: Duration = Duration::from_millis(50);
/// Longer than hints are held back, so that each event has one of its own.
const EVERY: Duration = Duration::from_millis(15);

fn node(url: &str, redis: Option<&str>) -> Server {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("TENURE_ADMIN_KEY", ADMIN);
    command.env("TENURE_DATABASE_URL", url).env("TENURE_SECRET", "s".repeat(64));
    command.envs(redis.map(|redis| ("TENURE_REDIS", redis)));
    Server::of(command)
}

/// How long the events of a burst took, the shortest first.
async fn burst(near: &str, far: &str, burst: usize) -> Vec<Duration> {
    let (near, far) = (near.trim_start_matches("http://"), far.trim_start_matches("http://"));
    let mut request =
        format!("ws://{far}/v1/collections/lock/default/ws").into_client_request().expect("a request");
    request.headers_mut().insert("authorization", format!("Bearer {ADMIN}").parse().expect("a header"));
    let stream = TcpStream::connect(far).await.expect("connects");
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.expect("upgraded");
    let mut hear = async |word: &str| {
        let heard = async {
            while !socket
                .next()
                .await
                .expect("a message")
                .expect("whole")
                .into_text()
                .expect("text")
                .contains(word)
            {}
        };
        assert!(timeout(Duration::from_secs(20), heard).await.is_ok(), "never heard of {word}");
    };
    // Its first look has been taken once the snapshot is there.
    hear(r#""type":"snapshot""#).await;
    let mut asking = TcpStream::connect(near).await.expect("connects");
    asking.set_nodelay(true).expect("set");
    let mut took = Vec::new();
    for event in 0..EVENTS {
        let item = format!("event-{burst}-{event}.");
        let body = format!(r#"{{"collection":"lock/default","items":["{item}"]}}"#);
        let request = format!(
            "POST /v1/claims HTTP/1.1\r\nHost: {near}\r\nAuthorization: Bearer {ADMIN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let begun = Instant::now();
        asking.write_all(request.as_bytes()).await.expect("sent");
        hear(&item).await;
        took.push(begun.elapsed());
        let mut answer = vec![0; 4096];
        let read = asking.read(&mut answer).await.expect("answered");
        assert!(answer[..read].starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer[..read]));
        let _ = timeout(EVERY, std::future::pending::<()>()).await;
    }
    took.sort();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn e09_what_one_server_commits_is_on_another_s_socket_at_once() {
    let redis = Redis::start();
    for redis in [None, Some(redis.url())] {
        let url = Database::shared().database();
        let nodes = [(); 2].map(|()| node(&url, redis.as_deref()));
        let way = if redis.is_some() { "Redis" } else { "NOTIFY" };
        let mut is_soon = false;
        for nth in 0..BURSTS {
            let took = burst(&nodes[0].url, &nodes[1].url, nth).await;
            println!("by {way}: median {:?}, slowest {:?}", took[EVENTS / 2], took[EVENTS - 1]);
            is_soon = took[EVENTS / 2] < MEDIAN;
            if is_soon {
                break;
            }
        }
        assert!(is_soon, "by {way} events come no sooner than by looking for them");
    }
}
