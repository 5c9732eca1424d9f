//! Policies: the presets are the requirements' defaults, and one that cannot work is refused.

use tenure_core::limits::{LOCK_DELAY_MS_MAX, TTL_MS_MAX, WAIT_MS_MAX};
use tenure_core::{AtEnd, Phase, Policy, Refusal, Status};

use crate::world::status;

fn phase(name: &str, ttl_ms: i64, renew: bool, at_end: AtEnd) -> Phase {
    Phase { name: name.into(), ttl_ms, renew, at_end, side: false }
}

fn words(statuses: &[Status]) -> Vec<&str> {
    statuses.iter().map(Status::as_str).collect()
}

#[test]
fn every_preset_is_valid_and_found_by_its_kind() {
    for kind in Policy::preset_kinds() {
        let policy = Policy::preset(kind).unwrap();
        assert_eq!(policy.validate(), Ok(()), "{kind}");
        assert!(!policy.phases.is_empty());
    }
    for kind in ["", "Task", "tasks", "custom"] {
        assert_eq!(Policy::preset(kind), None, "{kind}");
    }
}

/// T: lease TTL 180 s · heartbeat 10 s · idle guard 120 s · rolling timeout 900 s. T3.
#[test]
fn t21_the_task_preset_has_the_defaults_of_the_requirements() {
    let policy = Policy::task();
    assert_eq!(policy.phases, [phase("editing", 180_000, true, AtEnd::Release)]);
    assert_eq!(policy.heartbeat_ms, 10_000);
    assert_eq!((policy.idle_guard_ms, policy.rolling_ms), (Some(120_000), Some(900_000)));
    assert_eq!(words(&policy.claimable), ["ready", "processing", "partially_completed"]);
    assert_eq!(words(&policy.finished), ["completed", "cancelled"]);
    assert_eq!((policy.max_items, policy.lock_delay_ms), (1, 0));
    assert!(!policy.create_on_claim && !policy.one_claim_per_session && !policy.session_exclusive);
}

/// R: at most 10 numbers · selection 600 s · checkout 300 s. R3, R7, R8.
#[test]
fn r07_the_raffle_preset_has_the_defaults_of_the_requirements() {
    let policy = Policy::raffle();
    let selection = phase("selection", 600_000, false, AtEnd::Advance);
    let (walk, side): (Vec<_>, Vec<_>) = policy.phases.iter().cloned().partition(|phase| !phase.side);
    assert_eq!(walk, [selection, phase("checkout", 300_000, false, AtEnd::Release)]);
    let side: Vec<_> = side.iter().map(|phase| (&*phase.name, phase.ttl_ms)).collect();
    assert_eq!(side, [("paying", 360_000), ("verification", 43_200_000)]);
    assert_eq!(policy.max_items, 10);
    assert!(policy.one_claim_per_session && !policy.create_on_claim && !policy.session_exclusive);
    assert_eq!((policy.idle_guard_ms, policy.rolling_ms), (None, None));
    assert_eq!((words(&policy.claimable), words(&policy.finished)), (vec!["available"], vec!["sold"]));
    assert_eq!(policy.status_on_claim, None);
}

/// J: TTL 300 s · refresh 60 s. J1: the caller may name another TTL. J2.
#[test]
fn j01_the_analysis_preset_has_the_defaults_of_the_requirements() {
    let policy = Policy::analysis();
    assert_eq!(policy.phases, [phase("running", 300_000, true, AtEnd::Release)]);
    assert_eq!(policy.heartbeat_ms, 60_000);
    assert_eq!(words(&policy.finished), ["READY", "FAILED"]);
    assert!(policy.ttl_ms_min < 300_000 && policy.ttl_ms_max > 300_000);
    assert_eq!((policy.idle_guard_ms, policy.rolling_ms, policy.max_items), (None, None, 1));
    assert!(policy.session_exclusive, "J4: workers share a key, and one of them runs it");
}

