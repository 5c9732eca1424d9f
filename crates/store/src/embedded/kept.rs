//! The kept replies: which keys are known, and the answers that are in memory. A miss is answered from
//! here, so a command with a new key never waits for the archive.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{Item, Principal, Refusal, Reply};

use super::archive::{KeptPlace, read_kept};
use super::live::claim_bytes;
use crate::limits::KEPT_VALUES_BYTES_MAX;
use crate::{Kept, Map, ReplyKey};

/// A key, as 128 bits that nobody outside can aim at: each process draws its own secret.
pub(crate) type KeptId = u128;

/// Turns keys into ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptKeys(RandomState, RandomState);

impl KeptKeys {
    pub(crate) fn id(&self, key: &ReplyKey) -> KeptId {
        u128::from(self.0.hash_one(key)) << 64 | u128::from(self.1.hash_one(key))
    }
}

/// All known keys.
#[derive(Debug)]
pub(crate) struct KeptIndex {
    keys: KeptKeys,
    known: Map<KeptId, Known>,
    /// The known keys with their times, oldest first. A key that was used again stands here twice; only
    /// its newer time counts.
    order: VecDeque<(KeptId, i64)>,
    /// The newest answers, and all that the archive does not have yet.
    answers: Map<KeptId, Arc<Kept>>,
    /// What they take.
    answer_bytes: usize,
    /// Their keys, oldest first.
    answer_order: VecDeque<KeptId>,
    known_max: usize,
    answers_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    at_ms: i64,
    /// Where the archive has it, once it has.
    place: Option<KeptPlace>,
}

/// What the index says of a key.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// Nothing is kept under it.
    Unknown,
    /// This is.
    Here(Arc<Kept>),
    /// Something is, and the archive has it: where, and of which time.
    Archived(KeptPlace, i64),
}

impl KeptIndex {
    pub(crate) fn new(known_max: usize, answers_max: usize) -> Self {
        Self {
            keys: KeptKeys::default(),
            known: Map::default(),
            order: VecDeque::new(),
            answers: Map::default(),
            answer_bytes: 0,
            answer_order: VecDeque::new(),
            known_max,
            answers_max,
        }
    }

    pub(crate) fn keys(&self) -> &KeptKeys {
        &self.keys
    }

    pub(crate) fn lookup(&self, key: &ReplyKey) -> Lookup {
        if self.known.is_empty() {
            return Lookup::Unknown;
        }
        let id = self.keys.id(key);
        match (self.known.get(&id), self.answers.get(&id)) {
            (Some(_), Some(kept)) => Lookup::Here(kept.clone()),
            (Some(Known { place: Some(place), at_ms }), None) => Lookup::Archived(*place, *at_ms),
            _ => Lookup::Unknown,
        }
    }

    /// A reply was committed. What is over its day is forgotten on the way.
    pub(crate) fn insert(&mut self, key: &ReplyKey, kept: Arc<Kept>) {
        let (id, at_ms) = (self.keys.id(key), kept.at_ms);
        self.put(id, at_ms, None);
        self.answer_bytes += bytes(&kept);
        match self.answers.insert(id, kept) {
            Some(earlier) => self.answer_bytes -= bytes(&earlier),
            None => self.answer_order.push_back(id),
        }
        self.trim(at_ms);
    }

    /// The archive has these replies from here on.
    pub(crate) fn folded(&mut self, place: KeptPlace, ids: &[(KeptId, i64)]) {
        for (id, at_ms) in ids {
            // A key whose day was over may have been used again since: that answer is not in there.
            if let Some(known) = self.known.get_mut(id).filter(|known| known.at_ms == *at_ms) {
                known.place = Some(place);
            }
        }
        self.trim_answers();
    }

    /// Takes over a chunk of the archive at start. Answers are read again when they are asked for.
    pub(crate) fn load(&mut self, place: KeptPlace, data: &[u8]) -> Result<(), postcard::Error> {
        for reply in read_kept(data) {
            let (key, kept) = reply?;
            let id = self.keys.id(&key);
            self.put(id, kept.at_ms, Some(place));
        }
        Ok(())
    }

    /// Forgets what is over its day, and the oldest beyond the bound.
    pub(crate) fn trim(&mut self, now_ms: i64) {
        while let Some((id, at_ms)) = self.order.front() {
            if self.is_newest(*id, *at_ms) {
                if at_ms + Kept::KEEP_MS > now_ms && self.known.len() <= self.known_max {
                    break;
                }
                self.known.remove(id);
                self.answer_bytes -= self.answers.remove(id).map_or(0, |kept| bytes(&kept));
            }
            self.order.pop_front();
        }
        self.trim_answers();
    }

    /// The time of the oldest reply that is known: the archive needs none from before it.
    pub(crate) fn oldest_ms(&self) -> Option<i64> {
        self.order.iter().find(|(id, at_ms)| self.is_newest(*id, *at_ms)).map(|(_, at_ms)| *at_ms)
    }

