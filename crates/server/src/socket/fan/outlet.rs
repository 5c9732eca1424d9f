//! A socket's way out, which its own task and the fan share. One of them writes at a time.
//!
//! ```text
//!         join                        whole frames
//!   own ────────▶ fanned ◀───────────────────────┐
//!    ▲               │ └─────────────────────────┘
//!    └───────────────┘ its task writes, the connection takes no more, or the fan cannot say what comes next
//! ```

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::batch::Batch;
use crate::apps::raffle::RaffleForm;

/// One socket's connection, and who writes to it now.
#[derive(Debug)]
pub(in crate::socket) struct Outlet {
    stream: Arc<TcpStream>,
    /// How events read there, where not as they are.
    form: Option<Box<RaffleForm>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The fan writes; otherwise the socket's own task does.
    is_fanned: bool,
    /// The last event that went out, or is in `left`.
    cursor: u64,
    /// What is left of a frame whose beginning went out. Nothing else may be written before it.
    left: Bytes,
    /// The socket's own task has begun to write something, or to finish what the fan began.
    is_within: bool,
    /// The socket's task, while it waits to write again.
    waker: Option<Waker>,
}

impl State {
    fn hand_over(&mut self) {
        self.is_fanned = false;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Outlet {
    pub(in crate::socket) fn new(stream: Arc<TcpStream>, form: Option<RaffleForm>) -> Self {
        Self { stream, form: form.map(Box::new), state: Mutex::default() }
    }

    /// From here on the fan writes what comes after this event; `false` while something is half written.
    pub(in crate::socket) fn join(&self, cursor: u64) -> bool {
        let mut state = self.state.lock();
        if state.is_within || !state.left.is_empty() {
            return false;
        }
        (state.is_fanned, state.cursor) = (true, cursor);
        true
    }

    /// Writes a batch, if it is what comes next here. Never waits: who does not take all of it goes on alone.
    pub(in crate::socket) fn tell(&self, batch: &mut Batch<'_>) {
        let mut state = self.state.lock();
        if !state.is_fanned || state.cursor >= batch.last() {
            return;
        }
        if state.cursor != batch.after() {
            return state.hand_over();
        }
        let bytes = batch.bytes(self.form.as_deref());
        if !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(written) if written == bytes.len() => {}
                Ok(written) => {
                    state.left = bytes.slice(written..);
                    state.hand_over();
                }
                // Full, or gone: its own task finds out which.
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::debug!(%error, "an event could not be written to a socket");
                    }
                    return state.hand_over();
                }
            }
        }
        state.cursor = batch.last();
    }

    /// The fan does not go on.
    pub(super) fn hand_over(&self) {
        let mut state = self.state.lock();
        if state.is_fanned {
            state.hand_over();
        }
    }

    /// Ready, with the last event that went out, when the fan writes no more.
    pub(in crate::socket) fn poll_handed(&self, cx: &mut Context<'_>) -> Poll<u64> {
        let mut state = self.state.lock();
        if state.is_fanned {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.waker = None;
        Poll::Ready(state.cursor)
    }

    /// The socket's own task is about to write: what it has to write first.
    pub(in crate::socket) fn take_back(&self) -> Bytes {
        let mut state = self.state.lock();
        (state.is_fanned, state.is_within) = (false, true);
        std::mem::take(&mut state.left)
    }

    /// What is left of a frame whose beginning went out.
    pub(in crate::socket) fn take_left(&self) -> Bytes {
        let mut state = self.state.lock();
        state.is_within |= !state.left.is_empty();
        std::mem::take(&mut state.left)
    }

    /// All that the socket's own task began to write went out.
    pub(in crate::socket) fn finished(&self) {
        self.state.lock().is_within = false;
    }

    /// The last event that went out, after the fan has written its last here.
    pub(super) fn leave(&self) -> u64 {
        let mut state = self.state.lock();
        state.is_fanned = false;
        state.cursor
    }
}
