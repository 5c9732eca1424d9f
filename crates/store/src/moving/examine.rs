//! Everything of an installation, read once: are the chains whole, do the rows follow from the events, how
//! much is there, and what does it sum up to?

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tenure_core::chain::link;
use tenure_core::{Claim, Collection, CollectionKey, Fact, Hash, Item, Rows, RowsMut};

use super::{Moved, Source, stays};
use crate::check::{Bounds, Report, Walk, check_claims, compare, compare_policies, without_beats};
use crate::{Error, State};

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    report: Report,
    bounds: Bounds,
    collections: BTreeMap<CollectionKey, Counts>,
    policies: Sum,
    replies: Sum,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    head: (u64, Hash),
    created_at_ms: i64,
    events: u64,
    items: Sum,
    claims: Sum,
}

/// How many rows, and the sum of their hashes: the same for the same rows in whatever order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    sum: u128,
}

impl Sum {
    fn add(&mut self, row: &impl Serialize) {
        let bytes = postcard::to_allocvec(row).expect("a row always encodes");
        let Hash(hash) = link(&Hash::default(), &bytes);
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        self.sum = self.sum.wrapping_add(u128::from_le_bytes(half));
        self.count += 1;
    }
}

impl Found {
    pub(super) fn rows(&self) -> u64 {
        let rows = |counts: &Counts| counts.events + counts.items.count + counts.claims.count;
        self.collections.values().map(rows).sum::<u64>() + self.replies.count
    }

    /// Refuses what is damaged, with the first of what is wrong.
    pub(super) fn require_good(&self, label: &str) -> Result<(), Error> {
        let Some(first) = self.report.problems.first() else { return Ok(()) };
        let detail = match self.report.problem_count {
            1 => first.clone(),
            more => format!("{first}, and {} more", more - 1),
        };
        Err(Error::Corrupt { path: label.into(), detail })
    }

    /// Refuses a copy that is not what its source is.
    pub(super) fn require_same(&self, copy: &Self, label: &str) -> Result<(), Error> {
        let differs = |detail: String| Err(Error::Corrupt { path: label.into(), detail });
        for key in self.collections.keys().chain(copy.collections.keys()) {
            let (ours, theirs) = (self.collections.get(key), copy.collections.get(key));
            if ours == theirs {
                continue;
            }
            let count = |counts: Option<&Counts>| {
                let of = counts.cloned().unwrap_or_default();
                format!("{} events, {} items, {} claims", of.events, of.items.count, of.claims.count)
            };
            return differs(format!(
                "{key} is not what it was: {} before the move, {} after it",
                count(ours),
                count(theirs)
            ));
        }
        if self.replies != copy.replies {
            let (before, after) = (self.replies.count, copy.replies.count);
            return differs(format!(
                "kept replies are not what they were: {before} before the move, {after} after it"
            ));
        }
        if self.policies != copy.policies {
            return differs("policies are not what they were before the move".to_owned());
        }
        let bounds = |found: &Self| (found.bounds.high_water_ms, found.bounds.epoch);
        if bounds(self) != bounds(copy) {
            return differs(format!("time and epoch are {:?}, not {:?}", bounds(copy), bounds(self)));
        }
        Ok(())
    }

    pub(super) fn moved(&self, resumed: bool) -> Moved {
        let sum = |count: fn(&Counts) -> u64| self.collections.values().map(count).sum();
        Moved {
            collections: self.collections.len() as u64,
            items: sum(|counts| counts.items.count),
            claims: sum(|counts| counts.claims.count),
            events: sum(|counts| counts.events),
            replies: self.replies.count,
            policies: self.policies.count,
            high_water_ms: self.bounds.high_water_ms,
            epoch: self.bounds.epoch,
            resumed,
        }
    }
}

/// Reads it all. What is wrong with it is in the answer; an error means that it could not be read.
pub(super) fn examine(source: &mut dyn Source, progress: &mut dyn FnMut(u64)) -> Result<Found, Error> {
    let bounds = source.about().bounds;
    let mut found = Found {
        report: Report::default(),
        bounds,
        collections: BTreeMap::new(),
        policies: Sum::default(),
        replies: Sum::default(),
    };
    let mut policies = State::default();
    for (kind, policy) in source.policies()? {
        // A policy has no positional form.
        found.policies.add(&(&kind, serde_json::to_string(&policy).expect("a policy always encodes")));
        policies.put_policy(&kind, policy);
    }
    let heads = source.heads()?;
    if !heads.iter().any(|(key, _)| *key == CollectionKey::policies()) {
        compare_policies(&policies, &State::default(), &mut found.report);
    }
    let mut done = 0;
    for (key, head) in heads {
        let mut of_one = OneCollection { source, key: &key, policies: &policies, bounds };
        let counts = of_one.examine(&head, &mut found.report, &mut |rows| progress(done + rows))?;
        done += counts.events + counts.items.count + counts.claims.count;
        found.collections.insert(key, counts);
    }
    source.replies(&mut |replies| {
        for reply in replies.iter().filter(|(_, kept)| kept.is_kept_at(bounds.high_water_ms)) {
            found.replies.add(reply);
        }
        progress(done + found.replies.count);
        Ok(())
    })?;
    Ok(found)
}

