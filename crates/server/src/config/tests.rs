use super::*;
use crate::config::keys::KEYS;

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn errors(text: &str) -> Vec<String> {
    match Config::parse(text) {
        Ok(config) => config.check().iter().map(ToString::to_string).collect(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_defaults_are_valid_and_read_back_from_what_is_shown() {
    let shown = Config::default().show();
    assert_eq!(errors(&shown), Vec::<String>::new(), "{shown}");
    assert_eq!(Config::parse(&shown).unwrap().show(), shown);
    assert!(shown.contains("listen = \"127.0.0.1:8080\"") && shown.contains("(TENURE_LISTEN)"));
}

#[test]
fn every_key_of_the_configuration_is_documented_and_shown() {
    let shown = Config::default().show();
    let mut paths = Vec::new();
    leaves("", &super::show::table(&full()), &mut paths);
    paths.sort();
    let mut known: Vec<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
    known.sort();
    assert_eq!(paths, known);
    for key in KEYS {
        assert!(shown.contains(key.words) && shown.contains(&key.variable()), "{}", key.path);
    }
}

fn leaves(prefix: &str, table: &toml::Table, paths: &mut Vec<String>) {
    for (name, value) in table {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) if path != "jwt.roles" => leaves(&path, inner, paths),
            _ => paths.push(path),
        }
    }
}

/// Every key set.
fn full() -> Config {
    let secret = || Some(Secret::new("x".repeat(40)));
    let path = || Some(PathBuf::from("f"));
    Config {
        database_url: secret(),
        database_direct_url: secret(),
        redis: secret(),
        admin_key: secret(),
        secret: secret(),
        secret_file: path(),
        files: Uploads { dir: path() },
        tls: TlsFiles { cert: path(), key: path() },
        jwt: Jwt {
            algorithm: Some(Algorithm::HS256),
            secret: secret(),
            public_key_file: path(),
            issuer: Some("i".to_owned()),
            audience: Some("a".to_owned()),
            default_role: Some(Role::Viewer),
            kinds_claim: Some("k".to_owned()),
            ..Jwt::default()
        },
        jobs: Jobs {
            runner_url: Some("https://runner.example/run".to_owned()),
            runner_key: secret(),
            runner_ca_file: path(),
            ..Jobs::default()
        },
        payments: Payments {
            public_url: Some("https://rifa.example".to_owned()),
            secrets_dir: path(),
            gateway_url: Some("https://gateway.example/api".to_owned()),
            gateway_ca_file: path(),
            allowed_networks: Vec::new(),
        },
        ..Config::default()
    }
}

#[test]
fn secrets_are_not_shown() {
    let config = full();
    assert!(!config.show().contains("xxxx") && !format!("{config:?}").contains("xxxx"));
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let check = |text: &str, expected: &str| assert_eq!(errors(text), [expected], "{text}");
    check("lisen = \"127.0.0.1:1\"", "lisen: is not a key; did you mean listen? (in tenure.toml)");
    check(
        "[limits]\nconections = 3",
        "limits.conections: is not a key; did you mean limits.connections? (in tenure.toml)",
    );
    check("[limit]\nconnections = 3", "limit: is not a key; did you mean limits? (in tenure.toml)");
    check("colour = \"red\"", "colour: is not a key (in tenure.toml)");
    check(
        "[retention]\nevents_days = 3",
        "retention: cannot be set: events are kept for ever (in tenure.toml)",
    );
    check("limits = 3", "limits: is a section, not a key (in tenure.toml)");
}

#[test]
fn wrong_values_are_named_with_their_key() {
    let check = |text: &str, key: &str, part: &str| {
        let errors = errors(text);
        assert!(
            errors.len() == 1 && errors[0].starts_with(key) && errors[0].contains(part),
            "{text}: {errors:?}"
        );
    };
    check("listen = \"nowhere\"", "listen", "such as 127.0.0.1:8080 or 0.0.0.0:80; not \"nowhere\"");
    check("listen = \"8080\"", "listen", "not \"8080\"");
    check("demo = \"yes\"", "demo", "expected a boolean");
    check("[limits]\nconnections = -1", "limits.connections", "");
    check("[limits]\nconnections = 0", "limits.connections", "at least 1");
    check("[limits]\nheaders_timeout_ms = 1", "limits.headers_timeout_ms", "100 to");
    check("[rates.read]\nburst = 0", "rates.read.burst", "at least 1");
    check("[sessions]\nidle_s = 1000000000", "sessions.idle_s", "absolute_s");
    check("redis = \"redis://h\"", "redis", "database_url");
    let secret = "secret = \"0123456789abcdef0123456789abcdef\"";
    check(&format!("database_url = \"mysql://h\"\n{secret}"), "database_url", "postgres://");
    check("database_direct_url = \"postgres://h\"", "database_direct_url", "set database_url too");
    check("database_url = \"postgres://h\"", "secret", "the same on every node");
    let shared = format!("database_url = \"postgres://h\"\n{secret}\n[payments]\n");
    check(&format!("{shared}public_url = \"https://h\""), "payments.secrets_dir", "every node");
    check(&format!("{shared}gateway_url = \"https://h\""), "payments.secrets_dir", "every node");
    check("[network]\ntrusted_proxies = [\"10.0.0.0/8\", \"ten\"]", "network.trusted_proxies[1]", "ten");
    check("[network]\nallowed_origins = [\"app.example/\"]", "network.allowed_origins[0]", "https://host");
    check("[log]\nformat = \"xml\"", "log.format", "xml");
    check("[log]\nlevel = \"loud=\"", "log.level", "");
    check("[tls]\ncert = \"a.pem\"", "tls.key", "missing");
    check("[jwt]\nissuer = \"i\"", "jwt.algorithm", "missing");
    check("[jwt]\nalgorithm = \"none\"", "jwt.algorithm", "none");
    check("[jwt]\nalgorithm = \"HS256\"", "jwt.secret", "missing");
    check(
        "[jwt]\nalgorithm = \"HS256\"\nsecret = \"short\"\nissuer = \"i\"\naudience = \"a\"",
        "jwt.secret",
        "32 bytes",
    );
    check(
        "[jwt]\nalgorithm = \"RS256\"\npublic_key_file = \"not-there.pem\"",
        "jwt.public_key_file",
        "not-there.pem",
    );
    check("[jwt]\nroles = { boss = \"king\" }", "jwt.roles.boss", "king");
    check("[jobs]\nat_once = 0", "jobs.at_once", "1 to");
    check("[jobs]\ntimeout_ms = 4000000", "jobs.timeout_ms", "100 to");
    check("[jobs]\nconnect_timeout_ms = 70000", "jobs.connect_timeout_ms", "timeout_ms");
    check("[jobs]\nallowed_networks = [\"ten\"]", "jobs.allowed_networks[0]", "ten");
    for url in
        ["ftp://h/x", "runner.example/run", "https://u:p@h/x", "https:///x", "http://h:0/x", "http://h/#x"]
    {
        check(&format!("[jobs]\nrunner_url = \"{url}\""), "jobs.runner_url", "https://host/path");
    }
    check("[jobs]\nrunner_url = \"http://169.254.169.254/x\"", "jobs.runner_url", "not public");
    check(
        "[jobs]\nrunner_url = \"https://h/x\"\nrunner_ca_file = \"not-there.pem\"",
        "jobs.runner_ca_file",
        "not-there.pem",
    );
    check("listen = ", "config", "");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1\"\ndata = \"file\"\n[rates.read]\nburst = 7\n").unwrap();
    let flags =
        Flags { config: Some(file), listen: Some("localhost:3".to_owned()), demo: true, ..Flags::default() };
    let environment = environment(&[
        ("TENURE_LISTEN", "127.0.0.1:2"),
        ("TENURE_DATA", "environment"),
        ("TENURE_RATES_READ_PER_SECOND", "9"),
        ("TENURE_NETWORK_TRUSTED_PROXIES", "10.0.0.1, 10.0.0.2"),
        ("TENURE_JWT_ROLES", "boss=admin, clerk=viewer"),
        ("TENURE_CLAIM", "of another command"),
        ("PATH", "irrelevant"),
    ]);
    let config = Config::load(&flags, environment).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.data, PathBuf::from("environment"));
    assert_eq!(config.rates.read, Rate { per_second: 9, burst: 7 });
    assert_eq!(config.network.trusted_proxies, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(config.jwt.roles["boss"], Role::Admin);
    assert!(config.demo);
}

