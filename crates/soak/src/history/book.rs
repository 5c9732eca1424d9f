//! The record, replayed: who had what, and which document was which, by the numbers of events. What cannot have happened
//! in that order is found here, whatever callers saw.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::time;

/// Who had what.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) claims: HashMap<u64, Claimed>,
    /// Each item's states, in order.
    pub(super) items: HashMap<String, Vec<ItemState>>,
    /// How often something was granted in a session.
    pub(super) sessions: HashMap<String, usize>,
    /// In which events a mark was written.
    pub(super) marks: HashMap<String, BTreeSet<u64>>,
    /// Times that the server was away and gave back.
    pub(super) shifts: Vec<Moved>,
    /// The newest event's time.
    pub(super) last_at_ms: i64,
}

/// A claim.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) session: String,
    pub(super) items: Vec<String>,
    pub(super) begun: u64,
    pub(super) ttl_ms: i64,
    /// The deadlines that events gave it: the grant's, and those of writes under it.
    pub(super) deadlines: Vec<Moved>,
    pub(super) end: Option<End>,
}

/// A deadline, or by how much all of them moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    pub(super) seq: u64,
    pub(super) at_ms: i64,
    pub(super) ms: i64,
}

/// How a claim ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) seq: u64,
    /// When it was written down.
    pub(super) at_ms: i64,
    /// When it was over.
    pub(super) ended_at_ms: i64,
    pub(super) reason: String,
}

/// An item, from one event to the next that changes it.
#[derive(Clone, Debug)]
pub(super) struct ItemState {
    pub(super) from: u64,
    pub(super) version: u64,
    pub(super) fence: u64,
    pub(super) holder: Option<u64>,
    pub(super) mark: Option<String>,
}

impl Claimed {
    /// It held at some moment from the first to before the second.
    pub(super) fn held_within(&self, from: u64, to: u64) -> bool {
        self.begun < to && self.end.as_ref().is_none_or(|end| end.seq > from)
    }
}

impl Book {
    pub(super) fn replay(record: &[Value]) -> Result<Self, String> {
        let mut book = Self::default();
        let mut before: Option<u64> = None;
        for event in record {
            let event = Event { seq: event["seq"].as_u64().ok_or("an event without a number")?, event };
            if before.is_some_and(|before| event.seq != before + 1) {
                return Err(format!("event {} follows {}", event.seq, before.unwrap_or_default()));
            }
            before = Some(event.seq);
            let at_ms = event.time("at")?;
            if at_ms < book.last_at_ms {
                return Err(format!("the record's time runs back at event {}", event.seq));
            }
            book.last_at_ms = at_ms;
            match (event.text("type"), event.claim()) {
                ("claim_granted", Some(number)) => book.granted(&event, number, at_ms)?,
                ("item_put", under) => book.put(&event, under, at_ms)?,
                ("resumed", _) => {
                    let ms = event.event["shift_ms"].as_i64().ok_or("time given back without a length")?;
                    book.shifts.push(Moved { seq: event.seq, at_ms, ms });
                }
                (_, Some(claim)) if !event.event["ended_at"].is_null() => book.ended(&event, claim, at_ms)?,
                _ => {}
            }
        }
        Ok(book)
    }

    fn granted(&mut self, event: &Event<'_>, number: u64, at_ms: i64) -> Result<(), String> {
        let seq = event.seq;
        if number != seq {
            return Err(format!("claim {number} was granted by event {seq}"));
        }
        if event.number("token").is_none_or(|token| token < seq) {
            return Err(format!("the token of claim {number} is below its event's number"));
        }
        let items = event.items();
        for item in &items {
            let known = self.newest(item);
            if let Some(holder) = known.as_ref().and_then(|known| known.holder) {
                return Err(format!("{item} was granted as {seq} while {holder} held it"));
            }
            // The first to claim something makes it.
            let known =
                known.unwrap_or(ItemState { from: seq, version: 1, fence: 0, holder: None, mark: None });
            self.change(item, ItemState { from: seq, fence: seq, holder: Some(seq), ..known });
        }
        let session = event.text("session").to_owned();
        *self.sessions.entry(session.clone()).or_default() += 1;
        let ttl_ms = event.event["ttl_ms"].as_i64().ok_or("a grant without a duration")?;
        let deadlines = vec![Moved { seq, at_ms, ms: event.time("expires_at")? }];
        self.claims.insert(seq, Claimed { session, items, begun: seq, ttl_ms, deadlines, end: None });
        Ok(())
    }

