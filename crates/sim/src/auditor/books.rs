//! The auditor's books: what it believes every collection to be, and the committed events that it has
//! not yet explained. Every event must be explained by a request that was made, or by time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tenure_core::{ClaimState, CollectionKey, Fact, Refusal, Reply, Sealed};
use tenure_engine::Refused;
use tenure_store::Reader;

use super::compare::same_reply;
use super::keys::{Keys, key_id};
use super::ledger::Ledger;
use super::rules::{self, Policies, Prediction};
use super::space::Space;
use super::waiting::Waiting;
use super::{Asked, Check, SYSTEM_ID, Violation, broken, violation};

#[derive(Clone, Default)]
pub(crate) struct Books {
    pub(crate) policies: Policies,
    spaces: BTreeMap<CollectionKey, Space>,
    ledgers: BTreeMap<CollectionKey, Ledger>,
    pub(crate) keys: Keys,
    pub(crate) waiting: Waiting,
    /// Committed, not yet explained.
    pub(crate) queue: BTreeMap<CollectionKey, VecDeque<Arc<Sealed>>>,
    /// Explained since somebody last looked.
    pub(crate) explained: Vec<(CollectionKey, Arc<Sealed>)>,
    /// Something was committed without an event: a heartbeat, a kept answer.
    pub(crate) quiet_commit: bool,
    none: Space,
    /// The loop may have forgotten claims that ended.
    pub(crate) forgets: bool,
}

impl Books {
    pub(crate) fn space(&self, key: &CollectionKey) -> &Space {
        self.spaces.get(key).unwrap_or(&self.none)
    }

    pub(crate) fn spaces(&self) -> impl Iterator<Item = (&CollectionKey, &Space)> {
        self.spaces.iter()
    }

    pub(crate) fn predict(&self, asked: &Asked, now_ms: i64) -> Prediction {
        let command = &asked.command;
        rules::predict(self.space(&command.collection), &self.policies, command, now_ms)
    }

    /// Explains a request at a time: its answer must be the expected one (where there is an answer),
    /// and the next committed events must be the ones that it leaves.
    pub(crate) fn explain(
        &mut self,
        asked: &Asked,
        now_ms: i64,
        answer: Option<&Result<Reply, Refused>>,
    ) -> Result<Prediction, Violation> {
        let key = &asked.command.collection;
        loop {
            let prediction = self.predict(asked, now_ms);
            if let Some(forgotten) = self.forgotten(key, answer) {
                return Ok(forgotten);
            }
            let as_told = answer.is_none_or(|answer| same_reply(&prediction.outcome, answer));
            if as_told && self.next_are(key, &prediction) {
                self.apply(key, &prediction)?;
                return Ok(prediction);
            }
            if !self.take_by_itself(key, now_ms)? {
                return Err(self.blame(asked, &prediction, answer, as_told));
            }
        }
    }

    /// A claim that ended and was forgotten is answered as one that never was. Nothing happens either way.
    fn forgotten(&self, key: &CollectionKey, answer: Option<&Result<Reply, Refused>>) -> Option<Prediction> {
        let Some(Err(Refused::Rule(told))) = answer else { return None };
        let inner = if let Refusal::InGroup { refusal, .. } = told { refusal } else { told };
        let Refusal::NotFound { what, id } = inner else { return None };
        let ended = id.parse().ok().and_then(|number| self.space(key).claim(number));
        let ended = ended.is_some_and(|claim| claim.state != ClaimState::Active);
        let forgotten = self.forgets && ended && &**what == "claim";
        forgotten.then(|| Prediction {
            outcome: Err(told.clone()),
            events: Vec::new(),
            space: self.space(key).clone(),
            beat: false,
            policies: Vec::new(),
        })
    }

    pub(crate) fn next_are(&self, key: &CollectionKey, prediction: &Prediction) -> bool {
        let Some(queue) = self.queue.get(key) else { return prediction.events.is_empty() };
        prediction.events.len() <= queue.len()
            && prediction.events.iter().zip(queue).all(|(expected, sealed)| *expected == sealed.event)
    }