struct OneCollection<'a> {
    source: &'a mut dyn Source,
    key: &'a CollectionKey,
    policies: &'a State,
    bounds: Bounds,
}

impl OneCollection<'_> {
    fn examine(
        &mut self,
        head: &Arc<Collection>,
        report: &mut Report,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Counts, Error> {
        let mut counts =
            Counts { head: (head.seq, head.hash), created_at_ms: head.created_at_ms, ..Counts::default() };
        let mut walk = Walk::new(self.key, self.bounds);
        let said = self.walk(&mut walk, &mut counts, progress)?;
        if walk.problem.is_none() && walk.end != Some((head.seq, head.hash)) {
            let end = walk.end.map_or(0, |(seq, _)| seq);
            walk.fail(format!("its events end with {end} and another hash than its head's, {}", head.seq));
        }
        let (rows, ended) = self.rows(head, &mut counts)?;
        progress(counts.events + counts.items.count + counts.claims.count);
        let Some(snapshot) = rows.snapshot(self.key, self.bounds.epoch) else { return Ok(counts) };
        check_claims(self.key, &snapshot, report);
        if let Some(problem) = walk.problem {
            report.problem(problem);
            return Ok(counts);
        }
        compare(self.key, self.bounds, &rows, &snapshot, &walk.folded, report);
        if self.source.about().keeps_ended && said != ended {
            let key = self.key;
            report.problem(format!(
                "{key}: {} ended claims are not the {} that its events say",
                ended.count, said.count
            ));
        }
        Ok(counts)
    }

    /// Recomputes the chain and folds it. Answers the claims that are over.
    fn walk(
        &mut self,
        walk: &mut Walk<'_>,
        counts: &mut Counts,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sum, Error> {
        let mut ended = Sum::default();
        walk.start(1, Hash::default());
        loop {
            let events = self.source.events(self.key, walk.end.unwrap_or_default())?;
            if events.is_empty() {
                return Ok(ended);
            }
            for sealed in &events {
                let before = walk.end.map_or(Hash::default(), |(_, hash)| hash);
                if link(&before, &sealed.bytes) != sealed.hash {
                    walk.fail(format!("the chain of hashes breaks at event {}", sealed.event.seq));
                }
                walk.event(sealed);
                if walk.problem.is_some() {
                    return Ok(ended);
                }
                if let Fact::Ended(end) = &sealed.event.fact
                    && let Some(claim) = walk.folded.claim(self.key, end.claim)
                    && !stays(&claim, self.bounds.high_water_ms)
                {
                    // Its row is compared by its sum: there may be more of them than there is memory.
                    ended.add(&without_beats(&claim));
                    walk.folded.forget_claim(self.key, end.claim, self.bounds.high_water_ms);
                }
            }
            counts.events += events.len() as u64;
            progress(counts.events);
        }
    }

    /// The rows that decisions read, and the claims that are over.
    fn rows(&mut self, head: &Arc<Collection>, counts: &mut Counts) -> Result<(State, Sum), Error> {
        let mut rows = State::default();
        rows.put_collection(self.key, head.clone());
        for (kind, policy) in self.policies.policies() {
            rows.put_policy(&kind, policy);
        }
        let mut all: Vec<Arc<Item>> = Vec::new();
        loop {
            let items = self.source.items(self.key, all.last().map(|item| &item.id))?;
            if items.is_empty() {
                break;
            }
            for item in &items {
                counts.items.add(&**item);
            }
            all.extend(items);
        }
        rows.fill_items(self.key, all);
        let mut ended = Sum::default();
        let mut after = 0;
        loop {
            let claims: Vec<Arc<Claim>> = self.source.claims(self.key, after)?;
            let Some(last) = claims.last() else { return Ok((rows, ended)) };
            after = last.number;
            for claim in claims {
                if stays(&claim, self.bounds.high_water_ms) {
                    counts.claims.add(&*claim);
                    rows.put_claim(self.key, claim);
                } else {
                    ended.add(&without_beats(&claim));
                }
            }
        }
    }
}
