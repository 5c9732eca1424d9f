//! Judging one turn of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_core::command::How;
use tenure_core::{CollectionKey, Event, Fact, Refusal, Reply, Sealed};
use tenure_engine::{Answer, Refused};
use tenure_store::{EventPage, Reader};

use super::keys::{Retry, key_id};
use super::recovery::Unknown;
use super::space::ran_out;
use super::waiting::{check_order, check_served, wait_ms};
use super::{Asked, Auditor, Check, Seen, Violation, broken, violation};

/// How late an expiry may be told once faults have stopped.
const EXPIRY_LAG_MAX_MS: i64 = 1_000;

impl Auditor {
    /// A turn ended, well or with the server's death.
    pub fn turn(&mut self, seen: &Seen, reader: &dyn Reader) -> Check {
        self.time.turned(seen.real_ms, seen.server_ms)?;
        Self::check_times(seen)?;
        for delivery in &seen.gone {
            self.books.waiting.leave(*delivery);
        }
        if seen.died {
            let unknown = self.unknown_turn(seen)?;
            self.unknown = Some(unknown);
            return Ok(());
        }
        self.read_events(reader)?;
        self.check_sent_before(seen)?;
        self.judge_answers(seen)?;
        self.books.take_all_by_themselves(seen.server_ms)?;
        self.books.all_explained()?;
        let touched: BTreeSet<CollectionKey> = self.look_at_explained(seen.quiet, false)?;
        let committed = !touched.is_empty() || self.books.quiet_commit;
        self.books.quiet_commit = false;
        let live = self.books.spaces().any(|(_, space)| !space.active.is_empty());
        if !seen.fault {
            self.time.marked(committed, live);
            self.check_in_time(seen.server_ms)?;
            check_served(&mut self.books, seen.server_ms)?;
        } else if committed {
            self.time.marked(true, live);
        }
        let delivered = seen.delivered.iter().filter_map(|(_, request)| self.asked.get(request));
        let asked: BTreeSet<CollectionKey> =
            delivered.map(|asked| asked.command.collection.clone()).collect();
        for key in touched.union(&asked) {
            self.books.compare_rows(key, reader)?;
        }
        Ok(())
    }

    /// Reads what was committed since: the only way in which the auditor hears of events.
    pub(super) fn read_events(&mut self, reader: &dyn Reader) -> Check {
        let collections = reader.collections(None, usize::MAX >> 1).map_err(|error| broken(&error))?.rows;
        for (key, head) in collections {
            let known = self.log.last_seq(&key);
            if head.seq == known {
                continue;
            }
            let page = reader.events(&key, known, usize::MAX >> 1).map_err(|error| broken(&error))?;
            let EventPage::Events(events) = page else {
                return violation(
                    "I11",
                    format!("{key}: event {known} was committed and is not there any more"),
                );
            };
            if events.is_empty() {
                return violation(
                    "I14",
                    format!("{key}: the head is {}, but events end at {known}", head.seq),
                );
            }
            for sealed in events {
                self.figures.events += 1;
                self.log.add(&key, sealed.clone())?;
                self.books.queue.entry(key.clone()).or_default().push_back(sealed);
            }
        }
        Ok(())
    }

    /// Decisions are made at the time of their commit (I6): answers and events carry that time.
    fn check_times(seen: &Seen) -> Check {
        for (_, answer) in &seen.answers {
            // A retry reads the first answer, with its time.
            if answer.server_time_ms != seen.server_ms && !answer.replayed {
                let (told_ms, at_ms) = (answer.server_time_ms, seen.server_ms);
                return violation(
                    "I6",
                    format!("an answer was decided at {told_ms} and committed at {at_ms}"),
                );
            }
        }
        Ok(())
    }

    /// Nothing is answered before it was asked (I12: real time orders what does not overlap).
    fn check_sent_before(&self, seen: &Seen) -> Check {
        for (_, request) in &seen.delivered {
            let Some(asked) = self.asked.get(request) else {
                return violation("I12", format!("request {request} was never sent"));
            };
            if asked.real_ms > seen.real_ms {
                return violation("I12", format!("request {request} was decided before it was sent"));
            }
        }
        Ok(())
    }

