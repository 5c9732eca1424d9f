//! Putting the sources together.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::keys::{KEYS, Key, Takes, suggestion};
use super::{Config, ConfigError};

/// The file that is read when nobody names one.
const DEFAULT_FILE: &str = "tenure.toml";
/// Variables of the same prefix that other commands use.
const OTHERS: &[&str] = &["TENURE_CONFIG", "TENURE_TOKEN", "TENURE_CLAIM", "TENURE_URL", "TENURE_KEY"];

/// Whoever looks for a retention has to know that there is none.
const KEPT_FOR_EVER: &str = "cannot be set: events are kept for ever";

/// What the command line says; `None` leaves a key to the other sources.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--data`
    pub data: Option<String>,
    /// `--database-url`
    pub database_url: Option<String>,
    /// `--redis`
    pub redis: Option<String>,
    /// `--demo`
    pub demo: bool,
    /// `--tls-cert`
    pub tls_cert: Option<String>,
    /// `--tls-key`
    pub tls_key: Option<String>,
    /// `--log-level`
    pub log_level: Option<String>,
    /// `--log-format`
    pub log_format: Option<String>,
}

impl Config {
    /// Reads file, environment and flags. Everything that is wrong is named at once.
    pub fn load(
        flags: &Flags,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<ConfigError>> {
        let environment: Vec<(String, String)> =
            environment.into_iter().filter(|(name, _)| name.starts_with("TENURE_")).collect();
        let mut merge = Merge::default();
        let named = environment.iter().find(|(name, _)| name == "TENURE_CONFIG").map(|(_, path)| path.into());
        match flags.config.clone().or(named) {
            Some(path) => merge.file(&path),
            None if Path::new(DEFAULT_FILE).exists() => merge.file(Path::new(DEFAULT_FILE)),
            None => {}
        }
        merge.environment(&environment);
        merge.flags(flags);
        merge.finish()
    }

    /// Reads one file's text and nothing else.
    pub fn parse(text: &str) -> Result<Self, Vec<ConfigError>> {
        let mut merge = Merge::default();
        merge.text(text, DEFAULT_FILE);
        merge.finish()
    }
}

#[derive(Debug, Default)]
struct Merge {
    table: Table,
    /// Which source said a key last.
    sources: Vec<(String, String)>,
    errors: Vec<ConfigError>,
}

impl Merge {
    fn file(&mut self, path: &Path) {
        match std::fs::read_to_string(path) {
            Ok(text) => self.text(&text, &path.display().to_string()),
            Err(error) => {
                self.errors.push(ConfigError::new("config", format!("{}: {error}", path.display())));
            }
        }
    }

    fn text(&mut self, text: &str, source: &str) {
        match text.parse::<Table>() {
            Ok(table) => self.walk("", table, source),
            Err(error) => self.errors.push(ConfigError::new("config", error.to_string()).at(source)),
        }
    }

    /// Takes every leaf that is a key, and refuses the others.
    fn walk(&mut self, prefix: &str, table: Table, source: &str) {
        for (name, value) in table {
            let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            let is_key = KEYS.iter().any(|key| key.path == path);
            let is_section = KEYS.iter().any(|key| key.path.starts_with(&format!("{path}.")));
            match value {
                value if is_key => self.set(&path, value, source),
                Value::Table(inner) if is_section => self.walk(&path, inner, source),
                _ if is_section => {
                    self.errors.push(ConfigError::new(path, "is a section, not a key").at(source));
                }
                _ if path == "retention" => {
                    self.errors.push(ConfigError::new(path, KEPT_FOR_EVER).at(source));
                }
                _ => {
                    let paths = KEYS.iter().map(|key| key.path);
                    let sections =
                        paths.clone().filter_map(|path| path.rsplit_once('.').map(|(section, _)| section));
                    let meant = suggestion(&path, paths.chain(sections));
                    let hint = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                    self.errors.push(ConfigError::new(path, format!("is not a key{hint}")).at(source));
                }
            }
        }
    }

    fn environment(&mut self, environment: &[(String, String)]) {
        for (name, text) in environment {
            if let Some(key) = KEYS.iter().find(|key| key.variable() == *name) {
                match value_of(key, text) {
                    Ok(value) => self.set(key.path, value, name),
                    Err(reason) => self.errors.push(ConfigError::new(key.path, reason).at(name)),
                }
            } else if name.starts_with("TENURE_RETENTION") {
                self.errors.push(ConfigError::new(name, KEPT_FOR_EVER).at("the environment"));
            } else if !OTHERS.contains(&name.as_str()) {
                // Other programs may have variables of this prefix; a near miss is a mistake.
                let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
                if let Some(meant) = suggestion(name, known.iter().map(String::as_str)) {
                    let reason = format!("is not a variable of Tenure; did you mean {meant}?");
                    self.errors.push(ConfigError::new(name, reason).at("the environment"));
                }
            }
        }
    }

