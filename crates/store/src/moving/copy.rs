//! From a source into a target, page by page. Rows go first and events last, with the head that they lead
//! to: a collection whose head is there is there whole.

use std::collections::HashMap;
use std::sync::Arc;

use tenure_core::{Collection, CollectionKey, Fact, Hash, fold};

use super::{Part, Source, Target, stays};
use crate::Error;
use crate::claims_only::ClaimsOnly;

pub(super) fn copy(
    source: &mut dyn Source,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let mut done = 0;
    let mut put = |target: &mut dyn Target, part: Part| {
        // Ended claims come with their events, which count for them.
        let claims = if part.events.is_empty() { part.claims.len() } else { 0 };
        let rows = part.items.len() + claims + part.events.len() + part.replies.len();
        target.put(part)?;
        done += rows as u64;
        progress(done);
        Ok(())
    };
    let there: HashMap<CollectionKey, Arc<Collection>> = target.heads()?.into_iter().collect();
    for (key, head) in source.heads()? {
        let reached = there.get(&key).map_or((0, Hash::default()), |head| (head.seq, head.hash));
        if reached != (head.seq, head.hash) {
            copy_rows(source, target, &key, &mut put)?;
            copy_events(source, target, &key, &head, reached, &mut put)?;
        }
    }
    put(target, Part { policies: source.policies()?, ..Part::default() })?;
    target.begin_replies()?;
    let high_water_ms = source.about().bounds.high_water_ms;
    source.replies(&mut |mut replies| {
        replies.retain(|(_, kept)| kept.is_kept_at(high_water_ms));
        put(target, Part { replies, ..Part::default() })
    })
}

type Put<'a> = dyn FnMut(&mut dyn Target, Part) -> Result<(), Error> + 'a;

fn copy_rows(
    source: &mut dyn Source,
    target: &mut dyn Target,
    key: &CollectionKey,
    put: &mut Put<'_>,
) -> Result<(), Error> {
    let of = || Part { head: Some((key.clone(), None)), ..Part::default() };
    let mut after = None;
    loop {
        let items = source.items(key, after.as_ref())?;
        let Some(last) = items.last() else { break };
        after = Some(last.id.clone());
        put(target, Part { items, ..of() })?;
    }
    let high_water_ms = source.about().bounds.high_water_ms;
    let mut after = 0;
    loop {
        let mut claims = source.claims(key, after)?;
        let Some(last) = claims.last() else { return Ok(()) };
        after = last.number;
        claims.retain(|claim| stays(claim, high_water_ms));
        put(target, Part { claims, ..of() })?;
    }
}

/// Events after those that are there. Where ended claims are rows, each comes with the event that ended it.
fn copy_events(
    source: &mut dyn Source,
    target: &mut dyn Target,
    key: &CollectionKey,
    head: &Collection,
    reached: (u64, Hash),
    put: &mut Put<'_>,
) -> Result<(), Error> {
    let high_water_ms = source.about().bounds.high_water_ms;
    let mut open = target.keeps_ended().then(ClaimsOnly::default);
    // A claim that ends later may have begun in what is there already.
    let mut after = if open.is_some() { (0, Hash::default()) } else { reached };
    loop {
        let mut events = source.events(key, after)?;
        let Some(last) = events.last() else { return Ok(()) };
        after = (last.event.seq, last.hash);
        let mut claims = Vec::new();
        for sealed in &events {
            let Some(open) = &mut open else { break };
            fold::apply(open, key, &sealed.event, sealed.hash);
            if let Fact::Ended(end) = &sealed.event.fact
                && let Some(claim) = open.take_ended(end.claim)
                && !stays(&claim, high_water_ms)
                && sealed.event.seq > reached.0
            {
                claims.push(claim);
            }
        }
        events.retain(|sealed| sealed.event.seq > reached.0);
        if events.is_empty() {
            continue;
        }
        let (seq, hash) = after;
        let then = Collection { seq, hash, created_at_ms: head.created_at_ms };
        let head = Some((key.clone(), Some(Arc::new(then))));
        put(target, Part { head, claims, events, ..Part::default() })?;
    }
}
