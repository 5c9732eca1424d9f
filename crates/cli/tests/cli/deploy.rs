//! The sample compose file: what it names is there, and fits together. Nothing of it is started.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::process::{code, tenure, text};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// As much of YAML as the file uses: maps, lists, words, lists in brackets, and a map that others begin with.
struct Yaml<'a> {
    /// How far each line is indented, and what it says.
    lines: Vec<(usize, &'a str)>,
    next: usize,
    anchors: BTreeMap<&'a str, Value>,
}

impl<'a> Yaml<'a> {
    fn read(text: &'a str) -> Value {
        let says_something = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let indented = |line: &'a str| {
            assert!(!line.contains('\t'), "a tabulator: {line}");
            (line.len() - line.trim_start().len(), line.trim())
        };
        let lines = text.lines().filter(says_something).map(indented).collect();
        let mut yaml = Self { lines, next: 0, anchors: BTreeMap::new() };
        let value = yaml.block(0);
        assert_eq!(yaml.next, yaml.lines.len(), "{:?} belongs to nothing", yaml.lines.get(yaml.next));
        value
    }

    /// The lines from here that are indented by this much, with what is below them.
    fn block(&mut self, indent: usize) -> Value {
        let (mut list, mut map) = (Vec::new(), Map::new());
        while let Some((_, line)) = self.lines.get(self.next).copied().filter(|(at, _)| *at == indent) {
            if let Some(entry) = line.strip_prefix("- ") {
                // What follows the dash may be the first line of a map.
                if entry.contains(": ") {
                    self.lines[self.next] = (indent + 2, entry);
                    list.push(self.block(indent + 2));
                } else {
                    self.next += 1;
                    list.push(word(entry));
                }
                continue;
            }
            let (key, rest) =
                line.split_once(':').unwrap_or_else(|| panic!("neither a list nor a map: {line}"));
            self.next += 1;
            if let Some(anchor) = rest.trim().strip_prefix('*') {
                assert_eq!(key, "<<", "{line}");
                let other = self.anchors[anchor].as_object().expect("a map");
                map.extend(other.iter().map(|(key, value)| (key.clone(), value.clone())));
                continue;
            }
            let (anchor, rest) = match rest.trim().strip_prefix('&') {
                Some(anchor) => (Some(anchor), ""),
                None => (None, rest.trim()),
            };
            let below = self.lines.get(self.next).map(|(at, _)| *at).filter(|at| *at > indent);
            let value = match below {
                Some(below) if rest.is_empty() => self.block(below),
                _ => word(rest),
            };
            if let Some(anchor) = anchor {
                self.anchors.insert(anchor, value.clone());
            }
            assert_eq!(map.insert(key.to_owned(), value), None, "twice: {line}");
        }
        assert!(list.is_empty() || map.is_empty(), "a list and a map in one");
        if list.is_empty() { Value::Object(map) } else { Value::Array(list) }
    }
}

fn word(text: &str) -> Value {
    match text {
        "" => Value::Null,
        _ if text.starts_with(['[', '"']) => serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}")),
        _ => Value::String(text.to_owned()),
    }
}

/// The names in a list, or before the colons of a map.
fn names(value: &Value) -> BTreeSet<&str> {
    match value {
        Value::Array(list) => list.iter().map(|name| name.as_str().expect("a name")).collect(),
        Value::Object(map) => map.keys().map(String::as_str).collect(),
        _ => BTreeSet::new(),
    }
}

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

