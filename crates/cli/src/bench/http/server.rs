//! The server that is measured: one that runs, or one of this benchmark's own, in a process and a folder
//! that are gone afterwards.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bench::Result;
use crate::bench::restart::resident_bytes;
use tenure_load::wire::Target;

/// Files that a process needs beside its connections: the store's, the runtime's, the terminal's.
const OTHER_FILES: u64 = 200;

/// A server of our own. Gone when it is dropped.
pub(crate) struct Own {
    child: Child,
    url: String,
    key: String,
}

impl Own {
    /// Starts a server without rates in this folder.
    pub(crate) fn start(folder: &Path, connections: u64) -> Result<Self> {
        let mut command = tenure_load::server(&std::env::current_exe()?);
        command.env("TENURE_LIMITS_CONNECTIONS", connections.to_string()).args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--data",
            "data",
        ]);
        Self::run(command, folder)
    }

    /// Starts a node over a database, with a folder for its log. Nodes over one database share its secret and the key.
    pub(crate) fn start_node(
        folder: &Path,
        (database, redis): (&str, Option<&str>),
        (secret, key): (&str, &str),
    ) -> Result<Self> {
        let mut command = tenure_load::server(&std::env::current_exe()?);
        // By the environment: what stands in a command line can be read by everyone on a machine.
        command.env("TENURE_DATABASE_URL", database).env("TENURE_SECRET", secret);
        command.env("TENURE_ADMIN_KEY", key);
        if let Some(redis) = redis {
            command.env("TENURE_REDIS", redis);
        }
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        let mut own = Self::run(command, folder)?;
        key.clone_into(&mut own.key);
        Ok(own)
    }

    fn run(mut command: Command, folder: &Path) -> Result<Self> {
        command
            // A configuration file that happens to lie here is not meant.
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("log"))?);
        let mut own = Self { child: command.spawn()?, url: String::new(), key: String::new() };
        let stdout = own.child.stdout.take().ok_or("the server has no output")?;
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some((_, key)) = line.split_once("shown only now: ") {
                key.clone_into(&mut own.key);
            } else if let Some(url) = line.strip_prefix("Listening on ") {
                url.clone_into(&mut own.url);
                return Ok(own);
            }
        }
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        Err(format!("the server did not start: {}", log.trim()).into())
    }

    pub(crate) fn target(&self) -> Result<Target> {
        target(&self.url, self.key.clone())
    }

    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        resident_bytes(&self.child.id().to_string())
    }

    /// Nanoseconds that its threads have spent computing.
    pub(crate) fn busy_ns(&self) -> Result<u64> {
        let mut busy_ns = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may end between being listed and being read.
            let Ok(line) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
            busy_ns += line.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(busy_ns)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server at a URL.
pub(crate) fn target(url: &str, key: String) -> Result<Target> {
    let host = url.strip_prefix("http://").ok_or("the benchmark speaks plain HTTP: name http://host:port")?;
    let host = host.trim_end_matches('/').to_owned();
    let with_port = if host.contains(':') { host.clone() } else { format!("{host}:80") };
    let address = with_port.to_socket_addrs()?.next().ok_or("the host has no address")?;
    Ok(Target { address, host, key })
}

/// Lets this process, and those that it starts, have so many connections.
pub(crate) fn allow_connections(connections: u64) -> Result {
    let needed = connections + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let maximum = limit.maximum.unwrap_or_default();
        return Err(format!(
            "{connections} connections need {needed} open files, and this system allows {maximum} to a process: \
             ask for fewer with --sockets, or raise the hard limit (ulimit -Hn)"
        )
        .into());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit })?;
    Ok(())
}
