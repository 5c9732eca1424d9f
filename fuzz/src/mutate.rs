//! Spoils bytes.

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
