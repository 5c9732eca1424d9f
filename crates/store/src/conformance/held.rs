//! Items with their claims, read while somebody writes them: what is shown was so at one moment.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tenure_core::command::{Complete, PutItem};
use tenure_core::{Expect, Guard, ItemWrite, Json, Reply, Verb};

use super::cases::{acquire, claim_of, item};
use super::harness::{Harness, command, key};
use crate::{HeldItem, ItemFilter, Reader, Store};

const ROUNDS: usize = 60;

/// What a reader was shown, each once in a row.
#[derive(Default)]
struct Shown {
    pages: Vec<Vec<HeldItem>>,
    ones: Vec<Option<HeldItem>>,
}

pub(super) fn of_one_moment<S: Store>(harness: &mut Harness<'_, S>) {
    harness.grant(command("lock/a", "ana", Verb::CreateCollection));
    let (reader, is_over, reads) = (harness.reader(), AtomicBool::new(false), AtomicUsize::new(0));
    let mut was = vec![committed(&*reader)];
    let shown = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            // Also when it panics: the writer must not wait for it then.
            let _ending = Ending(&is_over);
            watch(&*reader, &is_over, &reads)
        });
        let _ending = Ending(&is_over);
        for round in 0..ROUNDS {
            rewrite(round, |actor, verb| {
                // Each commit comes while the reader is at its next read.
                let before = reads.load(Ordering::Acquire);
                while reads.load(Ordering::Acquire) == before && !is_over.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                let reply = harness.grant(command("lock/a", actor, verb));
                was.push(committed(&*reader));
                reply
            });
        }
        is_over.store(true, Ordering::Release);
        watcher.join().expect("the reader reads")
    });
    for page in &shown.pages {
        assert!(was.contains(page), "this never was:\n{page:#?}");
    }
    for one in &shown.ones {
        let was = was.iter().any(|page| page.iter().find(|row| row.item.id == item("b")) == one.as_ref());
        assert!(was, "this never was:\n{one:#?}");
    }
}

/// What changes an item, its claim, or both.
fn rewrite(round: usize, mut change: impl FnMut(&str, Verb) -> Reply) {
    let actor = ["ana", "ben"][round % 2];
    let data = |word: &str| Some(Json::of(&format!("{word} {round}")).expect("a document"));
    let (claim, token) = claim_of(&change(actor, acquire(&["a", "b"])));
    change(actor, Verb::RemoveItem { claim, item: item("a") });
    let write = ItemWrite { item: item("b"), status: None, data: data("written") };
    let guard = Some(Guard::Claim { claim, token });
    change(actor, Verb::PutItem(PutItem { write, expect: Expect::Any, guard }));
    let (status, items) = (None, Vec::new());
    change(actor, Verb::Complete(Complete { claim, token: None, status, data: data("completed"), items }));
    change(actor, Verb::DeleteItem { item: item("b"), expect: Expect::Any, guard: None });
}

fn watch(reader: &dyn Reader, is_over: &AtomicBool, reads: &AtomicUsize) -> Shown {
    let mut shown = Shown::default();
    while !is_over.load(Ordering::Acquire) {
        let page = reader.held_items(&key("lock/a"), &ItemFilter::default(), 10).expect("reads").rows;
        let one = reader.held_item(&key("lock/a"), &item("b")).expect("reads");
        for HeldItem { item, claim } in page.iter().chain(&one) {
            let lists = claim.as_ref().is_none_or(|claim| claim.items.contains(&item.id));
            assert!(lists, "{item:?} is shown with {claim:?}");
        }
        if shown.pages.last() != Some(&page) {
            shown.pages.push(page);
        }
        if shown.ones.last() != Some(&one) {
            shown.ones.push(one);
        }
        reads.fetch_add(1, Ordering::Release);
    }
    shown
}

/// The same, from a snapshot.
fn committed(reader: &dyn Reader) -> Vec<HeldItem> {
    let snapshot = reader.snapshot(&key("lock/a")).expect("reads").expect("it is there");
    let claim_of = |number: u64| snapshot.claims.iter().find(|claim| claim.number == number).cloned();
    let rows = snapshot.items.iter().map(|item| HeldItem { claim: claim_of(item.claim), item: item.clone() });
    rows.collect()
}

/// Ends the other side's waiting.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