    /// The key was not used again after this time.
    fn is_newest(&self, id: KeptId, at_ms: i64) -> bool {
        self.known.get(&id).is_some_and(|known| known.at_ms == at_ms)
    }

    fn put(&mut self, id: KeptId, at_ms: i64, place: Option<KeptPlace>) {
        self.known.insert(id, Known { at_ms, place });
        self.order.push_back((id, at_ms));
    }

    fn trim_answers(&mut self) {
        while self.answer_order.len() > self.answers_max || self.answer_bytes > KEPT_VALUES_BYTES_MAX {
            let Some(id) = self.answer_order.front() else { break };
            // Only the archive's are let go; folds come in order, so the first that is not ends it.
            if self.known.get(id).is_some_and(|known| known.place.is_none()) {
                break;
            }
            self.answer_bytes -= self.answers.remove(id).map_or(0, |kept| bytes(&kept));
            self.answer_order.pop_front();
        }
    }
}

/// About what an answer takes: a row that it shows may be nobody else's any more.
fn bytes(kept: &Kept) -> usize {
    size_of::<Kept>() + kept.outcome.as_ref().map_or_else(refusal_bytes, reply_bytes)
}

fn refusal_bytes(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::Held { items } | Refusal::Finished { items } | Refusal::NotClaimable { items } => {
            items.iter().map(unavailable_bytes).sum()
        }
        Refusal::InGroup { refusal, .. } => size_of::<Refusal>() + refusal_bytes(refusal),
        Refusal::NotFound { what: one, id: other } | Refusal::Invalid { field: one, detail: other } => {
            one.len() + other.len()
        }
        Refusal::Lost { holder, .. } => holder.as_ref().map_or(0, person_bytes),
        Refusal::NotHolder { holder } => person_bytes(holder),
        Refusal::Limit { limit: text, .. } | Refusal::WrongPhase { phase: text } => text.len(),
        Refusal::NotHeld { item } => item.as_str().len(),
        Refusal::StaleToken { .. } | Refusal::Conflict { .. } => 0,
    }
}

fn unavailable_bytes(unavailable: &Unavailable) -> usize {
    let texts = match &unavailable.why {
        Why::Held { holder, session, .. } => {
            person_bytes(holder) + session.as_ref().map_or(0, |session| session.as_str().len())
        }
        Why::Delayed { holder, .. } => person_bytes(holder),
        Why::Finished { status } | Why::NotClaimable { status } => status.as_str().len(),
    };
    size_of::<Unavailable>() + unavailable.item.as_str().len() + texts
}

fn person_bytes(person: &Principal) -> usize {
    person.id.len() + person.name.len()
}

