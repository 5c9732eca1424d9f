//! A thread that writes and syncs, so that the next batch can be decided meanwhile. It is lent the journal for one record
//! at a time: at most one is ever unconfirmed, as without it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::disk::Disk;
use super::journal::Journal;
use crate::{Done, Error};

type Written<D> = (Journal<D>, Result<u64, Error>);

/// The owner's end.
pub(super) struct Writer<D: Disk> {
    /// `None` only while it is dropped, which ends the thread.
    jobs: Option<Sender<(Journal<D>, Done)>>,
    written: Receiver<Written<D>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Disk> Writer<D> {
    pub(super) fn start() -> Self {
        let (jobs, taken) = channel::<(Journal<D>, Done)>();
        let (give, written) = channel();
        let builder = std::thread::Builder::new().name("tenure-journal".to_owned());
        let work = move || {
            for (mut journal, done) in taken {
                let _telling = Telling(done);
                let outcome = journal.write();
                if give.send((journal, outcome)).is_err() {
                    break;
                }
            }
        };
        let thread = builder.spawn(work).expect("the system can start a thread");
        Self { jobs: Some(jobs), written, thread: Some(thread) }
    }

    /// Hands over a journal whose record is staged and has its place.
    pub(super) fn begin(&self, journal: Journal<D>, done: Done) -> Result<(), Error> {
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send((journal, done)).map_err(|_| gone())
    }

    /// Waits for it.
    pub(super) fn end(&self) -> Result<Written<D>, Error> {
        self.written.recv().map_err(|_| gone())
    }
}

/// Tells that a record is over, also by a panic: nobody may wait for a thread that is gone.
struct Telling(Done);

impl Drop for Telling {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<D: Disk> Drop for Writer<D> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread's was told to whoever waited for it.
            let _ = thread.join();
        }
    }
}

/// The thread ended by a panic, and the journal with it.
pub(super) fn gone() -> Error {
    Error::Stopped { detail: "the journal's writer is gone".to_owned() }
}
