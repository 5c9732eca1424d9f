//! Hints between nodes: which collections changed, said after a commit and heard of others, over a
//! connection of its own or over Redis. A hint is never sent in its commit, since a `NOTIFY` locks out every
//! other one until its transaction ends. A hint that is lost costs the pause between two looks, and nothing
//! else.

use std::collections::BTreeSet;
use std::future::{pending, poll_fn};
use std::io::Error as IoError;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::CollectionKey;
use tenure_redis::{Pause, Redis, Speaker};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};

use super::Shared;
use super::connect::failure;
use crate::Error;
use crate::limits::{HINT_BYTES_MAX, HINT_PAUSE_MS, HINT_QUEUE_MAX, POOLER_LOOKS};
use crate::read::{Heard, Hints};

/// Stands for all collections, where there are too many to name.
const ALL: &str = "*";

/// On which everybody speaks, in PostgreSQL and in Redis.
const CHANNEL: &str = "tenure";

/// A hint may be lost, so nobody waits for the disk to keep it.
const SAY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";

/// The sending end.
#[derive(Debug)]
struct Teller(Sender<Vec<CollectionKey>>);

impl Hints for Teller {
    fn tell(&self, changed: Vec<CollectionKey>) {
        // A queue that is full is full of hints; others will look by themselves.
        let _ = self.0.try_send(changed);
    }
}

/// A way to say something.
enum Mouth {
    Notify(Client),
    Redis(Speaker),
}

/// Hears until its connection ends; why it did.
type Ears = Pin<Box<dyn Future<Output = String> + Send>>;

/// What this node is called in hints, and to whom it passes on those of others.
#[derive(Clone)]
struct Hearer {
    own: Arc<str>,
    heard: Heard,
}

/// Says what changed, and hears what others say, until the store is dropped.
pub(super) fn start(shared: &Arc<Shared>, heard: Heard) -> Result<Arc<dyn Hints>, Error> {
    let mut id = [0_u8; 8];
    super::fill_random(&mut id)?;
    let own = format!("{:016x}", u64::from_le_bytes(id)).into();
    let (sender, receiver) = channel(HINT_QUEUE_MAX);
    let weak = Arc::downgrade(shared);
    let hearer = Hearer { own, heard };
    shared.link.spawn(async move {
        let mut receiver = receiver;
        let mut pending = BTreeSet::new();
        let (mut pause, mut away) = (Pause::default(), false);
        while let Some(shared) = weak.upgrade() {
            let redis = shared.link.options.redis.clone();
            let connected = match &redis {
                Some(redis) => over_redis(redis, &hearer).await.map_err(|error| error.to_string()),
                None => over_notify(&shared, &hearer).await.map_err(|error| error.to_string()),
            };
            drop(shared);
            let failed = match connected {
                Ok((mut mouth, ears)) => {
                    if let Some(redis) = &redis {
                        redis.hints().came();
                    }
                    (pause, away) = (Pause::default(), false);
                    // Something may have been said while nobody listened.
                    (hearer.heard)(None);
                    tokio::select! {
                        said = say(&mut mouth, &hearer.own, &mut receiver, &mut pending) => match said {
                            Some(failed) => failed,
                            None => return,
                        },
                        failed = ears => failed,
                    }
                }
                Err(failed) => failed,
            };
            match &redis {
                Some(redis) => redis.hints().left(&IoError::other(failed)),
                None if std::mem::replace(&mut away, true) => {}
                None => {
                    tracing::warn!(error = failed, "no hints between nodes for now; they look by themselves");
                }
            }
            pause.wait().await;
        }
    });
    Ok(Arc::new(Teller(sender)))
}

impl Hearer {
    /// Passes on what was said, but for what this node said itself.
    fn hear(&self, text: &str) {
        let mut lines = text.lines();
        if lines.next() == Some(&*self.own) {
            return;
        }
        let keys: Vec<&str> = lines.collect();
        if keys.contains(&ALL) {
            (self.heard)(None);
        } else {
            let keys: Vec<_> = keys.into_iter().filter_map(|key| CollectionKey::new(key).ok()).collect();
            (self.heard)(Some(&keys));
        }
    }
}

