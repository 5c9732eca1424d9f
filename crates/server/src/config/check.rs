//! What makes sense by itself may not make sense together, or with the files it names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tenure_apps::durable;
use tenure_apps::jobs::{TextAnalyst, Workshop};
use tenure_redis::{Address, Redis};

use super::{Config, ConfigError};
use crate::access::Group;
use crate::gateway::{PowerTranz, PowerTranzSettings};
use crate::identity::{
    Algorithm, JwtSettings, Secret, ServerSecret, SessionTimes, Settings, demo_people, wrong_with_own,
};
use crate::net::Network;
use crate::rate::Rate;
use crate::runner::{HttpRunner, RunnerSettings};
use crate::tls::Tls;

impl Config {
    /// Everything that is wrong, by key. Reads the files that are named; changes nothing.
    pub fn check(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut wrong = |key: &str, reason: &str| errors.push(ConfigError::new(key, reason));
        self.check_stores(&mut wrong);
        self.check_numbers(&mut wrong);
        self.check_network(&mut wrong);
        if let Some(reason) = self.admin_key.as_ref().and_then(wrong_with_own) {
            wrong("admin_key", &reason);
        }
        if let Err(error) = crate::log::filter(&self.log.level) {
            wrong("log.level", &error);
        }
        errors.extend(self.tls().err());
        errors.extend(self.jwt_settings().err());
        errors.extend(self.workshop().err());
        errors.extend(self.gateway(self.payments.gateway_url.as_deref()).err());
        errors.extend(self.public_url().err());
        errors
    }

    /// What is allowed, but seldom meant.
    pub fn warnings(&self) -> Vec<ConfigError> {
        let mut warnings = Vec::new();
        if !self.listen.ip().is_loopback()
            && self.tls.cert.is_none()
            && self.network.trusted_proxies.is_empty()
        {
            let reason =
                "is open to the network without TLS, and no trusted proxy is named that would add it";
            warnings.push(ConfigError::new("listen", reason));
        }
        if let Some(danger) = self.demo_danger() {
            warnings.push(ConfigError::new("demo", danger));
        }
        if self.database_url.is_some() && self.payments.secrets_dir.is_none() {
            let reason = "is not set: a card payment can only be finished by the node that began it";
            warnings.push(ConfigError::new("payments.secrets_dir", reason));
        }
        if self.database_url.is_some() && self.files.dir.is_none() {
            let reason = "is not set: files stay on the node that they were uploaded to";
            warnings.push(ConfigError::new("files.dir", reason));
        }
        if self.jobs.runner_url.as_ref().is_some_and(|url| url.starts_with("http://")) {
            let reason = "sends analyses, and the key if there is one, without TLS";
            warnings.push(ConfigError::new("jobs.runner_url", reason));
        }
        warnings
    }

    /// The Redis that nodes share, if there is one.
    pub fn redis(&self) -> Result<Option<Redis>, ConfigError> {
        let wrong = |reason| ConfigError::new("redis", reason);
        let address =
            self.redis.as_ref().map(|url| Address::parse(url.expose())).transpose().map_err(wrong)?;
        Ok(address.map(Redis::new))
    }

