//! Every key of `tenure.toml`, in the order in which it is shown: what it takes and what it means. The same
//! key is `TENURE_…` in the environment.

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Text,
    Flag,
    Number,
    /// Texts; in the environment separated by commas.
    List,
    /// Texts by name; in the environment `name=text`, separated by commas.
    Map,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) path: &'static str,
    pub(super) takes: Takes,
    pub(super) words: &'static str,
}

impl Key {
    /// Its name in the environment.
    pub(super) fn variable(&self) -> String {
        format!("TENURE_{}", self.path.replace('.', "_").to_uppercase())
    }
}

const fn key(path: &'static str, takes: Takes, words: &'static str) -> Key {
    Key { path, takes, words }
}

pub(super) const KEYS: &[Key] = &[
    key("listen", Takes::Text, "Where to listen."),
    key("data", Takes::Text, "The folder with the data, unless database_url is set."),
    key("database_url", Takes::Text, "PostgreSQL instead of the folder: postgres://user:password@host/name."),
    key(
        "database_direct_url",
        Takes::Text,
        "The same database past a pooler such as PgBouncer, for hints between nodes, which a pooler loses.",
    ),
    key(
        "redis",
        Takes::Text,
        "Redis that carries hints between nodes over one database, and counts rates for all of them: redis://user:password@host:port/number.",
    ),
    key("demo", Takes::Flag, "Load the demonstration, with people who sign in by a button."),
    key(
        "admin_key",
        Takes::Text,
        "The first administrator's key, on a start without any. Otherwise one is made and shown.",
    ),
    key(
        "secret",
        Takes::Text,
        "The server's own secret, the same on every node, at least 32 characters. Without it, it is made and kept in secret_file.",
    ),
    key("secret_file", Takes::Text, "Where that secret is kept. Not set: secret.key in the data folder."),
    key(
        "files.dir",
        Takes::Text,
        "The folder with uploaded files. Not set: files in the data folder. Shared by all nodes over one database.",
    ),
    key(
        "tls.cert",
        Takes::Text,
        "The certificate chain, as PEM. With tls.key: serve HTTPS. Read again on SIGHUP.",
    ),
    key("tls.key", Takes::Text, "Its private key, as PEM."),
    key("log.level", Takes::Text, "error, warn, info, debug or trace, also by module: info,hyper=warn."),
    key("log.format", Takes::Text, "pretty, json, or auto: pretty on a terminal and JSON otherwise."),
    key("limits.connections", Takes::Number, "Connections at once."),
    key(
        "limits.connections_per_address",
        Takes::Number,
        "Connections at once from one address. Trusted proxies and this machine do not count.",
    ),
    key(
        "limits.headers_timeout_ms",
        Takes::Number,
        "Time for a request's head; an idle connection is closed after it.",
    ),
    key("limits.drain_timeout_ms", Takes::Number, "Time for what is in flight when the server stops."),
    key("rates.read.per_second", Takes::Number, "Reading, per principal in the long run; 0 for no limit."),
    key("rates.read.burst", Takes::Number, "Reading at once."),
    key("rates.write.per_second", Takes::Number, "Claiming, renewing and writing, per principal."),
    key("rates.write.burst", Takes::Number, "Claiming, renewing and writing at once."),
    key("rates.stream.per_second", Takes::Number, "Opening streams and asking for tickets, per principal."),
    key("rates.stream.burst", Takes::Number, "Opening streams at once."),
    key(
        "rates.reserve.per_minute",
        Takes::Number,
        "Reservations of raffle numbers, per principal in a minute; 0 for no limit.",
    ),
    key(
        "rates.amend.per_minute",
        Takes::Number,
        "Changes of reservations: numbers in and out, checkout, cancel; per principal in a minute, 0 for no limit.",
    ),
    key("rates.admin.per_second", Takes::Number, "Administration, per principal."),
    key("rates.admin.burst", Takes::Number, "Administration at once."),
    key(
        "rates.sign_in.per_second",
        Takes::Number,
        "Signing in, and credentials that are wrong, per address.",
    ),
    key("rates.sign_in.burst", Takes::Number, "Signing in at once."),
    key(
        "jwt.algorithm",
        Takes::Text,
        "Accept tokens of the host application, signed with this alone: HS256, RS256 or EdDSA.",
    ),
    key("jwt.secret", Takes::Text, "The shared secret for HS256, at least 32 bytes."),
    key("jwt.public_key_file", Takes::Text, "The public key for RS256 or EdDSA, as PEM."),
    key("jwt.issuer", Takes::Text, "The only issuer (iss)."),
    key("jwt.audience", Takes::Text, "The audience (aud) that stands for this server."),
    key("jwt.name_claim", Takes::Text, "The claim with the name to show."),
    key("jwt.role_claim", Takes::Text, "The claim with the role or roles; dots lead into objects."),
    key(
        "jwt.roles",
        Takes::Map,
        "What the host application's words mean: { \"inventory.manage\" = \"editor\" }. Empty: they are Tenure's.",
    ),
    key(
        "jwt.default_role",
        Takes::Text,
        "The role of a token that names none; not set, such a token is refused.",
    ),
    key("jwt.kinds_claim", Takes::Text, "The claim with the kinds that a token covers; not set, all."),
    key("sessions.idle_s", Takes::Number, "A browser is signed out after so long without a request."),
    key("sessions.absolute_s", Takes::Number, "A browser is signed out after so long at all."),
    key(
        "network.trusted_proxies",
        Takes::List,
        "Proxies whose X-Forwarded-For and X-Forwarded-Proto count: addresses or networks.",
    ),
    key(
        "network.allowed_origins",
        Takes::List,
        "Other sites whose pages may open sockets, with a ticket: https://app.example.",
    ),
    key(
        "jobs.at_once",
        Takes::Number,
        "Analyses that this server runs at once; more are told to come later.",
    ),
    key(
        "jobs.runner_url",
        Takes::Text,
        "Run analyses by posting them here: https://host/path. Not set: the built-in analysis of texts.",
    ),
    key("jobs.runner_key", Takes::Text, "Sent to it as Authorization: Bearer."),
    key("jobs.runner_ca_file", Takes::Text, "Trust these certificates instead of the system's, as PEM."),
    key("jobs.connect_timeout_ms", Takes::Number, "Time to find it and to connect."),
    key("jobs.timeout_ms", Takes::Number, "Time for one analysis there."),
    key(
        "jobs.allowed_networks",
        Takes::List,
        "Addresses that are not public and may be posted to all the same: 10.1.0.0/16.",
    ),
    key(
        "payments.public_url",
        Takes::Text,
        "Where buyers reach this server, for gateways to send them back: https://rifa.example. Not set: where it listens.",
    ),
    key(
        "payments.secrets_dir",
        Takes::Text,
        "The folder with the secrets of payments, for this user alone. Not set: secrets in the data folder. No backup has it.",
    ),
    key(
        "payments.gateway_url",
        Takes::Text,
        "The card gateway's base, instead of its own addresses: for tests, or behind a proxy.",
    ),
    key(
        "payments.gateway_ca_file",
        Takes::Text,
        "Trust these certificates for it instead of the system's, as PEM.",
    ),
    key(
        "payments.allowed_networks",
        Takes::List,
        "Networks that are not public and where the gateway may be: 10.1.0.0/16.",
    ),
];

