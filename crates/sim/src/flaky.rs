//! The memory store on a machine whose memory survives: what remains to go wrong is the commit itself.
//! It may be refused, or fail so that nobody knows whether it took place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tenure_engine::{Ticket, Turn};
use tenure_store::memory::{Memory, MemoryView};
use tenure_store::{Batch, Done, Error, Reader, Store, Want};

use crate::machine::Machine;
use crate::rng::Rng;

const FINE: u8 = 0;
const FULL: u8 = 1;
const AWAY: u8 = 2;
const FAILS_BEFORE: u8 = 3;
const FAILS_AFTER: u8 = 4;
const FIRED: u8 = 5;

/// A memory store whose commits can fail.
pub(crate) struct Flaky {
    inner: Memory,
    fault: Arc<AtomicU8>,
    /// What was begun and is not over.
    begun: Option<Batch>,
}

/// Its machine.
pub(crate) struct FlakyMachine {
    kept: Memory,
    fault: Arc<AtomicU8>,
}

impl FlakyMachine {
    pub(crate) fn new() -> Self {
        Self { kept: Memory::default(), fault: Arc::default() }
    }
}

impl Machine for FlakyMachine {
    type Store = Flaky;

    fn start(&mut self) -> Result<Flaky, Error> {
        Ok(Flaky { inner: self.kept.clone(), fault: self.fault.clone(), begun: None })
    }

    fn arm(&mut self, rng: &mut Rng) {
        let fault = *rng.pick(&[FULL, AWAY, FAILS_BEFORE, FAILS_AFTER]);
        self.fault.store(fault, Ordering::Relaxed);
    }

    fn disarm(&mut self) -> bool {
        self.fault.swap(FINE, Ordering::Relaxed) == FIRED
    }

    fn crash<T: Ticket>(&mut self, turn: Turn<Flaky, T>, _rng: &mut Rng) {
        drop(turn);
    }

    fn reboot(&mut self, _rng: &mut Rng) {}

    fn stopped(&mut self, store: Flaky) {
        drop(store);
    }

    fn errand(&mut self, _store: &mut Flaky, _rng: &mut Rng) -> Result<(), Error> {
        Ok(())
    }
}

impl Store for Flaky {
    type View<'a> = MemoryView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<MemoryView<'_>, Error> {
        self.inner.load(wants)
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let fault = self.fault.load(Ordering::Relaxed);
        if fault == FINE || fault == FIRED {
            return self.inner.commit(batch);
        }
        self.fault.store(FIRED, Ordering::Relaxed);
        let failed =
            || Error::SyncFailed { path: "memory".into(), source: std::io::Error::other("simulated") };
        match fault {
            FULL => Err(Error::Full { path: "memory".into() }),
            AWAY => Err(Error::Away { detail: "simulated".to_owned() }),
            FAILS_AFTER => {
                self.inner.commit(batch)?;
                Err(failed())
            }
            _ => Err(failed()),
        }
    }

    fn begin(&mut self, batch: Batch, done: Done) -> Result<(), Error> {
        self.begun = Some(batch);
        done();
        Ok(())
    }

    fn complete(&mut self) -> Result<(), Error> {
        self.begun.take().map_or(Ok(()), |batch| self.commit(batch))
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn high_water_ms(&self) -> i64 {
        self.inner.high_water_ms()
    }

    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.inner.reader()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.inner.close()
    }
}
