//! The stream of events, against a server that speaks the contract and breaks off in between.

use std::sync::Arc;

use tenure_client::{Client, Cursor, Since, Watched};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::support::{ADMIN, Server};

/// Answers each connection with the next of these bodies, and notes what was asked.
async fn answering(answers: Vec<String>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            noted.lock().await.push(head(&mut stream).await);
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }
        std::future::pending::<()>().await;
    });
    (url, asked)
}

async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.expect("a head");
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).expect("text").to_lowercase()
}

fn events(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}")
}

fn event(seq: u64) -> String {
    format!(
        "id: 3-{seq}\nevent: claim_granted\ndata: {{\"seq\":{seq},\"at\":\"2026-01-02T03:04:05Z\",\
         \"type\":\"claim_granted\",\"actor\":{{\"id\":\"a\",\"name\":\"A\"}},\"collection\":\"lock/jobs\"}}\n\n"
    )
}

fn short(watched: &Watched) -> String {
    match watched {
        Watched::Event(event) => event.seq.to_string(),
        Watched::Resync(Cursor { epoch, seq }) => format!("resync {epoch}-{seq}"),
        Watched::Away => "away".to_owned(),
    }
}

#[tokio::test]
async fn e2_a_broken_stream_goes_on_where_it_broke() {
    let resync = "event: resync\ndata: {\"epoch\":4,\"last\":90}\n\n";
    let gone = "{\"code\":\"resync\",\"detail\":\"gone\",\"status\":410,\"epoch\":5,\"last\":7}";
    let answers = vec![
        // The last one is cut off: it counts as never sent.
        events(&format!(": hello\n\n{}{}id: 3-3\ndata: {{\"se", event(1), event(2))),
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        events(&format!("{}{resync}", event(3))),
        format!(
            "HTTP/1.1 410 Gone\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{gone}",
            gone.len()
        ),
        events(&event(8)),
    ];
    let (url, asked) = answering(answers).await;
    let client = Client::new(&url, "key").expect("a client");
    let mut watch = client.watch("lock/jobs", Since::Seq(0)).expect("a stream");
    let mut heard = Vec::new();
    while heard.len() < 8 {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), watch.next()).await;
        heard.push(short(&next.expect("it never came").expect("a stream").expect("an event")));
    }
    assert_eq!(heard, ["1", "2", "away", "3", "resync 4-90", "away", "resync 5-7", "8"]);
    let asked = asked.lock().await;
    let resumes: Vec<_> = asked
        .iter()
        .map(|head| {
            head.lines().find_map(|line| line.strip_prefix("last-event-id: ")).unwrap_or("").to_owned()
        })
        .collect();
    assert_eq!(resumes, ["", "3-2", "3-2", "4-90", "5-7"]);
    assert!(asked[0].contains("since=0") && asked[0].contains("accept: text/event-stream"));
}

#[tokio::test]
async fn a_refusal_ends_the_stream() {
    let problem = "{\"code\":\"not_found\",\"detail\":\"no such collection\",\"status\":404}";
    let answer = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{problem}", problem.len());
    let (url, _) = answering(vec![answer]).await;
    let client = Client::new(&url, "key").expect("a client");
    let mut watch = client.watch("lock/jobs", Since::Beginning).expect("a stream");
    let error = watch.next().await.expect("an answer").expect_err("a refusal");
    assert_eq!(error.code(), Some("not_found"));
    assert!(watch.next().await.is_none());
}

/// E2, I8: a number that means nothing any more is told, however large the snapshot is that follows, and what
/// happens next comes.
#[tokio::test]
async fn e2_a_real_server_tells_that_events_are_missing() {
    let server = Server::start().await;
    let admin = Client::new(&server.url(), ADMIN).expect("a client");
    let large = serde_json::json!("x".repeat(60_000));
    let mut held = Vec::new();
    for number in 0..20 {
        let acquire = admin.acquire("lock/jobs", [format!("i{number}")]).data(large.clone());
        held.push(acquire.by_hand().await.expect("claimed"));
    }
    let key = tenure_core::CollectionKey::new("lock/jobs").expect("a name");
    for (epoch, seq) in [(9, 1), (1, 5_000)] {
        let since = Since::Cursor(Cursor { epoch, seq });
        let mut watch = admin.watch("lock/jobs", since).expect("a stream");
        let heard = async |watch: &mut tenure_client::Watch| {
            let next = tokio::time::timeout(std::time::Duration::from_secs(20), watch.next()).await;
            short(&next.expect("it never came").expect("a stream").expect("an event"))
        };
        let newest = server.engine.reader().collection(&key).expect("read").expect("there").seq;
        assert_eq!(heard(&mut watch).await, format!("resync 1-{newest}"), "from {epoch}-{seq}");
        let next = admin.acquire("lock/jobs", [format!("new-{epoch}")]).by_hand();
        held.push(next.await.expect("claimed"));
        assert_eq!(heard(&mut watch).await, (newest + 1).to_string(), "from {epoch}-{seq}");
    }
}
