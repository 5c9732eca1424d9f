//! A collection's events as they happen, over server-sent events. A broken connection is taken up again
//! where it broke; nothing is left out and nothing comes twice. Where the server no longer has what came
//! between, it says so.

mod sse;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::calls::path_of;
use crate::clock::jittered;
use crate::http::{Call, Http};
use crate::{Error, Event};
use sse::{Message, Parser};

/// Events that wait for a slow reader; then the connection waits too.
const WAITING_MAX: usize = 256;
/// The first pause before connecting again, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));
/// The server sends something at least every 15 seconds; a connection that is silent for longer is dead.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// A place in a collection's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The epoch in which the number was seen.
    pub epoch: u64,
    /// The event's number.
    pub seq: u64,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// With the first event that is kept.
    #[default]
    Beginning,
    /// After this number, in whatever epoch.
    Seq(u64),
    /// After this place.
    Cursor(Cursor),
}

/// What comes.
#[derive(Clone, Debug)]
pub enum Watched {
    /// Something happened.
    Event(Event),
    /// Events are missing: read the items anew. What follows comes after this place.
    Resync(Cursor),
    /// There is no connection, and one is being made. Nothing is missing by that; what happens meanwhile comes
    /// when it is there. Told once for each time that it is gone.
    Away,
}

/// A collection's events. Ends only with an error that trying again does not mend.
#[derive(Debug)]
pub struct Watch {
    receiver: mpsc::Receiver<Result<Watched, Error>>,
    task: JoinHandle<()>,
}

impl Watch {
    pub(crate) fn start(http: Http, collection: &str, since: Since) -> Result<Self, Error> {
        let path = format!("{}/events", path_of(collection)?);
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let task =
            tokio::spawn(Follow { http, path, at: since, sender, retry: RETRY.0, is_away: false }.run());
        Ok(Self { receiver, task })
    }

    /// What comes next; `None` after an error.
    pub async fn next(&mut self) -> Option<Result<Watched, Error>> {
        self.receiver.recv().await
    }
}

impl Stream for Watch {
    type Item = Result<Watched, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(cx)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follow {
    http: Http,
    path: String,
    at: Since,
    sender: mpsc::Sender<Result<Watched, Error>>,
    retry: Duration,
    /// It was told that there is no connection.
    is_away: bool,
}

/// Why a connection ended.
enum Ended {
    /// Connect again.
    Broken,
    /// Nobody listens any more.
    Unheard,
}

impl Follow {
    async fn run(mut self) {
        loop {
            let ended = self.connection().await;
            let is_broken =
                matches!(&ended, Ok(Ended::Broken)) || ended.as_ref().is_err_and(Error::is_temporary);
            if is_broken
                && !std::mem::replace(&mut self.is_away, true)
                && self.sender.send(Ok(Watched::Away)).await.is_err()
            {
                return;
            }
            match ended {
                Ok(Ended::Unheard) => return,
                Ok(Ended::Broken) => {}
                Err(error) if error.code() == Some("resync") => {
                    let Error::Refused(problem) = &error else { return };
                    let Some(cursor) = cursor_of(&Value::Object(problem.body.clone())) else {
                        let _ = self.sender.send(Err(error)).await;
                        return;
                    };
                    if self.resync(cursor).await.is_err() {
                        return;
                    }
                }
                Err(error) if error.is_temporary() => {
                    tracing::debug!(%error, "the stream is broken; connecting again");
                }
                Err(error) => {
                    let _ = self.sender.send(Err(error)).await;
                    return;
                }
            }
            tokio::time::sleep(jittered(self.retry)).await;
            self.retry = (self.retry * 2).min(RETRY.1);
        }
    }

    async fn connection(&mut self) -> Result<Ended, Error> {
        let call = match self.at {
            Since::Beginning => Call::get(format!("{}?since=0", self.path)),
            Since::Seq(seq) => Call::get(format!("{}?since={seq}", self.path)),
            Since::Cursor(Cursor { epoch, seq }) => {
                Call::get(self.path.clone()).header("last-event-id", format!("{epoch}-{seq}"))
            }
        };
        let mut body = self.http.open(call.header("accept", "text/event-stream")).await?.into_body();
        let mut parser = Parser::default();
        self.is_away = false;
        loop {
            let heard = tokio::time::timeout(SILENCE_MAX, body.frame()).await;
            let Ok(Some(Ok(frame))) = heard else { return Ok(Ended::Broken) };
            let Ok(bytes) = frame.into_data() else { continue };
            for message in parser.feed(&bytes).map_err(|what| Error::Confused(what.to_owned()))? {
                self.retry = RETRY.0;
                if self.hear(message).await.is_err() {
                    return Ok(Ended::Unheard);
                }
            }
        }
    }

