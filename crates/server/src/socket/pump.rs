//! A socket's two directions in one task: what is queued goes out in small pieces, what comes in is handed
//! up. It knows how much waits, since when nothing could be written, and when something was last heard.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use futures_util::{Sink, SinkExt, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::close::End;
use super::fan::Outlet;
use super::gate::Gate;
use crate::limits::{
    SOCKET_CLOSE_MAX, SOCKET_FILL_BYTES, SOCKET_IN_FLIGHT_MAX, SOCKET_PING_EVERY, SOCKET_QUEUE_BYTES_MAX,
    SOCKET_QUEUE_EVENTS_MAX, SOCKET_SILENCE_MAX, SOCKET_WRITE_MAX, STREAM_PIECE_BYTES,
};
use crate::stream::{EventText, SnapshotText};

/// What is heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// A message.
    Text(Utf8Bytes),
    /// What is wanted, or the deadline, has changed: look again.
    Changed,
    /// The socket ends.
    End(End),
}

/// What the owner of the pump may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    /// Take messages in.
    pub(super) read: bool,
    /// Queue events.
    pub(super) events: bool,
    /// Let the fan write: nothing of its own waits or is half written.
    pub(super) join: bool,
}

/// One message that waits.
#[derive(Debug)]
struct Entry {
    what: What,
    /// What is left of the text that is known.
    left: Bytes,
    /// Its beginning has gone out.
    is_begun: bool,
}

#[derive(Debug)]
enum What {
    Event { seq: u64, bytes: usize },
    Snapshot(Box<SnapshotText>),
    Reply,
    Other,
}

/// A socket and what waits for it.
pub(super) struct Pump {
    socket: WebSocketStream<Gate>,
    queue: VecDeque<Entry>,
    /// Bytes in the queue.
    bytes: usize,
    /// Events in the queue, and their bytes.
    events: usize,
    event_bytes: usize,
    snapshots: usize,
    replies: usize,
    /// Something was handed to the socket and not flushed.
    is_dirty: bool,
    is_pinging: bool,
    /// Since when nothing more could be written.
    blocked_since: Option<Instant>,
    heard_at: Instant,
    ping_at: Instant,
    /// The number of the last event that went out whole.
    cursor: Option<u64>,
}

