//! A socket's connection as its own task sees it. Whoever writes through it takes the way out back from the fan,
//! and first finishes the frame that the fan has begun.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fan::Outlet;

/// A connection that the fan may write to, too.
pub(super) struct Gate<S = TokioIo<Upgraded>> {
    stream: S,
    outlet: Option<Arc<Outlet>>,
    /// What is left of a frame that the fan has begun.
    left: Bytes,
    /// Some of that was taken since somebody asked.
    has_moved: bool,
    /// A write was not taken whole, so that the rest of it lies with whoever wrote it.
    is_within: bool,
}

impl<S> Gate<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, outlet: None, left: Bytes::new(), has_moved: false, is_within: false }
    }

    /// From now on the fan may write, too.
    pub(super) fn share(&mut self, outlet: Arc<Outlet>) {
        self.outlet = Some(outlet);
    }

    /// The other end takes what the fan has begun, however slowly.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// The fan may write now: nothing of this side's is half written.
    pub(super) fn is_free(&self) -> bool {
        self.outlet.is_some() && !self.is_within && self.left.is_empty()
    }
}

impl<S: AsyncWrite + Unpin> Gate<S> {
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            drop(self.left.split_to(written));
            self.has_moved = true;
        }
        Poll::Ready(Ok(()))
    }

    /// The fan may join when nothing is half written any more.
    fn tell_whole(&self) {
        if let Some(outlet) = &self.outlet
            && !self.is_within
        {
            outlet.finished();
        }
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(outlet) = &self.outlet
            && self.left.is_empty()
        {
            self.left = outlet.take_back();
        }
        self.poll_left(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_within = true;
        ready!(self.poll_own(cx))?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.is_within = written < bytes.len();
        self.tell_whole();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(outlet) = &self.outlet
            && self.left.is_empty()
        {
            self.left = outlet.take_left();
        }
        ready!(self.poll_left(cx))?;
        self.tell_whole();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::fan::{Batch, samples};
    use super::*;

    /// Both ends of a connection, and the first once more.
    async fn line() -> (TcpStream, Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = listener.accept().await.unwrap().0.into_std().unwrap();
        let again = TcpStream::from_std(stream.try_clone().unwrap()).unwrap();
        (TcpStream::from_std(stream).unwrap(), Arc::new(again), other)
    }

    /// Up to which event the fan has told, if it goes on no more.
    fn handed(outlet: &Outlet) -> Option<u64> {
        match outlet.poll_handed(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(cursor) => Some(cursor),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn r13_a_frame_that_was_begun_is_finished_before_anything_else_is_sent() {
        let (stream, shared, mut other) = line().await;
        shared.writable().await.unwrap();
        let outlet = Arc::new(Outlet::new(shared, None));
        let mut gate = Gate::new(stream);
        gate.share(outlet.clone());
        outlet.join(0);
        // More than the kernel's buffers hold for one connection.
        let (place, events) = samples(40_000);
        let mut batch = Batch::new(&place, 0, &events);
        let mut expected = batch.bytes(None).to_vec();
        outlet.tell(&mut batch);
        assert_eq!(handed(&outlet), Some(40_000), "the last frame was begun");
        expected.extend_from_slice(b"pong");
        let mut heard = vec![0; expected.len()];
        let both = async { tokio::join!(gate.write_all(b"pong"), other.read_exact(&mut heard)) };
        let (sent, read) =
            tokio::time::timeout(Duration::from_secs(20), both).await.expect("all of it comes");
        assert!(sent.is_ok() && read.is_ok() && heard == expected);
        assert!(gate.is_free());
    }

    #[tokio::test]
    async fn r13_nobody_joins_in_the_middle_of_what_its_own_task_writes() {
        let (stream, shared, mut other) = line().await;
        let outlet = Arc::new(Outlet::new(shared, None));
        let mut gate = Gate::new(stream);
        gate.share(outlet.clone());
        assert!(outlet.join(0));
        // More than the kernel's buffers hold for one connection.
        let own = vec![b'a'; 16 << 20];
        let mut written = 0;
        while let Poll::Ready(some) =
            Pin::new(&mut gate).poll_write(&mut Context::from_waker(Waker::noop()), &own[written..])
        {
            written += some.unwrap();
        }
        assert!(!gate.is_free() && !outlet.join(0), "its pong is on its way");
        let mut heard = vec![0; own.len()];
        let both = async { tokio::join!(gate.write_all(&own[written..]), other.read_exact(&mut heard)) };
        let (sent, read) =
            tokio::time::timeout(Duration::from_secs(20), both).await.expect("all of it comes");
        assert!(sent.is_ok() && read.is_ok() && heard == own && gate.is_free() && outlet.join(0));
    }

    #[tokio::test]
    async fn r13_the_fan_writes_only_what_comes_next_and_nothing_to_who_writes_himself() {
        let (stream, shared, mut other) = line().await;
        shared.writable().await.unwrap();
        let outlet = Arc::new(Outlet::new(shared, None));
        let (place, events) = samples(9);
        let mut batch = Batch::new(&place, 3, &events[3..]);
        for (cursor, handed_at) in [(2, Some(2)), (5, Some(5)), (9, None), (3, None)] {
            outlet.join(cursor);
            outlet.tell(&mut batch);
            assert_eq!(handed(&outlet), handed_at, "{cursor}");
        }
        let mut gate = Gate::new(stream);
        gate.share(outlet.clone());
        gate.write_all(b"pong").await.unwrap();
        assert_eq!(handed(&outlet), Some(9));
        outlet.tell(&mut Batch::new(&place, 9, &samples(10).1[9..]));
        gate.shutdown().await.unwrap();
        let mut heard = Vec::new();
        other.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, [batch.bytes(None), &b"pong"[..]].concat(), "once, and then the pong");
    }
}
