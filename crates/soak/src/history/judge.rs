//! Compares what callers saw with the book. Each answer is either an event of its own, whose place is known, or must have
//! been true at some moment between asking and answer.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::book::{Book, Claimed, End};
use super::deadline::{AsOf, Beat, deadline_ms};
use super::window::{Placed, Window, in_real_time};
use super::{Asks, Compared, Got, Op, SeenClaim, SeenItem};

pub(super) struct Judge<'a> {
    ops: &'a [Op],
    book: Book,
    window: Window,
    beats: HashMap<u64, Vec<Beat>>,
    /// Claims with a heartbeat of which nobody knows: they may last longer than is known.
    unsure: HashSet<u64>,
    compared: Compared,
}

impl<'a> Judge<'a> {
    pub(super) fn new(ops: &'a [Op], book: Book) -> Result<Self, String> {
        let (mut beats, mut unsure) = (HashMap::<u64, Vec<Beat>>::new(), HashSet::new());
        let (mut placed, mut compared) = (Vec::new(), Compared::default());
        for op in ops {
            let Op { asked, answered, .. } = *op;
            if let Some(place) = place(op, &book, &mut compared)? {
                placed.push(Placed { asked, answered, place });
            }
            match (&op.asks, &op.got) {
                (Asks::Beat(claim), Got::Beaten { at_ms, until_ms }) => {
                    let beat = Beat { answered, at_ms: *at_ms, until_ms: *until_ms };
                    beats.entry(*claim).or_default().push(beat);
                }
                (Asks::Beat(claim), got) if *got == Got::Nothing || op.is_repeated => {
                    unsure.insert(*claim);
                }
                _ => {}
            }
        }
        let window = Window::new(&placed);
        in_real_time(&placed, &window)?;
        Ok(Self { ops, book, window, beats, unsure, compared })
    }

    pub(super) fn compare(mut self, late: Option<Duration>) -> Result<Compared, String> {
        self.carried_out_once()?;
        let mut reads = Vec::new();
        for op in self.ops {
            self.left_no_trace(op)?;
            let (from, to) = self.window.of(op.asked, op.answered);
            match (&op.asks, &op.got) {
                (Asks::Claim { items, .. }, Got::Held(by)) => {
                    self.held(items, by, from, to)?;
                    self.compared.refusals += 1;
                }
                (Asks::Write { item, version, .. }, Got::Conflict(current)) => {
                    let is_so = |seq| self.book.at(item, seq).map_or(0, |state| state.version) == *current;
                    if current == version
                        || !self.book.moments([item.as_str()], from, to).into_iter().any(is_so)
                    {
                        return Err(format!(
                            "{item} never had version {current} between {from} and {to}, but a refusal said so"
                        ));
                    }
                    self.compared.refusals += 1;
                }
                (asks, Got::Lost { reason, ended_at_ms }) => {
                    let claim = asks.claim().ok_or("something was lost that was no claim")?;
                    self.lost(claim, reason, *ended_at_ms, to)?;
                    self.compared.losses += 1;
                }
                (Asks::Beat(claim), Got::Beaten { at_ms, until_ms }) => {
                    let claimed = self.claimed(*claim)?;
                    if !claimed.held_within(from, to) || until_ms - at_ms != claimed.ttl_ms {
                        return Err(format!(
                            "claim {claim} was over, or was prolonged by another time: {op:?}"
                        ));
                    }
                    self.compared.beats += 1;
                }
                (Asks::ReadItem(item), Got::Item(seen)) => {
                    let place = self.read_item(item, seen, from, to)?;
                    reads.push(Placed { asked: op.asked, answered: op.answered, place });
                }
                (Asks::ReadClaim(claim), Got::Seen(seen)) => self.read_claim(*claim, seen, op, (from, to))?,
                _ => {}
            }
        }
        self.reads_go_on(&reads)?;
        self.within_deadlines()?;
        self.expiries(late)?;
        Ok(self.compared)
    }

    /// Whatever was asked again because its answer got lost.
    fn carried_out_once(&self) -> Result<(), String> {
        let sessions = self.book.sessions.iter().map(|(session, count)| (session, *count));
        let marks = self.book.marks.iter().map(|(mark, events)| (mark, events.len()));
        match sessions.chain(marks).find(|(_, count)| *count > 1) {
            Some((what, count)) => Err(format!("one request in {what} was carried out {count} times")),
            None => Ok(()),
        }
    }

    /// What was refused is not there.
    fn left_no_trace(&mut self, op: &Op) -> Result<(), String> {
        let (what, is_there) = match &op.asks {
            Asks::Claim { session, .. } => (session, self.book.sessions.contains_key(session)),
            Asks::Complete { mark, .. } => (mark, self.book.marks.contains_key(mark)),
            // A write has no key: whoever asked twice may have been refused by what it wrote itself.
            Asks::Write { mark, .. } if !op.is_repeated => (mark, self.book.marks.contains_key(mark)),
            _ => return Ok(()),
        };
        match op.got {
            Got::Nothing => self.compared.unheard += usize::from(is_there),
            Got::Held(_) | Got::Lost { .. } | Got::Conflict(_) | Got::Full if is_there => {
                return Err(format!("a request in {what} was refused and is there"));
            }
            _ => {}
        }
        Ok(())
    }