impl Pump {
    pub(super) fn new(socket: WebSocketStream<Gate>, cursor: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            socket,
            queue: VecDeque::new(),
            bytes: 0,
            events: 0,
            event_bytes: 0,
            snapshots: 0,
            replies: 0,
            is_dirty: false,
            is_pinging: false,
            blocked_since: None,
            heard_at: now,
            ping_at: now + SOCKET_PING_EVERY,
            cursor,
        }
    }

    pub(super) fn push_event(&mut self, event: &EventText) {
        let (left, seq) = (event.message().clone(), event.seq);
        self.events += 1;
        self.event_bytes += left.len();
        let bytes = left.len();
        self.push(What::Event { seq, bytes }, left);
    }

    pub(super) fn push_snapshot(&mut self, snapshot: Box<SnapshotText>) {
        self.snapshots += 1;
        self.push(What::Snapshot(snapshot), Bytes::new());
    }

    pub(super) fn push_reply(&mut self, text: String) {
        self.replies += 1;
        self.push(What::Reply, Bytes::from(text));
    }

    pub(super) fn push_text(&mut self, text: String) {
        self.push(What::Other, Bytes::from(text));
    }

    fn push(&mut self, what: What, left: Bytes) {
        self.bytes += left.len();
        self.queue.push_back(Entry { what, left, is_begun: false });
    }

    /// From now on the fan may write to the socket, too, while this does not.
    pub(super) fn share(&mut self, outlet: &Arc<Outlet>) {
        self.socket.get_mut().share(outlet.clone());
    }

    /// The fan has written up to this event, and perhaps not all of it.
    pub(super) fn told(&mut self, cursor: u64) {
        self.cursor = Some(cursor);
        self.is_dirty = true;
    }

    /// What it had seen means nothing any more.
    pub(super) fn forget_cursor(&mut self) {
        self.cursor = None;
    }

    /// More can be queued although nothing has been written since.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < SOCKET_FILL_BYTES
    }

    /// What may be done now. A reader that takes what is written gets events as fast as it takes them. One
    /// that does not, and has been told everything there was, has its events queued until it is too slow.
    pub(super) fn wants(&self, waiting: usize, is_live: bool) -> Wants {
        let is_idle = waiting == 0 && self.queue.is_empty() && !self.is_dirty && !self.is_pinging;
        Wants {
            read: self.may_read(waiting),
            events: self.snapshots == 0 && (self.has_room() || (is_live && self.blocked_since.is_some())),
            join: is_idle && self.socket.get_ref().is_free(),
        }
    }

    /// More waits for it than anybody has to keep. A single event never is too much.
    pub(super) fn is_too_slow(&self) -> bool {
        self.blocked_since.is_some()
            && (self.events > SOCKET_QUEUE_EVENTS_MAX
                || (self.events > 1 && self.event_bytes > SOCKET_QUEUE_BYTES_MAX))
    }

    /// When to look at the time again.
    pub(super) fn deadline(&self) -> Instant {
        let silent_at = self.heard_at + SOCKET_SILENCE_MAX;
        let nearest = silent_at.min(self.ping_at);
        self.blocked_since.map_or(nearest, |since| nearest.min(since + SOCKET_WRITE_MAX))
    }

    /// Looks at the time: pings, or says that the socket is dead.
    pub(super) fn tick(&mut self, reads: bool) -> Result<(), End> {
        let now = Instant::now();
        if self.blocked_since.is_some_and(|since| now >= since + SOCKET_WRITE_MAX) {
            return Err(End::Stalled);
        }
        if !reads {
            // Nobody listened: that is not the other end's silence.
            self.heard_at = now;
        } else if now >= self.heard_at + SOCKET_SILENCE_MAX {
            return Err(End::Silent);
        }
        if now >= self.ping_at {
            self.ping_at = now + SOCKET_PING_EVERY;
            self.is_pinging = true;
        }
        Ok(())
    }

    /// Writes what waits and hands up what comes in, until something does or until what is wanted changes.
    /// Cancelling it loses nothing.
    pub(super) async fn next(&mut self, wants: Wants, waiting: usize, is_live: bool) -> Heard {
        poll_fn(|cx| {
            match self.drive(cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(Heard::End(End::Gone)),
                Poll::Ready(Ok(())) => self.blocked_since = None,
                // Its deadline is new to whoever keeps the time.
                Poll::Pending if self.blocked_since.is_none() || self.socket.get_mut().has_moved() => {
                    self.blocked_since = Some(Instant::now());
                    return Poll::Ready(Heard::Changed);
                }
                Poll::Pending => {}
            }
            if self.wants(waiting, is_live) != wants {
                return Poll::Ready(Heard::Changed);
            }
            if !wants.read {
                return Poll::Pending;
            }
            let heard = self.poll_heard(cx);
            if heard.is_ready() {
                self.heard_at = Instant::now();
            }
            heard
        })
        .await
    }

    /// What else is there to be heard already, if it may be read.
    pub(super) async fn more(&mut self, waiting: usize) -> Option<Heard> {
        if !self.may_read(waiting) {
            return None;
        }
        poll_fn(|cx| match self.poll_heard(cx) {
            Poll::Ready(heard) => Poll::Ready(Some(heard)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn may_read(&self, waiting: usize) -> bool {
        waiting + self.replies < SOCKET_IN_FLIGHT_MAX && self.bytes < SOCKET_QUEUE_BYTES_MAX
    }

    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<Heard> {
        loop {
            let Poll::Ready(heard) = Pin::new(&mut self.socket).poll_next(cx) else { return Poll::Pending };
            let end = match heard {
                Some(Ok(Message::Text(text))) => return Poll::Ready(Heard::Text(text)),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                    self.heard_at = Instant::now();
                    continue;
                }
                Some(Ok(Message::Binary(_))) => End::Binary,
                Some(Err(Error::Capacity(_))) => End::TooLarge,
                Some(Err(Error::Utf8(_))) => End::NotText,
                Some(Err(Error::Protocol(_))) => End::Protocol,
                Some(Ok(Message::Close(_)) | Err(_)) | None => End::Gone,
            };
            return Poll::Ready(Heard::End(end));
        }
    }

    /// Writes until nothing is left, or until the other end takes no more.
    fn drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            if self.queue.is_empty() && !self.is_pinging {
                break;
            }
            std::task::ready!(Pin::new(&mut self.socket).poll_ready(cx))?;
            // It took what was written before.
            self.blocked_since = None;
            if std::mem::take(&mut self.is_pinging) {
                Pin::new(&mut self.socket).start_send(Message::Ping(Bytes::new()))?;
            } else if let Some(frame) = self.frame() {
                Pin::new(&mut self.socket).start_send(Message::Frame(frame))?;
            }
            self.is_dirty = true;
        }
        if self.is_dirty {
            std::task::ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
            self.is_dirty = false;
        }
        Poll::Ready(Ok(()))
    }

    /// The next piece of the first message.
    fn frame(&mut self) -> Option<Frame> {
        let entry = self.queue.front_mut()?;
        if let What::Snapshot(snapshot) = &mut entry.what
            && entry.left.is_empty()
            && let Some(piece) = snapshot.piece(STREAM_PIECE_BYTES)
        {
            self.bytes += piece.len();
            entry.left = Bytes::from(piece);
        }
        let piece = entry.left.split_to(entry.left.len().min(STREAM_PIECE_BYTES));
        self.bytes -= piece.len();
        let is_more = match &entry.what {
            What::Snapshot(snapshot) => !entry.left.is_empty() || !snapshot.is_done(),
            _ => !entry.left.is_empty(),
        };
        let data = if entry.is_begun { Data::Continue } else { Data::Text };
        entry.is_begun = true;
        if !is_more && let Some(sent) = self.queue.pop_front() {
            match sent.what {
                What::Event { seq, bytes } => {
                    self.events -= 1;
                    self.event_bytes -= bytes;
                    self.cursor = Some(seq);
                }
                What::Snapshot(snapshot) => {
                    self.snapshots -= 1;
                    self.cursor = Some(snapshot.seq());
                }
                What::Reply => self.replies -= 1,
                What::Other => {}
            }
        }
        Some(Frame::message(piece, OpCode::Data(data), !is_more))
    }

    /// Says why, and lets go of the socket when the other end has, or when its time is up.
    pub(super) async fn close(mut self, end: &End, epoch: u64) {
        let frame = end.frame(self.cursor, epoch);
        let farewell = async {
            match frame {
                Some(frame) => self.socket.send(Message::Close(Some(frame))).await?,
                // Its own farewell is answered.
                None if matches!(end, End::Gone) => SinkExt::<Message>::flush(&mut self.socket).await?,
                None => return Ok(()),
            }
            let stream = self.socket.get_mut();
            stream.shutdown().await.map_err(Error::Io)?;
            // What was sent before it heard must be read: an end with unread bytes is a reset, and takes
            // the farewell with it.
            let mut bytes = [0; 512];
            while stream.read(&mut bytes).await.map_err(Error::Io)? > 0 {}
            Ok::<_, Error>(())
        };
        if tokio::time::timeout(SOCKET_CLOSE_MAX, farewell).await.is_err() {
            tracing::debug!("a socket did not take its farewell");
        }
    }
}
