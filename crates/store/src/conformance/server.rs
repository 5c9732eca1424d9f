//! A PostgreSQL of the tests' own: a real one, in a folder that goes with it, on loopback, with `fsync` on.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

/// Under which it runs where the tests run as root: PostgreSQL refuses to.
const NOBODY: u32 = 65_534;

/// Starts the server, says so, and stops it when the test's end of the pipe is gone, however it went.
const SCRIPT: &str = r#"
"$1/pg_ctl" --silent --wait --pgdata="$2" --log="$2/log" --options="$3" start </dev/null >/dev/null || exit 1
echo started
read -r _
"$1/pg_ctl" --silent --wait --pgdata="$2" --mode=immediate stop >/dev/null 2>&1
rm -rf "$2"
"#;

/// Takes the tables back to how the version before the newest made them, with all that was written since.
pub const AS_VERSION_3: &str = "ALTER TABLE tenure.meta ADD COLUMN history text; \
     UPDATE tenure.meta SET history = (SELECT regexp_replace(place, '/[0-9]+/', '/') FROM tenure.place); \
     DROP TABLE tenure.place; \
     DELETE FROM tenure.migrations WHERE version > 3; UPDATE tenure.schema SET version = 3";

/// A running server. It is stopped when this is dropped, and when the process ends.
pub struct Server {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    options: String,
    next: AtomicU64,
    /// The pipe whose end stops it.
    keeper: Option<(Child, ChildStdin)>,
}

impl Server {
    /// The server that the tests of one process share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server for one test, which may do with it what it likes.
    pub fn start() -> Self {
        Self::start_as(None)
    }

    /// The same, and it speaks TLS to whoever asks for it, with this certificate and its key.
    pub fn start_with_tls(certificate: &str, key: &str) -> Self {
        Self::start_as(Some([("server.crt", certificate), ("server.key", key)]))
    }

    fn start_as(tls: Option<[(&str, &str); 2]>) -> Self {
        let bin = programs();
        // What a test was killed over may have left its port to somebody else.
        for _ in 0..5 {
            if let Some(server) = Self::try_start(&bin, tls) {
                return server;
            }
        }
        panic!("PostgreSQL did not start; its programs are in {}", bin.display());
    }

