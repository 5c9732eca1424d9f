//! What was read from a connection and is not answered. Room to read into is made once, and not with each request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::SHORT_READ_BYTES;

#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// So many of them were read; behind them is room.
    filled: usize,
}

impl Buffer {
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    pub(super) fn into_filled(mut self) -> Vec<u8> {
        self.bytes.truncate(self.filled);
        self.bytes
    }

    /// Forgets the first so many.
    pub(super) fn consume(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
    }

    /// Appends what there is to read; 0 at the end.
    pub(super) fn poll_more(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.len() < self.filled + SHORT_READ_BYTES {
            self.bytes.resize(self.filled + SHORT_READ_BYTES, 0);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.filled..self.filled + SHORT_READ_BYTES]);
        let read = Pin::new(stream).poll_read(cx, &mut room);
        let count = room.filled().len();
        self.filled += count;
        read.map_ok(|()| count)
    }
}
