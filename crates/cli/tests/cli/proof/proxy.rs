//! A small TCP proxy with faults, between a node and its database.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Each piece takes this much longer, either way.
    Slow(Duration),
    /// Connections are closed, and new ones as soon as they are made.
    Cut,
    /// Connections stay open and nothing passes: what a network does that has lost a machine.
    HalfOpen,
    /// A writer's COMMIT passes, and its answer does not: the connection is closed instead. Once, then
    /// nothing is wrong.
    CutAfterCommit,
}

/// It listens until it is dropped.
pub(crate) struct Proxy {
    port: u16,
    fault: Arc<watch::Sender<Fault>>,
    serving: JoinHandle<()>,
}

/// What is known of one connection.
#[derive(Default)]
struct Seen {
    /// It has locked something: what it commits is written.
    is_writer: AtomicBool,
    /// Its COMMIT has passed, and the answer is to be lost.
    is_doomed: AtomicBool,
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let fault = Arc::new(watch::Sender::new(Fault::None));
        let shared = fault.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, SocketAddr::from((Ipv4Addr::LOCALHOST, port)), shared.clone()));
            }
        });
        Self { port: own, fault, serving }
    }

    /// The same address, by this way.
    pub(crate) fn instead_of(&self, port: u16, url: &str) -> String {
        url.replace(&format!(":{port}/"), &format!(":{}/", self.port))
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// The fault that happens once has happened.
    pub(crate) async fn is_over(&self) {
        let mut seen = self.fault.subscribe();
        seen.wait_for(|fault| *fault == Fault::None).await.expect("lives");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass(client: TcpStream, target: SocketAddr, fault: Arc<watch::Sender<Fault>>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let seen = Seen::default();
    // Whichever way ends first, both do.
    tokio::select! {
        () = forward(from_client, to_server, &fault, (&seen, true)) => {}
        () = forward(from_server, to_client, &fault, (&seen, false)) => {}
        () = cut(&fault) => {}
    }
}

async fn cut(fault: &watch::Sender<Fault>) {
    let _ = fault.subscribe().wait_for(|fault| *fault == Fault::Cut).await;
}

async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    fault: &watch::Sender<Fault>,
    (seen, is_request): (&Seen, bool),
) {
    let mut bytes = vec![0; 64 * 1024];
    let mut tail = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let piece = &bytes[..count];
        // A word may come in two parts.
        tail.extend_from_slice(piece);
        let has = |word: &[u8]| tail.windows(word.len()).any(|window| window == word);
        let commits = has(b"COMMIT\0");
        if is_request && has(b"FOR UPDATE") {
            seen.is_writer.store(true, Ordering::SeqCst);
        }
        tail.drain(..tail.len().saturating_sub(9));
        let now = *fault.borrow();
        match now {
            Fault::Slow(by) => {
                let _ = timeout(by, pending::<()>()).await;
            }
            Fault::HalfOpen => {
                let _ = fault.subscribe().wait_for(|fault| *fault != Fault::HalfOpen).await;
            }
            Fault::CutAfterCommit if is_request && commits && seen.is_writer.load(Ordering::SeqCst) => {
                seen.is_doomed.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
        if !is_request && seen.is_doomed.load(Ordering::SeqCst) {
            if commits {
                fault
                    .send_if_modified(|fault| std::mem::replace(fault, Fault::None) == Fault::CutAfterCommit);
                return;
            }
            continue;
        }
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}