    fn judge_answers(&mut self, seen: &Seen) -> Check {
        let places: BTreeMap<u64, usize> =
            seen.delivered.iter().enumerate().map(|(place, (delivery, _))| (*delivery, place)).collect();
        if seen.fault && !seen.answers.is_empty() && seen.answers.iter().all(|(_, answer)| is_no_room(answer))
        {
            // The whole turn was refused: nothing of it happened, and nobody waits because of it.
            for (delivery, answer) in &seen.answers {
                self.count(answer);
                self.books.waiting.end(*delivery);
            }
            return Ok(());
        }
        let mut next = 0;
        let mut answered = BTreeSet::new();
        for (delivery, answer) in &seen.answers {
            // Time speaks first, under the policies of that moment.
            self.books.take_all_by_themselves(seen.server_ms)?;
            if !answered.insert(*delivery) {
                return violation("I12", format!("delivery {delivery} was answered twice"));
            }
            match places.get(delivery) {
                Some(place) if *place >= next => {
                    // Whoever came before and has no answer yet began to wait.
                    for (earlier, request) in &seen.delivered[next..*place] {
                        self.begin_waiting(seen, *earlier, *request)?;
                    }
                    next = place + 1;
                    let asked = self.asked_of(seen.delivered[*place].1)?;
                    let left = seen.gone.contains(delivery) && wait_ms(&asked) > 0;
                    if left && matches!(answer.outcome, Err(Refused::Stopped)) {
                        // Whoever would have waited and has left gets nothing.
                        continue;
                    }
                    self.judge_at_once(seen, &asked, answer)?;
                }
                _ => self.judge_waiter(seen, *delivery, answer)?,
            }
        }
        for (delivery, request) in &seen.delivered[next..] {
            self.begin_waiting(seen, *delivery, *request)?;
        }
        Ok(())
    }

    fn judge_at_once(&mut self, seen: &Seen, asked: &Arc<Asked>, answer: &Answer) -> Check {
        self.count(answer);
        if refused_by_the_store(seen, answer)? {
            return Ok(());
        }
        let now_ms = seen.server_ms;
        if let Some(idempotency) = &asked.idempotency {
            let id = key_id(&asked.command, idempotency);
            if let Retry::Judged(judged) = self.books.keys.judge(&id, idempotency.fingerprint, now_ms, answer)
            {
                return judged;
            }
            let running = self.books.waiting.is_running(&id);
            let told_so = matches!(answer.outcome, Err(Refused::InProgress));
            if running && told_so {
                return Ok(());
            }
            if running != told_so {
                return violation(
                    "I11",
                    format!("key {} still waits: {running}; told: {:?}", id.2, answer.outcome),
                );
            }
        } else if answer.replayed {
            return violation("I11", "a request without a key was answered from memory".to_owned());
        }
        self.judge_decision(asked, None, now_ms, answer)
    }

    fn judge_waiter(&mut self, seen: &Seen, delivery: u64, answer: &Answer) -> Check {
        let Some((order, waiter)) = self.books.waiting.end(delivery) else {
            return violation("I12", format!("delivery {delivery} was answered, but nobody waits for it"));
        };
        self.count(answer);
        let granted = matches!(answer.outcome, Ok(Reply::Acquired { how: How::New, .. }));
        let who = &waiter.asked.command.actor.id;
        if waiter.gone && granted {
            return violation("I7", format!("{who} was granted what it had stopped waiting for"));
        }
        if refused_by_the_store(seen, answer)? {
            return Ok(());
        }
        let still_held = matches!(answer.outcome, Err(Refused::Rule(Refusal::Held { .. })));
        if still_held && seen.server_ms < waiter.until_ms {
            return violation("I18", format!("{who} was sent away at {} and would wait", seen.server_ms));
        }
        self.figures.waited += u64::from(granted);
        self.judge_decision(&waiter.asked, Some(order), seen.server_ms, answer)
    }

    fn judge_decision(&mut self, asked: &Asked, order: Option<u64>, now_ms: i64, answer: &Answer) -> Check {
        if matches!(answer.outcome, Ok(Reply::Acquired { how: How::New, .. })) {
            check_order(&self.books, asked, order, now_ms)?;
        }
        let prediction = self.books.explain(asked, now_ms, Some(&answer.outcome))?;
        if let Ok(reply) = &answer.outcome {
            self.books.shown(asked, now_ms, reply)?;
        }
        self.books.keep(asked, now_ms, &prediction, (true, true));
        Ok(())
    }

