//! Hints between nodes: one connection of its own that says which collections changed, and hears it of
//! others. A hint is sent after its commit and never in it, since a `NOTIFY` locks out every other one until
//! its transaction ends. A hint that is lost costs the pause between two looks, and nothing else.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tenure_core::CollectionKey;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};

use super::Shared;
use super::connect::{Link, failure};
use crate::Error;
use crate::limits::{HINT_BYTES_MAX, HINT_PAUSE_MS, HINT_QUEUE_MAX, HINT_RETRY_MS};
use crate::read::{Heard, Hints};

/// Stands for all collections, where there are too many to name.
const ALL: &str = "*";

/// A hint may be lost, so nobody waits for the disk to keep it.
const SAY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('tenure', $1)";

/// The sending end.
#[derive(Debug)]
struct PostgresHints(Sender<Vec<CollectionKey>>);

impl Hints for PostgresHints {
    fn tell(&self, changed: Vec<CollectionKey>) {
        // A queue that is full is full of hints; others will look by themselves.
        let _ = self.0.try_send(changed);
    }
}

/// Says what changed, and hears what others say, until the store is dropped.
pub(super) fn start(shared: &Arc<Shared>, heard: Heard) -> Result<Arc<dyn Hints>, Error> {
    let mut id = [0_u8; 8];
    super::fill_random(&mut id)?;
    let own = format!("{:016x}", u64::from_le_bytes(id));
    let (sender, receiver) = channel(HINT_QUEUE_MAX);
    let weak = Arc::downgrade(shared);
    shared.link.spawn(async move {
        let mut receiver = receiver;
        let mut pending = BTreeSet::new();
        while let Some(shared) = weak.upgrade() {
            let connected = connect(&shared.link, &own, &heard).await;
            drop(shared);
            match connected {
                Ok((client, mut gone)) => {
                    // Something may have been said while nobody listened.
                    heard(None);
                    if say(&client, &mut gone, &own, &mut receiver, &mut pending).await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no hints between nodes for now; they look by themselves");
                }
            }
            sleep_until(Instant::now() + Duration::from_millis(HINT_RETRY_MS)).await;
        }
    });
    Ok(Arc::new(PostgresHints(sender)))
}

/// A connection that hears: what it is told goes to `heard`, but for what this node said itself.
/// The second is told when it has ended.
async fn connect(link: &Link, own: &str, heard: &Heard) -> Result<(Client, oneshot::Receiver<()>), Error> {
    let (client, mut connection) = link.connect_raw().await?;
    let (own, heard) = (own.to_owned(), heard.clone());
    let (ends, gone) = oneshot::channel::<()>();
    link.spawn(async move {
        let _ends = ends;
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            let AsyncMessage::Notification(said) = message else { continue };
            let mut lines = said.payload().lines();
            if lines.next() == Some(&*own) {
                continue;
            }
            let keys: Vec<&str> = lines.collect();
            if keys.contains(&ALL) {
                heard(None);
            } else {
                let keys: Vec<_> = keys.into_iter().filter_map(|key| CollectionKey::new(key).ok()).collect();
                heard(Some(&keys));
            }
        }
    });
    client.batch_execute("LISTEN tenure").await.map_err(|error| failure(&error))?;
    Ok((client, gone))
}

/// Says what changed, several changes at once, as long as the connection is there: who has nothing to say must
/// hear of its end too. `None` when nobody will tell it anything more.
async fn say(
    client: &Client,
    gone: &mut oneshot::Receiver<()>,
    own: &str,
    receiver: &mut Receiver<Vec<CollectionKey>>,
    pending: &mut BTreeSet<CollectionKey>,
) -> Option<()> {
    loop {
        if pending.is_empty() {
            let more = poll_fn(|context| match receiver.poll_recv(context) {
                Poll::Ready(more) => Poll::Ready(Some(more)),
                Poll::Pending => Pin::new(&mut *gone).poll(context).map(|_| None),
            });
            match more.await {
                Some(more) => pending.extend(more?),
                None => return Some(()),
            }
        }
        while let Ok(more) = receiver.try_recv() {
            pending.extend(more);
        }
        let said_at = Instant::now();
        let mut text = own.to_owned();
        for key in pending.iter() {
            text.push('\n');
            text.push_str(key.as_str());
        }
        if text.len() > HINT_BYTES_MAX {
            text = format!("{own}\n{ALL}");
        }
        let said = client.execute_typed(SAY, &[(&text, Type::TEXT)]).await;
        if said.is_err() {
            return Some(());
        }
        pending.clear();
        sleep_until(said_at + Duration::from_millis(HINT_PAUSE_MS)).await;
    }
}
