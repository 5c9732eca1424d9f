//! Syncs that take longer, as on a slower disk: how that is done to a process, and the proof that it was.
//!
//! A shim in front of the C library delays whoever syncs through it. A program that makes its system calls by
//! itself, as one in Go does, never comes by there: strace stops it at its syncs instead. Both count, since a
//! process that is not delayed looks like one that minds no delay.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_load::{Result, memchr};

use super::place::Place;

/// The shim, compiled where it is used.
const SHIM: &str = include_str!("sync_delay.c");

/// By how much, and with what.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) shim: PathBuf,
    pub(crate) micros: u64,
}

/// Where the delayed syncs of a process and its children are counted.
#[derive(Debug, Default)]
pub(crate) enum Delayed {
    #[default]
    Not,
    /// Eight bytes, by the shim.
    Counted(PathBuf),
    /// A line each, by strace.
    Traced(PathBuf),
}

/// Compiles the shim.
pub(crate) fn compile(place: &Place) -> Result<PathBuf> {
    compile_in(place.path())
}

fn compile_in(folder: &Path) -> Result<PathBuf> {
    let (source, shim) = (folder.join("sync_delay.c"), folder.join("sync_delay.so"));
    std::fs::write(&source, SHIM)?;
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&shim).arg(&source).arg("-ldl");
    match compile.status() {
        Ok(status) if status.success() => Ok(shim),
        Ok(_) => Err("the shim in front of the C library does not compile".into()),
        Err(error) => Err(format!("it takes a C compiler, cc: {error}").into()),
    }
}

impl Slow {
    /// For whoever syncs through the C library.
    pub(crate) fn preload(&self, command: &mut Command, folder: &Path) -> Result<Delayed> {
        let seen = folder.join("syncs-delayed");
        let file = File::create(&seen)?;
        file.set_len(8)?;
        // Who runs as nobody counts, too.
        file.set_permissions(Permissions::from_mode(0o666))?;
        command.env("LD_PRELOAD", &self.shim).env("SYNC_DELAY_US", self.micros.to_string());
        command.env("SYNC_DELAY_SEEN", &seen);
        Ok(Delayed::Counted(seen))
    }

    /// For whoever makes its own system calls. Only syncs are stopped, each twice; what that costs beside the
    /// delay is the process's loss. strace runs aside (`-D`), so that the process is our child and ends as one.
    pub(crate) fn trace(&self, command: &Command, folder: &Path) -> (Command, Delayed) {
        let seen = folder.join("syncs-delayed");
        let mut traced = Command::new("strace");
        traced.args(["-D", "-f", "--seccomp-bpf", "-qqq", "--signal=none", "-e", "trace=fsync,fdatasync"]);
        traced.args(["-e", &format!("inject=fsync,fdatasync:delay_enter={}", self.micros), "-o"]);
        traced.arg(&seen).arg(command.get_program()).args(command.get_args());
        (traced, Delayed::Traced(seen))
    }
}

impl Delayed {
    /// So far. What cannot be read counts as none: then nothing is proved.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Not => 0,
            Self::Counted(seen) => {
                let bytes = std::fs::read(seen).ok().and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, u64::from_ne_bytes)
            }
            Self::Traced(seen) => {
                let lines = std::fs::read(seen).unwrap_or_default();
                memchr::memmem::find_iter(&lines, b"(DELAYED)").count() as u64
            }
        }
    }
}

/// Whether so many delayed syncs are what so many cycles took. A cycle is answered twice at the least, each
/// time after a sync, and one sync answers every connection once at the most; half of that is asked for, since
/// a count may lag behind.
pub(crate) fn is_proved(delayed: u64, cycles: u64, connections: usize) -> bool {
    delayed > 0 && delayed.saturating_mul(connections as u64) >= cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delayed syncs of a program that syncs one file, or does nothing.
    fn delayed(slow: &Slow, folder: &Path, program: &str) -> u64 {
        let file = folder.join("file");
        std::fs::write(&file, "some bytes").unwrap();
        let mut command = Command::new(program);
        let delayed = slow.preload(command.arg(&file), folder).unwrap();
        assert!(command.status().unwrap().success());
        delayed.count()
    }

    #[test]
    fn a_sync_that_was_delayed_is_counted_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let slow = Slow { shim: compile_in(folder.path()).unwrap(), micros: 10 };
        assert_eq!(delayed(&slow, folder.path(), "sync"), 1);
        assert_eq!(delayed(&slow, folder.path(), "true"), 0);
        assert_eq!(Delayed::Not.count(), 0);
        let trace = folder.path().join("trace");
        assert_eq!(Delayed::Traced(trace.clone()).count(), 0);
        // One call that was interrupted by another's line, and one that was not delayed.
        std::fs::write(
            &trace,
            "7  fdatasync(9 <unfinished ...>\n8  fsync(3)   = 0\n7  <... fdatasync resumed>)   = 0 (DELAYED)\n",
        )
        .unwrap();
        assert_eq!(Delayed::Traced(trace).count(), 1);
    }

    #[test]
    fn a_process_whose_syncs_were_mostly_not_delayed_proves_nothing() {
        for (delayed, cycles, is) in
            [(0, 0, false), (0, 5_000, false), (3, 5_000, false), (79, 5_000, true), (156, 5_000, true)]
        {
            assert_eq!(is_proved(delayed, cycles, 64), is, "{delayed}");
        }
    }
}
