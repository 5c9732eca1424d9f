//! A running server, and the clients that try it.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tenure_core::command::PutItem;
use tenure_core::{CollectionKey, Command, Expect, ItemId, ItemWrite, Principal, Verb};
use tenure_engine::{Clock, Engine, ManualClock, Options};
use tenure_server::config::Config;
use tenure_server::identity::Secret;
use tenure_server::{App, Metrics, Server, router};
use tenure_store::conformance::AnyStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::away::{Away, Switch};

pub(crate) const ADMIN: &str = "tnr_the-administrators-own-key";
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    pub(crate) engine: Engine,
    pub(crate) clock: ManualClock,
    /// While it is on, no key or session can be looked for.
    pub(crate) away: Switch,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        Self::over(AnyStore::place().as_deref(), config).await
    }

    /// In memory whatever the run is told: for tests that say why, and for those in which the runtime's time stands
    /// still, and leaps whenever everybody waits. Over a database they wait for its answers, and hours would pass.
    pub(crate) async fn in_memory() -> Self {
        Self::over(None, Config::default()).await
    }

    async fn over(place: Option<&str>, mut config: Config) -> Self {
        config.listen = "127.0.0.1:0".parse().unwrap();
        config.secret = Some(Secret::new("a secret that only this test knows, long"));
        config.admin_key = Some(Secret::new(ADMIN));
        let metrics = Metrics::new();
        let options = Options { observer: metrics.observer(), ..Options::default() };
        let clock = ManualClock::at(1_700_000_000_000);
        let time = clock.clone();
        let (store, away) = Away::from(AnyStore::at(place, move || time.now_ms()));
        let engine = Engine::start(store, clock.clone(), options).unwrap();
        let server = Server::open(&config, engine.clone(), metrics).await.unwrap();
        let (address, app) = (server.address(), server.app().clone());
        let (routes, _) = router(app.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(routes, async move {
            let _ = stopped.await;
        }));
        Self { address, app, engine, clock, away, stop: Some(stop), task }
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn ended(self) {
        tokio::time::timeout(SOON, self.task).await.expect("it ends").unwrap();
    }

    /// Writes an item, with this document.
    pub(crate) async fn put(&self, collection: &str, item: &str, data: Value) {
        let data = Some(tenure_core::Json::of(&data).unwrap());
        let write = ItemWrite { item: ItemId::new(item).unwrap(), status: None, data };
        let put = PutItem { write, expect: Expect::Any, guard: None };
        self.ask(collection, Verb::PutItem(put)).await;
    }

    pub(crate) async fn create(&self, collection: &str) {
        self.ask(collection, Verb::CreateCollection).await;
    }

    async fn ask(&self, collection: &str, verb: Verb) {
        let collection = CollectionKey::new(collection).unwrap();
        let actor = Principal::new("test", "Test").unwrap();
        let answer = self.engine.execute(Command { collection, actor, verb }).await;
        answer.outcome.unwrap();
    }

    /// One request, as JSON.
    pub(crate) async fn http(&self, bearer: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bearer}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        let body = text.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// A key of this role, and its id.
    pub(crate) async fn key(&self, role: &str) -> (String, String) {
        let body =
            json!({"name": "test", "subject": {"id": format!("{role}-1"), "name": role}, "role": role});
        let (status, key) = self.http(ADMIN, "POST", "/v1/keys", &body).await;
        assert_eq!(status, 201, "{key}");
        (key["key"].as_str().unwrap().to_owned(), key["id"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn ticket(&self, bearer: &str) -> String {
        let (status, ticket) = self.http(bearer, "POST", "/v1/tickets", &json!({})).await;
        assert_eq!(status, 201, "{ticket}");
        ticket["ticket"].as_str().unwrap().to_owned()
    }

    /// A socket on a collection, as somebody with a key.
    pub(crate) async fn open(&self, key: &str, path: &str) -> Socket {
        self.try_open(path, &[("authorization", &format!("Bearer {key}"))]).await.unwrap()
    }

    /// A socket, or the status that refuses it.
    pub(crate) async fn try_open(&self, path: &str, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        self.connect(path, headers, None).await
    }

    /// The same, with a small buffer at this end.
    pub(crate) async fn connect(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        buffer: Option<u32>,
    ) -> Result<Socket, u16> {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let stream = socket.connect(self.address).await.unwrap();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/v1/collections/{path}") };
        let url = format!("ws://{}{path}", self.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// How a figure stands; 0 when nobody has counted it.
    pub(crate) fn figure(&self, line: &str) -> f64 {
        let page = self.app.metrics().render(&self.engine);
        let found = page.lines().find_map(|text| text.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or(0.0)
    }
}

pub(crate) struct Socket(pub(crate) WebSocketStream<TcpStream>);

impl Socket {
    /// The next message; `None` after the end.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        loop {
            let next = tokio::time::timeout(SOON, self.0.next()).await.expect("something comes");
            match next {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next message, which is JSON.
    pub(crate) async fn next(&mut self) -> Value {
        match self.message().await {
            Some(Message::Text(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("no message: {other:?}"),
        }
    }

    /// The next message of this type, whatever comes before.
    pub(crate) async fn next_of(&mut self, sort: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["type"] == sort {
                return message;
            }
        }
    }

    /// The code and the reason with which it is closed, whatever comes before.
    pub(crate) async fn closed(&mut self) -> (u16, Value) {
        loop {
            match self.message().await {
                Some(Message::Close(Some(frame))) => {
                    return (frame.code.into(), serde_json::from_str(&frame.reason).unwrap());
                }
                Some(Message::Text(_)) => {}
                other => panic!("not closed: {other:?}"),
            }
        }
    }

    pub(crate) async fn send(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.unwrap();
    }

    pub(crate) async fn command(&mut self, id: Value, command: Value) {
        self.send(json!({"id": id, "command": command}).to_string()).await;
    }

    /// Sends a command; its status and body.
    pub(crate) async fn ask(&mut self, command: Value) -> (u64, Value) {
        self.command(json!("ask"), command).await;
        let reply = self.next_of("reply").await;
        assert_eq!(reply["id"], "ask");
        (reply["status"].as_u64().unwrap(), reply["body"].clone())
    }
}

/// Asks until it is so.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) {
    let asked = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, asked).await.expect("it never came");
}

/// The same where the runtime's time stands still until everything waits.
pub(crate) async fn eventually_paused(mut is_so: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is_so() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(started.elapsed() < SOON, "it never came");
    }
}
