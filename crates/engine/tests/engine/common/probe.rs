//! The memory store with a hand on it: commits are counted, can be held up and made to fail.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tenure_store::memory::Memory;
use tenure_store::{Batch, Done, Error, Reader, ReplyKey, Store, Want, encoded_bytes};

/// A store whose every commit passes through a test's hands. Clones share everything, so a clone
/// dropped or kept is what a crash leaves of it.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Shared>);

#[derive(Default)]
struct Shared {
    control: Mutex<Control>,
    changed: Condvar,
}

#[derive(Default)]
struct Control {
    /// Entries of each committed batch.
    batches: Vec<usize>,
    /// Bytes of the largest batch.
    largest: usize,
    /// Keys whose replies were wanted.
    wanted: Vec<ReplyKey>,
    failures: VecDeque<Fail>,
    load_failures: VecDeque<Fail>,
    held: bool,
    inside: bool,
    closed: usize,
}

/// Commits are held up while this lives.
pub(crate) struct Hold(Probe);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.control.lock().held = false;
        self.0.0.changed.notify_all();
    }
}

/// How a commit fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fail {
    /// This one succeeds.
    Not,
    Full,
    Away,
    Sync,
    Panic,
}

impl Probe {
    pub(crate) fn store(&self) -> ProbeStore {
        ProbeStore { memory: Memory::default(), probe: self.clone(), begun: None }
    }

    /// Entries of each batch committed so far.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.0.control.lock().batches.clone()
    }

    /// Bytes of the largest batch so far: its events and kept replies.
    pub(crate) fn largest(&self) -> usize {
        self.0.control.lock().largest
    }

    /// The keys whose replies were wanted since this was last asked.
    pub(crate) fn take_wanted(&self) -> Vec<ReplyKey> {
        std::mem::take(&mut self.0.control.lock().wanted)
    }

    /// The next commits fail like this, one each.
    pub(crate) fn fail(&self, failures: &[Fail]) {
        self.0.control.lock().failures.extend(failures);
    }

    /// What would have failed does not.
    pub(crate) fn heal(&self) {
        self.0.control.lock().failures.clear();
    }

    /// The next loads fail like this, one each.
    pub(crate) fn fail_loads(&self, failures: &[Fail]) {
        self.0.control.lock().load_failures.extend(failures);
    }

    /// The next commit does not return until the hold is dropped, also by a test that fails: an
    /// engine that is dropped after it can end.
    pub(crate) fn hold(&self) -> Hold {
        self.0.control.lock().held = true;
        Hold(self.clone())
    }

    /// Waits until the engine is inside a commit that is held.
    pub(crate) fn wait_held(&self) {
        let mut control = self.0.control.lock();
        while !control.inside {
            self.0.changed.wait(&mut control);
        }
    }

    /// How often the store was closed.
    pub(crate) fn closed(&self) -> usize {
        self.0.control.lock().closed
    }
}

impl Fail {
    fn error(self) -> Error {
        match self {
            Self::Full => Error::Full { path: "probe".into() },
            Self::Away => Error::Away { detail: "probe".to_owned() },
            Self::Sync => Error::SyncFailed { path: "probe".into(), source: std::io::Error::other("probe") },
            Self::Not => unreachable!("it does not fail"),
            Self::Panic => panic!("the probe was told to panic"),
        }
    }
}

fn bytes_of(batch: &Batch) -> usize {
    let events = batch.entries.iter().flat_map(|entry| &entry.events).map(|sealed| sealed.bytes.len());
    let kept = batch.entries.iter().filter_map(|entry| entry.kept.as_ref());
    events.sum::<usize>() + kept.map(|(_, kept)| encoded_bytes(&**kept)).sum::<usize>()
}

#[derive(Clone)]
pub(crate) struct ProbeStore {
    memory: Memory,
    probe: Probe,
    begun: Option<Batch>,
}

impl Store for ProbeStore {
    type View<'a> = <Memory as Store>::View<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<Self::View<'_>, Error> {
        let mut control = self.probe.0.control.lock();
        control.wanted.extend(wants.iter().filter_map(|want| want.reply.clone()));
        let failure = control.load_failures.pop_front();
        drop(control);
        match failure {
            Some(failure) => Err(failure.error()),
            None => self.memory.load(wants),
        }
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let mut control = self.probe.0.control.lock();
        while control.held {
            control.inside = true;
            self.probe.0.changed.notify_all();
            self.probe.0.changed.wait(&mut control);
        }
        control.inside = false;
        if let Some(failure) = control.failures.pop_front().filter(|failure| !matches!(failure, Fail::Not)) {
            drop(control);
            return Err(failure.error());
        }
        control.batches.push(batch.entries.len());
        control.largest = control.largest.max(bytes_of(&batch));
        drop(control);
        self.memory.commit(batch)
    }

    /// It is committed, or fails, when it is waited for.
    fn begin(&mut self, batch: Batch, done: Done) -> Result<(), Error> {
        self.begun = Some(batch);
        done();
        Ok(())
    }

    fn complete(&mut self) -> Result<(), Error> {
        self.begun.take().map_or(Ok(()), |batch| self.commit(batch))
    }

    fn high_water_ms(&self) -> i64 {
        self.memory.high_water_ms()
    }

    fn epoch(&self) -> u64 {
        self.memory.epoch()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.memory.reader()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.probe.0.control.lock().closed += 1;
        self.memory.close()
    }
}
