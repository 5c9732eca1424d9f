//! Whether what callers saw is one serial history (I12). The server says where each change stands: a claim's number is
//! the number of its event. So nothing has to be searched for: the record must replay, every answer must stand in it
//! once, and whatever was answered before something else was asked must stand before it.

use std::collections::HashMap;

use serde_json::Value;

/// Something that a caller asked for, over all its attempts under one idempotency key.
#[derive(Clone, Debug)]
pub struct Op {
    /// When it was first asked, on the caller's clock.
    pub asked: u64,
    /// When its answer came.
    pub answered: u64,
    /// What.
    pub asks: Asks,
    /// What came of it.
    pub got: Got,
}

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A claim on items, in a session that nobody else uses.
    Claim {
        /// The session: it names this one claim.
        session: String,
        /// Its items.
        items: Vec<String>,
    },
    /// The end of a claim of its own.
    Release(u64),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// Nobody ever knew.
    Nothing,
    /// The claim with this number.
    Claim(u64),
    /// Somebody else holds an item: which, and in which session.
    Held(String, String),
    /// It ended, now or before.
    Ended,
    /// There is no room on the disk.
    Full,
}

/// What the record says.
#[derive(Debug)]
struct Event {
    seq: u64,
    says: Says,
}

#[derive(Debug)]
enum Says {
    Granted { session: String, items: Vec<String> },
    Ended { claim: u64, released: bool },
    Other,
}

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Claims that were granted and answered.
    pub grants: usize,
    /// Claims that were released and answered.
    pub releases: usize,
    /// Refusals.
    pub refusals: usize,
    /// Grants that nobody heard of.
    pub unheard: usize,
}

impl Compared {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            grants: self.grants + other.grants,
            releases: self.releases + other.releases,
            refusals: self.refusals + other.refusals,
            unheard: self.unheard + other.unheard,
        }
    }
}

/// Checks what callers saw against the collection's record.
pub fn check(ops: &[Op], record: &[Value]) -> Result<Compared, String> {
    let events: Vec<Event> = record.iter().map(event).collect::<Result<_, _>>()?;
    let book = replay(&events)?;
    let mut compared = Compared::default();
    let mut placed = Vec::new();
    for op in ops {
        match (&op.asks, &op.got) {
            (Asks::Claim { session, items }, Got::Claim(number)) => {
                let tenancy = book
                    .claims
                    .get(number)
                    .ok_or_else(|| format!("claim {number} was answered and is not there"))?;
                if tenancy.session != *session || tenancy.items != *items {
                    return Err(format!("claim {number} is not what was answered: {tenancy:?}"));
                }
                compared.grants += 1;
                placed.push((op.asked, op.answered, *number));
            }
            (Asks::Claim { session, .. }, Got::Nothing) => {
                compared.unheard += usize::from(book.sessions.contains_key(session));
            }
            (Asks::Claim { session, .. }, _) => {
                if book.sessions.contains_key(session) {
                    return Err(format!("a claim in {session} was refused and is there"));
                }
            }
            (Asks::Release(claim), Got::Ended) => {
                let tenancy = book
                    .claims
                    .get(claim)
                    .ok_or_else(|| format!("claim {claim} was released and was never there"))?;
                let end = tenancy.end.ok_or_else(|| format!("claim {claim} was released and goes on"))?;
                compared.releases += 1;
                // What ended by its deadline may have done so before anybody asked: that answer has no place.
                if tenancy.released {
                    placed.push((op.asked, op.answered, end));
                }
            }
            (Asks::Release(_), _) => {}
        }
    }
    for (session, count) in &book.sessions {
        if *count > 1 {
            return Err(format!("one request in {session} was carried out {count} times"));
        }
    }
    in_real_time(&placed)?;
    let window = Window::new(&placed);
    for op in ops {
        if let Got::Held(item, session) = &op.got {
            let (from, to) = window.of(op.asked, op.answered);
            if !book.held(item, from, to).any(|by| by == session) {
                return Err(format!(
                    "{item} was never held by {session} between {from} and {to}, but a refusal said so"
                ));
            }
            compared.refusals += 1;
        }
    }
    Ok(compared)
}

/// Who had what, by the numbers of events.
#[derive(Debug, Default)]
struct Book {
    claims: HashMap<u64, Tenancy>,
    by_item: HashMap<String, Vec<u64>>,
    sessions: HashMap<String, usize>,
}

