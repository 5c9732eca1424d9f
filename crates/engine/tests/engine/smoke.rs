//! Real threads, random commands, a clock that moves under them; then the events are audited.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tenure_core::command::How;
use tenure_core::{Fact, ItemId, Reply, Sealed};
use tenure_engine::{Answer, Delivery, Engine, From, ManualClock, Options};

use crate::common::*;

const THREADS: u64 = 8;
const COMMANDS: u64 = 2_000;
const ITEMS: u64 = 12;

/// A small generator, so that a seed is a whole test.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What a thread saw.
#[derive(Default)]
struct Seen {
    granted: u64,
    released: u64,
}

fn work(engine: &Engine, clock: &ManualClock, who: u64) -> Seen {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (who + 1));
    let name = format!("p{who}");
    let mut seen = Seen::default();
    let mut own: Vec<u64> = Vec::new();
    for _ in 0..COMMANDS {
        match random.below(10) {
            0..=4 => {
                let count = 1 + random.below(3);
                let first = random.below(ITEMS);
                let ids: Vec<String> =
                    (0..count).map(|step| format!("i{}", (first + step) % ITEMS)).collect();
                let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                let mut ask =
                    acquire(&name, &ids).ttl(1_000 + i64::try_from(random.below(2_000)).expect("fits"));
                if random.below(4) == 0 {
                    ask = ask.wait(50);
                }
                let answer: Answer = engine.execute_blocking(ask);
                if let Ok(Reply::Acquired { claim, how }) = &answer.outcome {
                    assert!(answer.server_time_ms < claim.expires_at_ms);
                    if *how == How::New {
                        seen.granted += 1;
                        own.push(claim.number);
                    }
                }
            }
            5..=6 => {
                if let Some(claim) = own.pop()
                    && code(&engine.execute_blocking(release(&name, claim))) == "ok"
                {
                    seen.released += 1;
                }
            }
            7..=8 => {
                if let Some(claim) = own.last() {
                    engine.execute_blocking(heartbeat(&name, *claim));
                }
            }
            _ => {
                clock.advance(i64::try_from(random.below(200)).expect("fits"));
                engine.tick();
            }
        }
    }
    seen
}

/// Judges the events by themselves: no item is granted while another claim has it.
fn audit(events: &[Arc<Sealed>]) -> Seen {
    let mut holder: HashMap<&ItemId, u64> = HashMap::new();
    let mut deadline: HashMap<u64, i64> = HashMap::new();
    let mut fence: HashMap<&ItemId, u64> = HashMap::new();
    let mut seen = Seen::default();
    let mut now_ms = 0;
    for sealed in events {
        let event = &sealed.event;
        assert!(event.at_ms >= now_ms, "time never runs back");
        now_ms = event.at_ms;
        match &event.fact {
            Fact::Granted(grant) => {
                seen.granted += 1;
                for item in &grant.items {
                    let earlier = holder.insert(&item.id, event.seq);
                    assert_eq!(earlier, None, "I1: {:?} was granted while held", item.id);
                    let earlier = fence.insert(&item.id, event.seq);
                    assert!(earlier < Some(event.seq), "I2: tokens grow");
                }
                deadline.insert(event.seq, grant.expires_at_ms);
            }
            Fact::Ended(end) => {
                assert!(deadline.remove(&end.claim).is_some(), "I10: each claim ends once");
                seen.released += u64::from(end.reason.as_str() == "released");
                for item in end.items.iter() {
                    assert_eq!(holder.remove(item), Some(end.claim));
                }
            }
            Fact::Renewed { claim, .. } => assert!(deadline.contains_key(claim)),
            Fact::CollectionCreated => {}
            other => panic!("not asked for: {other:?}"),
        }
    }
    seen
}

#[test]
fn i01_i14_eight_threads_of_random_commands_never_overlap_and_leave_no_gap() {
    let clock = ManualClock::at(START_MS);
    let engine = Engine::start(Probe::default().store(), clock.clone(), Options::default()).expect("starts");
    let mut feed = engine.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes");
    let running = AtomicU64::new(THREADS);
    let failed = AtomicBool::new(false);
    let (mut granted, mut released) = (0, 0);
    let mut heard: Vec<Arc<Sealed>> = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|who| {
                let (engine, clock, running) = (&engine, &clock, &running);
                scope.spawn(move || {
                    let seen =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(engine, clock, who)));
                    running.fetch_sub(1, Ordering::SeqCst);
                    seen
                })
            })
            .collect();
        // Time must go on for those who wait, and the feed is read meanwhile.
        while running.load(Ordering::SeqCst) > 0 {
            clock.advance(1);
            engine.tick();
            while let Some(delivery) = feed.try_next().expect("readable") {
                if let Delivery::Events(events) = delivery {
                    heard.extend(events);
                }
            }
            std::thread::yield_now();
        }
        for thread in threads {
            match thread.join().expect("caught inside") {
                Ok(seen) => {
                    granted += seen.granted;
                    released += seen.released;
                }
                Err(_) => failed.store(true, Ordering::SeqCst),
            }
        }
    });
    assert!(!failed.load(Ordering::SeqCst), "a thread's own check failed");
    while let Some(delivery) = feed.try_next().expect("readable") {
        if let Delivery::Events(events) = delivery {
            heard.extend(events);
        }
    }
    let kept = events(&**engine.reader(), LOCKS);
    assert_eq!(heard, kept, "E2: what was heard live is what was kept, every event once and in order");
    let seen = audit(&kept);
    assert_eq!((seen.granted, seen.released), (granted, released), "each answer is one event, and no other");
    assert!(granted > 500, "the test did something: {granted}");
}
