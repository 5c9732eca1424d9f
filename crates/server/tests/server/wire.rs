//! Through real sockets: slow and greedy clients, and a graceful end.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tenure_core::{CollectionKey, ItemId};
use tenure_engine::Engine;
use tenure_server::config::Config;
use tenure_server::{App, Metrics, Server, own_routes, router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    engine: Engine,
    metrics: Metrics,
}

impl Running {
    pub(crate) async fn start(config: Config, more: Router) -> Self {
        Self::start_with(config, |app| Router::from(own_routes().with_state(app)).merge(more)).await
    }

    /// With all routes.
    pub(crate) async fn start_whole(config: Config) -> Self {
        Self::start_with(config, |app| router(app).0).await
    }

    async fn start_with(mut config: Config, routes: impl FnOnce(App) -> Router) -> Self {
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.secret =
            Some(tenure_server::identity::Secret::new("a secret that only this test knows, long"));
        let engine = crate::world::any_engine();
        let metrics = Metrics::new();
        let server = Server::open(&config, engine.clone(), metrics.clone()).await.unwrap();
        let address = server.address();
        let routes = routes(server.app().clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(routes, async move {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), task: running, engine, metrics }
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn ended(self) {
        tokio::time::timeout(Duration::from_secs(20), self.task).await.expect("it ends").unwrap();
    }

    /// The figures.
    pub(crate) fn figures(&self) -> String {
        self.metrics.render(&self.engine)
    }

    /// How many wait for an item.
    pub(crate) fn waiting(&self, collection: &str, item: &str) -> usize {
        self.engine.waiting(&CollectionKey::new(collection).unwrap(), &ItemId::new(item).unwrap())
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// Everything until the other end closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes)).await;
    // A reset says the same as an end.
    let _ = read.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 4_096];
    let length =
        tokio::time::timeout(Duration::from_secs(20), stream.read(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[tokio::test]
async fn a_dribbling_client_is_cut_off() {
    let mut config = Config::default();
    config.limits.headers_timeout_ms = 200;
    let server = Running::start(config, Router::new()).await;
    let mut slow = server.connect().await;
    let (mut read, mut write) = slow.split();
    let dribble = async {
        for byte in b"GET /healthz HTTP/1.1\r\nx-slow: ".iter().chain(std::iter::repeat(&b'a')) {
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let cut = async {
        let mut bytes = Vec::new();
        let _ = read.read_to_end(&mut bytes).await;
    };
    tokio::time::timeout(Duration::from_secs(10), async {
        tokio::select! { () = dribble => {}, () = cut => {} }
    })
    .await
    .expect("cut off long before the head is whole");
    assert!(ask(&mut server.connect().await, "/healthz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_silent_client_is_cut_off() {
    let mut config = Config::default();
    config.limits.headers_timeout_ms = 100;
    let server = Running::start(config, Router::new()).await;
    assert_eq!(rest(&mut server.connect().await).await, "");
}

#[tokio::test]
async fn a_flood_of_headers_is_refused() {
    let server = Running::start(Config::default(), Router::new()).await;
    let large = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "a".repeat(9_000));
    let many = "x-many: 1\r\n".repeat(200);
    let endless_path = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(9_000));
    for head in [large, format!("GET /healthz HTTP/1.1\r\nhost: a\r\n{many}\r\n"), endless_path] {
        let mut stream = server.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431") || answer.starts_with("HTTP/1.1 414"), "{answer}");
    }
    let fits =
        format!("GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: {}\r\n\r\n", "a".repeat(8_000));
    let mut stream = server.connect().await;
    stream.write_all(fits.as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn connections_are_capped_and_freed() {
    let mut config = Config::default();
    config.limits.connections = 3;
    let server = Running::start(config, Router::new()).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        assert!(ask(&mut stream, "/healthz").await.starts_with("HTTP/1.1 200"));
        open.push(stream);
    }
    assert_eq!(rest(&mut server.connect().await).await, "", "the fourth is closed at once");
    open.pop();
    crate::world::eventually(async || {
        let mut stream = server.connect().await;
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        rest(&mut stream).await.starts_with("HTTP/1.1 200")
    })
    .await;
}

#[tokio::test]
async fn keep_alive_serves_many_requests_on_one_connection() {
    let server = Running::start(Config::default(), Router::new()).await;
    let mut stream = server.connect().await;
    for _ in 0..10 {
        assert!(ask(&mut stream, "/healthz").await.contains("ok"));
    }
    stream.write_all("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(5).as_bytes()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    assert_eq!(rest(&mut stream).await.matches("HTTP/1.1 200").count(), 6, "pipelined");
}

#[tokio::test]
async fn malformed_heads_are_refused_and_nothing_breaks() {
    let server = Running::start(Config::default(), Router::new()).await;
    for head in [
        "\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET /a b HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
    ] {
        let mut stream = server.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer}");
    }
    assert!(ask(&mut server.connect().await, "/healthz").await.contains("ok"));
}

#[tokio::test]
async fn e8_on_stop_what_is_in_flight_is_finished_and_nothing_new_is_taken() {
    // A route of the table, so that the gate lets it through.
    let (entered, leave) = (std::sync::Arc::new(Semaphore::new(0)), std::sync::Arc::new(Semaphore::new(0)));
    let slow = {
        let (entered, leave) = (entered.clone(), leave.clone());
        get(async move || {
            entered.add_permits(1);
            let _ = leave.acquire().await;
            "finished"
        })
    };
    let config = Config {
        admin_key: Some(tenure_server::identity::Secret::new(crate::world::ADMIN)),
        ..Config::default()
    };
    let mut server = Running::start(config, Router::new().route("/v1/claims", slow)).await;
    let mut idle = server.connect().await;
    assert!(ask(&mut idle, "/healthz").await.contains("ok"));
    let mut busy = server.connect().await;
    let request = format!(
        "GET /v1/claims HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\r\n",
        crate::world::ADMIN
    );
    busy.write_all(request.as_bytes()).await.unwrap();
    let _ = entered.acquire().await.unwrap();
    server.stop();
    assert_eq!(rest(&mut idle).await, "", "an idle connection is closed");
    crate::world::eventually(async || TcpStream::connect(server.address).await.is_err()).await;
    leave.add_permits(1);
    assert!(rest(&mut busy).await.ends_with("finished"));
    server.ended().await;
}
