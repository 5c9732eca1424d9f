//! What the requests of a turn will read, for a store that has to fetch it.

use tenure_core::command::PutItem;
use tenure_core::{CollectionKey, Command, Guard, Verb};
use tenure_store::Want;

use crate::Pending;
use crate::round::reply_key;
use crate::timers::Timer;

/// A store that has all rows at hand is only asked for kept replies, which may be anywhere.
pub(crate) fn wants<'a, T: 'a>(inbox: impl Iterator<Item = &'a Pending<T>>, rows: bool) -> Vec<Want> {
    let wanted = inbox.filter(|pending| rows || pending.request.idempotency.is_some());
    let want = wanted.map(|pending| {
        let command = &pending.request.command;
        let mut want = nothing_of(&command.collection);
        want.reply = reply_key(&pending.request).ok().flatten();
        if rows {
            add_wants(&mut want, command, &command.verb);
        }
        want
    });
    want.collect()
}

/// What deadlines and those who wait will read, for a store that locks what a turn names: of those who wait
/// only the collection, since most of them will not be looked at.
pub(crate) fn wants_of_time<'a>(
    due: impl Iterator<Item = &'a Timer>,
    waited: impl Iterator<Item = &'a CollectionKey>,
) -> Vec<Want> {
    let due = due.map(|timer| Want { claims: vec![timer.claim], ..nothing_of(&timer.collection) });
    due.chain(waited.map(nothing_of)).collect()
}

fn nothing_of(collection: &CollectionKey) -> Want {
    Want { collection: collection.clone(), items: Vec::new(), claims: Vec::new(), holder: None, reply: None }
}

fn add_wants(want: &mut Want, command: &Command, verb: &Verb) {
    match verb {
        Verb::Acquire(acquire) => {
            want.items.extend(acquire.items.iter().cloned());
            want.holder = Some(command.actor.id.clone());
        }
        Verb::Heartbeat { claim, .. }
        | Verb::Advance { claim }
        | Verb::Enter { claim, .. }
        | Verb::Cancel { claim }
        | Verb::Release { claim }
        | Verb::Nudge { claim, .. }
        | Verb::Expire { claim } => want.claims.push(*claim),
        Verb::AddItem { claim, item } | Verb::RemoveItem { claim, item } => {
            want.claims.push(*claim);
            want.items.push(item.clone());
        }
        Verb::Complete(complete) => {
            want.claims.push(complete.claim);
            want.items.extend(complete.items.iter().map(|write| write.item.clone()));
        }
        Verb::ForceRelease { item, .. } | Verb::ForceClaim { item, .. } => want.items.push(item.clone()),
        Verb::PutItem(PutItem { write, guard, .. }) => {
            want.items.push(write.item.clone());
            add_guard(want, guard.as_ref());
        }
        Verb::DeleteItem { item, guard, .. } => {
            want.items.push(item.clone());
            add_guard(want, guard.as_ref());
        }
        Verb::Group(verbs) => verbs.iter().for_each(|verb| add_wants(want, command, verb)),
        Verb::CreateCollection | Verb::SetPolicy { .. } | Verb::Resume { .. } | Verb::Restore { .. } => {}
    }
}

fn add_guard(want: &mut Want, guard: Option<&Guard>) {
    match guard {
        Some(Guard::Claim { claim, .. }) => want.claims.push(*claim),
        Some(Guard::NotHeldByOther { item } | Guard::Holds { item, .. } | Guard::Unchanged { item, .. }) => {
            want.items.push(item.clone());
        }
        None => {}
    }
}