    pub(crate) fn apply(&mut self, key: &CollectionKey, prediction: &Prediction) -> Check {
        for _ in &prediction.events {
            self.pop(key)?;
        }
        if !prediction.events.is_empty() || prediction.beat {
            let mut space = prediction.space.clone();
            space.hash = self.space(key).hash;
            self.spaces.insert(key.clone(), space);
        }
        self.quiet_commit |= prediction.beat;
        for (kind, policy) in &prediction.policies {
            self.policies.insert(kind.clone(), policy.clone());
        }
        Ok(())
    }

    /// The next event is one that time alone explains.
    pub(crate) fn take_by_itself(&mut self, key: &CollectionKey, now_ms: i64) -> Result<bool, Violation> {
        self.take_as_of(key, now_ms, Some(now_ms))
    }

    /// The next event is one that time alone had brought about by then, told at that time or whenever.
    pub(crate) fn take_as_of(
        &mut self,
        key: &CollectionKey,
        as_of_ms: i64,
        told_at_ms: Option<i64>,
    ) -> Result<bool, Violation> {
        let Some(sealed) = self.queue.get(key).and_then(VecDeque::front) else { return Ok(false) };
        let event = &sealed.event;
        let number = match &event.fact {
            Fact::Ended(end) => end.claim,
            Fact::Advanced { claim, .. } => *claim,
            _ => return Ok(false),
        };
        let Some(policy) = rules::policy_of(&self.policies, key.kind()) else { return Ok(false) };
        let expected = rules::overdue(self.space(key), &policy, number, as_of_ms);
        let in_time = told_at_ms.is_none_or(|told_at_ms| event.at_ms == told_at_ms);
        let by_itself = &*event.actor.id == SYSTEM_ID && in_time;
        if !by_itself || expected.as_ref() != Some(&event.fact) {
            return Ok(false);
        }
        self.pop_and_fold(key)?;
        Ok(true)
    }

    /// Everything that time explains, everywhere.
    pub(crate) fn take_all_by_themselves(&mut self, now_ms: i64) -> Check {
        let keys: Vec<CollectionKey> = self.queue.keys().cloned().collect();
        for key in keys {
            while self.take_by_itself(&key, now_ms)? {}
        }
        Ok(())
    }

    /// The next event is a fact whatever anybody asked: fold it.
    pub(crate) fn pop_and_fold(&mut self, key: &CollectionKey) -> Check {
        let sealed = self.pop(key)?;
        if let Some(sealed) = sealed {
            self.spaces.entry(key.clone()).or_default().fold(&sealed.event);
        }
        Ok(())
    }

    fn pop(&mut self, key: &CollectionKey) -> Result<Option<Arc<Sealed>>, Violation> {
        let Some(sealed) = self.queue.get_mut(key).and_then(VecDeque::pop_front) else { return Ok(None) };
        let policy = rules::policy_of(&self.policies, key.kind());
        let ledger = self.ledgers.entry(key.clone()).or_default();
        ledger.take(&sealed.event, policy.as_deref()).map_err(|violation| at(key, &violation))?;
        self.spaces.entry(key.clone()).or_default().hash = sealed.hash;
        self.explained.push((key.clone(), sealed.clone()));
        Ok(Some(sealed))
    }

    /// No event may be left that nobody asked for.
    pub(crate) fn all_explained(&self) -> Check {
        for (key, queue) in &self.queue {
            if let Some(sealed) = queue.front() {
                self.blame_events(key)?;
                return violation(
                    "I14",
                    format!("{key}: nobody asked for event {}: {:?}", sealed.event.seq, sealed.event),
                );
            }
        }
        Ok(())
    }

    /// The request has its outcome: under its key the server must remember it. `known`: whether it is sure
    /// that it does, and whether anybody was told.
    pub(crate) fn keep(&mut self, asked: &Asked, now_ms: i64, prediction: &Prediction, known: (bool, bool)) {
        if let Some(idempotency) = &asked.idempotency {
            let id = key_id(&asked.command, idempotency);
            let kept = self.keys.keep(id, idempotency.fingerprint, now_ms, &prediction.outcome, known);
            self.quiet_commit |= kept;
        }
    }

