//! Batches by hand, at the database's own time.

use std::sync::Arc;

use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, Hash, ItemId, Sealed, Verb, decide};
use tenure_store::conformance::{Outcome, Overlay, command, wants_of};
use tenure_store::{Batch, Error, EventPage, Reader, Store, View};

/// Decides these in one batch and commits them. `before` is called between the two.
pub(crate) fn run_with<S: Store>(
    store: &mut S,
    commands: &[Command],
    before: impl FnOnce(),
) -> Result<Vec<Outcome>, Error> {
    let now_ms = store.high_water_ms().max(1_700_000_000_000) + 1;
    let wants: Vec<_> = commands.iter().map(|command| wants_of(command, None)).collect();
    let mut batch = Batch::default();
    let mut outcomes = Vec::new();
    {
        let view = store.load(&wants)?;
        // A folder has no time of its own.
        batch.at_ms = view.clock_ms().unwrap_or(now_ms);
        let mut overlay = Overlay::new(&view);
        for command in commands {
            let now_ms = view.now_ms(&command.collection).unwrap_or(batch.at_ms);
            let decided = decide(&overlay, command, now_ms);
            let (outcome, entry) = overlay.take(command, None, decided, now_ms);
            outcomes.push(outcome);
            batch.entries.extend(entry);
        }
    }
    before();
    if batch.entries.is_empty() {
        store.abandon()?;
        return Ok(outcomes);
    }
    store.commit(batch)?;
    Ok(outcomes)
}

pub(crate) fn run<S: Store>(store: &mut S, commands: &[Command]) -> Result<Vec<Outcome>, Error> {
    run_with(store, commands, || {})
}

pub(crate) fn acquire(collection: &str, actor: &str, items: &[&str]) -> Command {
    let items = items.iter().map(|id| ItemId::new(*id).expect("a valid id")).collect();
    command(collection, actor, Verb::Acquire(Acquire { items, ..Acquire::default() }))
}

/// All events of a collection, after checking that their numbers have no gap and their chain holds.
#[track_caller]
pub(crate) fn checked_events(reader: &dyn Reader, key: &CollectionKey) -> Vec<Arc<Sealed>> {
    let EventPage::Events(events) = reader.events(key, 0, 1_000_000).expect("reads") else {
        panic!("{key}: all events are there");
    };
    let mut previous = Hash::default();
    for (seq, sealed) in (1..).zip(&events) {
        assert_eq!(sealed.event.seq, seq, "{key}: numbers without a gap");
        let again = Sealed::read(&previous, sealed.bytes.clone()).expect("decodes");
        assert_eq!(again.hash, sealed.hash, "{key}: the chain at {seq}");
        previous = sealed.hash;
    }
    let head =
        reader.collection(key).expect("reads").map_or((0, Hash::default()), |head| (head.seq, head.hash));
    assert_eq!(head, (events.len() as u64, previous), "{key}: the head");
    events
}

/// Somebody else's transaction, which lasts until it is told to end; behind a pooler it has a session for so long.
pub(crate) struct Holding {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Holding {
    pub(crate) fn begin(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(async {
            let (client, connection) =
                tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connects");
            tokio::spawn(connection);
            client.batch_execute("BEGIN").await.expect("begins");
            client
        });
        Self { runtime, client }
    }

    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let answers = self.runtime.block_on(self.client.simple_query(sql)).expect("answers");
        let rows = answers.into_iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        });
        rows.collect()
    }

    pub(crate) fn end(self) {
        self.rows("COMMIT");
    }
}
