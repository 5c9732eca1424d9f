//! A wire between a store and its database that can be cut, at the worst moment too.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::postgres::BEGIN_BATCH;

const COMMIT: &[u8] = b"COMMIT\0";
const ROLLBACK: &[u8] = b"ROLLBACK\0";

/// What happens to the next COMMIT of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cut {
    /// It goes through.
    Never = 0,
    /// It never reaches the database.
    BeforeCommit = 1,
    /// It does, and the answer is lost.
    AfterCommit = 2,
}

/// Passes bytes on to a database on this machine.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

/// What one connection asks of the database. A reader ends its transaction with COMMIT, too, and so does who prepares
/// statements, tidies or migrates: they do so whenever they like, and none of it is a batch's.
#[derive(Debug, Default)]
pub struct Asked {
    /// What may be the beginning of a word that goes on in the next piece.
    tail: Vec<u8>,
    is_batch: bool,
}

impl Asked {
    /// Takes the next bytes: whether they commit a batch.
    pub fn commits(&mut self, piece: &[u8]) -> bool {
        // Its text ends here: others go on after the same words.
        let begin = format!("{BEGIN_BATCH}\0");
        let words = [begin.as_bytes(), COMMIT, ROLLBACK];
        self.tail.extend_from_slice(piece);
        let (mut from, mut commits) = (0, false);
        while let Some((at, word)) = first_of(&words, &self.tail[from..]) {
            commits |= self.is_batch && word == COMMIT;
            self.is_batch = word == begin.as_bytes();
            from += at + word.len();
        }
        let longest = words.map(<[u8]>::len).into_iter().max().unwrap_or(1);
        self.tail.drain(..from.max(self.tail.len().saturating_sub(longest - 1)));
        commits
    }
}

/// Where the first of these words is, and which.
fn first_of<'a>(words: &[&'a [u8]], bytes: &[u8]) -> Option<(usize, &'a [u8])> {
    (0..bytes.len()).find_map(|at| {
        let word = words.iter().find(|word| bytes[at..].starts_with(word))?;
        Some((at, *word))
    })
}

#[derive(Default)]
struct State {
    cut: AtomicU8,
    cuts: AtomicU64,
    /// Connections of an older generation are closed at their next byte.
    generation: AtomicU64,
    /// Nothing passes, and nobody hears that it does not.
    is_silent: Mutex<bool>,
    speaks: Condvar,
}

impl State {
    /// Waits while nothing passes.
    fn wait_to_speak(&self) {
        let mut is_silent = self.is_silent.lock();
        while *is_silent {
            self.speaks.wait(&mut is_silent);
        }
    }

    /// Takes the next cut, if it is this one.
    fn take(&self, cut: Cut) -> bool {
        let never = Cut::Never as u8;
        let taken = self.cut.compare_exchange(cut as u8, never, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        self.cuts.fetch_add(u64::from(taken), Ordering::SeqCst);
        taken
    }
}

impl Proxy {
    /// Listens on a port of its own.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let own = listener.local_addr().expect("bound").port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
                join(&near, &far, &shared);
            }
        });
        Self { port: own, state }
    }

    /// The address of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://tenure@127.0.0.1:{}/{database}", self.port)
    }

    /// What is to happen to the next COMMIT of a batch.
    pub fn cut(&self, cut: Cut) {
        self.state.cut.store(cut as u8, Ordering::SeqCst);
    }

    /// How many times it was cut.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// From here on nothing passes, and every connection stays open, new ones too: what a network does that has lost a
    /// machine.
    pub fn fall_silent(&self) {
        *self.state.is_silent.lock() = true;
    }

    /// Whatever was held back passes, and everything after it.
    pub fn speak_again(&self) {
        *self.state.is_silent.lock() = false;
        self.state.speaks.notify_all();
    }

    /// Closes everything that is connected now.
    pub fn cut_all(&self) {
        self.state.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("port", &self.port).finish_non_exhaustive()
    }
}

fn join(near: &TcpStream, far: &TcpStream, state: &Arc<State>) {
    let generation = state.generation.load(Ordering::SeqCst);
    let lost = Arc::new(AtomicU8::new(0));
    for (from, to, is_request) in [(near, far, true), (far, near, false)] {
        let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
        let (state, lost) = (state.clone(), lost.clone());
        std::thread::spawn(move || {
            pass(&from, &to, is_request, generation, &state, &lost);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
}

/// Passes bytes on until the wire is cut. `lost`: the answer to a COMMIT is awaited, and then the end.
fn pass(
    mut from: &TcpStream,
    mut to: &TcpStream,
    is_request: bool,
    generation: u64,
    state: &State,
    lost: &AtomicU8,
) {
    let mut buffer = vec![0; 64 << 10];
    // The end of what came before, since the word may come in two parts.
    let mut seen = Vec::new();
    let mut asked = Asked::default();
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer) else { return };
        state.wait_to_speak();
        if state.generation.load(Ordering::SeqCst) != generation {
            return;
        }
        if is_request && asked.commits(&buffer[..count]) {
            if state.take(Cut::BeforeCommit) {
                return;
            }
            if state.take(Cut::AfterCommit) {
                lost.store(1, Ordering::SeqCst);
            }
        }
        if !is_request && lost.load(Ordering::SeqCst) == 1 {
            seen.extend_from_slice(&buffer[..count]);
            if seen.windows(COMMIT.len()).any(|window| window == COMMIT) {
                return;
            }
            seen.drain(..seen.len().saturating_sub(COMMIT.len() - 1));
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_batchs_own_commit_is_one() {
        let begin = format!("{BEGIN_BATCH}\0");
        let check = |expected: usize, words: &[&str]| {
            let bytes = words.concat().into_bytes();
            for size in [1, 7, bytes.len()] {
                let mut asked = Asked::default();
                let count = bytes.chunks(size).filter(|piece| asked.commits(piece)).count();
                assert_eq!(count, expected, "{words:?} in pieces of {size}");
            }
        };
        check(1, &[&begin, "UPDATE", "COMMIT\0"]);
        check(0, &["BEGIN\0", "SELECT 1 FOR UPDATE", "COMMIT\0"]);
        check(0, &[BEGIN_BATCH, " READ ONLY; SET LOCAL lock_timeout", "COMMIT\0"]);
        check(0, &[BEGIN_BATCH, "; SET LOCAL lock_timeout\0", "COMMIT\0"]);
        check(0, &[&begin, "ROLLBACK\0", "BEGIN\0", "COMMIT\0"]);
        check(1, &["COMMIT\0", &begin, "COMMIT\0", "COMMIT\0"]);
    }
}
