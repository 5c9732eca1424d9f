//! Batches by hand, at the database's own time.

use std::sync::Arc;

use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, Hash, ItemId, Sealed, Verb, decide};
use tenure_store::conformance::{Outcome, Overlay, command, wants_of};
use tenure_store::{Batch, Error, EventPage, Reader, ReplyKey, Store, View};

/// Decides these in one batch and commits them, each with the key under which its reply is kept. `before` is called
/// between the two.
fn run_batch<S: Store>(
    store: &mut S,
    commands: &[(&Command, Option<&ReplyKey>)],
    before: impl FnOnce(),
) -> Result<Vec<Outcome>, Error> {
    let now_ms = store.high_water_ms().max(1_700_000_000_000) + 1;
    let wants: Vec<_> = commands.iter().map(|(command, key)| wants_of(command, key.cloned())).collect();
    let mut batch = Batch::default();
    let mut outcomes = Vec::new();
    {
        let view = store.load(&wants)?;
        // A folder has no time of its own.
        batch.at_ms = view.clock_ms().unwrap_or(now_ms);
        let mut overlay = Overlay::new(&view);
        for (command, key) in commands {
            let now_ms = view.now_ms(&command.collection).unwrap_or(batch.at_ms);
            let decided = decide(&overlay, command, now_ms);
            let (outcome, entry) = overlay.take(command, *key, decided, now_ms);
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

pub(crate) fn run_with<S: Store>(
    store: &mut S,
    commands: &[Command],
    before: impl FnOnce(),
) -> Result<Vec<Outcome>, Error> {
    let commands: Vec<_> = commands.iter().map(|command| (command, None)).collect();
    run_batch(store, &commands, before)
}

pub(crate) fn run<S: Store>(store: &mut S, commands: &[Command]) -> Result<Vec<Outcome>, Error> {
    run_with(store, commands, || {})
}

/// One command, whose reply is kept.
pub(crate) fn run_kept<S: Store>(store: &mut S, command: &Command, key: &ReplyKey) -> Result<Outcome, Error> {
    run_batch(store, &[(command, Some(key))], || {}).map(|mut outcomes| outcomes.remove(0))
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