    /// At one moment each of the items was held by whom the refusal names, and the others by nobody.
    fn held(&self, items: &[String], by: &[(String, String)], from: u64, to: u64) -> Result<(), String> {
        let named =
            |item: &String| by.iter().find(|(held, _)| held == item).map(|(_, session)| session.as_str());
        let is_so = |seq| {
            items.iter().all(|item| {
                let holder = self.book.at(item, seq).and_then(|state| state.holder);
                holder.map(|claim| self.book.claims[&claim].session.as_str()) == named(item)
            })
        };
        let is_asked = by.iter().all(|(item, _)| items.contains(item));
        let mut moments = self.book.moments(items.iter().map(String::as_str), from, to).into_iter();
        if by.is_empty() || !is_asked || !moments.any(is_so) {
            return Err(format!(
                "{items:?} were never held by {by:?} alone between {from} and {to}, but a refusal said so"
            ));
        }
        Ok(())
    }

    fn lost(&self, claim: u64, reason: &str, ended_at_ms: i64, to: u64) -> Result<(), String> {
        let end = self.claimed(claim)?.end.as_ref();
        let explains = |end: &&End| end.reason == reason && end.ended_at_ms == ended_at_ms && end.seq < to;
        end.filter(explains).map(|_| ()).ok_or_else(|| {
            format!("claim {claim} was lost ({reason}, {ended_at_ms}) before {to}, but its end is {end:?}")
        })
    }

    /// The first moment at which it was like that.
    fn read_item(&mut self, item: &str, seen: &SeenItem, from: u64, to: u64) -> Result<u64, String> {
        self.compared.reads += 1;
        let is_so = |seq: &u64| {
            self.book.at(item, *seq).is_some_and(|state| {
                let is_same =
                    (state.version, state.fence, &state.mark) == (seen.version, seen.fence, &seen.mark);
                is_same && (state.holder == seen.claim || self.is_void(state.holder, seen))
            })
        };
        self.book.moments([item], from, to).into_iter().find(is_so).ok_or_else(|| {
            let was = self.book.at(item, from);
            format!("{item} was never like this between {from} and {to}: {seen:?}; it began as {was:?}")
        })
    }

    /// Nobody holds what is past its deadline, although no event says so yet.
    fn is_void(&self, holder: Option<u64>, seen: &SeenItem) -> bool {
        let by = AsOf { at_ms: seen.at_ms, ..AsOf::END };
        seen.claim.is_none()
            && holder
                .is_some_and(|claim| self.deadline_ms(claim, &self.book.claims[&claim], by) <= seen.at_ms)
    }

    fn read_claim(
        &mut self,
        claim: u64,
        seen: &SeenClaim,
        op: &Op,
        (from, to): (u64, u64),
    ) -> Result<(), String> {
        self.compared.reads += 1;
        let claimed = self.claimed(claim)?;
        let known_ms =
            self.deadline_ms(claim, claimed, AsOf { seq: from + 1, at_ms: seen.at_ms, answered: op.asked });
        let is_so = match &seen.ended {
            None => claimed.held_within(from, to) && seen.at_ms < seen.until_ms && known_ms <= seen.until_ms,
            // It is over by itself, although no event may say so yet.
            Some((reason, at_ms)) if reason == "expired" => known_ms <= *at_ms && *at_ms <= seen.at_ms,
            Some((reason, at_ms)) => return self.lost(claim, reason, *at_ms, to),
        };
        if is_so {
            Ok(())
        } else {
            Err(format!(
                "claim {claim} was never like this between {from} and {to}: {seen:?}; it is {claimed:?}"
            ))
        }
    }

    /// Who reads after somebody else has read sees nothing older.
    fn reads_go_on(&self, reads: &[Placed]) -> Result<(), String> {
        let seen = Window::new(reads);
        for op in self.ops {
            let (Asks::ReadItem(item), Got::Item(read)) = (&op.asks, &op.got) else { continue };
            let (from, to) = self.window.of(op.asked, op.answered);
            let from = from.max(seen.before(op.asked));
            let is_so = |seq| {
                self.book
                    .at(item, seq)
                    .is_some_and(|state| (state.version, state.fence) == (read.version, read.fence))
            };
            if !self.book.moments([item.as_str()], from, to).into_iter().any(is_so) {
                return Err(format!(
                    "{item} was read as it was before {from}, which others had read: {read:?}"
                ));
            }
        }
        Ok(())
    }

    /// Nothing is done under a claim whose time is up.
    fn within_deadlines(&self) -> Result<(), String> {
        for (number, claimed) in self.sure() {
            let writes = claimed.deadlines[1..].iter().map(|moved| (moved.seq, moved.at_ms));
            let end = claimed.end.iter().filter(|end| end.reason != "expired");
            for (seq, at_ms) in writes.chain(end.map(|end| (end.seq, end.at_ms))) {
                let deadline_ms = self.deadline_ms(number, claimed, AsOf { seq, at_ms, ..AsOf::END });
                if at_ms >= deadline_ms {
                    return Err(format!(
                        "event {seq} is under claim {number}, which was over {} ms before",
                        at_ms - deadline_ms
                    ));
                }
            }
        }
        Ok(())
    }