    fn begin_waiting(&mut self, seen: &Seen, delivery: u64, request: u64) -> Check {
        let asked = self.asked_of(request)?;
        let prediction = self.books.predict(&asked, seen.server_ms);
        let must_wait = wait_ms(&asked) > 0 && matches!(prediction.outcome, Err(Refusal::Held { .. }));
        if !must_wait && !seen.fault {
            let verb = &asked.command.verb;
            return violation("I12", format!("{verb:?} had no answer; it must be {:?}", prediction.outcome));
        }
        if wait_ms(&asked) > 0 {
            self.books.waiting.begin(delivery, asked, seen.server_ms);
            if seen.gone.contains(&delivery) {
                self.books.waiting.leave(delivery);
            }
        }
        Ok(())
    }

    /// The server died in this turn. Answers that had left before are promises all the same.
    fn unknown_turn(&self, seen: &Seen) -> Result<Unknown, Violation> {
        let mut promised = Vec::new();
        for (delivery, answer) in &seen.answers {
            if !matches!(answer.outcome, Err(Refused::Stopped)) {
                promised.push((*delivery, answer.clone()));
            }
        }
        let mut delivered = Vec::new();
        for (delivery, request) in &seen.delivered {
            let asked = self.asked_of(*request)?;
            // Whoever would have waited and has left gets nothing.
            if wait_ms(&asked) == 0 || !seen.gone.contains(delivery) {
                delivered.push((*delivery, asked));
            }
        }
        Ok(Unknown { delivered, promised, server_ms: seen.server_ms })
    }

    /// What was just explained, for everyone who counts or believes something.
    pub(super) fn look_at_explained(
        &mut self,
        quiet: bool,
        recovered: bool,
    ) -> Result<BTreeSet<CollectionKey>, Violation> {
        let mut touched = BTreeSet::new();
        for (key, sealed) in std::mem::take(&mut self.books.explained) {
            self.look_at(&key, &sealed, quiet)?;
            self.beliefs.happened(&key, &sealed.event, &self.time, recovered)?;
            touched.insert(key);
        }
        Ok(touched)
    }

    fn look_at(&mut self, key: &CollectionKey, sealed: &Arc<Sealed>, quiet: bool) -> Check {
        let Event { at_ms, fact, .. } = &sealed.event;
        match fact {
            Fact::Granted(_) => self.figures.grants += 1,
            Fact::Ended(end) if ran_out(end.reason) => {
                self.figures.expiries += 1;
                if quiet && at_ms - end.ended_at_ms > EXPIRY_LAG_MAX_MS {
                    let late_ms = at_ms - end.ended_at_ms;
                    return violation(
                        "I18",
                        format!("{key}: claim {} ran out {late_ms} ms before anybody was told", end.claim),
                    );
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_in_time(&self, now_ms: i64) -> Check {
        for (key, space) in self.books.spaces() {
            for number in &space.active {
                if space.claim(*number).is_some_and(|claim| now_ms >= claim.expires_at_ms + EXPIRY_LAG_MAX_MS)
                {
                    return violation(
                        "I18",
                        format!("{key}: claim {number} is over and nobody was told at {now_ms}"),
                    );
                }
            }
        }
        Ok(())
    }

    fn asked_of(&self, request: u64) -> Result<Arc<Asked>, Violation> {
        let never = || Violation::new("I12", format!("request {request} was never sent"));
        self.asked.get(&request).cloned().ok_or_else(never)
    }

    fn count(&mut self, answer: &Answer) {
        self.figures.answers += 1;
        self.figures.refusals += u64::from(answer.outcome.is_err());
        self.figures.replays += u64::from(answer.replayed);
    }
}

fn is_no_room(answer: &Answer) -> bool {
    matches!(answer.outcome, Err(Refused::NoRoom | Refused::Away))
}

/// No room, or not reachable: allowed only while a fault is there, and then nothing happened.
fn refused_by_the_store(seen: &Seen, answer: &Answer) -> Result<bool, Violation> {
    match &answer.outcome {
        Err(Refused::NoRoom | Refused::Away) if seen.fault => Ok(true),
        Err(refused @ (Refused::NoRoom | Refused::Away | Refused::Stopped | Refused::Overloaded)) => {
            Err(Violation::new("I12", format!("refused with {refused} for no reason")))
        }
        _ => Ok(false),
    }
}
