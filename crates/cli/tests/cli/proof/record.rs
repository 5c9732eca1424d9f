//! What the record of a collection says: who had what, and what was sold. It fails where two had the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::buyer::Told;

/// Of claims and items.
#[derive(Default)]
pub(crate) struct Record<'a> {
    /// Each claim's holder, and what it was granted on.
    pub(crate) granted: BTreeMap<&'a str, (&'a str, BTreeSet<&'a str>)>,
    /// The claim that each item was sold by.
    pub(crate) sold: BTreeMap<&'a str, &'a str>,
    /// How each claim ended.
    pub(crate) ended: BTreeMap<&'a str, &'a str>,
}

impl<'a> Record<'a> {
    pub(crate) fn of(events: &'a [Value]) -> Self {
        let mut held: BTreeMap<&str, &str> = BTreeMap::new();
        let Self { mut granted, mut sold, mut ended } = Self::default();
        for event in events {
            let (sort, claim) =
                (event["type"].as_str().expect("a type"), event["claim"].as_str().unwrap_or(""));
            let items = event["items"].as_array().into_iter().flatten().filter_map(Value::as_str);
            match sort {
                "claim_granted" => {
                    for item in items.clone() {
                        assert_eq!(held.insert(item, claim), None, "held twice: {event}");
                        assert_eq!(sold.get(item), None, "sold and held: {event}");
                    }
                    let holder = event["actor"]["id"].as_str().expect("a holder");
                    assert_eq!(
                        granted.insert(claim, (holder, items.collect())),
                        None,
                        "granted twice: {event}"
                    );
                }
                "claim_completed" | "claim_cancelled" | "claim_expired" => {
                    for item in items {
                        assert_eq!(held.remove(item), Some(claim), "{event}");
                        if sort == "claim_completed" {
                            assert_eq!(sold.insert(item, claim), None, "sold twice: {event}");
                        }
                    }
                    assert_eq!(ended.insert(claim, sort), None, "ended twice: {event}");
                }
                _ => {}
            }
        }
        Self { granted, sold, ended }
    }
}

/// Judges the record against what everybody was told; how many numbers were sold.
pub(crate) fn judge(told: &Told, events: &[Value]) -> usize {
    let Record { granted, sold, ended } = Record::of(events);
    for (claim, (holder, items)) in told.granted.lock().iter() {
        let items: BTreeSet<&str> = items.iter().map(String::as_str).collect();
        assert_eq!(granted.get(&**claim), Some(&(&**holder, items)), "{claim} was granted and is lost");
    }
    for claim in told.sold.lock().keys() {
        assert_eq!(ended.get(&**claim), Some(&"claim_completed"), "{claim} was sold and is lost");
    }
    for claim in told.released.lock().iter() {
        assert_eq!(ended.get(&**claim), Some(&"claim_cancelled"), "{claim} was given back and is not");
    }
    // Everybody asks until there is an answer: what nobody was told has not happened.
    assert_eq!(granted.len(), told.granted.lock().len(), "granted to nobody");
    let acknowledged: usize = told.sold.lock().values().map(Vec::len).sum();
    assert_eq!(sold.len(), acknowledged, "sold to nobody");
    assert!(!sold.is_empty(), "nothing was sold");
    sold.len()
}
