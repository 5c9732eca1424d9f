//! `spoil` SPOILS: bytes that were right, changed in a few places, the same way for the same number, so that a number names a
//! failure. Parsers are tested with it where they live; `fuzz/` runs those that can be reached from outside.
//!
//! *Deliberately absent:* any knowledge of what is spoiled.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Spoiled inputs for each parser in the test command.
pub const INPUTS: u64 = 10_000;
/// The same in a soak.
pub const INPUTS_IN_A_SOAK: u64 = 10_000_000;
/// The variable that asks for those: `cargo xtask soak` sets it.
const SOAK: &str = "TENURE_SOAK";
/// How much of an input is shown when it breaks something.
const SHOWN_BYTES_MAX: usize = 2_000;

/// Words that parsers know.
const WORDS: [&[u8]; 18] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\0",
    b"\r\n",
    b"%2f",
    b"~",
];

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// From 0, below this.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % end.max(1)
    }
}

/// How many were taken and how many were refused, of those that were spoiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// As if nothing were wrong with them; often nothing is.
    pub taken: u64,
    /// With a clean error.
    pub refused: u64,
}

impl Judged {
    /// The spoiling reaches both sides: not all is still right, and not all is refused at the first byte.
    pub fn reaches_both(self) -> bool {
        self.taken.min(self.refused) >= (self.taken + self.refused) / 100
    }
}

/// How many spoiled inputs a run is to have.
pub fn inputs() -> u64 {
    if std::env::var_os(SOAK).is_some() { INPUTS_IN_A_SOAK } else { INPUTS }
}

/// Gives a parser every input of the corpus, which it takes, and then as many spoiled ones as the run is to have.
/// `judge` says whether it took the input, or which promise is broken; a panic is one, too. Panics with the number and
/// the bytes of the first input that breaks something.
pub fn spoiled(corpus: &[Vec<u8>], mut judge: impl FnMut(&[u8]) -> Result<bool, String>) -> Judged {
    let mut given = |what: &str, bytes: &[u8]| {
        let judged = catch_unwind(AssertUnwindSafe(|| judge(bytes)));
        let broken = match judged {
            Ok(Ok(is_taken)) => return is_taken,
            Ok(Err(broken)) => broken,
            Err(_) => "it panicked".to_owned(),
        };
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        panic!("{what}: {broken}\n{} bytes: {}", bytes.len(), shown.escape_ascii());
    };
    for (number, whole) in corpus.iter().enumerate() {
        assert!(given(&format!("original {number}"), whole), "original {number} is refused");
    }
    let mut judged = Judged::default();
    for number in 1..=inputs() {
        let bytes = mutate(corpus, &mut Random::new(number));
        let is_taken = given(&format!("input {number}"), &bytes);
        judged.taken += u64::from(is_taken);
        judged.refused += u64::from(!is_taken);
    }
    judged
}

/// One of the corpus, changed in one to six places.
pub fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        match random.below(9) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 if at < bytes.len() => bytes[at] = u8::try_from(random.below(256)).unwrap_or(0),
            3 if at < bytes.len() => {
                let end = (at + 1 + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 if at < bytes.len() => {
                let end = (at + 1 + random.below(64)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            5 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            // Where lines mean something each by itself, one more of them is what somebody would try.
            6 => {
                let other = &corpus[random.below(corpus.len())];
                let lines: Vec<_> = other.split_inclusive(|byte| *byte == b'\n').collect();
                let line = lines.get(random.below(lines.len())).copied().unwrap_or_default();
                let to = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                bytes.splice(to..to, line.iter().copied());
            }
            _ => {
                let word = WORDS[random.below(WORDS.len())];
                bytes.splice(at..at, word.iter().copied());
            }
        }
    }
    // Longer than anything that is taken.
    bytes.truncate(256 << 10);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_number_spoils_in_the_same_way_and_others_differ() {
        let corpus = [b"{\"a\": 1}\n".to_vec(), b"[2, 3]".to_vec()];
        let spoil = |number| mutate(&corpus, &mut Random::new(number));
        let all: std::collections::BTreeSet<_> = (1..=1_000).map(spoil).collect();
        assert_eq!(all, (1..=1_000).map(spoil).collect());
        assert!(all.len() > 800, "{}", all.len());
    }

    #[test]
    #[should_panic(expected = "input 7: seven")]
    fn the_input_that_breaks_something_is_named() {
        let mut left = 8;
        spoiled(&[b"abc".to_vec()], |_| {
            left -= 1;
            if left == 0 { Err("seven".to_owned()) } else { Ok(true) }
        });
    }
}