#[derive(Debug)]
struct Tenancy {
    session: String,
    items: Vec<String>,
    begun: u64,
    end: Option<u64>,
    released: bool,
}

impl Book {
    /// In which sessions an item was held at some time between these two. Nobody holds it beside another, so they stand
    /// in the order of their ends, too, and are searched for: there are as many refusals as time allows.
    fn held(&self, item: &str, from: u64, to: u64) -> impl Iterator<Item = &str> {
        let claims = self.by_item.get(item).map_or(&[][..], Vec::as_slice);
        let tenancy = |claim: &u64| &self.claims[claim];
        let first = claims.partition_point(|claim| tenancy(claim).end.is_some_and(|end| end <= from));
        claims[first..]
            .iter()
            .map(tenancy)
            .take_while(move |one| one.begun < to)
            .map(|one| one.session.as_str())
    }
}

fn replay(events: &[Event]) -> Result<Book, String> {
    let mut book = Book::default();
    let mut holders: HashMap<String, u64> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        if at > 0 && event.seq != events[at - 1].seq + 1 {
            return Err(format!("event {} follows {}", event.seq, events[at - 1].seq));
        }
        match &event.says {
            Says::Granted { session, items } => {
                for item in items {
                    if let Some(holder) = holders.insert(item.clone(), event.seq) {
                        return Err(format!("{item} was granted as {} while {holder} held it", event.seq));
                    }
                    book.by_item.entry(item.clone()).or_default().push(event.seq);
                }
                *book.sessions.entry(session.clone()).or_default() += 1;
                let tenancy = Tenancy {
                    session: session.clone(),
                    items: items.clone(),
                    begun: event.seq,
                    end: None,
                    released: false,
                };
                book.claims.insert(event.seq, tenancy);
            }
            Says::Ended { claim, released } => {
                let tenancy = book
                    .claims
                    .get_mut(claim)
                    .ok_or_else(|| format!("claim {claim} ended and never began"))?;
                if let Some(end) = tenancy.end.replace(event.seq) {
                    return Err(format!("claim {claim} ended at {end} and again at {}", event.seq));
                }
                tenancy.released = *released;
                for item in &tenancy.items {
                    holders.remove(item.as_str());
                }
            }
            Says::Other => {}
        }
    }
    Ok(book)
}

/// What was answered before something was asked stands before it. Each is (asked, answered, place).
fn in_real_time(placed: &[(u64, u64, u64)]) -> Result<(), String> {
    let window = Window::new(placed);
    for (asked, _, place) in placed {
        let (before, _) = window.of(*asked, u64::MAX);
        if before > *place {
            return Err(format!(
                "{place} was asked for after {before} had been answered, and stands before it"
            ));
        }
    }
    Ok(())
}

/// Between which events an answer without a place of its own was given.
struct Window {
    /// By time of the answer, with the highest place so far.
    answered: Vec<(u64, u64)>,
    /// By time of asking, with the lowest place from there on.
    asked: Vec<(u64, u64)>,
}

impl Window {
    fn new(placed: &[(u64, u64, u64)]) -> Self {
        let mut answered: Vec<_> = placed.iter().map(|(_, answered, place)| (*answered, *place)).collect();
        answered.sort_unstable();
        let mut highest = 0;
        for (_, place) in &mut answered {
            highest = highest.max(*place);
            *place = highest;
        }
        let mut asked: Vec<_> = placed.iter().map(|(asked, _, place)| (*asked, *place)).collect();
        asked.sort_unstable();
        let mut lowest = u64::MAX;
        for (_, place) in asked.iter_mut().rev() {
            lowest = lowest.min(*place);
            *place = lowest;
        }
        Self { answered, asked }
    }

    /// After the first, before the second.
    fn of(&self, asked: u64, answered: u64) -> (u64, u64) {
        let before = self.answered.partition_point(|(time, _)| *time < asked);
        let after = self.asked.partition_point(|(time, _)| *time <= answered);
        (
            before.checked_sub(1).map_or(0, |at| self.answered[at].1),
            self.asked.get(after).map_or(u64::MAX, |one| one.1),
        )
    }
}

