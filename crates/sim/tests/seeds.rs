//! Seeds that once failed stay. `seeds.txt` says what each of them found.

use tenure_sim::{On, Options, run};

#[test]
fn seeds_that_once_failed_pass() {
    let list = include_str!("seeds.txt");
    let mut count = 0;
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let mut words = line.split_whitespace();
        let on = match words.next() {
            Some("disk") => On::Disk,
            Some("memory") => On::Memory,
            other => panic!("{other:?} is no store"),
        };
        let seed = words.next().and_then(|seed| seed.parse().ok()).expect("a seed follows");
        if let Some(violation) = run(seed, &Options { on, ..Options::default() }).violation {
            panic!("seed {seed} broke {violation}; it stands for: {line}");
        }
        count += 1;
    }
    assert!(count > 0, "the list is empty");
}
