//! A kind's numbers. The four applications are four policies; a user's own kind is a fifth.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use crate::limits::{
    ITEMS_PER_CLAIM_MAX, LOCK_DELAY_MS_MAX, PHASES_MAX, STATUSES_MAX, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX,
};
use crate::names::SYSTEM_KIND;
use crate::object::objects;
use crate::{Refusal, Status, Text};

const SECOND_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600 * SECOND_MS;

/// Made once: every command looks its policy up.
static PRESETS: LazyLock<[(&str, Arc<Policy>); 6]> = LazyLock::new(|| {
    [
        ("task", Arc::new(Policy::task())),
        ("raffle", Arc::new(Policy::raffle())),
        ("analysis", Arc::new(Policy::analysis())),
        ("image", Arc::new(Policy::image())),
        ("lock", Arc::new(Policy::lock())),
        (SYSTEM_KIND, Arc::new(Policy::lease("none", HOUR_MS))),
    ]
});

/// What happens when a phase's time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// The claim expires.
    Release,
    /// The next phase begins by itself.
    Advance,
}

/// One stage of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name, unique in the policy.
    pub name: Text,
    /// How long it lasts, or how long a heartbeat renews it for.
    pub ttl_ms: i64,
    /// Heartbeats renew it. Otherwise its deadline is fixed when it begins.
    pub renew: bool,
    /// What its end does.
    pub at_end: AtEnd,
    /// Entered by its name only, by an application on the holder's behalf: the walk from phase to phase
    /// passes it by.
    #[serde(default)]
    pub side: bool,
}

/// How the claims of one kind behave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The stages, in order. At least one.
    #[serde(deserialize_with = "objects")]
    pub phases: Vec<Phase>,
    /// A heartbeat that tells of this much idle time renews nothing.
    pub idle_guard_ms: Option<i64>,
    /// Heartbeats alone keep a claim no longer than this past the last real action.
    pub rolling_ms: Option<i64>,
    /// How often clients should send heartbeats. A hint.
    pub heartbeat_ms: i64,
    /// Items in one claim.
    pub max_items: usize,
    /// Statuses in which an item can be claimed. The first is what a new item gets when nobody says.
    pub claimable: Vec<Status>,
    /// Statuses that are final.
    pub finished: Vec<Status>,
    /// The status that a claim gives to its items. They keep it when the claim ends.
    pub status_on_claim: Option<Status>,
    /// Claiming an unknown item, or in an unknown collection, creates it.
    pub create_on_claim: bool,
    /// A session that already has a claim in the collection gets that one back, untouched.
    pub one_claim_per_session: bool,
    /// The session is part of who holds: to another session of the same holder the item is held. Callers
    /// that name no session are one.
    pub session_exclusive: bool,
    /// Active claims of one holder in one collection.
    pub max_claims_per_holder: Option<usize>,
    /// The longest a caller may wait in the queue.
    pub max_wait_ms: i64,
    /// After an unclean end nobody gets the items for this long.
    pub lock_delay_ms: i64,
    /// The shortest TTL that a caller may ask for in the first phase.
    pub ttl_ms_min: i64,
    /// The longest.
    pub ttl_ms_max: i64,
}

impl Policy {
    /// The policy that a built-in kind has until somebody sets another.
    pub fn preset(kind: &str) -> Option<Arc<Self>> {
        PRESETS.iter().find(|(preset, _)| *preset == kind).map(|(_, policy)| policy.clone())
    }

