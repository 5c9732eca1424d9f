//! The embedded store on a simulated machine: the real journal and recovery on a disk that loses what
//! was not synced, and an archive whose folds are there wholly or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_engine::{Ticket, Turn};
use tenure_store::Error;
use tenure_store::embedded::archive::{Archive, Group, KeptPlace, Loaded, MemoryArchive};
use tenure_store::embedded::{Embedded, Fold, Options};

use crate::bugs::Bug;
use crate::disk::{Fault, SimDisk};
use crate::machine::Machine;
use crate::rng::Rng;

/// An archive in memory that lives on the same machine as the disk.
#[derive(Clone, Debug)]
pub(crate) struct SimArchive {
    inner: MemoryArchive,
    disk: SimDisk,
}

/// The machine.
pub(crate) struct DiskMachine {
    disk: SimDisk,
    archive: SimArchive,
    options: Options,
    /// What was armed, until it is seen that it did not fire.
    armed: Option<Fault>,
    /// What went bad, and what it was.
    rotten: Option<(PathBuf, (usize, u8))>,
}

impl DiskMachine {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = Rng::new(seed ^ 0x6469_736b);
        let disk = SimDisk::new(rng.split());
        let archive = SimArchive { inner: MemoryArchive::default(), disk: disk.clone() };
        let options = Options {
            segment_bytes: *rng.pick(&[64 << 10, 96 << 10, 256 << 10]),
            segments_max: *rng.pick(&[2, 3, 16]),
            segments_kept: *rng.pick(&[1, 4]),
            fold: Fold::Manual,
            retain_events: rng.chance(250).then(|| 20 + rng.below(100)),
            ended_claims_max: *rng.pick(&[0, 3, 100_000]),
            kept_values_max: *rng.pick(&[0, 5, 100_000]),
            faults: bug.map(Bug::faults).unwrap_or_default(),
            ..Options::default()
        };
        Self { disk, archive, options, armed: None, rotten: None }
    }
}

impl Machine for DiskMachine {
    type Store = Embedded<SimDisk, SimArchive>;

    fn start(&mut self) -> Result<Self::Store, Error> {
        let archive = self.archive.clone();
        Embedded::open_with(Arc::new(self.disk.clone()), Path::new("data"), &self.options, |_| Ok(archive))
    }

    fn arm(&mut self, rng: &mut Rng) {
        let fault =
            *rng.pick(&[Fault::PowerLoss, Fault::PowerLoss, Fault::Error, Fault::NoRoom, Fault::NoRoomOnce]);
        let after = if rng.chance(700) { rng.below(3) } else { rng.below(15) };
        self.armed = Some(fault);
        self.disk.arm(after, fault);
    }

    fn disarm(&mut self) -> bool {
        let fired = self.disk.disarm();
        if !fired {
            self.armed = None;
        }
        fired
    }

    fn crash<T: Ticket>(&mut self, turn: Turn<Self::Store, T>, rng: &mut Rng) {
        // Whatever the dying process still tries must not reach the disk.
        self.disk.power_off();
        drop(turn);
        self.reboot(rng);
    }

    fn reboot(&mut self, rng: &mut Rng) {
        let lost = self.armed.take() == Some(Fault::PowerLoss) || rng.chance(600);
        self.disk.power_on(lost);
    }

    fn stopped(&mut self, store: Self::Store) {
        drop(store);
        self.armed = None;
    }

    fn errand(&mut self, store: &mut Self::Store, rng: &mut Rng) -> Result<(), Error> {
        let batches = if rng.chance(500) { u64::MAX } else { 1 + rng.below(10) };
        store.fold_now(batches).map(drop)
    }

    fn rot(&mut self, rng: &mut Rng) -> bool {
        // Not the newest: a bad record at the journal's very end cannot be told from a torn one.
        let mut segments = self.disk.named("journal");
        segments.pop();
        if segments.is_empty() {
            return false;
        }
        let path = rng.pick(&segments).clone();
        self.rotten = self.disk.rot(&path).map(|before| (path, before));
        self.rotten.is_some()
    }

    fn mend(&mut self) {
        if let Some((path, before)) = self.rotten.take() {
            self.disk.mend(&path, before);
        }
    }

    fn retained(&self) -> Option<u64> {
        self.options.retain_events
    }

    fn forgets(&self) -> bool {
        true
    }
}

impl Archive for SimArchive {
    type Reader = MemoryArchive;

    fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
        self.inner.load(kept)
    }

    fn fold(&mut self, group: &Group) -> Result<(), Error> {
        let path = || "archive".into();
        if let Err(source) = self.disk.other_operation() {
            return Err(match source.kind() {
                std::io::ErrorKind::StorageFull => Error::Full { path: path() },
                _ => Error::Io { path: path(), doing: "fold into", source },
            });
        }
        self.inner.fold(group)?;
        // It is in the archive, but the process may die before it knows.
        match self.disk.other_operation() {
            Ok(()) => Ok(()),
            Err(source) if source.kind() == std::io::ErrorKind::StorageFull => Ok(()),
            Err(source) => Err(Error::Io { path: path(), doing: "fold into", source }),
        }
    }

    fn reader(&self) -> MemoryArchive {
        self.inner.reader()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.inner.close()
    }
}
