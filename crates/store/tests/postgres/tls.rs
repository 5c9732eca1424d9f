//! TLS to the database, with a real PostgreSQL and an authority of the test's own.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tenure_store::Error;
use tenure_store::conformance::Server;
use tenure_store::postgres::{Options, Postgres};

use crate::support::{acquire, run};

/// An authority, as a file, and a certificate of its for one name, with its key.
fn certify(folder: &TempDir, name: &str) -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("signs itself");
    let file = folder.path().join(format!("{name} authority.pem"));
    std::fs::write(&file, authority.pem()).expect("is written");
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = certificate.signed_by(&own, &issuer).expect("signed");
    let file = file.to_str().expect("text").replace(' ', "%20");
    (file, certificate.pem(), own.serialize_pem())
}

fn refusal(url: &str) -> String {
    let error: Error = Postgres::open(url, &Options::default()).expect_err("is refused");
    let said = format!("{error} {error:?}");
    assert!(!said.contains("hunter2"), "{said}");
    said
}

#[test]
fn r26_a_database_is_asked_inside_tls_and_only_by_a_certificate_that_is_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (authority, certificate, key) = certify(&folder, "127.0.0.1");
    let (other, _, _) = certify(&folder, "db.example");
    let server = Server::start_with_tls(&certificate, &key);
    let plain = server.database().replace("tenure@", "tenure:hunter2@");
    let name = plain.rsplit('/').next().expect("a name").to_owned();
    for mode in ["require", "verify-full"] {
        let url = format!("{plain}?sslmode={mode}&sslrootcert={authority}&connect_timeout=5");
        let mut store = Postgres::open(&url, &Options::default()).expect("opens");
        run(&mut store, &[acquire("lock/a", "ana", &[mode])]).expect("commits");
        let _hints = tenure_store::Store::reader(&store).hints(std::sync::Arc::new(|_| {}));
        let inside = "SELECT count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                      WHERE application_name = 'tenure' HAVING count(*) > 0";
        assert_eq!(server.ask(&name, inside).as_deref(), Some("0"), "{mode}");
    }
    let wrong = refusal(&format!("{plain}?sslmode=verify-full&sslrootcert={other}"));
    assert!(wrong.contains("certificate is not believed"), "{wrong}");
    let unknown = refusal(&format!("{plain}?sslmode=require"));
    assert!(
        unknown.contains("certificate is not believed") || unknown.contains("no authorities"),
        "{unknown}"
    );
    // By a name that the certificate does not have.
    let elsewhere = plain.replace("127.0.0.1", "localhost");
    let wrong = refusal(&format!("{elsewhere}?sslmode=verify-full&sslrootcert={authority}"));
    assert!(wrong.contains("certificate is not believed"), "{wrong}");
}

#[test]
fn r26_what_an_address_says_of_tls_is_taken_at_its_word() {
    let plain = Server::shared().database().replace("tenure@", "tenure:hunter2@");
    let folder = tempfile::tempdir().expect("a folder");
    let (authority, _, _) = certify(&folder, "127.0.0.1");
    let none = refusal(&format!("{plain}?sslmode=require&sslrootcert={authority}"));
    assert!(none.contains("does not support TLS"), "{none}");
    for (query, said) in [
        ("sslmode=maybe", "sslmode is"),
        ("sslmode=require&sslrootcert=%zz", "followed by no number"),
        ("sslmode=require&sslrootcert=/nowhere/ca.pem", "sslrootcert: /nowhere/ca.pem"),
        ("sslrootcert=/nowhere/ca.pem", "of no use without"),
    ] {
        let refused = refusal(&format!("{plain}?{query}"));
        assert!(refused.contains(said), "{query}: {refused}");
    }
    for query in ["sslmode=disable", "sslmode=prefer", "application_name=mine&sslmode=prefer"] {
        Postgres::open(&format!("{plain}?{query}"), &Options::default()).expect("is plain");
    }
}