#[test]
fn r25_the_compose_file_names_only_what_is_there() {
    let file = read("compose.yaml");
    let compose = Yaml::read(&file);
    let services = compose["services"].as_object().expect("services");
    let all: BTreeSet<&str> = services.keys().map(String::as_str).collect();
    assert_eq!(all, NODES.into_iter().chain(["nginx", "postgres", "redis"]).collect());
    let (mut volumes, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for (name, service) in services {
        assert!(service["image"].is_string(), "{name}");
        assert_eq!(service["restart"], "always", "{name}");
        assert!(names(&service["depends_on"]).is_subset(&all), "{name}");
        for mount in names(&service["volumes"]) {
            let (from, to) = mount.split_once(':').expect("from and to");
            assert!(to.starts_with('/'), "{name}: {mount}");
            if let Some(path) = from.strip_prefix("./") {
                assert!(folder().join(path).is_file(), "{name}: {mount}");
            } else {
                volumes.insert(from);
            }
        }
        secrets.extend(names(&service["secrets"]));
        if let Some(build) = service.get("build") {
            let context = folder().join(build["context"].as_str().expect("a folder"));
            assert!(context.join("Cargo.lock").is_file(), "{name}");
            assert!(context.join(build["dockerfile"].as_str().expect("a file")).is_file(), "{name}");
        }
    }
    assert_eq!(volumes, names(&compose["volumes"]), "volumes that are used, and that are declared");
    assert_eq!(secrets, names(&compose["secrets"]), "secrets that are used, and that are declared");
    for (name, secret) in compose["secrets"].as_object().expect("secrets") {
        let path = secret["file"].as_str().and_then(|path| path.strip_prefix("./")).expect("a file");
        let made = format!("> deploy/{path}");
        assert!(file.lines().any(|line| line.starts_with('#') && line.ends_with(&made)), "who makes {name}?");
    }
}

#[test]
fn r25_the_compose_file_and_its_nginx_agree_on_names_ports_and_networks() {
    let (file, nginx, image) = (read("compose.yaml"), read("nginx/compose.conf"), read("Dockerfile"));
    let compose = Yaml::read(&file);
    let port = image.lines().find_map(|line| line.strip_prefix("EXPOSE ")).expect("a port");
    assert!(image.contains(&format!("TENURE_LISTEN=0.0.0.0:{port}")), "{port}");
    let asked = nginx.lines().filter_map(|line| line.trim().strip_prefix("server ")?.split(' ').next());
    let asked: BTreeSet<String> = asked.filter(|word| *word != "{").map(str::to_owned).collect();
    assert_eq!(asked, NODES.map(|node| format!("{node}:{port}")).into());

    let service = |name: &str| &compose["services"][name];
    let listens = nginx.lines().find_map(|line| line.trim().strip_prefix("listen ")?.strip_suffix(';'));
    let listens = listens.expect("a port");
    let published = service("nginx")["ports"][0].as_str().expect("a port");
    let (here, inside) = published.rsplit_once(':').expect("two ports");
    assert_eq!(inside, listens, "{published}");
    assert!(here.starts_with("127.0.0.1:"), "for this machine alone: {published}");
    let asks = service("nginx")["healthcheck"]["test"].to_string();
    assert!(asks.contains(&format!("http://127.0.0.1:{listens}/readyz")), "{asks}");
    assert!(names(&service("nginx")["depends_on"]).is_superset(&NODES.into()));

    // nginx is believed, and nobody from outside: where it is, by the network's own line.
    let subnet = &compose["networks"]["default"]["ipam"]["config"][0]["subnet"];
    let database = &service("postgres")["environment"];
    let (user, name) = (&database["POSTGRES_USER"], &database["POSTGRES_DB"]);
    let address = format!(
        "postgres://{}:$(cat deploy/secrets/password)@postgres/{}",
        user.as_str().expect("a user"),
        name.as_str().expect("a name")
    );
    assert!(file.contains(&address), "the address that the file's first lines make is {address}");
    for node in NODES {
        let environment = service(node)["environment"].as_object().expect("settings");
        assert_eq!(&environment["TENURE_NETWORK_TRUSTED_PROXIES"], subnet, "{node}");
        assert_eq!(environment["TENURE_PAYMENTS_PUBLIC_URL"], format!("http://{here}").as_str(), "{node}");
        let redis = environment["TENURE_REDIS"].as_str().and_then(|url| url.strip_prefix("redis://"));
        assert!(redis.is_some_and(|host| compose["services"].get(host).is_some()), "{node}");
    }
}

/// By the program itself, with the file that the first lines make.
#[test]
fn r25_the_compose_file_configures_its_nodes() {
    let file = read("compose.yaml");
    let compose = Yaml::read(&file);
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("tenure.toml");
    let made = "database_url = \"postgres://tenure:0123456789abcdef@postgres/tenure\"\nsecret = \"SECRET\"\n";
    std::fs::write(&config, made.replace("SECRET", &"5".repeat(64))).expect("written");
    let settings = |command: &str, node: &str| {
        let mut asked = tenure();
        asked.args(["config", command]).current_dir(folder.path());
        let environment = compose["services"][node]["environment"].as_object().expect("settings");
        asked.envs(environment.iter().map(|(name, value)| (name, value.as_str().expect("a text"))));
        let output = asked.env("TENURE_CONFIG", &config).output().expect("runs");
        assert_eq!(code(&output), 0, "{node}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    for node in NODES {
        settings("check", node);
        // A name that means nothing would be passed over.
        let known = settings("show", node);
        for name in names(&compose["services"][node]["environment"]) {
            assert!(name == "TENURE_CONFIG" || known.contains(&format!("({name})")), "{node}: {name}");
        }
    }
}

#[test]
fn a_file_that_does_not_hang_together_is_not_read() {
    let read = |text: &str| std::panic::catch_unwind(|| Yaml::read(text)).is_ok();
    assert!(read("a:\n  b: c\n  d:\n    - e\n    - f: g\n      h: i\n"));
    for wrong in ["a:\n  b: c\n c: d\n", "a\n", "a: b\na: c\n", "a:\n  - b\n  c: d\n", "a: [b\n", "a: *b\n"] {
        assert!(!read(wrong), "{wrong}");
    }
}