/// The known key that was probably meant.
pub(super) fn suggestion<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = |candidate: &str| {
        let last = |path: &str| path.rsplit('.').next().unwrap_or("").to_owned();
        // The right word in the wrong section is near too.
        if last(candidate) == last(wrong) { 1 } else { distance(wrong, candidate) }
    };
    let most = (wrong.len() / 3).clamp(1, 4);
    known
        .map(|candidate| (near(candidate), candidate))
        .filter(|(far, _)| *far <= most)
        .min()
        .map(|(_, near)| near)
}

/// How many letters must be put in, taken out, changed or swapped.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut cost = (row[j] + usize::from(a != b)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                cost = cost.min(before[j - 1] + 1);
            }
            next.push(cost);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_suggested_and_a_far_one_is_not() {
        let check = |wrong: &str, expected: Option<&str>| {
            assert_eq!(suggestion(wrong, KEYS.iter().map(|key| key.path)), expected, "{wrong}");
        };
        check("lsiten", Some("listen"));
        check("databse_url", Some("database_url"));
        check("limits.conections", Some("limits.connections"));
        check("jwt.idle_s", Some("sessions.idle_s"));
        check("colour", None);
    }

    #[test]
    fn keys_stand_once() {
        let mut paths: Vec<_> = KEYS.iter().map(|key| key.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), KEYS.len());
    }
}