    /// The demonstration where others can reach it: it lets everyone in, without a key.
    pub fn demo_danger(&self) -> Option<&'static str> {
        let is_open = self.demo && !self.listen.ip().is_loopback();
        is_open.then_some(
            "lets everyone who can reach this address in as anybody, an administrator included, without a key; \
             listen on 127.0.0.1, or leave it out",
        )
    }

    /// The folder with uploaded files.
    pub fn files_folder(&self) -> PathBuf {
        self.files.dir.clone().unwrap_or_else(|| self.data.join("files"))
    }

    fn check_stores(&self, wrong: &mut impl FnMut(&str, &str)) {
        let starts = |secret: &Option<Secret>, schemes: &[&str]| {
            secret.as_ref().is_none_or(|url| schemes.iter().any(|scheme| url.expose().starts_with(scheme)))
        };
        if !starts(&self.database_url, &["postgres://", "postgresql://"]) {
            wrong("database_url", "must begin with postgres://");
        }
        if let Err(error) = self.redis() {
            wrong("redis", &error.reason);
        }
        if !starts(&self.database_direct_url, &["postgres://", "postgresql://"]) {
            wrong("database_direct_url", "must begin with postgres://");
        }
        if self.database_direct_url.is_some() && self.database_url.is_none() {
            wrong("database_direct_url", "leads past a pooler of database_url: set database_url too");
        }
        if self.redis.is_some() && self.database_url.is_none() {
            wrong("redis", "is for many nodes over one database: set database_url too");
        }
        // A raffle's draw is derived from it, and anything that another node must be able to make again.
        if self.database_url.is_some() && self.secret.is_none() && self.secret_file.is_none() {
            wrong("secret", "is needed with database_url, the same on every node; or set secret_file");
        }
        // Only who takes money sets one of these two.
        let takes_money = self.payments.gateway_url.is_some() || self.payments.public_url.is_some();
        if self.database_url.is_some() && takes_money && self.payments.secrets_dir.is_none() {
            wrong("payments.secrets_dir", "is needed with database_url: a folder that every node reaches");
        }
        if self.files.dir.as_ref().is_some_and(|folder| folder.exists() && !folder.is_dir()) {
            wrong("files.dir", "is no folder");
        }
        if self.secret.as_ref().is_some_and(|secret| secret.expose().len() < 32) {
            wrong("secret", "must have at least 32 characters");
        }
    }

    fn check_numbers(&self, wrong: &mut impl FnMut(&str, &str)) {
        if self.limits.connections == 0 {
            wrong("limits.connections", "must be at least 1");
        }
        if self.limits.connections_per_address == 0 {
            wrong("limits.connections_per_address", "must be at least 1");
        }
        if !(100..=60_000).contains(&self.limits.headers_timeout_ms) {
            wrong("limits.headers_timeout_ms", "must be 100 to 60,000");
        }
        if self.limits.drain_timeout_ms > 600_000 {
            wrong("limits.drain_timeout_ms", "must be at most 600,000");
        }
        for (group, rate) in self.rate_groups() {
            if rate.per_second > 0 && rate.burst == 0 {
                let name = group.name().unwrap_or("");
                wrong(&format!("rates.{name}.burst"), "must be at least 1, or nothing would ever pass");
            }
        }
        let jobs = &self.jobs;
        if !(1..=1_000).contains(&jobs.at_once) {
            wrong("jobs.at_once", "must be 1 to 1,000");
        }
        if !(100..=3_600_000).contains(&jobs.timeout_ms) {
            wrong("jobs.timeout_ms", "must be 100 to 3,600,000");
        }
        if !(100..=jobs.timeout_ms).contains(&jobs.connect_timeout_ms) {
            wrong("jobs.connect_timeout_ms", "must be 100 to jobs.timeout_ms");
        }
        if !(60..=366 * 24 * 3_600).contains(&self.sessions.absolute_s) {
            wrong("sessions.absolute_s", "must be a minute to a year");
        }
        if !(60..=self.sessions.absolute_s).contains(&self.sessions.idle_s) {
            wrong("sessions.idle_s", "must be a minute to sessions.absolute_s");
        }
    }

    fn check_network(&self, wrong: &mut impl FnMut(&str, &str)) {
        for (index, proxy) in self.network.trusted_proxies.iter().enumerate() {
            if let Err(reason) = proxy.parse::<Network>() {
                wrong(&format!("network.trusted_proxies[{index}]"), &reason);
            }
        }
        for (index, origin) in self.network.allowed_origins.iter().enumerate() {
            let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let plain = authority.is_some_and(|rest| {
                !rest.is_empty()
                    && !rest.contains(['/', '?', '#', '*', ' ', '@'])
                    && !rest.chars().any(char::is_uppercase)
            });
            if !plain {
                let reason = "must read https://host or https://host:port, exactly as browsers send it";
                wrong(&format!("network.allowed_origins[{index}]"), reason);
            }
        }
    }

    /// The certificate, if there is one.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, ConfigError> {
        match (&self.tls.cert, &self.tls.key) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(ConfigError::new("tls.key", "is missing: tls.cert is set")),
            (None, Some(_)) => Err(ConfigError::new("tls.cert", "is missing: tls.key is set")),
            (Some(cert), Some(key)) => Tls::open(cert, key)
                .map(Some)
                .map_err(|error| ConfigError::new("tls.cert", error.to_string())),
        }
    }

    fn jwt_settings(&self) -> Result<Option<JwtSettings>, ConfigError> {
        let jwt = &self.jwt;
        let Some(algorithm) = jwt.algorithm else {
            let set = [
                jwt.secret.is_some(),
                jwt.public_key_file.is_some(),
                jwt.issuer.is_some(),
                jwt.audience.is_some(),
            ];
            return if set.contains(&true) {
                Err(ConfigError::new("jwt.algorithm", "is missing: HS256, RS256 or EdDSA"))
            } else {
                Ok(None)
            };
        };
        let missing =
            |key: &str| ConfigError::new(key, format!("is missing: jwt.algorithm is {algorithm:?}"));
        let (key, where_key) = match algorithm {
            Algorithm::HS256 => (jwt.secret.clone().ok_or_else(|| missing("jwt.secret"))?, "jwt.secret"),
            Algorithm::RS256 | Algorithm::EdDSA => {
                let path = jwt.public_key_file.as_ref().ok_or_else(|| missing("jwt.public_key_file"))?;
                let text = std::fs::read_to_string(path).map_err(|error| {
                    ConfigError::new("jwt.public_key_file", format!("{}: {error}", path.display()))
                })?;
                (Secret::new(text), "jwt.public_key_file")
            }
        };
        let settings = JwtSettings {
            algorithm,
            key,
            issuer: jwt.issuer.clone().ok_or_else(|| missing("jwt.issuer"))?,
            audience: jwt.audience.clone().ok_or_else(|| missing("jwt.audience"))?,
            name_claim: jwt.name_claim.clone(),
            role_claim: jwt.role_claim.clone(),
            roles: jwt.roles.clone(),
            default_role: jwt.default_role,
            kinds_claim: jwt.kinds_claim.clone(),
        };
        settings.check().map_err(|reason| ConfigError::new(where_key, reason))?;
        Ok(Some(settings))
    }

    /// How people and programs are known. Makes the server's secret if there is none yet.
    pub fn identity(&self) -> Result<Settings, ConfigError> {
        let ms = |seconds: u64| i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Ok(Settings {
            secret: self.server_secret()?,
            jwt: self.jwt_settings()?,
            sessions: SessionTimes {
                idle_ms: ms(self.sessions.idle_s),
                absolute_ms: ms(self.sessions.absolute_s),
            },
            people: if self.demo { demo_people() } else { Vec::new() },
            allowed_origins: self.network.allowed_origins.clone(),
        })
    }

    /// Where analyses are run: here, or by whoever listens at the configured URL.
    pub(crate) fn workshop(&self) -> Result<Workshop, ConfigError> {
        let jobs = &self.jobs;
        // A size that is wrong is named where numbers are checked.
        let at_once = jobs.at_once.clamp(1, 1_000);
        let mut allowed = Vec::new();
        for (index, network) in jobs.allowed_networks.iter().enumerate() {
            let wrong = |reason| ConfigError::new(format!("jobs.allowed_networks[{index}]"), reason);
            allowed.push(network.parse::<Network>().map_err(wrong)?);
        }
        let Some(url) = &jobs.runner_url else { return Ok(Workshop::new(TextAnalyst, at_once)) };
        let settings = RunnerSettings {
            key: jobs.runner_key.clone(),
            ca_file: jobs.runner_ca_file.clone(),
            connect_time: Duration::from_millis(jobs.connect_timeout_ms),
            time: Duration::from_millis(jobs.timeout_ms),
            allowed,
        };
        let runner = HttpRunner::new(url, settings)
            .map_err(|(key, reason)| ConfigError::new(format!("jobs.{key}"), reason))?;
        Ok(Workshop::new(runner, at_once))
    }

    /// The card gateway at this address, or at its own.
    pub(crate) fn gateway(&self, base: Option<&str>) -> Result<PowerTranz, ConfigError> {
        let payments = &self.payments;
        let mut allowed = Vec::new();
        for (index, network) in payments.allowed_networks.iter().enumerate() {
            let wrong = |reason| ConfigError::new(format!("payments.allowed_networks[{index}]"), reason);
            allowed.push(network.parse::<Network>().map_err(wrong)?);
        }
        let (base, ca_file) = (base.map(str::to_owned), payments.gateway_ca_file.clone());
        let settings = PowerTranzSettings { base, ca_file, allowed, ..PowerTranzSettings::default() };
        PowerTranz::new(settings).map_err(|(key, reason)| ConfigError::new(format!("payments.{key}"), reason))
    }

    /// Where buyers reach this server, if that is configured.
    pub(crate) fn public_url(&self) -> Result<Option<&str>, ConfigError> {
        let Some(url) = &self.payments.public_url else { return Ok(None) };
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let is_plain = |rest: &str| !rest.is_empty() && !rest.contains(['?', '#', ' ', '@', '"', '\'']);
        match rest {
            Some(rest) if is_plain(rest) => Ok(Some(url)),
            _ => Err(ConfigError::new("payments.public_url", "must read https://host or https://host/path")),
        }
    }

    /// The folder with the secrets of payments.
    pub(crate) fn secrets_folder(&self) -> PathBuf {
        self.payments.secrets_dir.clone().unwrap_or_else(|| self.data.join("secrets"))
    }

    pub(crate) fn rate_groups(&self) -> [(Group, Rate); 5] {
        let rates = &self.rates;
        [
            (Group::Read, rates.read),
            (Group::Write, rates.write),
            (Group::Stream, rates.stream),
            (Group::Admin, rates.admin),
            (Group::SignIn, rates.sign_in),
        ]
    }

    pub(crate) fn trusted_proxies(&self) -> Result<Vec<Network>, ConfigError> {
        let parse = |proxy: &String| {
            proxy.parse().map_err(|reason: String| ConfigError::new("network.trusted_proxies", reason))
        };
        self.network.trusted_proxies.iter().map(parse).collect()
    }

    pub(crate) fn accept_limits(&self, trusted: &[Network]) -> crate::accept::Limits {
        let here = ["127.0.0.0/8", "::1"].into_iter().filter_map(|network| network.parse().ok());
        crate::accept::Limits {
            connections: self.limits.connections,
            connections_per_address: self.limits.connections_per_address,
            uncounted: trusted.iter().copied().chain(here).collect(),
            headers_time: Duration::from_millis(self.limits.headers_timeout_ms),
            drain_time: Duration::from_millis(self.limits.drain_timeout_ms),
        }
    }

    /// The file of the server's secret, where there is none yet and none is configured: the next call makes it.
    pub(crate) fn missing_secret(&self) -> Option<PathBuf> {
        let path = self.secret_path();
        (self.secret.is_none() && !path.exists()).then_some(path)
    }

    fn secret_path(&self) -> PathBuf {
        self.secret_file.clone().unwrap_or_else(|| self.data.join("secret.key"))
    }

    fn server_secret(&self) -> Result<ServerSecret, ConfigError> {
        if let Some(secret) = &self.secret {
            return Ok(ServerSecret::new(secret.expose().as_bytes()));
        }
        let path = self.secret_path();
        read_or_make(&path)
            .map_err(|error| ConfigError::new("secret_file", format!("{}: {error}", path.display())))
    }
}

/// The secret in the file; a new one if there is no file. Nobody else may read it.
fn read_or_make(path: &Path) -> std::io::Result<ServerSecret> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.len() >= 32 => Ok(ServerSecret::new(&bytes)),
        Ok(_) => Err(std::io::Error::other("has less than 32 bytes")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let fresh = Secret::random_key().map_err(std::io::Error::other)?;
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                durable::make_folder(folder)?;
            }
            // Of two first starts on a shared disk, one writes it and both read it.
            durable::write_first(path, fresh.expose().as_bytes())?;
            Ok(ServerSecret::new(&std::fs::read(path)?))
        }
        Err(error) => Err(error),
    }
}
