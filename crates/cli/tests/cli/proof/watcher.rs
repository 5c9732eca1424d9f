//! Somebody who watches over a socket, and goes on with another node where one is gone.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::buyer::token;
use crate::nginx::{ANSWERED_BY, NAME, Nginx};

/// A node that answers nothing for this long is left for another.
const PATIENCE: Duration = Duration::from_secs(3);
/// Before the next node is tried: as the SDK does, so that those who come back are no storm.
const PAUSE: Duration = Duration::from_millis(200);

/// Where a watcher connects.
pub(crate) enum Way {
    /// To the nodes in turn, beginning with this one.
    Nodes(Arc<[String]>, usize),
    /// To nginx, which chooses.
    Nginx(Arc<Nginx>),
}

/// A socket's bytes, plain or not.
trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// What was seen, and by way of which node.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Value>,
    pub(crate) at: Vec<Instant>,
    /// The node that it is connected to, and since when.
    pub(crate) node: Option<(usize, Instant)>,
    pub(crate) resumes: u64,
}

pub(crate) type Shared = Arc<Mutex<Seen>>;

/// Watches a collection from the first event on, until it is dropped.
pub(crate) async fn watch(way: Way, collection: &'static str, seen: Shared) {
    let bearer = format!("Bearer {}", token("watcher"));
    for tries in 0.. {
        if tries > 0 {
            let _ = timeout(PAUSE, pending::<()>()).await;
        }
        let (chosen, address) = match &way {
            Way::Nodes(urls, first) => {
                let node = (first + tries) % urls.len();
                (Some(node), urls[node].trim_start_matches("http://"))
            }
            Way::Nginx(_) => (None, NAME),
        };
        let since = seen.lock().events.last().map_or(0, |event| event["seq"].as_u64().expect("a number"));
        let url = format!("ws://{address}/v1/collections/{collection}/ws?since={since}&epoch=1");
        let mut request = url.into_client_request().expect("a request");
        request.headers_mut().insert("authorization", bearer.parse().expect("a header"));
        let opened = async {
            let stream: Box<dyn Bytes> = match &way {
                Way::Nodes(..) => Box::new(tokio::net::TcpStream::connect(address).await.ok()?),
                Way::Nginx(nginx) => Box::new(nginx.try_connect([127, 0, 0, 1]).await.ok()?),
            };
            tokio_tungstenite::client_async(request, stream).await.ok()
        };
        let Ok(Some((mut socket, upgraded))) = timeout(PATIENCE, opened).await else { continue };
        let node = match &way {
            Way::Nodes(..) => chosen,
            Way::Nginx(nginx) => {
                let asked = upgraded.headers().get(ANSWERED_BY).and_then(|asked| asked.to_str().ok());
                nginx.node_of(asked.expect("nginx says whom it asked"))
            }
        };
        let node = node.expect("one of the nodes");
        {
            let mut seen = seen.lock();
            seen.node = Some((node, Instant::now()));
            seen.resumes += 1;
        }
        loop {
            // What is silent is asked whether it is there.
            let message = match timeout(PATIENCE, socket.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(_) => break,
                Err(_) => {
                    if socket.send(Message::text(r#"{"type":"ping"}"#)).await.is_err() {
                        break;
                    }
                    match timeout(PATIENCE, socket.next()).await {
                        Ok(Some(Ok(message))) => message,
                        _ => break,
                    }
                }
            };
            // A node that cannot reach its database says so, and the watcher goes on elsewhere.
            let Message::Text(text) = message else { break };
            let Ok(said) = serde_json::from_str::<Value>(&text) else { continue };
            match said["type"].as_str() {
                Some("event") => {
                    let mut seen = seen.lock();
                    seen.events.push(said["event"].clone());
                    seen.at.push(Instant::now());
                }
                Some("pong" | "lagging") => {}
                _ => panic!("a watcher misses nothing: {text}"),
            }
        }
        seen.lock().node = None;
    }
}
