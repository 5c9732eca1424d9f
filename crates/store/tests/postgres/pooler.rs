//! PgBouncer between the store and its database, in transaction mode: each transaction may get another session.

use std::cell::RefCell;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_store::conformance::{self, Server};
use tenure_store::postgres::Postgres;

use crate::exact;
use crate::writers::overlap;

/// A pooler with fewer sessions than it has clients.
struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    fn before(database: &Server) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = port.expect("a free port").port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=tenure\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 3\nmax_client_conn = 200\n",
            database.port()
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("a file");
        let mut command = Command::new("pgbouncer");
        command.arg("--quiet").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root, and must be able to read its file.
            let all = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
            fs::set_permissions(folder.path(), all).expect("a folder for others");
            command.uid(65_534).gid(65_534);
        }
        let child = command.spawn().expect("PgBouncer is installed: on Debian, apt-get install pgbouncer");
        let pooler = Self { child, port, _folder: folder };
        let until = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < until, "it never listened");
            std::thread::yield_now();
        }
        pooler
    }

    fn url(&self, url: &str) -> String {
        format!("postgres://tenure@127.0.0.1:{}/{}", self.port, url.rsplit('/').next().expect("a name"))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

#[test]
fn e09_behind_a_pooler_it_behaves_like_the_reference() {
    let server = Server::shared();
    let pooler = Pooler::before(server);
    let url = RefCell::new(String::new());
    let open = || Postgres::open(&url.borrow(), &exact()).expect("opens");
    let make = || {
        *url.borrow_mut() = pooler.url(&server.database());
        open()
    };
    conformance::run_durable(make, |store| {
        drop(store);
        open()
    });
}

#[test]
fn e09_several_writers_share_the_sessions_of_a_pooler() {
    let server = Server::shared();
    let pooler = Pooler::before(server);
    overlap(&pooler.url(&server.database()), 5);
}