fn event(event: &Value) -> Result<Event, String> {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let seq = event["seq"].as_u64().ok_or("an event without a number")?;
    let claim = text("claim").rsplit('~').next().and_then(|number| number.parse().ok());
    let says = match (text("type").as_str(), claim) {
        ("claim_granted", Some(number)) => {
            if number != seq {
                return Err(format!("claim {number} was granted by event {seq}"));
            }
            if event["token"].as_u64().is_none_or(|token| token < seq) {
                return Err(format!("the token of claim {number} is below its event's number"));
            }
            let items = event["items"].as_array().into_iter().flatten().filter_map(Value::as_str);
            Says::Granted { session: text("session"), items: items.map(str::to_owned).collect() }
        }
        (kind, Some(claim)) if !event["ended_at"].is_null() => {
            Says::Ended { claim, released: kind == "claim_released" }
        }
        _ => Says::Other,
    };
    Ok(Event { seq, says })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn granted(seq: u64, session: &str, item: &str) -> Value {
        json!({"seq": seq, "type": "claim_granted", "claim": format!("lock~d~{seq}"), "session": session, "items": [item], "token": seq})
    }

    fn released(seq: u64, claim: u64) -> Value {
        json!({"seq": seq, "type": "claim_released", "claim": format!("lock~d~{claim}"), "ended_at": "then"})
    }

    fn claim(asked: u64, answered: u64, session: &str, got: Got) -> Op {
        Op { asked, answered, asks: Asks::Claim { session: session.into(), items: vec!["a".into()] }, got }
    }

    fn release(asked: u64, answered: u64, claim: u64) -> Op {
        Op { asked, answered, asks: Asks::Release(claim), got: Got::Ended }
    }

    fn record() -> Vec<Value> {
        vec![granted(1, "s1", "a"), released(2, 1), granted(3, "s2", "a")]
    }

    fn seen() -> Vec<Op> {
        vec![
            claim(0, 10, "s1", Got::Claim(1)),
            claim(11, 12, "s3", Got::Held("a".into(), "s1".into())),
            release(15, 30, 1),
            claim(20, 40, "s2", Got::Claim(3)),
        ]
    }

    #[test]
    fn i12_what_happened_in_one_order_passes() {
        let compared = check(&seen(), &record()).expect("serial");
        assert_eq!(compared, Compared { grants: 2, releases: 1, refusals: 1, unheard: 0 });
    }

    #[test]
    fn i12_each_planted_fault_of_a_history_is_noticed() {
        let fails = |what: &str, ops: &[Op], record: &[Value], words: &str| {
            let error = check(ops, record).expect_err(what);
            assert!(error.contains(words), "{what}: {error}");
        };
        let mut lost = record();
        lost.pop();
        fails("an answered claim is gone", &seen(), &lost, "was answered and is not there");
        let hole = [granted(1, "s1", "a"), granted(3, "s2", "b")];
        fails("a number is missing", &[], &hole, "follows");
        let twice = [granted(1, "s1", "a"), granted(2, "s2", "a")];
        fails("two holders", &[], &twice, "while 1 held it");
        let again = [granted(1, "s1", "a"), released(2, 1), granted(3, "s1", "a")];
        fails("a retry that counted twice", &[], &again, "2 times");
        let mut late = seen();
        late[3] = claim(20, 40, "s2", Got::Claim(3));
        late.push(claim(50, 60, "s4", Got::Claim(4)));
        late[3].asked = 70;
        late[3].answered = 80;
        let mut longer = record();
        longer.push(json!({"seq": 4, "type": "claim_granted", "claim": "lock~d~4", "session": "s4", "items": ["b"], "token": 4}));
        if let Asks::Claim { items, .. } = &mut late[4].asks {
            *items = vec!["b".into()];
        }
        fails("an order that is not that of real time", &late, &longer, "stands before it");
        let mut stale = seen();
        stale[1] = claim(45, 46, "s3", Got::Held("a".into(), "s1".into()));
        fails("a refusal by somebody long gone", &stale, &record(), "but a refusal said so");
        let mut refused = seen();
        refused[3].got = Got::Held("a".into(), "s1".into());
        fails("a refusal that left a trace", &refused, &record(), "was refused and is there");
        let goes_on = [granted(1, "s1", "a")];
        fails(
            "a release that was lost",
            &[claim(0, 1, "s1", Got::Claim(1)), release(2, 3, 1)],
            &goes_on,
            "goes on",
        );
    }
}
