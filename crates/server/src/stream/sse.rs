//! Server-sent events: `id: <epoch>-<seq>`, `event: <type>`, `data: {…}`. A reader that takes nothing costs
//! nothing: the next event is read when the last one has gone out.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tenure_core::CollectionKey;

use super::{Cursor, Live, SnapshotText, Told};
use crate::limits::{SSE_HEARTBEAT_EVERY, STREAM_PIECE_BYTES};
use crate::metrics::Open;
use crate::{App, Caller, Problem};

/// Where the reader goes on: `Last-Event-ID`, which a browser sends when it comes back, wins over the query.
pub(crate) fn cursor_of(headers: &HeaderMap, query: Option<Cursor>) -> Result<Option<Cursor>, Problem> {
    let Some(value) = headers.get("last-event-id") else { return Ok(query) };
    let parsed = value.to_str().ok().and_then(|text| {
        let (epoch, seq) = text.split_once('-')?;
        Some(Cursor { epoch: Some(epoch.parse().ok()?), seq: seq.parse().ok()? })
    });
    parsed.map(Some).ok_or_else(|| Problem::invalid("Last-Event-ID", "is the id of an event, epoch-number"))
}

/// The collection's events as a response that does not end by itself.
pub(crate) async fn respond(
    app: &App,
    caller: &Caller,
    key: &CollectionKey,
    from: Option<Cursor>,
) -> Result<Response, Problem> {
    let live = Live::open(app, key, from).await?;
    let (identity, caller, mut stopping) = (app.identity().clone(), caller.clone(), app.stopping());
    let over = Box::pin(async move {
        tokio::select! {
            // Whoever comes back is told why, at the gate.
            _ = identity.revoked(&caller) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    });
    let reader =
        Reader { live, over, is_quiet: from.is_some(), snapshot: None, _open: app.metrics().stream("sse") };
    let chunks = futures_util::stream::unfold(reader, |mut reader| async move {
        let chunk = reader.chunk().await?;
        Some((Ok::<_, Infallible>(chunk), reader))
    });
    let mut response = Body::from_stream(chunks).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Some proxies would otherwise wait for more before they pass anything on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

struct Reader {
    live: Live,
    /// Ends when the stream has to.
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// It came with a cursor and nothing was sent yet.
    is_quiet: bool,
    /// A snapshot that is being sent.
    snapshot: Option<Box<SnapshotText>>,
    _open: Open,
}

impl Reader {
    /// What to send next; `None` when the stream ends.
    async fn chunk(&mut self) -> Option<Bytes> {
        if let Some(snapshot) = &mut self.snapshot {
            return Some(if let Some(piece) = snapshot.piece(STREAM_PIECE_BYTES) {
                Bytes::from(one_line(piece))
            } else {
                self.snapshot = None;
                Bytes::from_static(b"\n\n")
            });
        }
        let told = tokio::select! {
            biased;
            () = &mut self.over => return None,
            told = self.live.next() => told,
            () = tokio::time::sleep(heartbeat(self.is_quiet)) => {
                // The first one comes at once: a resumed stream may have nothing else to say for long.
                self.is_quiet = false;
                return Some(Bytes::from_static(b":\n\n"));
            }
        };
        self.is_quiet = false;
        match told {
            Ok(Told::Event(event)) => {
                let head =
                    format!("id: {}-{}\nevent: {}\ndata: ", self.live.epoch(), event.seq, event.action);
                let mut text = head.into_bytes();
                text.extend(event.event().iter().map(|byte| if is_break(*byte) { b' ' } else { *byte }));
                text.extend(b"\n\n");
                Some(Bytes::from(text))
            }
            // Without an id: a browser that is cut off before the snapshot would come back with it, and the
            // snapshot would never come.
            Ok(Told::Resync { why, seq }) => {
                let (reason, epoch) = (why.word(), self.live.epoch());
                let data = format!(r#"{{"reason":"{reason}","epoch":{epoch},"seq":{seq}}}"#);
                Some(Bytes::from(format!("event: resync\ndata: {data}\n\n")))
            }
            Ok(Told::Snapshot(snapshot)) => {
                let head = format!("id: {}-{}\nevent: snapshot\ndata: ", snapshot.epoch(), snapshot.seq());
                self.snapshot = Some(snapshot);
                Some(Bytes::from(head))
            }
            Err(error) => {
                tracing::warn!(%error, "a stream ends: its events could not be read");
                None
            }
        }
    }
}

fn heartbeat(at_once: bool) -> Duration {
    if at_once { Duration::ZERO } else { SSE_HEARTBEAT_EVERY }
}

fn is_break(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

/// In JSON a line can break only between its tokens, where a space means the same.
fn one_line(text: String) -> String {
    if text.bytes().any(is_break) { text.replace(['\n', '\r'], " ") } else { text }
}
