//! The accept loop: connections and their limits. axum's own has no header timeout, no caps and no TLS.
//!
//! A connection counts until its last byte is gone, also after it has become a socket: what counts is held
//! by the stream itself, which an upgrade hands on.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::front::Connection;
use crate::identity::Shown;
use crate::limits::{HEADERS_BYTES_MAX, HEADERS_MAX, HEADERS_TIME_MAX, READ_BYTES_MAX, WRITE_STALL_MAX};
use crate::line::Line;
use crate::metrics::{Metrics, Open};
use crate::net::{Network, counted};
use crate::short::{Shield, Short};
use crate::tls::Tls;

/// How long to wait when the system has no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often that is said.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// Whether what lasts is to be said now, or was a moment ago.
fn is_to_be_told(told_at: &mut Option<Instant>) -> bool {
    let is_now = told_at.is_none_or(|at| at.elapsed() >= TOLD_AGAIN);
    if is_now {
        *told_at = Some(Instant::now());
    }
    is_now
}

/// What a connection can reach.
#[derive(Clone)]
pub(crate) struct Routes {
    /// All of it, behind the shield.
    pub(crate) router: Router,
    /// For what goes the short way.
    pub(crate) shield: Arc<Shield>,
}

/// The limits of connections.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Open at once.
    pub(crate) connections: usize,
    /// Open at once from one address.
    pub(crate) connections_per_address: usize,
    /// Whose connections count for nobody: proxies, which carry many people's.
    pub(crate) uncounted: Vec<Network>,
    /// Time to send a request's head, and to finish a TLS handshake. An idle connection is closed after
    /// it too.
    pub(crate) headers_time: Duration,
    /// Time for what is in flight when the server stops.
    pub(crate) drain_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_address: 1_000,
            uncounted: Vec::new(),
            headers_time: HEADERS_TIME_MAX,
            drain_time: Duration::from_secs(10),
        }
    }
}

/// Serves connections until `stop` says so; then stops accepting, finishes what is in flight, and returns.
pub(crate) async fn run(
    listener: TcpListener,
    routes: Routes,
    tls: Option<Tls>,
    limits: Limits,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let counts = Arc::new(Counts::default());
    let (mut told_at, mut full_at): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if !is_the_clients(&error) {
                    if is_to_be_told(&mut told_at) {
                        tracing::warn!(%error, "connections cannot be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                continue;
            }
        };
        let counting = match counts.enter(peer.ip(), &limits) {
            Ok(counting) => counting,
            Err(limit) => {
                metrics.connection_refused(limit);
                if is_to_be_told(&mut full_at) {
                    tracing::warn!(%peer, "connections are refused: there are as many as limits.{limit} allows");
                }
                continue;
            }
        };
        // Answers are small and whole; waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        let stream = Counted::new(stream, counting, metrics.connection());
        let served = serve(stream, peer, routes.clone(), tls.clone(), limits.headers_time, stop.clone());
        tokio::spawn(served);
    }
    drop(listener);
    let mut open = counts.total.subscribe();
    let drained = open.wait_for(|open| *open == 0);
    if tokio::time::timeout(limits.drain_time, drained).await.is_err() {
        tracing::warn!(open = *counts.total.borrow(), "connections were still open when the time was up");
    }
}