    /// Claims as they stood in an answer.
    pub(crate) fn shown(&mut self, asked: &Asked, now_ms: i64, reply: &Reply) -> Check {
        let key = &asked.command.collection;
        let ledger = self.ledgers.entry(key.clone()).or_default();
        let judged = match reply {
            Reply::Beat { renewed: true, claim, .. } => {
                ledger.shown(claim).and_then(|()| ledger.told(now_ms, &asked.command.actor.id, claim))
            }
            Reply::Acquired { claim, .. } | Reply::Claim { claim } | Reply::Beat { claim, .. } => {
                ledger.shown(claim)
            }
            Reply::Freed { claim: Some(claim) } => ledger.shown(claim),
            Reply::Group(replies) => {
                for reply in replies {
                    self.shown(asked, now_ms, reply)?;
                }
                Ok(())
            }
            _ => Ok(()),
        };
        judged.map_err(|violation| at(key, &violation))
    }

    /// Heartbeats whose answer was lost are known from the rows.
    pub(crate) fn learn_from_rows(&mut self) {
        for (key, space) in &self.spaces {
            let ledger = self.ledgers.entry(key.clone()).or_default();
            for number in &space.active {
                if let Some(claim) = space.claim(*number) {
                    ledger.read(claim);
                }
            }
        }
    }

    /// fold(events) = rows (I14): the collection reads exactly as the books say.
    pub(crate) fn compare_rows(&self, key: &CollectionKey, reader: &dyn Reader) -> Check {
        let space = self.space(key);
        let snapshot = reader.snapshot(key).map_err(|error| broken(&error))?;
        let Some(snapshot) = snapshot else {
            return if space.exists { violation("I11", format!("{key} is gone")) } else { Ok(()) };
        };
        let head = &snapshot.head;
        if (head.seq, head.hash, head.created_at_ms) != (space.seq, space.hash, space.created_at_ms) {
            return violation("I14", format!("{key}: the head is {} and must be {}", head.seq, space.seq));
        }
        let expected: Vec<_> = space.items.values().collect();
        if let Some((row, must)) = first_difference(&snapshot.items, &expected) {
            return violation("I14", format!("{key}: an item reads {row:?} and must be {must:?}"));
        }
        let active = space.active.iter().filter_map(|number| space.claims.get(number));
        let expected: Vec<_> = active.collect();
        if let Some((row, must)) = first_difference(&snapshot.claims, &expected) {
            return violation("I14", format!("{key}: a claim reads {row:?} and must be {must:?}"));
        }
        debug_assert!(expected.iter().all(|claim| claim.state == ClaimState::Active));
        Ok(())
    }

    /// What went wrong, under the most telling number: the ledger's word first, if it has one.
    fn blame(
        &self,
        asked: &Asked,
        prediction: &Prediction,
        answer: Option<&Result<Reply, Refused>>,
        as_told: bool,
    ) -> Violation {
        let key = &asked.command.collection;
        if let Err(violation) = self.blame_events(key) {
            return violation;
        }
        let ask = &asked.command;
        if as_told {
            let next: Vec<_> =
                self.queue.get(key).into_iter().flatten().map(|sealed| &sealed.event).take(2).collect();
            let expected = &prediction.events;
            return Violation::new(
                "I11",
                format!(
                    "{key}: {:?} by {} must leave {expected:?}; next are {next:?}",
                    ask.verb, ask.actor.id
                ),
            );
        }
        Violation::new(
            "I12",
            format!(
                "{key}: {:?} by {} was answered {answer:?}; in this order it must be {:?}",
                ask.verb, ask.actor.id, prediction.outcome
            ),
        )
    }

    fn blame_events(&self, key: &CollectionKey) -> Check {
        let mut ledger = self.ledgers.get(key).cloned().unwrap_or_default();
        let policy = rules::policy_of(&self.policies, key.kind());
        for sealed in self.queue.get(key).into_iter().flatten() {
            ledger.take(&sealed.event, policy.as_deref()).map_err(|violation| at(key, &violation))?;
        }
        Ok(())
    }
}

fn at(key: &CollectionKey, violation: &Violation) -> Violation {
    Violation::new(violation.invariant, format!("{key}: {}", violation.detail))
}

fn first_difference<'a, T: PartialEq>(
    rows: &'a [T],
    expected: &'a [&'a T],
) -> Option<(Option<&'a T>, Option<&'a T>)> {
    let longest = rows.len().max(expected.len());
    (0..longest).map(|index| (rows.get(index), expected.get(index).copied())).find(|(row, must)| row != must)
}
