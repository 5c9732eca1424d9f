//! The line to whoever asked, which tells that it is cut although nobody reads from it.
//!
//! A request that waits is behind hyper, which reads no further once something lies behind the request; and
//! nothing is read from a socket that has as many commands under way as it may. Neither would see that the
//! other end has left, and it would stay in the queue of what it waits for.

use std::convert::Infallible;
use std::sync::{Arc, Weak};

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::limits::LINE_LOOK_EVERY;

/// A connection, as long as it is open. The default is a line that is never cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    stream: Weak<TcpStream>,
    is_tls: bool,
}

impl Line {
    pub(crate) fn new(stream: &Arc<TcpStream>, is_tls: bool) -> Self {
        Self { stream: Arc::downgrade(stream), is_tls }
    }

    /// The stream itself, where bytes go out as they are written.
    pub(crate) fn bare(&self) -> Option<Arc<TcpStream>> {
        if self.is_tls { None } else { self.stream.upgrade() }
    }

    /// The line that a request came on. Without an accept loop there is a test, and no line.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Ends when the other end has left.
    pub(crate) async fn cut(&self) {
        let Some(stream) = self.stream.upgrade() else { return std::future::pending().await };
        loop {
            match stream.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => {}
                _ => return,
            }
            // Something lies there that nobody reads now, so it is always ready.
            tokio::time::sleep(LINE_LOOK_EVERY).await;
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Line {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}
