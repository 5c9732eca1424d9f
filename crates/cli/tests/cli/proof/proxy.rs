//! A small TCP proxy with faults: between a node and its database, Redis or nginx.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_store::conformance::Asked;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What the database answers to a COMMIT.
const COMMITTED: &[u8] = b"COMMIT\0";

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
    /// A batch's COMMIT passes, and its answer does not: the connection is closed instead. Once, then
    /// nothing is wrong.
    CutAfterCommit,
}

/// It listens until it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    fault: Arc<watch::Sender<Fault>>,
    serving: JoinHandle<()>,
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
    // A COMMIT has passed, and the answer is to be lost.
    let is_doomed = AtomicBool::new(false);
    // Whichever way ends first, both do.
    tokio::select! {
        () = forward(from_client, to_server, &fault, (&is_doomed, true)) => {}
        () = forward(from_server, to_client, &fault, (&is_doomed, false)) => {}
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
    (is_doomed, is_request): (&AtomicBool, bool),
) {
    let mut bytes = vec![0; 64 * 1024];
    let (mut asked, mut answered) = (Asked::default(), Vec::new());
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let piece = &bytes[..count];
        let commits = is_request && asked.commits(piece);
        let now = *fault.borrow();
        match now {
            Fault::Slow(by) => {
                let _ = timeout(by, pending::<()>()).await;
            }
            Fault::HalfOpen => {
                let _ = fault.subscribe().wait_for(|fault| *fault != Fault::HalfOpen).await;
            }
            Fault::CutAfterCommit if commits => is_doomed.store(true, Ordering::SeqCst),
            _ => {}
        }
        if !is_request && is_doomed.load(Ordering::SeqCst) {
            // The word may come in two parts.
            answered.extend_from_slice(piece);
            if answered.windows(COMMITTED.len()).any(|window| window == COMMITTED) {
                // Another lane may have been cut with it, and the test be further by now.
                fault.send_if_modified(|fault| {
                    let is_it = *fault == Fault::CutAfterCommit;
                    *fault = if is_it { Fault::None } else { *fault };
                    is_it
                });
                return;
            }
            continue;
        }
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}
