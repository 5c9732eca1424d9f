//! Where peers run: folders that go with us, processes that end with us, ports on loopback.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tenure_load::Result;

/// Under which a peer runs that refuses to run as root.
const NOBODY: u32 = 65_534;
/// The longest that a peer may take to listen.
pub(crate) const START_MAX: Duration = Duration::from_secs(20);

/// A folder for everything that is started.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// Slows down every sync by this, for whatever is started.
    pub(crate) shim: Option<(PathBuf, u64)>,
}

impl Place {
    /// In the working directory and not in the system's folder for such things, which may be memory, where a
    /// sync costs nothing.
    pub(crate) fn new(parent: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("tenure-peers-").tempdir_in(parent)?;
        // Whoever is not root must be able to reach what is its own in here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open)?;
        Ok(Self { folder, shim: None })
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
        self.slow_down(&mut command);
        let log = File::create(folder.join("output"))?;
        command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Running(command.spawn()?))
    }

    /// Puts the shim under it, if there is one.
    pub(crate) fn slow_down(&self, command: &mut Command) {
        if let Some((shim, micros)) = &self.shim {
            command.env("LD_PRELOAD", shim).env("SYNC_DELAY_US", micros.to_string());
        }
    }
}

/// A process that is gone when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until somebody listens.
pub(crate) fn wait_for(port: u16) -> Result {
    let (address, until) = (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Instant::now() + START_MAX);
    while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
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
