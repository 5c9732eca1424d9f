//! The simulator finds bugs: each planted one is caught within a thousand seeds, and none where there
//! is none.

use tenure_sim::{Bug, On, Options, run};

const SEEDS_MAX: u64 = 1_000;

#[test]
fn every_planted_bug_is_caught() {
    let mut missed = Vec::new();
    for (name, bug) in Bug::ALL {
        let options = Options { bug: Some(bug), ..Options::default() };
        let caught =
            (1..=SEEDS_MAX).find_map(|seed| run(seed, &options).violation.map(|found| (seed, found)));
        match caught {
            Some((seed, violation)) => println!("{name}: seed {seed}, {}", violation.invariant),
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "not caught in {SEEDS_MAX} seeds: {missed:?}");
}

#[test]
fn without_a_bug_every_promise_holds() {
    for on in [On::Disk, On::Memory] {
        let options = Options { on, ..Options::default() };
        for seed in 1..=100 {
            if let Some(violation) = run(seed, &options).violation {
                panic!("seed {seed} on {on:?} broke {violation}");
            }
        }
    }
}

#[test]
fn a_seed_is_one_history() {
    for on in [On::Disk, On::Memory] {
        let options = Options { on, ..Options::default() };
        for seed in [1, 2, 77, 12_345] {
            let (first, again) = (run(seed, &options), run(seed, &options));
            assert_eq!(first.history.hash(), again.history.hash(), "seed {seed} on {on:?}");
            assert_eq!(first.history.lines(), again.history.lines());
            assert_ne!(first.history.hash(), run(seed + 1, &options).history.hash());
        }
    }
}