    fn flags(&mut self, flags: &Flags) {
        let texts = [
            ("listen", "--listen", &flags.listen),
            ("data", "--data", &flags.data),
            ("database_url", "--database-url", &flags.database_url),
            ("redis", "--redis", &flags.redis),
            ("tls.cert", "--tls-cert", &flags.tls_cert),
            ("tls.key", "--tls-key", &flags.tls_key),
            ("log.level", "--log-level", &flags.log_level),
            ("log.format", "--log-format", &flags.log_format),
        ];
        for (path, flag, text) in texts {
            if let Some(text) = text {
                self.set(path, Value::String(text.clone()), flag);
            }
        }
        if flags.demo {
            self.set("demo", Value::Boolean(true), "--demo");
        }
    }

    fn set(&mut self, path: &str, value: Value, source: &str) {
        let mut table = &mut self.table;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                table.insert(part.to_owned(), value);
                break;
            }
            let section = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = section else { return };
            table = inner;
        }
        self.sources.push((path.to_owned(), source.to_owned()));
    }

    fn finish(mut self) -> Result<Config, Vec<ConfigError>> {
        // A rate's other half stays what it is by default.
        let default = super::show::table(&Config::default());
        let mut whole = default.clone();
        overlay(&mut whole, &self.table);
        // The parser ends at the first value that is wrong; it goes on without it, to find the others.
        for _ in KEYS {
            let parsed = serde_path_to_error::deserialize::<_, Config>(Value::Table(whole.clone()));
            let error = match parsed {
                Ok(config) if self.errors.is_empty() => return Ok(config),
                Ok(_) => break,
                Err(error) => error,
            };
            let path = error.path().to_string();
            let reason = error.into_inner().to_string();
            let reason = reason.lines().next().unwrap_or("is wrong").trim().to_owned();
            let mut wrong = ConfigError::new(path.clone(), reason);
            let said = self.sources.iter().rev().find(|(key, _)| holds(key, &path));
            wrong.source = said.map(|(_, source)| source.clone());
            self.errors.push(wrong);
            let Some(key) = KEYS.iter().find(|key| holds(key.path, &path)) else { break };
            reset(&mut whole, &default, key.path);
        }
        Err(self.errors)
    }
}

/// What is wrong at `path` is this key's value, or part of it.
fn holds(key: &str, path: &str) -> bool {
    path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Makes a key what it is by default.
fn reset(table: &mut Table, default: &Table, path: &str) {
    match path.split_once('.') {
        Some((section, rest)) => {
            let Some(Value::Table(table)) = table.get_mut(section) else { return };
            match default.get(section) {
                Some(Value::Table(default)) => reset(table, default, rest),
                _ => reset(table, &Table::new(), rest),
            }
        }
        None => match default.get(path) {
            Some(value) => drop(table.insert(path.to_owned(), value.clone())),
            None => drop(table.remove(path)),
        },
    }
}

fn overlay(below: &mut Table, above: &Table) {
    for (name, value) in above {
        match (below.get_mut(name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            _ => drop(below.insert(name.clone(), value.clone())),
        }
    }
}

fn value_of(key: &Key, text: &str) -> Result<Value, String> {
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    match key.takes {
        Takes::Text => Ok(Value::String(text.to_owned())),
        Takes::Number => {
            text.trim().parse().map(Value::Integer).map_err(|_| "must be a whole number".to_owned())
        }
        Takes::Flag => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(Value::Boolean(true)),
            "false" | "0" | "no" | "off" | "" => Ok(Value::Boolean(false)),
            _ => Err("must be true or false".to_owned()),
        },
        Takes::List => Ok(Value::Array(parts().map(|part| Value::String(part.to_owned())).collect())),
        Takes::Map => {
            let pairs = parts().map(|part| {
                let (name, text) = part.split_once('=').ok_or("must read name=text,name=text")?;
                Ok((name.trim().to_owned(), Value::String(text.trim().to_owned())))
            });
            pairs.collect::<Result<Table, &str>>().map(Value::Table).map_err(ToOwned::to_owned)
        }
    }
}
