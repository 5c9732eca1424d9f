//! The configuration: defaults, then `tenure.toml`, then `TENURE_*`, then flags; the later wins. A key that
//! nobody knows is refused, with the one that was probably meant.

mod check;
mod keys;
mod load;
mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use load::Flags;

use crate::Role;
use crate::identity::{Algorithm, Secret};
use crate::rate::Rate;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
    /// Where it stands: a file, a variable, a flag; `None` where nothing says it.
    pub source: Option<String>,
}

impl ConfigError {
    fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into(), source: None }
    }

    fn at(mut self, source: impl Into<String>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {} (in {source})", self.key, self.reason),
            None => write!(f, "{}: {}", self.key, self.reason),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Everything that can be configured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen.
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    /// The data folder.
    pub data: PathBuf,
    /// PostgreSQL instead.
    pub database_url: Option<Secret>,
    /// The same past a pooler, for hints.
    pub database_direct_url: Option<Secret>,
    /// Hints between nodes.
    pub redis: Option<Secret>,
    /// Load the demonstration.
    pub demo: bool,
    /// The first administrator's key.
    pub admin_key: Option<Secret>,
    /// The server's own secret.
    pub secret: Option<Secret>,
    /// Where that is kept.
    pub secret_file: Option<PathBuf>,
    /// Uploaded files.
    pub files: Uploads,
    /// HTTPS.
    pub tls: TlsFiles,
    /// Logs.
    pub log: Log,
    /// Connections.
    pub limits: Limits,
    /// Requests.
    pub rates: RateGroups,
    /// The host application's tokens.
    pub jwt: Jwt,
    /// Browsers.
    pub sessions: Sessions,
    /// Proxies and sites.
    pub network: Networks,
    /// Who runs analyses.
    pub jobs: Jobs,
    /// Who takes money.
    pub payments: Payments,
}

/// Uploaded files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Uploads {
    /// Where they are kept.
    pub dir: Option<PathBuf>,
}

/// HTTPS.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How much.
    pub level: String,
    /// How it looks.
    pub format: LogFormat,
}

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Pretty,
    /// For programs.
    Json,
}

/// Connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// At once.
    pub connections: usize,
    /// At once from one address.
    pub connections_per_address: usize,
    /// Time for a request's head.
    pub headers_timeout_ms: u64,
    /// Time for what is in flight at the end.
    pub drain_timeout_ms: u64,
}

/// How much of a group one principal may ask for, where that is little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerMinute {
    /// Requests in a minute, all of them at once if need be; 0 for no limit.
    pub per_minute: u32,
}

/// Requests, by group of routes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateGroups {
    /// Reading.
    pub read: Rate,
    /// Claiming, renewing, writing.
    pub write: Rate,
    /// Opening streams.
    pub stream: Rate,
    /// Reserving numbers of a raffle.
    pub reserve: PerMinute,
    /// Changing a reservation.
    pub amend: PerMinute,
    /// Administration.
    pub admin: Rate,
    /// Signing in.
    pub sign_in: Rate,
}

/// The host application's tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jwt {
    /// The one algorithm; without it no token is accepted.
    pub algorithm: Option<Algorithm>,
    /// The shared secret.
    pub secret: Option<Secret>,
    /// The public key.
    pub public_key_file: Option<PathBuf>,
    /// The only issuer.
    pub issuer: Option<String>,
    /// This server's audience.
    pub audience: Option<String>,
    /// The claim with the name.
    pub name_claim: String,
    /// The claim with the roles.
    pub role_claim: String,
    /// What its words mean.
    pub roles: BTreeMap<String, Role>,
    /// The role without any.
    pub default_role: Option<Role>,
    /// The claim with the kinds.
    pub kinds_claim: Option<String>,
}

/// Browsers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    /// Signed out after so long without a request.
    pub idle_s: u64,
    /// Signed out after so long at all.
    pub absolute_s: u64,
}

/// Proxies and sites.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Networks {
    /// Proxies that are believed.
    pub trusted_proxies: Vec<String>,
    /// Sites whose pages may use sessions and sockets.
    pub allowed_origins: Vec<String>,
}

/// Who runs analyses.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jobs {
    /// At once.
    pub at_once: usize,
    /// Where they are posted; not set, the built-in analysis runs.
    pub runner_url: Option<String>,
    /// What proves this server to it.
    pub runner_key: Option<Secret>,
    /// The certificates that it is known by.
    pub runner_ca_file: Option<PathBuf>,
    /// Time to connect.
    pub connect_timeout_ms: u64,
    /// Time for the whole run.
    pub timeout_ms: u64,
    /// Networks that are not public and may be posted to.
    pub allowed_networks: Vec<String>,
}

/// Who takes money. Providers themselves are set up by an administrator, with their secrets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Payments {
    /// Where buyers reach this server.
    pub public_url: Option<String>,
    /// Where secrets are kept.
    pub secrets_dir: Option<PathBuf>,
    /// The card gateway, instead of its own addresses.
    pub gateway_url: Option<String>,
    /// The certificates that it is known by.
    pub gateway_ca_file: Option<PathBuf>,
    /// Networks that are not public and where it may be.
    pub allowed_networks: Vec<String>,
}

/// An address and a port. Who writes `localhost` means this machine.
fn address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let named = text.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
    named.as_ref().unwrap_or(&text).parse().map_err(|_| {
        let wanted = "must be an address and a port, such as 127.0.0.1:8080 or 0.0.0.0:80";
        serde::de::Error::custom(format!("{wanted}; not {text:?}"))
    })
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            data: PathBuf::from("./tenure-data"),
            database_url: None,
            database_direct_url: None,
            redis: None,
            demo: false,
            admin_key: None,
            secret: None,
            secret_file: None,
            files: Uploads::default(),
            tls: TlsFiles::default(),
            log: Log::default(),
            limits: Limits::default(),
            rates: RateGroups::default(),
            jwt: Jwt::default(),
            sessions: Sessions::default(),
            network: Networks::default(),
            jobs: Jobs::default(),
            payments: Payments::default(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Auto }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let limits = crate::accept::Limits::default();
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            connections: limits.connections,
            connections_per_address: limits.connections_per_address,
            headers_timeout_ms: ms(limits.headers_time),
            drain_timeout_ms: ms(limits.drain_time),
        }
    }
}

impl Default for RateGroups {
    fn default() -> Self {
        let rate = |per_second, burst| Rate { per_second, burst };
        Self {
            read: rate(2_000, 4_000),
            write: rate(2_000, 4_000),
            stream: rate(50, 500),
            admin: rate(50, 200),
            // R24: a person reserves a few times, and whoever scripts it would keep the grid from everyone.
            reserve: PerMinute { per_minute: 10 },
            // Whoever chooses ten numbers one by one, and changes their mind about each, stays far below.
            amend: PerMinute { per_minute: 120 },
            // A person signs in a few times a day; whoever guesses keys does it all the time.
            sign_in: rate(2, 30),
        }
    }
}

impl Default for Jwt {
    fn default() -> Self {
        Self {
            algorithm: None,
            secret: None,
            public_key_file: None,
            issuer: None,
            audience: None,
            name_claim: "name".to_owned(),
            role_claim: "role".to_owned(),
            roles: BTreeMap::new(),
            default_role: None,
            kinds_claim: None,
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self { idle_s: 8 * 3_600, absolute_s: 7 * 24 * 3_600 }
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            at_once: tenure_apps::jobs::AT_ONCE_DEFAULT,
            runner_url: None,
            runner_key: None,
            runner_ca_file: None,
            connect_timeout_ms: 5_000,
            timeout_ms: 60_000,
            allowed_networks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
