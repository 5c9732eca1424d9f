//! What a seed's world is made of: collections of several kinds, their policies, the weather.

use std::sync::Arc;

use tenure_core::{AtEnd, CollectionKey, ItemId, Phase, Policy, Status, Text};

use crate::rng::Rng;

/// One collection and what can be claimed in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) key: CollectionKey,
    pub(crate) items: Vec<ItemId>,
}

/// How bad things are, per thousand.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Messages lost.
    pub(crate) loss: u64,
    /// Messages that arrive twice.
    pub(crate) duplicates: u64,
    /// The usual longest delay of a message.
    pub(crate) delay_ms: i64,
    /// Messages that take much longer.
    pub(crate) slow: u64,
    /// Turns that end in a fault of the disk.
    pub(crate) faults: u64,
    /// Turns after which the machine dies, or the server is stopped.
    pub(crate) crashes: u64,
    /// Turns after which the server pauses.
    pub(crate) pauses: u64,
    /// Requests with an idempotency key.
    pub(crate) keyed: u64,
    /// How long clients think, at most.
    pub(crate) think_ms: i64,
}

/// Everything that a seed decides before it begins.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) places: Vec<Place>,
    /// Policies that are set at the start.
    pub(crate) policies: Vec<(Text, Arc<Policy>)>,
    pub(crate) clients: usize,
    pub(crate) weather: Weather,
}

impl World {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut kinds = vec!["lock", "task", "raffle", "analysis", "image", "own", "other", "own", "other"];
        let mut places = Vec::new();
        for index in 0..2 + rng.below(3) {
            let kind = kinds.remove(rng.index(kinds.len()));
            let key = CollectionKey::from_parts(kind, &format!("c{index}")).expect("a plain name");
            let items = (0..2 + rng.below(5)).map(|item| name(&format!("i{item}"))).collect();
            places.push(Place { key, items });
        }
        let mut policies: Vec<(Text, Arc<Policy>)> = Vec::new();
        for kind in ["own", "other"] {
            policies.push((Text::from(kind), Arc::new(random_policy(rng))));
        }
        // Presets count in minutes. Some seeds shorten them, so that their claims end, too.
        for kind in Policy::preset_kinds() {
            if rng.chance(500) {
                let preset = Policy::preset(kind).expect("a preset has a policy");
                policies.push((Text::from(kind), Arc::new(hastened((*preset).clone()))));
            }
        }
        let calm = rng.chance(150);
        let weather = Weather {
            loss: if calm { 0 } else { rng.below(60) },
            duplicates: rng.below(80),
            delay_ms: *rng.pick(&[5, 30, 200]),
            slow: if calm { 0 } else { rng.below(40) },
            faults: if calm { 0 } else { *rng.pick(&[0, 2, 10, 40]) },
            crashes: if calm { 0 } else { *rng.pick(&[0, 2, 8, 20]) },
            pauses: *rng.pick(&[0, 5, 15]),
            keyed: *rng.pick(&[100, 500, 900]),
            think_ms: *rng.pick(&[50, 400, 1_500, 5_000]),
        };
        Self { places, policies, clients: 3 + rng.index(6), weather }
    }
}

/// A policy that can work, of any shape.
pub(crate) fn random_policy(rng: &mut Rng) -> Policy {
    let count = 1 + rng.weighted(&[5, 3, 2]);
    let mut phases: Vec<Phase> = (0..count)
        .map(|index| Phase {
            name: Text::from(format!("p{index}")),
            ttl_ms: *rng.pick(&[1_000, 1_500, 3_000, 8_000, 20_000]),
            renew: rng.chance(650),
            at_end: if index + 1 < count && rng.chance(600) { AtEnd::Advance } else { AtEnd::Release },
            side: false,
        })
        .collect();
    // One that nobody walks into, beside the others.
    if rng.chance(300) {
        let ttl_ms = *rng.pick(&[1_000, 3_000, 20_000]);
        let (name, renew) = (Text::from(format!("p{count}")), rng.chance(300));
        phases.push(Phase { name, ttl_ms, renew, at_end: AtEnd::Release, side: true });
    }
    let longest = phases.iter().filter(|phase| phase.renew).map(|phase| phase.ttl_ms).max();
    let first_ttl_ms = phases[0].ttl_ms;
    let ttl_ms_max = first_ttl_ms * rng.range(1, 3);
    let rolling_ms =
        longest.filter(|_| rng.chance(400)).map(|longest| longest.max(ttl_ms_max) + rng.range(0, 4_000));
    Policy {
        idle_guard_ms: longest.filter(|_| rng.chance(400)).map(|_| rng.range(1_000, 5_000)),
        rolling_ms,
        heartbeat_ms: 300,
        max_items: 1 + rng.index(4),
        claimable: vec![status("open"), status("again")],
        finished: vec![status("done")],
        status_on_claim: rng.chance(300).then(|| status("again")),
        create_on_claim: rng.chance(400),
        one_claim_per_session: rng.chance(250),
        session_exclusive: rng.chance(350),
        max_claims_per_holder: rng.chance(300).then(|| 1 + rng.index(3)),
        max_wait_ms: *rng.pick(&[0, 5_000, 30_000, 60_000]),
        lock_delay_ms: if rng.chance(400) { rng.range(1, 4_000) } else { 0 },
        ttl_ms_min: rng.range(1_000, first_ttl_ms),
        ttl_ms_max,
        phases,
    }
}

/// The same policy a hundred times faster.
fn hastened(mut policy: Policy) -> Policy {
    let faster = |ms: i64| (ms / 100).max(1_000);
    for phase in &mut policy.phases {
        phase.ttl_ms = faster(phase.ttl_ms);
    }
    let first_ttl_ms = policy.phases[0].ttl_ms;
    policy.idle_guard_ms = policy.idle_guard_ms.map(faster);
    policy.rolling_ms = policy.rolling_ms.map(faster);
    policy.heartbeat_ms = 300;
    policy.ttl_ms_min = policy.ttl_ms_min.min(first_ttl_ms).max(1_000);
    policy.ttl_ms_min = if policy.ttl_ms_min > first_ttl_ms { first_ttl_ms } else { policy.ttl_ms_min };
    policy.ttl_ms_max = faster(policy.ttl_ms_max).max(first_ttl_ms);
    policy
}

pub(crate) fn name(text: &str) -> ItemId {
    ItemId::new(text).expect("a plain name")
}

pub(crate) fn status(text: &str) -> Status {
    Status::new(text).expect("a plain word")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_workload_can_work() {
        let mut rng = Rng::new(7);
        for _ in 0..2_000 {
            random_policy(&mut rng).validate().unwrap();
            for (_, policy) in World::new(&mut rng).policies {
                policy.validate().unwrap();
            }
        }
    }
}
