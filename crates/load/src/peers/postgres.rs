//! A PostgreSQL of our own, as Debian has it, with everything that keeps what it confirms.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::place::{Place, Running, START_MAX, as_nobody, free_port, wait_for};
use tenure_load::Result;

/// A running server.
pub(crate) struct Postgres {
    pub(crate) url: String,
    pub(crate) running: Running,
}

impl Postgres {
    pub(crate) fn start(place: &Place) -> Result<Self> {
        let bin = programs().ok_or("PostgreSQL 15 or newer is not installed")?;
        let port = free_port()?;
        let folder = place.folder(&format!("postgres-{port}"))?;
        let data = folder.join("data");
        let mut init = Command::new(bin.join("initdb"));
        init.args([
            "--username=bench",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--pgdata",
        ]);
        init.arg(&data).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        as_nobody(&mut init, &folder)?;
        if !init.status()?.success() {
            return Err("initdb failed".into());
        }
        let mut command = Command::new(bin.join("postgres"));
        command.arg("-D").arg(&data);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=on",
            "synchronous_commit=on",
            "max_connections=400",
            "shared_buffers=256MB",
            "max_wal_size=2GB",
        ] {
            command.args(["-c", setting]);
        }
        command.args(["-p", &port.to_string()]);
        as_nobody(&mut command, &folder)?;
        let mut running = place.start(command, &folder)?;
        wait_for(port, &mut running)?;
        // It listens before it answers.
        let mut ready = Command::new(bin.join("pg_isready"));
        ready.args(["--quiet", "--host=127.0.0.1", "--port", &port.to_string()]).stdin(Stdio::null());
        let until = Instant::now() + START_MAX;
        while !ready.status()?.success() {
            if Instant::now() > until {
                return Err("it did not begin to answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Self { url: format!("postgres://bench@127.0.0.1:{port}/postgres"), running })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT: its children end with it; SIGKILL, which follows, would leave them.
        let pid = i32::try_from(self.running.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
            let _ = self.running.child.wait();
        }
    }
}

/// Where Debian has the newest.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin = entry.path().join("bin");
        (version >= 15 && Path::new(&bin).join("initdb").is_file()).then_some((version, bin))
    });
    versions.max().map(|(_, bin)| bin)
}
