//! Where peers run: folders that go with us, processes that end with us, ports on loopback.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tenure_load::Result;

use super::slow::{Delayed, Slow};

/// Under which a peer runs that refuses to run as root.
const NOBODY: u32 = 65_534;
/// The longest that a peer may take to listen.
pub(crate) const START_MAX: Duration = Duration::from_secs(20);

/// A folder for everything that is started.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// What makes the syncs of whatever is started take longer.
    pub(crate) slow: Option<Slow>,
}

impl Place {
    /// In the working directory and not in the system's folder for such things, which may be memory, where a
    /// sync costs nothing.
    pub(crate) fn new(parent: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-peers-").tempdir_in(parent)?;
        // Whoever is not root must be able to reach what is its own in here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open)?;
        Ok(Self { folder, slow: None })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Starts a process whose output goes to a file beside its data.
    pub(crate) fn start(&self, mut command: Command, folder: &Path) -> Result<Running> {
        let delayed = self.slow_down(&mut command, folder)?;
        Self::spawn(command, folder, delayed)
    }

    /// The same for one that makes its system calls by itself.
    pub(crate) fn start_traced(&self, command: Command, folder: &Path) -> Result<Running> {
        let (command, delayed) = match &self.slow {
            Some(slow) => slow.trace(&command, folder),
            None => (command, Delayed::Not),
        };
        Self::spawn(command, folder, delayed)
    }

    fn spawn(mut command: Command, folder: &Path, delayed: Delayed) -> Result<Running> {
        let log = File::create(folder.join("output"))?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        Ok(Running { child, delayed })
    }

    /// Puts the shim under it, if there is one.
    pub(crate) fn slow_down(&self, command: &mut Command, folder: &Path) -> Result<Delayed> {
        self.slow.as_ref().map_or(Ok(Delayed::Not), |slow| slow.preload(command, folder))
    }
}

/// A process that is gone when this is dropped.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) delayed: Delayed,
}

impl Running {
    /// Waits for a process that ends by itself, and for no other.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> Result {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if started.elapsed() > limit {
                return Err("it does not end".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if status.success() { Ok(()) } else { Err(format!("it ended with {status}").into()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until it listens, for as long as it runs.
pub(crate) fn wait_for(port: u16, running: &mut Running) -> Result {
    let (address, until) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::now() + START_MAX);
    while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
        if let Some(status) = running.child.try_wait()? {
            return Err(format!("it ended with {status} before it listened").into());
        }
        if Instant::now() > until {
            return Err("it did not begin to listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Gives a folder, and a process, to nobody where we are root.
pub(crate) fn as_nobody(command: &mut Command, folder: &Path) -> Result {
    if rustix::process::geteuid().is_root() {
        chown(folder, Some(NOBODY), Some(NOBODY))?;
        command.uid(NOBODY).gid(NOBODY);
    }
    Ok(())
}
