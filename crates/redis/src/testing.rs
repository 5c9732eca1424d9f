//! A Redis of the tests' own: a real one, on loopback, in a folder that goes with it.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;

use crate::{Address, Redis};

/// A running server; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Server {
    port: u16,
    folder: tempfile::TempDir,
    password: Option<&'static str>,
    process: Mutex<Option<Child>>,
}

impl Server {
    /// Without a password.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// One that lets in only who knows this.
    pub fn with_password(password: &'static str) -> Self {
        Self::with(Some(password))
    }

    fn with(password: Option<&'static str>) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
        let port = port.expect("a free port").port();
        let folder = tempfile::tempdir().expect("a folder");
        let server = Self { port, folder, password, process: Mutex::default() };
        server.start_again();
        server
    }

    /// Starts it, after [`Self::kill`] for one.
    pub fn start_again(&self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
        command.arg(self.port.to_string()).arg("--dir").arg(self.folder.path());
        if let Some(password) = self.password {
            command.args(["--requirepass", password]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("redis-server is there: on Debian, apt-get install redis-server");
        let mut process = self.process.lock();
        *process = Some(child);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = process.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            assert!(!ended, "redis-server ended");
            std::thread::yield_now();
        }
    }

    /// Kills it without a word.
    pub fn kill(&self) {
        if let Some(mut child) = self.process.lock().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// It answers nothing, and closes nothing.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// It answers again.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.lock();
        let pid = process.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal} {pid}");
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let who = self.password.map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{who}127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A way to it.
    pub fn redis(&self) -> Redis {
        Redis::new(Address::parse(&self.url()).expect("an address"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