    fn try_start(bin: &Path, tls: Option<[(&str, &str); 2]>) -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tenure-postgres-{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder for PostgreSQL");
        if is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY)).expect("a folder that is its own");
        }
        let mut init = command(&bin.join("initdb"));
        init.args([
            "--username=tenure",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--pgdata",
        ]);
        let made =
            init.arg(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(made.is_ok_and(|status| status.success()), "initdb failed in {}", folder.display());
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        let mut options = format!(
            "-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=on \
             -c max_connections=200 -c shared_buffers=64MB -c max_wal_size=256MB"
        );
        for (name, text) in tls.into_iter().flatten() {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file for PostgreSQL");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a file of its own");
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("a file that is its own");
            }
        }
        if tls.is_some() {
            options += " -c ssl=on -c ssl_cert_file=server.crt -c ssl_key_file=server.key";
        }
        let server =
            Self { bin: bin.to_owned(), folder, port, options, next: AtomicU64::new(0), keeper: None };
        server.keep()
    }

    /// Runs it until the pipe ends.
    fn keep(mut self) -> Option<Self> {
        let mut keeper = command(Path::new("sh"));
        keeper.args(["-c", SCRIPT, "keeper"]).arg(&self.bin).arg(&self.folder).arg(&self.options);
        let keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // In a group of its own, so that what stops the tests at a keyboard leaves it to clean up.
        let mut keeper = keeper.process_group(0).spawn().expect("a shell");
        let pipe = keeper.stdin.take().expect("piped above");
        let said = keeper.stdout.take().expect("piped above");
        let mut line = String::new();
        let read = BufReader::new(said).read_line(&mut line);
        self.keeper = Some((keeper, pipe));
        (read.is_ok() && line == "started\n").then_some(self)
    }

    /// The address of a new, empty database.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.run("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The address of a database.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://tenure@127.0.0.1:{}/{name}", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements.
    pub fn run(&self, database: &str, sql: &str) {
        self.ask(database, sql);
    }

    /// Runs statements; the first column of the first row that they answer with, as text.
    pub fn ask(&self, database: &str, sql: &str) -> Option<String> {
        let (url, sql) = (self.url(database), sql.to_owned());
        // On a thread of its own: the caller may be on a runtime already.
        let asked = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connects");
                let driver = tokio::spawn(connection);
                let messages =
                    client.simple_query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
                drop(client);
                let _ = driver.await;
                messages.into_iter().find_map(|message| match message {
                    tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                })
            })
        });
        asked.join().expect("the statements run")
    }

    /// Runs one of PostgreSQL's own programs, which must succeed.
    pub fn tool(&self, program: &str, arguments: &[&str]) {
        let done = command(&self.bin.join(program)).args(arguments).stdin(Stdio::null()).status();
        assert!(done.is_ok_and(|status| status.success()), "{program} {arguments:?}");
    }

    /// Waits until all of a database's backends have ended, and have said what they did.
    pub fn gone(&self, url: &str) {
        let database = url.rsplit('/').next().expect("a name");
        let left = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'");
        while self.ask("postgres", &left).as_deref() != Some("0") {
            std::thread::yield_now();
        }
    }

    /// Whether somebody waits for a lock in a database.
    pub fn waits(&self, database: &str) -> bool {
        let waiting = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.ask(database, waiting).as_deref() != Some("0")
    }

    /// How many deadlocks there were in a database, once all of its backends have ended.
    pub fn deadlocks(&self, url: &str) -> u64 {
        self.gone(url);
        let database = url.rsplit('/').next().expect("a name");
        let count = format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{database}'");
        self.ask("postgres", &count).and_then(|count| count.parse().ok()).expect("a count")
    }

    /// The number of its first process.
    fn pid(&self) -> String {
        let pid = fs::read_to_string(self.folder.join("postmaster.pid")).expect("it runs");
        pid.lines().next().expect("its number").to_owned()
    }

    /// Stops it without a chance to finish anything.
    pub fn kill(&self) {
        let pid = self.pid();
        // SIGQUIT: its children are told to stop where they are, as after a crash; the next start recovers.
        signal("-QUIT", &pid);
        while self.folder.join("postmaster.pid").exists() && Path::new("/proc").join(&pid).exists() {
            std::thread::yield_now();
        }
    }

    /// Kills it with SIGKILL: nobody tells its children, who find out by themselves and end, and the file with its
    /// number stays.
    pub fn crash(&self) {
        let pid = self.pid();
        // It starts no more children while they are looked for.
        signal("-STOP", &pid);
        let children = children(&pid);
        assert!(!children.is_empty(), "the processes of {pid}");
        signal("-KILL", &pid);
        let begun = Instant::now();
        while is_running(&pid) || children.iter().any(|child| is_running(child)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "its processes outlive it: {children:?}");
            std::thread::yield_now();
        }
        // Where nobody takes note of the dead, PostgreSQL would take it for alive.
        if Path::new("/proc").join(&pid).exists() {
            fs::remove_file(self.folder.join("postmaster.pid")).expect("the file goes");
        }
    }

    /// What is done by `work` is confirmed and then lost: a standby takes over that never heard of it.
    pub fn lose(&self, work: impl FnOnce()) {
        let standby = self.folder.with_extension("standby");
        let run = |program: &str, arguments: &[&str]| {
            let done = Command::new(program).args(arguments).args([&self.folder, &standby]).status();
            assert!(done.is_ok_and(|status| status.success()), "{program} {arguments:?}");
        };
        self.kill();
        run("cp", &["-a"]);
        self.start_again();
        work();
        self.kill();
        fs::remove_dir_all(&self.folder).expect("the folder goes");
        fs::rename(&standby, &self.folder).expect("the standby takes its place");
        let signal = self.folder.join("standby.signal");
        fs::write(&signal, "").expect("a file");
        if is_root() {
            chown(&signal, Some(NOBODY), Some(NOBODY)).expect("a file that is its own");
        }
        self.start_again();
        let mut promote = command(&self.bin.join("pg_ctl"));
        promote.args(["--silent", "--wait", "--pgdata"]).arg(&self.folder).arg("promote");
        let promoted = promote.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(promoted.is_ok_and(|status| status.success()), "it is promoted");
    }

    /// Starts it again after [`Self::kill`].
    pub fn start_again(&self) {
        let mut start = command(&self.bin.join("pg_ctl"));
        start.args(["--silent", "--wait", "--pgdata"]).arg(&self.folder).arg("--log");
        start.arg(self.folder.join("log")).arg(format!("--options={}", self.options)).arg("start");
        let started = start.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(started.is_ok_and(|status| status.success()), "it starts again");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((mut keeper, pipe)) = self.keeper.take() {
            drop(pipe);
            let _ = keeper.wait();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("port", &self.port).finish_non_exhaustive()
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn signal(signal: &str, pid: &str) {
    let sent = Command::new("kill").args([signal, pid]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill {signal} {pid}");
}

/// Of a process: its state, and the number of the one that started it.
fn look_at(pid: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
    // Its name is in brackets, and may be anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?))
}

/// It is there, and not only in the list of those whose end nobody has noted.
fn is_running(pid: &str) -> bool {
    look_at(pid).is_some_and(|(state, _)| state != "Z")
}

fn children(pid: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().into_string().ok());
    all.filter(|each| look_at(each).is_some_and(|(_, parent)| parent == pid)).collect()
}

/// A program that is not root.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(std::env::temp_dir());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Where Debian has the newest, or wherever the path says.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin = entry.path().join("bin");
        (version >= 15 && bin.join("initdb").is_file()).then_some((version, bin))
    });
    if let Some((_, bin)) = versions.max() {
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file());
    found.expect("PostgreSQL 15 or newer is installed: on Debian, apt-get install postgresql")
}