async fn serve(
    mut stream: Counted,
    peer: SocketAddr,
    Routes { router, shield }: Routes,
    tls: Option<Tls>,
    headers_time: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let line = Line::new(&stream.stream, tls.is_some());
    match tls {
        None => {
            let connection = Connection { peer, is_tls: false };
            let (line, shown) = (&line, Shown::default());
            let short = Short { shield: &shield, connection, line, idle_time: headers_time, shown };
            // In a box, which is gone when hyper takes over: most connections stay long after that.
            if let Some(unread) = Box::pin(short.run(&mut stream, &mut stop)).await {
                stream.unread = unread;
                speak(stream, (connection, line.clone()), router, headers_time, stop).await;
            }
        }
        Some(tls) => {
            let connection = Connection { peer, is_tls: true };
            match tokio::time::timeout(headers_time, tls.acceptor().accept(stream)).await {
                Ok(Ok(stream)) => speak(stream, (connection, line), router, headers_time, stop).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
            }
        }
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (connection, line): (Connection, Line),
    router: Router,
    headers_time: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection);
        request.extensions_mut().insert(line.clone());
        router.clone().oneshot(request)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(headers_time)
        .max_header_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let serving = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut serving = pin!(serving);
    let served = tokio::select! {
        // What was read already is answered, although the server stops.
        biased;
        served = serving.as_mut() => served,
        () = told(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(peer = %connection.peer, %error, "a connection ended early");
    }
}

/// The server is to stop, or whoever could say so is gone.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The client hung up before we took it: nothing to wait for.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// How many are open.
#[derive(Debug)]
struct Counts {
    total: watch::Sender<usize>,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Default for Counts {
    fn default() -> Self {
        Self { total: watch::Sender::new(0), by_address: Mutex::default() }
    }
}

impl Counts {
    /// Counts a connection, or names the limit that it meets.
    fn enter(self: &Arc<Self>, address: IpAddr, limits: &Limits) -> Result<Counting, &'static str> {
        if *self.total.borrow() >= limits.connections {
            return Err("connections");
        }
        let is_counted = !limits.uncounted.iter().any(|network| network.contains(address));
        let address = is_counted.then(|| counted(address));
        if let Some(address) = address {
            let mut by_address = self.by_address.lock();
            let open = by_address.entry(address).or_default();
            if *open >= limits.connections_per_address {
                return Err("connections_per_address");
            }
            *open += 1;
        }
        self.total.send_modify(|total| *total += 1);
        Ok(Counting { counts: self.clone(), address })
    }
}

#[derive(Debug)]
struct Counting {
    counts: Arc<Counts>,
    address: Option<IpAddr>,
}

impl Drop for Counting {
    fn drop(&mut self) {
        if let Some(address) = self.address {
            let mut by_address = self.counts.by_address.lock();
            if let Some(open) = by_address.get_mut(&address) {
                *open -= 1;
                if *open == 0 {
                    by_address.remove(&address);
                }
            }
        }
        self.counts.total.send_modify(|total| *total -= 1);
    }
}

/// A stream that counts as long as it lives, and ends when the other side stops reading.
struct Counted {
    /// Shared with those who want to know when the other end leaves.
    stream: Arc<TcpStream>,
    /// What was read of it already, to be read again.
    unread: Vec<u8>,
    _counting: Counting,
    _open: Open,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Counted {
    fn new(stream: TcpStream, counting: Counting, open: Open) -> Self {
        Self { stream: Arc::new(stream), unread: Vec::new(), _counting: counting, _open: open, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL_MAX)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let mut unread = std::mem::take(&mut self.unread);
            self.unread = unread.split_off(unread.len().min(buffer.remaining()));
            buffer.put_slice(&unread);
            return Poll::Ready(Ok(()));
        }
        loop {
            std::task::ready!(self.stream.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled_to(buffer.remaining().min(READ_BYTES_MAX));
            let mut count = 0;
            let read = self.stream.try_io(Interest::READABLE, || {
                count = recv(&*self.stream, &mut *room, RecvFlags::empty())?.0;
                // Less than there was room for: nothing is left, and the next call need not find that out.
                if 0 < count && count < room.len() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match read {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Err(_) if count == 0 => {}
                _ => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = poll_written(&self.stream, cx, || self.stream.try_write(bytes));
        self.watch(cx, written)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match shutdown(&*self.stream, Shutdown::Write) {
            // The other end was faster.
            Ok(()) | Err(rustix::io::Errno::NOTCONN) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = poll_written(&self.stream, cx, || self.stream.try_write_vectored(slices));
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

fn poll_written(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    write: impl Fn() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        std::task::ready!(stream.poll_write_ready(cx))?;
        match write() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return Poll::Ready(written),
        }
    }
}

/// Ends when the process is asked to stop, by SIGTERM or Ctrl-C.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_capped_and_proxies_are_not() {
        let counts = Arc::new(Counts::default());
        let limits = Limits {
            connections: 10,
            connections_per_address: 2,
            uncounted: vec!["10.0.0.0/8".parse().unwrap()],
            ..Limits::default()
        };
        let enter = |address: &str| counts.enter(address.parse().unwrap(), &limits);
        let open: Vec<_> = (0..2).map(|_| enter("203.0.113.1").unwrap()).collect();
        assert_eq!(enter("203.0.113.1").unwrap_err(), "connections_per_address");
        let proxied: Vec<_> = (0..8).map(|_| enter("10.0.0.1").unwrap()).collect();
        assert_eq!(enter("10.0.0.1").unwrap_err(), "connections");
        drop((open, proxied));
        assert!(enter("203.0.113.1").is_ok() && counts.by_address.lock().is_empty());
        assert_eq!(*counts.total.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_cut_off() {
        use tokio::io::AsyncWriteExt;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _reads_nothing = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let counting = Arc::new(Counts::default()).enter(peer.ip(), &Limits::default()).unwrap();
        let mut stream = Counted::new(stream, counting, Metrics::new().connection());
        let written = stream.write_all(&vec![0; 64 << 20]).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