/// L: TTL 300 s · heartbeat 120 s.
#[test]
fn l03_the_image_preset_has_the_defaults_of_the_requirements() {
    let policy = Policy::image();
    assert_eq!(policy.phases, [phase("annotating", 300_000, true, AtEnd::Release)]);
    assert_eq!((policy.heartbeat_ms, policy.max_items), (120_000, 1));
    assert_eq!((policy.idle_guard_ms, policy.rolling_ms, policy.status_on_claim), (None, None, None));
    assert!(!policy.session_exclusive);
}

#[test]
fn the_lock_preset_needs_nothing_made_beforehand() {
    let policy = Policy::lock();
    assert!(policy.create_on_claim && policy.session_exclusive);
    assert_eq!((policy.ttl_ms_min, policy.ttl_ms_max, policy.max_items), (1_000, 86_400_000, 100));
}

type Change = fn(&mut Policy);

/// Each change makes a good policy bad, and the refusal names the field.
#[test]
fn a_policy_that_cannot_work_is_refused_with_the_fields_name() {
    let table: &[(&str, Change)] = &[
        ("phases", |p| p.phases.clear()),
        ("phases", |p| {
            p.phases = (0..9).map(|n| phase(&n.to_string(), 60_000, true, AtEnd::Release)).collect();
        }),
        ("phases[0].name", |p| p.phases[0].name = "".into()),
        ("phases[0].name", |p| p.phases[0].name = "two words".into()),
        ("phases[1].name", |p| p.phases[1].name = "first".into()),
        ("phases[0].ttl_ms", |p| p.phases[0].ttl_ms = 999),
        ("phases[0].ttl_ms", |p| p.phases[0].ttl_ms = -1),
        ("phases[1].ttl_ms", |p| p.phases[1].ttl_ms = TTL_MS_MAX + 1),
        ("phases[1].at_end", |p| p.phases[1].at_end = AtEnd::Advance),
        ("phases[0].side", |p| p.phases[0].side = true),
        ("phases[0].at_end", |p| p.phases[1].side = true),
        ("idle_guard_ms", |p| p.idle_guard_ms = Some(999)),
        ("idle_guard_ms", |p| p.idle_guard_ms = Some(TTL_MS_MAX + 1)),
        ("idle_guard_ms", |p| {
            p.phases.iter_mut().for_each(|phase| phase.renew = false);
            p.idle_guard_ms = Some(60_000);
        }),
        ("rolling_ms", |p| p.rolling_ms = Some(59_999)),
        ("rolling_ms", |p| p.rolling_ms = Some(TTL_MS_MAX + 1)),
        ("rolling_ms", |p| {
            p.phases.iter_mut().for_each(|phase| phase.renew = false);
            p.rolling_ms = Some(600_000);
        }),
        ("heartbeat_ms", |p| p.heartbeat_ms = 99),
        ("heartbeat_ms", |p| p.heartbeat_ms = 30_000),
        ("ttl_ms_min", |p| p.ttl_ms_min = 999),
        ("ttl_ms_min", |p| p.ttl_ms_min = 60_001),
        ("ttl_ms_max", |p| p.ttl_ms_max = 59_999),
        ("ttl_ms_max", |p| p.ttl_ms_max = TTL_MS_MAX + 1),
        ("ttl_ms_max", |p| (p.rolling_ms, p.ttl_ms_max) = (Some(70_000), 70_001)),
        ("max_wait_ms", |p| p.max_wait_ms = -1),
        ("max_wait_ms", |p| p.max_wait_ms = WAIT_MS_MAX + 1),
        ("lock_delay_ms", |p| p.lock_delay_ms = -1),
        ("lock_delay_ms", |p| p.lock_delay_ms = LOCK_DELAY_MS_MAX + 1),
        ("claimable", |p| p.claimable.clear()),
        ("claimable", |p| p.claimable = (0..33).map(|n| status(&n.to_string())).collect()),
        ("finished", |p| p.finished = (0..33).map(|n| status(&n.to_string())).collect()),
        ("finished", |p| p.finished.push(p.claimable[0].clone())),
        ("status_on_claim", |p| p.status_on_claim = Some(status("unknown"))),
        ("status_on_claim", |p| p.status_on_claim = Some(p.finished[0].clone())),
        ("max_items", |p| p.max_items = 0),
        ("max_items", |p| p.max_items = 101),
        ("max_claims_per_holder", |p| p.max_claims_per_holder = Some(0)),
    ];
    for (index, (named, change)) in table.iter().enumerate() {
        let mut policy = good();
        change(&mut policy);
        match policy.validate() {
            Err(Refusal::Invalid { field, .. }) => assert_eq!(&*field, *named, "row {index}"),
            other => panic!("row {index}, {named}: {other:?}"),
        }
    }
}