    /// A claim runs out at its deadline, not before, and that is known soon.
    fn expiries(&mut self, late: Option<Duration>) -> Result<(), String> {
        let late_ms = late.map_or(i64::MAX, |late| i64::try_from(late.as_millis()).unwrap_or(i64::MAX));
        for (number, claimed) in &self.book.claims {
            let is_sure = !self.unsure.contains(number);
            let deadline_ms = self.deadline_ms(*number, claimed, AsOf::END);
            match &claimed.end {
                Some(end) if end.reason == "expired" => {
                    let ended_at_ms = end.ended_at_ms;
                    if ended_at_ms < deadline_ms || end.at_ms < ended_at_ms {
                        return Err(format!(
                            "claim {number} ran out before its deadline {deadline_ms}: {end:?}"
                        ));
                    }
                    if is_sure && ended_at_ms > deadline_ms {
                        return Err(format!(
                            "claim {number} ran out after its deadline {deadline_ms}: {end:?}"
                        ));
                    }
                    if end.at_ms - ended_at_ms > late_ms {
                        return Err(format!("that claim {number} was over was noticed late: {end:?}"));
                    }
                    self.compared.expiries += 1;
                }
                None if is_sure && self.book.last_at_ms - deadline_ms > late_ms => {
                    return Err(format!("claim {number} was over at {deadline_ms}, and nobody noticed"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn sure(&self) -> impl Iterator<Item = (u64, &Claimed)> {
        let sure = self.book.claims.iter().filter(|(number, _)| !self.unsure.contains(number));
        sure.map(|(number, claimed)| (*number, claimed))
    }

    fn claimed(&self, claim: u64) -> Result<&Claimed, String> {
        known(&self.book, claim)
    }

    fn deadline_ms(&self, number: u64, claimed: &Claimed, by: AsOf) -> i64 {
        let beats = self.beats.get(&number).map_or(&[][..], Vec::as_slice);
        deadline_ms(claimed, &self.book.shifts, beats, by)
    }
}

impl Asks {
    /// The claim that it is about, or under.
    fn claim(&self) -> Option<u64> {
        match self {
            Self::Beat(claim)
            | Self::Release(claim)
            | Self::Complete { claim, .. }
            | Self::ReadClaim(claim) => Some(*claim),
            Self::Write { under, .. } => *under,
            Self::Claim { .. } | Self::ReadItem(_) => None,
        }
    }
}

fn known(book: &Book, claim: u64) -> Result<&Claimed, String> {
    book.claims.get(&claim).ok_or_else(|| format!("claim {claim} was answered and is not there"))
}

/// The event that an answer is about, if it must have one: as it was answered, or something is wrong.
fn place(op: &Op, book: &Book, compared: &mut Compared) -> Result<Option<u64>, String> {
    let place = match (&op.asks, &op.got) {
        (Asks::Claim { session, items }, Got::Claim(number)) => {
            let claimed = known(book, *number)?;
            if claimed.session != *session || claimed.items != *items {
                return Err(format!("claim {number} is not what was answered: {claimed:?}"));
            }
            compared.grants += 1;
            *number
        }
        (Asks::Release(claim), Got::Released) => {
            compared.ends += 1;
            ended(book, *claim, "released")?
        }
        (Asks::Complete { claim, mark }, Got::Completed) => {
            let end = ended(book, *claim, "completed")?;
            let is_marked =
                |item: &String| book.at(item, end).is_some_and(|state| state.mark.as_ref() == Some(mark));
            if !known(book, *claim)?.items.iter().all(is_marked) {
                return Err(format!(
                    "claim {claim} was completed with {mark}, and not all of its items have it"
                ));
            }
            compared.ends += 1;
            end
        }
        (Asks::Write { item, version, under, mark }, Got::Written(written)) => {
            let state = book.wrote(item, *written).filter(|state| state.mark.as_ref() == Some(mark));
            let state = state.filter(|_| *written == version + 1).ok_or_else(|| {
                format!("{item} was written as version {written} with {mark}, and that is not there")
            })?;
            let by = |claim: &u64| book.claims.get(claim).is_some_and(|claimed| claimed.wrote(state.from));
            if !under.iter().all(by) {
                return Err(format!("{item} was not written under claim {under:?}"));
            }
            compared.writes += 1;
            state.from
        }
        _ => return Ok(None),
    };
    Ok(Some(place))
}

fn ended(book: &Book, claim: u64, reason: &str) -> Result<u64, String> {
    let end = known(book, claim)?.end.as_ref();
    end.filter(|end| end.reason == reason)
        .map(|end| end.seq)
        .ok_or_else(|| format!("claim {claim} was answered to be {reason}, and its end is {end:?}"))
}

impl Claimed {
    /// The event was a write under this claim.
    fn wrote(&self, seq: u64) -> bool {
        self.deadlines[1..].iter().any(|moved| moved.seq == seq)
    }
}
