//! Which server, and the key to it. The key never stands on the command line, where every user of the
//! machine could read it.

use std::future::Future;
use std::path::{Path, PathBuf};

use clap::Args;
use tenure_client::{Client, Error};

use crate::bench::Result;
use crate::exit::{Exit, NOT_ALLOWED, UNAVAILABLE, USAGE};

/// Stands where a key would, for what anyone may ask.
const NO_KEY: &str = "none";

#[derive(Args, Clone)]
pub(crate) struct Remote {
    /// The server.
    #[arg(long, env = "TENURE_URL", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// A file with the API key. Without it the key is taken from TENURE_KEY.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Trust the certificates of this file instead of the system's.
    #[arg(long, env = "TENURE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl Remote {
    /// Its address.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The same on another server.
    pub(crate) fn at(&self, server: &str) -> Self {
        Self { server: server.to_owned(), ..self.clone() }
    }

    pub(crate) fn client(&self) -> Result<Client> {
        self.client_with(&read_key(self.key_file.as_deref())?)
    }

    fn client_with(&self, key: &str) -> Result<Client> {
        let client = match &self.ca_file {
            Some(path) => Client::with_authority(&self.server, key, path),
            None => Client::new(&self.server, key),
        };
        Ok(client.map_err(|error| self.exit(&error))?)
    }

    /// Asks whether the server can serve, without a key.
    pub(crate) fn ready(&self) -> Result {
        let client = self.client_with(NO_KEY)?;
        block_on(async { client.ready().await.map_err(|error| self.exit(&error).into()) })
    }

    /// Runs what asks the server, and turns its errors into sentences with exit codes.
    pub(crate) fn ask<T>(
        &self,
        asking: impl AsyncFnOnce(&Client) -> std::result::Result<T, Error>,
    ) -> Result<T> {
        let client = self.client()?;
        block_on(async { asking(&client).await.map_err(|error| self.exit(&error).into()) })
    }

    pub(crate) fn exit(&self, error: &Error) -> Exit {
        match error {
            Error::Unreachable(why) => {
                let (what, next) = unreachable(why);
                Exit::new(UNAVAILABLE, format!("{what} at {}: {why}\n{next}", self.server))
            }
            // It is there, and cannot serve now: the same for whoever would try again.
            Error::Refused(problem) if problem.status >= 500 => Exit::new(UNAVAILABLE, error.to_string()),
            Error::Invalid(_) => Exit::new(USAGE, error.to_string()),
            // What the command line said makes no sense to the server.
            Error::Refused(problem) if problem.code == "invalid" => Exit::new(USAGE, error.to_string()),
            Error::Refused(problem) if matches!(problem.status, 401 | 403) => {
                Exit::new(NOT_ALLOWED, error.to_string())
            }
            _ => Exit::new(1, error.to_string()),
        }
    }
}

/// What can be said of a server by the reason that there is no answer, and what to do next.
fn unreachable(why: &str) -> (&'static str, &'static str) {
    if why.contains("CaUsedAsEndEntity") {
        return (
            "a certificate is not accepted",
            "It is an authority's own. Make a certificate for the server, signed by it, and name the authority with --ca-file.",
        );
    }
    if why.contains("peer certificate") {
        return ("a certificate is not trusted", "Name its authority with --ca-file or TENURE_CA_FILE.");
    }
    if why.contains("InvalidContentType") {
        return ("no TLS is spoken", "Use http:// there.");
    }
    if why.contains("reset") {
        return (
            "a connection was closed",
            "The server may have as many as it allows (limits.connections in its log).",
        );
    }
    ("no server answers", "Start one with `tenure serve`, or name another with --server or TENURE_URL.")
}

/// The API key, from a file or from TENURE_KEY.
pub(crate) fn read_key(file: Option<&Path>) -> Result<String> {
    let key = match file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Exit::new(USAGE, format!("{}: {error}", path.display())))?,
        None => std::env::var("TENURE_KEY").unwrap_or_default(),
    };
    let key = key.trim();
    if key.is_empty() {
        return Err(
            Exit::new(USAGE, "an API key is needed: set TENURE_KEY, or name a file with --key-file").into()
        );
    }
    Ok(key.to_owned())
}

/// Runs to the end on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