async fn over_redis(redis: &Redis, hearer: &Hearer) -> std::io::Result<(Mouth, Ears)> {
    let (speaker, mut listener) = (redis.speaker().await?, redis.listener(CHANNEL).await?);
    let hearer = hearer.clone();
    let ears = async move {
        loop {
            match listener.hear().await {
                Ok(text) => hearer.hear(&text),
                Err(error) => return error.to_string(),
            }
        }
    };
    Ok((Mouth::Redis(speaker), Box::pin(ears)))
}

async fn over_notify(shared: &Shared, hearer: &Hearer) -> Result<(Mouth, Ears), Error> {
    let link = &shared.link;
    let (client, mut connection) = link.connect_direct().await?;
    let hearer = hearer.clone();
    let (living, ended) = oneshot::channel::<()>();
    link.spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(said) = message {
                hearer.hear(said.payload());
            }
        }
        drop(living);
    });
    // A pooler's session would go on to listen, for whoever has it next; what is said arrives through it all the same.
    let listens = link.is_past_poolers() || !is_pooled(shared, &client).await?;
    if listens {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await.map_err(|error| failure(&error))?;
    }
    let found = (listens && !link.is_past_poolers()).then(|| shared.pooler_found.clone());
    let ears = async move {
        let pooler_found = async {
            match found {
                Some(found) => found.notified().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = ended => "the connection for hints ended".to_owned(),
            () = pooler_found => "a pooler was found".to_owned(),
        }
    };
    Ok((Mouth::Notify(client), Box::pin(ears)))
}

/// Whether a pooler is between. Before a batch has found out it is asked here: of two connections that are there at once
/// only a pooler's have the same process of the server, and mostly the one that somebody had last.
async fn is_pooled(shared: &Shared, client: &Client) -> Result<bool, Error> {
    if shared.is_pooled() {
        return Ok(true);
    }
    let other = shared.link.connect().await?;
    // Somebody else may be faster to take it.
    for _ in 0..POOLER_LOOKS {
        let mut processes = [0; 2];
        for (client, process) in [client, &other].into_iter().zip(&mut processes) {
            let row = shared.link.in_time(client.query_typed_one("SELECT pg_backend_pid()", &[])).await?;
            *process = row.map_err(|error| failure(&error))?.get::<_, i32>(0);
        }
        if processes[0] == processes[1] {
            tracing::info!("the database is behind a pooler: hints of other nodes are not heard through it");
            shared.found_pooler();
            return Ok(true);
        }
    }
    Ok(false)
}

impl Mouth {
    async fn say(&mut self, text: &str) -> Result<(), String> {
        match self {
            Self::Redis(speaker) => {
                speaker.say(CHANNEL, text).await.map(drop).map_err(|error| error.to_string())
            }
            Self::Notify(client) => {
                let words: [(&(dyn ToSql + Sync), Type); 2] = [(&CHANNEL, Type::TEXT), (&text, Type::TEXT)];
                let said = client.execute_typed(SAY, &words).await;
                said.map(drop).map_err(|error| failure(&error).to_string())
            }
        }
    }
}

/// Says what changed, several changes at once. Why it could not, or `None` when nobody will tell it anything
/// more.
async fn say(
    mouth: &mut Mouth,
    own: &str,
    receiver: &mut Receiver<Vec<CollectionKey>>,
    pending: &mut BTreeSet<CollectionKey>,
) -> Option<String> {
    loop {
        if pending.is_empty() {
            pending.extend(receiver.recv().await?);
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
        if let Err(failed) = mouth.say(&text).await {
            return Some(failed);
        }
        pending.clear();
        sleep_until(said_at + Duration::from_millis(HINT_PAUSE_MS)).await;
    }
}