    /// The kinds that have a preset.
    pub fn preset_kinds() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(kind, _)| *kind).filter(|kind| *kind != SYSTEM_KIND)
    }

    /// Whether a claim depends on what else its holder has.
    pub fn looks_at_holder(&self) -> bool {
        self.one_claim_per_session || self.max_claims_per_holder.is_some()
    }

    /// One editor works on a task at a time, visibly, while active.
    pub fn task() -> Self {
        Self {
            idle_guard_ms: Some(120 * SECOND_MS),
            rolling_ms: Some(900 * SECOND_MS),
            heartbeat_ms: 10 * SECOND_MS,
            claimable: statuses(&["ready", "processing", "partially_completed"]),
            finished: statuses(&["completed", "cancelled"]),
            status_on_claim: Some(status("processing")),
            ..Self::lease("editing", 180 * SECOND_MS)
        }
    }

    /// Numbers are chosen under one timer and paid under another; neither can be renewed. While a gateway
    /// charges, and while a person compares a transfer with the bank, the numbers are kept for longer.
    pub fn raffle() -> Self {
        let phase = |name: &str, ttl_ms, at_end, side| {
            let name = Text::from(name);
            Phase { name, ttl_ms, renew: false, at_end, side }
        };
        Self {
            phases: vec![
                phase("selection", 600 * SECOND_MS, AtEnd::Advance, false),
                phase("checkout", 300 * SECOND_MS, AtEnd::Release, false),
                phase("paying", 360 * SECOND_MS, AtEnd::Release, true),
                phase("verification", 12 * HOUR_MS, AtEnd::Release, true),
            ],
            max_items: 10,
            claimable: statuses(&["available"]),
            finished: statuses(&["sold"]),
            one_claim_per_session: true,
            ..Self::lease("selection", 600 * SECOND_MS)
        }
    }

    /// A queue may deliver a job twice; it runs once.
    pub fn analysis() -> Self {
        Self {
            heartbeat_ms: 60 * SECOND_MS,
            claimable: statuses(&["QUEUED", "RUNNING"]),
            finished: statuses(&["READY", "FAILED"]),
            status_on_claim: Some(status("RUNNING")),
            session_exclusive: true,
            ttl_ms_min: SECOND_MS,
            ttl_ms_max: HOUR_MS,
            ..Self::lease("running", 300 * SECOND_MS)
        }
    }

    /// One annotator per image.
    pub fn image() -> Self {
        Self {
            heartbeat_ms: 120 * SECOND_MS,
            claimable: statuses(&["new", "in_progress", "done"]),
            finished: statuses(&["archived"]),
            ..Self::lease("annotating", 300 * SECOND_MS)
        }
    }

    /// A plain lock: any key, any TTL from a second to a day, nothing to set up.
    pub fn lock() -> Self {
        Self {
            heartbeat_ms: 10 * SECOND_MS,
            max_items: ITEMS_PER_CLAIM_MAX,
            create_on_claim: true,
            session_exclusive: true,
            ttl_ms_min: SECOND_MS,
            ttl_ms_max: 24 * HOUR_MS,
            ..Self::lease("held", 30 * SECOND_MS)
        }
    }

    /// The common ground of all presets: one renewable phase on one item at a time.
    fn lease(phase: &str, ttl_ms: i64) -> Self {
        Self {
            phases: vec![Phase {
                name: Text::from(phase),
                ttl_ms,
                renew: true,
                at_end: AtEnd::Release,
                side: false,
            }],
            idle_guard_ms: None,
            rolling_ms: None,
            heartbeat_ms: ttl_ms / 3,
            max_items: 1,
            claimable: statuses(&["open"]),
            finished: Vec::new(),
            status_on_claim: None,
            create_on_claim: false,
            one_claim_per_session: false,
            session_exclusive: false,
            max_claims_per_holder: None,
            max_wait_ms: 60 * SECOND_MS,
            lock_delay_ms: 0,
            ttl_ms_min: ttl_ms,
            ttl_ms_max: ttl_ms,
        }
    }

    /// The first phase. A valid policy has one.
    pub fn first_phase(&self) -> &Phase {
        &self.phases[0]
    }

    /// The phase of that name and the one after it.
    pub fn phase(&self, name: &str) -> Option<(&Phase, Option<&Phase>)> {
        let index = self.phases.iter().position(|phase| &*phase.name == name)?;
        let phase = &self.phases[index];
        Some((phase, self.phases[index + 1..].iter().find(|next| !next.side && !phase.side)))
    }

    /// What a new item gets when nobody names a status.
    pub fn initial_status(&self) -> &Status {
        &self.claimable[0]
    }

    /// The shared copy of a status that this policy names, so that a million items don't keep a
    /// million copies of the same word.
    pub(crate) fn intern(&self, status: &Status) -> Status {
        self.claimable.iter().chain(&self.finished).find(|known| *known == status).unwrap_or(status).clone()
    }

    /// Refuses a policy that cannot work, naming the field.
    pub fn validate(&self) -> Result<(), Refusal> {
        self.validate_phases()?;
        self.validate_times()?;
        self.validate_statuses()?;
        if self.max_items == 0 || self.max_items > ITEMS_PER_CLAIM_MAX {
            return Err(Refusal::invalid("max_items", "must be 1 to 100"));
        }
        if self.max_claims_per_holder == Some(0) {
            return Err(Refusal::invalid(
                "max_claims_per_holder",
                "must be at least 1, or null for no limit",
            ));
        }
        Ok(())
    }

    fn validate_phases(&self) -> Result<(), Refusal> {
        if self.phases.is_empty() || self.phases.len() > PHASES_MAX {
            return Err(Refusal::invalid("phases", "must be 1 to 8 phases"));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let field = |part: &str| format!("phases[{index}].{part}");
            if Status::new(phase.name.clone()).is_err() {
                return Err(Refusal::invalid(field("name"), "must be 1 to 64 of A-Z, a-z, 0-9 and _ - ."));
            }
            if self.phases[..index].iter().any(|earlier| earlier.name == phase.name) {
                return Err(Refusal::invalid(field("name"), "stands twice"));
            }
            if !(TTL_MS_MIN..=TTL_MS_MAX).contains(&phase.ttl_ms) {
                return Err(Refusal::invalid(field("ttl_ms"), "must be 1 second to 366 days"));
            }
            if phase.side && index == 0 {
                return Err(Refusal::invalid(field("side"), "a claim begins in the first phase"));
            }
            if phase.side && phase.at_end == AtEnd::Advance {
                return Err(Refusal::invalid(field("at_end"), "a side phase has nothing to advance to"));
            }
            if phase.at_end == AtEnd::Advance && self.phases[index + 1..].iter().all(|next| next.side) {
                return Err(Refusal::invalid(field("at_end"), "the last phase has nothing to advance to"));
            }
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), Refusal> {
        let renewable = self.phases.iter().filter(|phase| phase.renew);
        let (longest, shortest) =
            (renewable.clone().map(|phase| phase.ttl_ms).max(), renewable.map(|phase| phase.ttl_ms).min());
        if let Some(idle_guard_ms) = self.idle_guard_ms {
            if longest.is_none() {
                return Err(Refusal::invalid(
                    "idle_guard_ms",
                    "no phase can be renewed, so nothing can be idle",
                ));
            }
            if !(TTL_MS_MIN..=TTL_MS_MAX).contains(&idle_guard_ms) {
                return Err(Refusal::invalid("idle_guard_ms", "must be 1 second to 366 days, or null"));
            }
        }
        if let Some(rolling_ms) = self.rolling_ms {
            match longest {
                None => {
                    return Err(Refusal::invalid(
                        "rolling_ms",
                        "no phase can be renewed, so nothing can roll",
                    ));
                }
                Some(ttl_ms) if rolling_ms < ttl_ms || rolling_ms > TTL_MS_MAX => {
                    return Err(Refusal::invalid(
                        "rolling_ms",
                        "must be at least the longest renewable ttl_ms",
                    ));
                }
                Some(_) => {}
            }
        }
        if self.heartbeat_ms < 100 || shortest.is_some_and(|ttl_ms| self.heartbeat_ms >= ttl_ms) {
            return Err(Refusal::invalid(
                "heartbeat_ms",
                "must be at least 100 ms and less than each renewable ttl_ms",
            ));
        }
        let first_ttl_ms = self.phases[0].ttl_ms;
        if self.ttl_ms_min < TTL_MS_MIN || self.ttl_ms_min > first_ttl_ms {
            return Err(Refusal::invalid("ttl_ms_min", "must be 1 second to the first phase's ttl_ms"));
        }
        if self.ttl_ms_max < first_ttl_ms || self.ttl_ms_max > TTL_MS_MAX {
            return Err(Refusal::invalid("ttl_ms_max", "must be the first phase's ttl_ms to 366 days"));
        }
        if self.rolling_ms.is_some_and(|rolling_ms| self.phases[0].renew && rolling_ms < self.ttl_ms_max) {
            return Err(Refusal::invalid("ttl_ms_max", "must not be longer than rolling_ms"));
        }
        if !(0..=WAIT_MS_MAX).contains(&self.max_wait_ms) {
            return Err(Refusal::invalid("max_wait_ms", "must be 0 to 10 minutes"));
        }
        if !(0..=LOCK_DELAY_MS_MAX).contains(&self.lock_delay_ms) {
            return Err(Refusal::invalid("lock_delay_ms", "must be 0 to 1 hour"));
        }
        Ok(())
    }

    fn validate_statuses(&self) -> Result<(), Refusal> {
        if self.claimable.is_empty() || self.claimable.len() > STATUSES_MAX {
            return Err(Refusal::invalid("claimable", "must name 1 to 32 statuses"));
        }
        if self.finished.len() > STATUSES_MAX {
            return Err(Refusal::invalid("finished", "must name at most 32 statuses"));
        }
        if self.finished.iter().any(|status| self.claimable.contains(status)) {
            return Err(Refusal::invalid("finished", "a status cannot be both claimable and finished"));
        }
        if self.status_on_claim.as_ref().is_some_and(|status| !self.claimable.contains(status)) {
            return Err(Refusal::invalid(
                "status_on_claim",
                "must be claimable, or an expired claim would lock its items for ever",
            ));
        }
        Ok(())
    }
}

fn status(word: &str) -> Status {
    Status::new(word).expect("a preset's status is valid")
}

fn statuses(words: &[&str]) -> Vec<Status> {
    words.iter().map(|word| status(word)).collect()
}
