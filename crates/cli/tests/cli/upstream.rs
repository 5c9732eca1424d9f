//! Whom the sample nginx asks, with several nodes behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parking_lot::Mutex;
use serde_json::Value;
use tenure_store::conformance::Server as Database;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::nginx::{HERE, NAME, Nginx};
use crate::process::{ADMIN, ALONE, Server, tenure, until};
use crate::proof::proxy::{Fault, Proxy};

fn node(url: &str) -> Server {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("TENURE_DATABASE_URL", url).env("TENURE_SECRET", "s".repeat(64));
    command.env("TENURE_ADMIN_KEY", ADMIN).env("TENURE_NETWORK_TRUSTED_PROXIES", "127.0.0.1");
    Server::of(command)
}

/// An answer's status.
fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

fn json_of(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

/// What callers ask for, each with everything that is new about it.
const SORTS: [&str; 4] = ["a read", "a claim with a key", "a heartbeat", "a claim without a key"];
const CALLERS: usize = 6;
const VISITS: usize = 15;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_a_node_that_has_lost_its_database_costs_callers_almost_nothing() {
    let _alone = ALONE.lock().await;
    let database = Database::shared();
    let (folder, url) = (tempfile::tempdir().expect("a folder"), database.database());
    let proxy = Proxy::to(database.port()).await;
    let lost = proxy.instead_of(database.port(), &url);
    let nodes = [&lost, &url, &url].map(|url| node(url));
    let urls: Vec<&str> = nodes.iter().map(|node| node.url.as_str()).collect();
    let nginx = Arc::new(Nginx::start(folder.path(), &urls));
    proxy.set(Fault::Cut);
    until("the node has noticed", || plainly(&nodes[0].url, "GET /v1/claims").starts_with("HTTP/1.1 503"));

    let begun = Instant::now();
    let mut calling = JoinSet::new();
    for caller in 0..CALLERS {
        let nginx = nginx.clone();
        calling.spawn(async move {
            let mut failed = BTreeMap::new();
            let (mut held, mut token) = (String::new(), String::new());
            for visit in 0..VISITS {
                for sort in SORTS {
                    let item = format!("{caller}-{visit}-{}", sort.len());
                    let claim = format!(r#"{{"collection":"lock/default","items":["{item}"]}}"#);
                    let (head, body) = match sort {
                        "a read" => ("GET /v1/claims HTTP/1.1".to_owned(), ""),
                        "a claim with a key" => {
                            (format!("POST /v1/claims HTTP/1.1\r\nIdempotency-Key: {item}"), &*claim)
                        }
                        "a heartbeat" => (format!("POST /v1/claims/{held}/heartbeat HTTP/1.1"), &*token),
                        _ => ("POST /v1/claims HTTP/1.1".to_owned(), &*claim),
                    };
                    let head = format!("{head}\r\nAuthorization: Bearer {ADMIN}");
                    let answer = nginx.ask(HERE, &head, body).await;
                    let is_well = matches!(status(&answer), 200 | 201);
                    assert!(is_well || answer.contains("\"away\""), "{answer}");
                    *failed.entry(sort).or_insert(0) += usize::from(!is_well);
                    if is_well && sort == "a claim with a key" {
                        let claim = json_of(&answer);
                        claim["id"].as_str().expect("an id").clone_into(&mut held);
                        token = format!(r#"{{"token":{}}}"#, claim["token"]);
                    }
                }
            }
            failed
        });
    }
    let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
    for each in calling.join_all().await {
        for (sort, count) in each {
            *failed.entry(sort).or_default() += count;
        }
    }
    let took = begun.elapsed();
    println!("of {} each, failed in {took:?}: {failed:?}", CALLERS * VISITS);
    // What may be repeated is, so nobody notices; the rest meets the node until something else has found it out, each two
    // seconds anew.
    assert_eq!(SORTS[..3].iter().map(|sort| failed[sort]).sum::<usize>(), 0, "{failed:?}");
    let looks = 1 + took.as_secs() / 2;
    assert!(failed[SORTS[3]] as u64 <= looks * CALLERS as u64, "{failed:?} in {took:?}");
}

/// What a node answers by itself.
fn plainly(url: &str, what: &str) -> String {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connects");
    let head = format!(
        "{what} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}

/// Changes that may be repeated.
const KEYED: &str = "POST /v1/claims HTTP/1.1\r\nIdempotency-Key: 1";
const BEAT: &str = "POST /v1/claims/lock~a~1/heartbeat HTTP/1.1";

/// A node that has too much to do, until it has not.
struct Busy {
    url: String,
    refuses: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

fn busy() -> Busy {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (refuses, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (busy, count) = (refuses.clone(), asked.clone());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            if !stream.read(&mut head).is_ok_and(|read| read > 0) {
                continue;
            }
            count.fetch_add(1, Ordering::SeqCst);
            let answer = if busy.load(Ordering::SeqCst) {
                "503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 21\r\n\r\n{\"code\":\"overloaded\"}"
            } else {
                "200 OK\r\nContent-Length: 2\r\n\r\n{}"
            };
            let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
        }
    });
    Busy { url, refuses, asked }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn e09_where_all_nodes_refuse_their_own_answer_is_heard_and_the_first_that_can_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = [busy(), busy(), busy()];
    let nginx = Nginx::start(folder.path(), &[&nodes[0].url, &nodes[1].url, &nodes[2].url]);
    let ask = async |nth: usize| {
        let head = if nth.is_multiple_of(2) { KEYED } else { "GET / HTTP/1.1" };
        nginx.ask(HERE, head, "").await
    };
    for nth in 0..20 {
        // Never nginx' own words: there is always somebody to ask.
        let answer = ask(nth).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("overloaded"), "{nth}: {answer}");
        assert!(answer.contains("Retry-After: 1"), "{nth}: {answer}");
    }
    let asked: usize = nodes.iter().map(|node| node.asked.load(Ordering::SeqCst)).sum();
    assert!(asked <= 10 * 2 + 10 * 3, "asked {asked} times");
    for node in &nodes {
        node.refuses.store(false, Ordering::SeqCst);
    }
    // Nobody waits for those who are set aside.
    for nth in 0..12 {
        let answer = ask(nth).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{nth}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn e09_a_node_that_refuses_is_set_aside_and_its_requests_are_answered_by_others() {
    let _alone = ALONE.lock().await;
    // Heartbeats alone find it out, too: where people only hold what they have there is nothing else.
    for heads in [[KEYED, "GET / HTTP/1.1"], [BEAT, BEAT]] {
        is_set_aside(heads).await;
    }
}

/// By requests like these.
async fn is_set_aside(heads: [&str; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = [busy(), busy(), busy()];
    for node in &nodes[1..] {
        node.refuses.store(false, Ordering::SeqCst);
    }
    let nginx = Nginx::start(folder.path(), &[&nodes[0].url, &nodes[1].url, &nodes[2].url]);
    let begun = Instant::now();
    for nth in 0..40 {
        let answer = nginx.ask(HERE, heads[nth % 2], "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{nth}: {answer}");
    }
    // Once at the start, and once each two seconds.
    let asked = nodes[0].asked.load(Ordering::SeqCst);
    let most = 2 + begun.elapsed().as_secs() / 2;
    assert!((1..=most).contains(&(asked as u64)), "asked {asked} times in {:?}", begun.elapsed());
}

/// It has too much to do already.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn e09_a_single_node_is_asked_once_what_it_refuses() {
    let (folder, node) = (tempfile::tempdir().expect("a folder"), busy());
    let nginx = Nginx::start(folder.path(), &[&node.url]);
    for (nth, head) in [KEYED, "GET / HTTP/1.1", BEAT, "POST / HTTP/1.1"].into_iter().enumerate() {
        let answer = nginx.ask(HERE, head, "").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("Retry-After: 1"), "{head}: {answer}");
        assert_eq!(node.asked.load(Ordering::SeqCst), nth + 1, "{head}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn e09_a_machine_that_answers_to_nothing_is_left_for_another() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().expect("a folder");
    // Whom nobody accepts, beyond a few, is not even refused: as of a machine that has lost its power.
    let silent = tokio::net::TcpSocket::new_v4().expect("a socket");
    silent.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let silent = silent.listen(1).expect("listens");
    let address = silent.local_addr().expect("bound");
    let waits = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let _full: Vec<TcpStream> = std::iter::from_fn(waits).take(64).collect();
    let other = busy();
    other.refuses.store(false, Ordering::SeqCst);
    let nginx = Nginx::start(folder.path(), &[&format!("http://{address}"), &other.url]);
    for head in ["GET / HTTP/1.1", "POST / HTTP/1.1", "POST / HTTP/1.1", "GET / HTTP/1.1"] {
        let begun = Instant::now();
        let answer = nginx.ask(HERE, head, "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{head}: {answer}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{head}: {:?}", begun.elapsed());
    }
}

/// Sticky is not needed: whoever signs in at one node is signed in at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_r25_a_session_s_cookie_and_its_tickets_are_good_at_every_node() {
    let (folder, url) = (tempfile::tempdir().expect("a folder"), Database::shared().database());
    let nodes = [(); 3].map(|()| node(&url));
    let urls: Vec<&str> = nodes.iter().map(|node| node.url.as_str()).collect();
    let nginx = Nginx::start(folder.path(), &urls);
    let by: Mutex<BTreeSet<usize>> = Mutex::default();
    let mut people = Vec::new();
    for name in ["ana", "bo", "eva"] {
        let key = nodes[0].json(&["keys", "create", name, "--subject", name, "--role", "editor", "--json"]);
        let key = format!(r#"{{"key":{}}}"#, key["key"]);
        let answer = nginx.ask(HERE, "POST /v1/session HTTP/1.1", &key).await;
        assert_eq!(status(&answer), 201, "{answer}");
        let set = answer.lines().find_map(|line| {
            let (header, value) = line.split_once(": ")?;
            header.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next())?
        });
        people.push((name, set.expect("a cookie").to_owned()));
    }
    for round in 0..8 {
        for (name, cookie) in &people {
            let ask = async |what: &str, body: &str| {
                let answer = nginx.ask(HERE, &format!("{what} HTTP/1.1\r\nCookie: {cookie}"), body).await;
                by.lock().insert(nginx.node_in(&answer).expect("a node"));
                answer
            };
            let answer = ask("GET /v1/session", "").await;
            assert_eq!(
                (status(&answer), &json_of(&answer)["subject"]["id"]),
                (200, &Value::from(*name)),
                "{answer}"
            );
            let claim = format!(r#"{{"collection":"lock/default","items":["{name}-{round}"]}}"#);
            let claimed = ask("POST /v1/claims", &claim).await;
            assert_eq!(status(&claimed), 201, "{claimed}");
            let id = json_of(&claimed)["id"].as_str().expect("an id").to_owned();
            if round % 4 == 0 {
                let answer = ask("POST /v1/tickets", "").await;
                assert_eq!(status(&answer), 201, "{answer}");
                let ticket = json_of(&answer)["ticket"].as_str().expect("a ticket").to_owned();
                let (seen, node) = open(&nginx, &ticket).await;
                assert!(seen.contains(r#""type":"snapshot""#) && seen.contains(&id), "{seen}");
                by.lock().insert(node);
            }
            let answer = ask(&format!("POST /v1/claims/{id}/cancel"), "{}").await;
            assert_eq!(status(&answer), 200, "{answer}");
        }
    }
    assert_eq!(*by.lock(), BTreeSet::from([0, 1, 2]), "all nodes were asked");
    // Who signs out at one is signed out at all, and nobody else is.
    let leave = format!("DELETE /v1/session HTTP/1.1\r\nCookie: {}", people[0].1);
    assert_eq!(status(&nginx.ask(HERE, &leave, "").await), 204);
    for (nth, (name, cookie)) in people.iter().enumerate() {
        for _ in 0..6 {
            let head = format!("GET /v1/claims HTTP/1.1\r\nCookie: {cookie}");
            let begun = Instant::now();
            let wanted = if nth == 0 { 401 } else { 200 };
            while status(&nginx.ask(HERE, &head, "").await) != wanted {
                assert!(nth == 0 && begun.elapsed() < Duration::from_secs(5), "{name}");
            }
        }
    }
}

/// The first message of a socket, opened as a page does, and who sent it.
async fn open(nginx: &Nginx, ticket: &str) -> (String, usize) {
    let url = format!("wss://{NAME}/v1/collections/lock/default/ws?ticket={ticket}");
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert("origin", format!("https://{NAME}").parse().expect("a header"));
    let (mut socket, upgraded) =
        tokio_tungstenite::client_async(request, nginx.connect(HERE).await).await.expect("upgraded");
    let asked = upgraded.headers()[crate::nginx::ANSWERED_BY].to_str().expect("text");
    let seen = socket.next().await.expect("a message").expect("whole");
    (seen.into_text().expect("text").to_string(), nginx.node_of(asked).expect("a node"))
}