/// The same fields at their very limits.
#[test]
fn a_policy_at_its_limits_is_good() {
    let table: &[Change] = &[
        |_| {},
        |p| p.phases = (0..8).map(|n| phase(&n.to_string(), 60_000, true, AtEnd::Release)).collect(),
        |p| (p.phases[0].at_end, p.phases[1].renew) = (AtEnd::Release, false),
        |p| p.phases[1].ttl_ms = TTL_MS_MAX,
        |p| p.idle_guard_ms = Some(1_000),
        |p| p.rolling_ms = Some(60_000),
        |p| p.rolling_ms = Some(TTL_MS_MAX),
        |p| p.heartbeat_ms = 100,
        |p| p.heartbeat_ms = 29_999,
        |p| (p.ttl_ms_min, p.ttl_ms_max) = (1_000, TTL_MS_MAX),
        |p| (p.rolling_ms, p.ttl_ms_max) = (Some(70_000), 70_000),
        |p| p.max_wait_ms = 0,
        |p| p.max_wait_ms = WAIT_MS_MAX,
        |p| p.lock_delay_ms = LOCK_DELAY_MS_MAX,
        |p| p.claimable = (0..32).map(|n| status(&n.to_string())).collect(),
        |p| p.finished.clear(),
        |p| p.status_on_claim = Some(p.claimable[0].clone()),
        |p| p.max_items = 100,
        |p| p.max_claims_per_holder = Some(1),
    ];
    for (index, change) in table.iter().enumerate() {
        let mut policy = good();
        change(&mut policy);
        assert_eq!(policy.validate(), Ok(()), "row {index}");
    }
}

fn good() -> Policy {
    Policy {
        phases: vec![
            phase("first", 60_000, true, AtEnd::Advance),
            phase("second", 30_000, true, AtEnd::Release),
        ],
        heartbeat_ms: 10_000,
        claimable: vec![status("open")],
        finished: vec![status("done")],
        ttl_ms_min: 60_000,
        ttl_ms_max: 60_000,
        ..Policy::image()
    }
}

#[test]
fn the_first_claimable_status_is_a_new_items_own() {
    assert_eq!(Policy::task().initial_status().as_str(), "ready");
    assert_eq!(Policy::raffle().initial_status().as_str(), "available");
}

#[test]
fn a_phase_is_found_with_the_one_after_it() {
    let policy = Policy::raffle();
    let (selection, next) = policy.phase("selection").unwrap();
    assert_eq!((&*selection.name, &*next.unwrap().name), ("selection", "checkout"));
    assert_eq!(policy.phase("checkout").unwrap().1, None);
    assert_eq!(policy.phase("paid"), None);
    assert_eq!(policy.first_phase(), selection);
}

#[test]
fn a_policy_comes_back_from_json_and_unknown_fields_are_refused() {
    for kind in Policy::preset_kinds() {
        let policy = Policy::preset(kind).unwrap();
        let mut value = serde_json::to_value(&policy).unwrap();
        assert_eq!(serde_json::from_value::<Policy>(value.clone()).unwrap(), *policy);
        let bytes = postcard::to_stdvec(&policy).unwrap();
        assert_eq!(postcard::from_bytes::<Policy>(&bytes).unwrap(), *policy);
        value["phases"][0]["ttl"] = 1.into();
        assert!(serde_json::from_value::<Policy>(value.clone()).is_err());
        value["phases"][0].as_object_mut().unwrap().remove("ttl");
        value["ttl_ms"] = 1.into();
        assert!(serde_json::from_value::<Policy>(value).is_err());
    }
}