    /// Fails when nobody listens any more.
    async fn hear(&mut self, message: Message) -> Result<(), ()> {
        let Message { event, data, id } = message;
        if event == "resync" {
            let said = serde_json::from_str(&data).ok().and_then(|value: Value| cursor_of(&value));
            return match said.or_else(|| id.as_deref().and_then(cursor_of_id)) {
                Some(cursor) => self.resync(cursor).await,
                None => Ok(()),
            };
        }
        if event == "snapshot" {
            // It shows what is there now, so what came before it is missing, unless that was just told.
            return match id.as_deref().and_then(cursor_of_id) {
                Some(cursor) if self.at != Since::Cursor(cursor) => self.resync(cursor).await,
                _ => Ok(()),
            };
        }
        // A type of a newer server, or a greeting.
        let Ok(event) = serde_json::from_str::<Event>(&data) else { return Ok(()) };
        let at = match id.as_deref().and_then(cursor_of_id) {
            Some(cursor) => Since::Cursor(cursor),
            None => Since::Seq(event.seq),
        };
        self.sender.send(Ok(Watched::Event(event))).await.map_err(drop)?;
        // Only once it is handed over: a cut before sends it again.
        self.at = at;
        Ok(())
    }

    async fn resync(&mut self, cursor: Cursor) -> Result<(), ()> {
        self.at = Since::Cursor(cursor);
        self.sender.send(Ok(Watched::Resync(cursor))).await.map_err(drop)
    }
}

/// `<epoch>-<seq>`
fn cursor_of_id(id: &str) -> Option<Cursor> {
    let (epoch, seq) = id.split_once('-')?;
    Some(Cursor { epoch: epoch.parse().ok()?, seq: seq.parse().ok()? })
}

/// Where a resync says to go on.
fn cursor_of(value: &Value) -> Option<Cursor> {
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    Some(Cursor { epoch: number("epoch")?, seq: number("last").or_else(|| number("seq"))? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E9: a spoiled stream is told as events and places or passed over, and is gone on from where it was told.
    #[test]
    fn e9_what_a_spoiled_stream_tells_is_where_it_is_gone_on_from() {
        let corpus = [
            "id: 1-2\nevent: claim_granted\ndata: {\"seq\":2,\"at\":\"2026-01-02T03:04:05Z\",\"type\":\"claim_granted\",\
             \"collection\":\"lock/a\",\"actor\":{\"id\":\"ana\",\"name\":\"Ana\"},\"claim\":\"lock~a~2\",\"items\":[\"b\"],\
             \"token\":2}\n\nid: 1-3\nevent: item_put\ndata: {\"seq\":3,\"at\":\"2026-01-02T03:04:05Z\",\
             \"type\":\"item_put\",\"collection\":\"lock/a\",\"actor\":{\"id\":\"ana\",\"name\":\"Ana\"}}\n\n",
            "event: resync\ndata: {\"epoch\":2,\"last\":9}\n\nid: 2-9\nevent: snapshot\ndata: {}\n\n",
            "id: 1-7\nevent: snapshot\ndata: {\"items\":[]}\n\n",
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let http = Http::new("http://127.0.0.1:1", "tnr_k", None).expect("a client");
        let judged = tenure_spoil::spoiled(&corpus.map(|text| text.as_bytes().to_vec()), |bytes| {
            let Ok(messages) = Parser::default().feed(bytes) else { return Ok(false) };
            let (sender, mut receiver) = mpsc::channel(1);
            let at = Since::Cursor(Cursor { epoch: 1, seq: 1 });
            let (path, retry) = (String::new(), RETRY.0);
            let mut follow = Follow { http: http.clone(), path, at, sender, retry, is_away: false };
            let mut has_told = false;
            for message in messages {
                let (before, id) = (follow.at, message.id.clone());
                runtime.block_on(follow.hear(message)).map_err(|()| "somebody listens")?;
                let place = id.as_deref().and_then(cursor_of_id).map(Since::Cursor);
                let expected = match receiver.try_recv() {
                    Ok(Ok(Watched::Event(event))) => place.unwrap_or(Since::Seq(event.seq)),
                    Ok(Ok(Watched::Resync(cursor))) => Since::Cursor(cursor),
                    Ok(other) => return Err(format!("it tells {other:?}")),
                    Err(_) => before,
                };
                has_told |= follow.at != before;
                if follow.at != expected {
                    return Err(format!("it goes on from {:?}, not from {expected:?}", follow.at));
                }
            }
            Ok(has_told)
        });
        assert!(judged.reaches_both(), "{judged:?}");
    }
}