fn reply_bytes(reply: &Reply) -> usize {
    match reply {
        Reply::Acquired { claim, .. } | Reply::Beat { claim, .. } | Reply::Claim { claim } => {
            claim_bytes(claim)
        }
        Reply::Freed { claim } => claim.as_deref().map_or(0, claim_bytes),
        Reply::Item { item, .. } => {
            size_of::<Item>() + item.data.as_ref().map_or(0, |data| data.as_str().len())
        }
        Reply::Group(replies) => replies.iter().map(|reply| size_of::<Reply>() + reply_bytes(reply)).sum(),
        Reply::Collection { .. } | Reply::Done => 0,
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{CollectionKey, Hash, ItemId, Json, Status, Text};

    use super::*;

    fn key(name: &str) -> ReplyKey {
        let collection = CollectionKey::new("lock/a").unwrap();
        ReplyKey { collection, principal: Text::from("ana"), key: Text::from(name) }
    }

    fn item() -> Item {
        Item {
            id: ItemId::new("a").unwrap(),
            status: Status::new("open").unwrap(),
            version: 1,
            data: None,
            fence: 0,
            claim: 0,
            updated_at_ms: 1,
            updated_by: Text::from("ana"),
        }
    }

    fn kept(at_ms: i64) -> Arc<Kept> {
        Arc::new(Kept { fingerprint: Hash::default(), at_ms, outcome: Ok(Reply::Done) })
    }

    #[test]
    fn the_oldest_answers_leave_memory_only_when_the_archive_has_them() {
        let mut index = KeptIndex::new(100, 1);
        let place = KeptPlace { through: 9, part: 0 };
        index.insert(&key("a"), kept(1));
        index.insert(&key("b"), kept(2));
        assert!(matches!(index.lookup(&key("a")), Lookup::Here(_)));
        let ids = [(index.keys().id(&key("a")), 1)];
        index.folded(place, &ids);
        assert!(matches!(index.lookup(&key("a")), Lookup::Archived(found, 1) if found == place));
        assert!(matches!(index.lookup(&key("b")), Lookup::Here(_)));
        assert!(matches!(index.lookup(&key("c")), Lookup::Unknown));
    }

    #[test]
    fn a_few_large_answers_leave_memory_as_many_small_ones_do() {
        let data = Some(Json::of(&"x".repeat(60_000)).expect("a document"));
        few_of(60_000, || {
            Ok(Reply::Item { item: Arc::new(Item { data: data.clone(), ..item() }), created: true })
        });
        // A hundred items that somebody holds, with the names that are longest.
        let long = "x".repeat(200);
        let holder = Principal::new(long.as_str(), long.as_str()).expect("a person");
        let why = Why::Held { holder, session: None, since_ms: 1, until_ms: 2 };
        let held = Unavailable { item: ItemId::new(long.as_str()).expect("an id"), why };
        let held = || Refusal::Held { items: vec![held.clone(); 100] };
        let size_bytes = 100 * (size_of::<Unavailable>() + 3 * long.len());
        few_of(size_bytes, || Err(held()));
        few_of(size_bytes, || Err(Refusal::InGroup { index: 0, refusal: Box::new(held()) }));
    }

    /// Answers of about this size, a few more than there is room for.
    fn few_of(size_bytes: usize, outcome: impl Fn() -> Result<Reply, Refusal>) {
        let mut index = KeptIndex::new(1_000_000, 1_000_000);
        let place = KeptPlace { through: 9, part: 0 };
        let count = KEPT_VALUES_BYTES_MAX / size_bytes + 10;
        let mut ids = Vec::new();
        for number in 0..count {
            let outcome = outcome();
            let at_ms = i64::try_from(number).unwrap();
            let key = key(&number.to_string());
            index.insert(&key, Arc::new(Kept { fingerprint: Hash::default(), at_ms, outcome }));
            ids.push((index.keys().id(&key), at_ms));
        }
        assert_eq!(index.answers.len(), count, "the archive has none of them");
        index.folded(place, &ids);
        assert!(index.answer_bytes <= KEPT_VALUES_BYTES_MAX, "{}", index.answer_bytes);
        assert!((count - 50..count).contains(&index.answers.len()), "{}", index.answers.len());
        index.trim(i64::MAX);
        assert_eq!((index.answers.len(), index.answer_bytes), (0, 0));
    }

    #[test]
    fn what_is_over_its_day_or_over_the_bound_is_forgotten() {
        let mut index = KeptIndex::new(2, 10);
        for (name, at_ms) in [("a", 1), ("b", 2), ("c", 3)] {
            index.insert(&key(name), kept(at_ms));
        }
        assert!(matches!(index.lookup(&key("a")), Lookup::Unknown));
        assert_eq!(index.oldest_ms(), Some(2));
        index.trim(2 + Kept::KEEP_MS);
        assert!(matches!(index.lookup(&key("b")), Lookup::Unknown));
        assert!(matches!(index.lookup(&key("c")), Lookup::Here(_)));
    }

    #[test]
    fn a_fold_of_the_older_answer_does_not_take_the_newer_one_away() {
        let mut index = KeptIndex::new(10, 0);
        index.insert(&key("a"), kept(1));
        let id = index.keys().id(&key("a"));
        index.insert(&key("a"), kept(1 + Kept::KEEP_MS));
        index.folded(KeptPlace { through: 9, part: 0 }, &[(id, 1)]);
        let newer = index.lookup(&key("a"));
        assert!(matches!(newer, Lookup::Here(kept) if kept.at_ms == 1 + Kept::KEEP_MS));
    }

    #[test]
    fn a_key_that_is_used_again_keeps_its_newer_answer() {
        let mut index = KeptIndex::new(10, 10);
        index.insert(&key("a"), kept(1));
        index.insert(&key("a"), kept(5));
        index.trim(1 + Kept::KEEP_MS);
        assert!(matches!(index.lookup(&key("a")), Lookup::Here(kept) if kept.at_ms == 5));
    }

    /// The archive forgets what is older than the oldest that is known: a key that is used again must not
    /// make the ones behind it look forgotten.
    #[test]
    fn a_key_that_is_used_again_does_not_stand_for_the_oldest() {
        let mut index = KeptIndex::new(2, 10);
        index.insert(&key("a"), kept(1));
        index.insert(&key("b"), kept(2));
        index.insert(&key("a"), kept(1 + Kept::KEEP_MS));
        assert!(matches!(index.lookup(&key("b")), Lookup::Here(_)), "its day is not over");
        assert_eq!(index.oldest_ms(), Some(2));
        index.insert(&key("c"), kept(1 + Kept::KEEP_MS));
        assert!(matches!(index.lookup(&key("b")), Lookup::Unknown), "beyond the bound the oldest goes");
        assert!(matches!(index.lookup(&key("a")), Lookup::Here(_)));
    }
}