    fn put(&mut self, event: &Event<'_>, under: Option<u64>, at_ms: i64) -> Result<(), String> {
        let seq = event.seq;
        let item = event.items().pop().ok_or("a document without a name")?;
        if let Some(claim) = under {
            let claimed = self.claims.get_mut(&claim).ok_or("written under a claim that never was")?;
            if claimed.end.is_some() || !claimed.items.contains(&item) {
                return Err(format!(
                    "{item} was written by {seq} under claim {claim}, which does not hold it"
                ));
            }
            claimed.deadlines.push(Moved { seq, at_ms, ms: event.time("expires_at")? });
        }
        self.write(seq, &item, &event.event["before"], &event.event["after"])
    }

    fn ended(&mut self, event: &Event<'_>, claim: u64, at_ms: i64) -> Result<(), String> {
        let seq = event.seq;
        let claimed =
            self.claims.get_mut(&claim).ok_or_else(|| format!("claim {claim} ended and never began"))?;
        let reason = event.text("reason").to_owned();
        let end = End { seq, at_ms, ended_at_ms: event.time("ended_at")?, reason };
        if let Some(end) = claimed.end.replace(end) {
            return Err(format!("claim {claim} ended at {} and again at {seq}", end.seq));
        }
        for item in claimed.items.clone() {
            if let Some(known) = self.newest(&item) {
                self.change(&item, ItemState { from: seq, holder: None, ..known });
            }
        }
        for change in event.event["changes"].as_array().into_iter().flatten() {
            let item = change["item"].as_str().unwrap_or_default();
            if !self.claims[&claim].items.iter().any(|held| held == item) {
                return Err(format!("the end of claim {claim} wrote {item}, which it did not hold"));
            }
            self.write(seq, item, &change["before"], &change["after"])?;
        }
        Ok(())
    }

    /// A new version of a document.
    fn write(&mut self, seq: u64, item: &str, before: &Value, after: &Value) -> Result<(), String> {
        let known = self.newest(item);
        let version = known.as_ref().map_or(0, |known| known.version);
        let [before, after_version] = [before, after].map(|state| state["version"].as_u64().unwrap_or(0));
        if before != version || after_version != version + 1 {
            return Err(format!(
                "event {seq} makes version {after_version} of {item} from {before}, but it had {version}"
            ));
        }
        let mark = after["data"]["mark"].as_str().map(str::to_owned);
        if let Some(mark) = &mark {
            self.marks.entry(mark.clone()).or_default().insert(seq);
        }
        let (fence, holder) = known.map_or((0, None), |known| (known.fence, known.holder));
        self.change(item, ItemState { from: seq, version: after_version, fence, holder, mark });
        Ok(())
    }

    fn newest(&self, item: &str) -> Option<ItemState> {
        self.items.get(item)?.last().cloned()
    }

    fn change(&mut self, item: &str, state: ItemState) {
        let states = self.items.entry(item.to_owned()).or_default();
        // One event changes an item once: who ends a claim and writes does both.
        if states.last().is_some_and(|last| last.from == state.from) {
            states.pop();
        }
        states.push(state);
    }

    /// An item after an event; `None` before it was made.
    pub(super) fn at(&self, item: &str, seq: u64) -> Option<&ItemState> {
        let states = self.items.get(item)?;
        states[..states.partition_point(|state| state.from <= seq)].last()
    }

    /// The event that made a version of an item.
    pub(super) fn wrote(&self, item: &str, version: u64) -> Option<&ItemState> {
        let states = self.items.get(item)?;
        states
            .get(states.partition_point(|state| state.version < version))
            .filter(|state| state.version == version)
    }

    /// Every moment from the first to before the second at which these items were any different, in order.
    pub(super) fn moments<'a>(
        &self,
        items: impl IntoIterator<Item = &'a str>,
        from: u64,
        to: u64,
    ) -> BTreeSet<u64> {
        let mut moments = BTreeSet::from([from]);
        for item in items {
            let states = self.items.get(item).map_or(&[][..], Vec::as_slice);
            let first = states.partition_point(|state| state.from <= from);
            moments.extend(states[first..].iter().map(|state| state.from).take_while(|seq| *seq < to));
        }
        moments
    }
}

struct Event<'a> {
    seq: u64,
    event: &'a Value,
}

impl<'a> Event<'a> {
    fn text(&self, name: &str) -> &'a str {
        self.event[name].as_str().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.event[name].as_u64()
    }

    fn time(&self, name: &str) -> Result<i64, String> {
        time::ms(&self.event[name]).ok_or_else(|| format!("event {} does not say when: {name}", self.seq))
    }

    fn claim(&self) -> Option<u64> {
        time::last_number(self.text("claim"))
    }

    fn items(&self) -> Vec<String> {
        let items = self.event["items"].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }
}
