//! A PgBouncer of the tests' own, in transaction mode: each transaction may get another session.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Server;
use super::server::command;

/// A running pooler with fewer sessions than it has clients. It ends when this is dropped.
pub struct Pooler {
    folder: PathBuf,
    port: u16,
    child: Mutex<Option<Child>>,
}

impl Pooler {
    /// In front of a server.
    pub fn before(database: &Server) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tenure-pgbouncer-{}-{count}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a folder for PgBouncer");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))
            .expect("a folder that others can read");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=tenure\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 3\nmax_client_conn = 200\n",
            database.port()
        );
        fs::write(folder.join("pgbouncer.ini"), settings).expect("a file for PgBouncer");
        let pooler = Self { folder, port, child: Mutex::new(None) };
        pooler.start_again();
        pooler
    }

    /// The address of a database by way of it.
    pub fn url(&self, url: &str) -> String {
        format!("postgres://tenure@127.0.0.1:{}/{}", self.port, url.rsplit('/').next().expect("a name"))
    }

    /// Kills it, and with it every connection through it.
    pub fn kill(&self) {
        if let Some(mut child) = self.child.lock().take() {
            child.kill().and_then(|()| child.wait()).expect("it is killed");
        }
    }

    /// Starts it again after [`Self::kill`].
    pub fn start_again(&self) {
        // It refuses to run as root, as PostgreSQL does.
        let mut pgbouncer = command(Path::new("pgbouncer"));
        pgbouncer.arg("--quiet").arg(self.folder.join("pgbouncer.ini"));
        let child = pgbouncer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("PgBouncer is installed: on Debian, apt-get install pgbouncer");
        *self.child.lock() = Some(child);
        let until = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < until, "it never listened");
            std::thread::yield_now();
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if let Some(child) = self.child.get_mut() {
            let _ = (child.kill(), child.wait());
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl fmt::Debug for Pooler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooler").field("port", &self.port).finish_non_exhaustive()
    }
}
