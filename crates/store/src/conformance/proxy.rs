//! A wire between a store and its database that can be cut, at the worst moment too.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What happens to the next COMMIT.
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

#[derive(Default)]
struct State {
    cut: AtomicU8,
    cuts: AtomicU64,
    /// Connections of an older generation are closed at their next byte.
    generation: AtomicU64,
}

impl State {
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

    /// What is to happen to the next COMMIT.
    pub fn cut(&self, cut: Cut) {
        self.state.cut.store(cut as u8, Ordering::SeqCst);
    }

    /// How many times it was cut.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
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
    const COMMIT: &[u8] = b"COMMIT\0";
    let mut buffer = vec![0; 64 << 10];
    // The end of what came before, since the word may come in two parts.
    let mut seen = Vec::new();
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer) else { return };
        if state.generation.load(Ordering::SeqCst) != generation {
            return;
        }
        seen.extend_from_slice(&buffer[..count]);
        let commits = seen.windows(COMMIT.len()).any(|window| window == COMMIT);
        seen.drain(..seen.len().saturating_sub(COMMIT.len() - 1));
        if commits && is_request {
            if state.take(Cut::BeforeCommit) {
                return;
            }
            if state.take(Cut::AfterCommit) {
                lost.store(1, Ordering::SeqCst);
            }
        }
        if !is_request && lost.load(Ordering::SeqCst) == 1 {
            if commits {
                return;
            }
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
