//! What happened, line by line: the newest lines for whoever reads a failure, and a hash over all of
//! them, so that two runs of a seed can be compared.

use std::collections::VecDeque;
use std::fmt;

const KEPT_LINES: usize = 40;

/// The lines of one seed.
#[derive(Clone, Debug)]
pub struct History {
    newest: VecDeque<String>,
    hash: u64,
    lines: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { newest: VecDeque::new(), hash: 0xcbf2_9ce4_8422_2325, lines: 0 }
    }
}

impl History {
    /// Adds a line at a real time.
    pub fn add(&mut self, real_ms: i64, line: fmt::Arguments<'_>) {
        let line = format!("{real_ms:>9} {line}");
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if self.newest.len() == KEPT_LINES {
            self.newest.pop_front();
        }
        self.newest.push_back(line);
    }

    /// FNV-1a over every line.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many there were.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The newest of them.
    pub fn newest(&self) -> impl Iterator<Item = &str> {
        self.newest.iter().map(String::as_str)
    }
}