#[test]
fn the_source_of_a_wrong_value_is_named() {
    let flags = Flags::default();
    let wrong = |pairs: &[(&str, &str)]| Config::load(&flags, environment(pairs)).unwrap_err()[0].to_string();
    assert_eq!(wrong(&[("TENURE_DEMO", "maybe")]), "demo: must be true or false (in TENURE_DEMO)");
    assert!(wrong(&[("TENURE_LISTEN", "x")]).ends_with("(in TENURE_LISTEN)"));
    assert!(wrong(&[("TENURE_LISTNE", "x")]).contains("did you mean TENURE_LISTEN?"));
    // Also where another key begins like it, which another source has set.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, "database_url = 3\n").unwrap();
    let flags = Flags { config: Some(file), data: Some("d".to_owned()), ..Flags::default() };
    let wrong = Config::load(&flags, environment(&[("TENURE_DATA", "d")])).unwrap_err()[0].to_string();
    assert!(wrong.starts_with("database_url: ") && wrong.ends_with("tenure.toml)"), "{wrong}");
    let flags = Flags { config: Some(PathBuf::from("not-there.toml")), ..Flags::default() };
    assert!(Config::load(&flags, []).unwrap_err()[0].to_string().contains("not-there.toml"));
}

#[test]
fn the_servers_secret_is_made_once_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let config = Config { data: folder.path().join("data"), ..Config::default() };
    let first = config.identity().unwrap().secret.derive("x", &[]);
    assert_eq!(config.identity().unwrap().secret.derive("x", &[]), first);
    let mode = std::fs::metadata(config.data.join("secret.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn files_are_in_the_data_folder_unless_another_is_named() {
    let folder = |text: &str| Config::parse(text).unwrap().files_folder();
    assert_eq!(folder("data = \"d\""), PathBuf::from("d/files"));
    assert_eq!(folder("data = \"d\"\n[files]\ndir = \"f\""), PathBuf::from("f"));
    assert_eq!(errors("[files]\ndir = \"Cargo.toml\""), ["files.dir: is no folder"]);
    let shared = Config::parse("database_url = \"postgres://db\"").unwrap();
    assert!(shared.warnings().iter().any(|warning| warning.key == "files.dir"));
}

#[test]
fn every_wrong_type_is_named_at_once() {
    let text = "listen = 7\ndemo = \"yes\"\nnonsense = 1\n[network]\ntrusted_proxies = [\"10.0.0.1\", 3]\n\
                [limits]\nconnections = \"many\"\n[rates.read]\nburst = true\n[tls]\ncert = 1\n[jwt]\nissuer = 2";
    let named = |error: &str| error.split(':').next().unwrap_or("").to_owned();
    let mut found: Vec<String> = errors(text).iter().map(|error| named(error)).collect();
    found.sort();
    let wrong = [
        "demo",
        "jwt.issuer",
        "limits.connections",
        "listen",
        "network.trusted_proxies[1]",
        "nonsense",
        "rates.read.burst",
        "tls.cert",
    ];
    assert_eq!(found, wrong);
}
