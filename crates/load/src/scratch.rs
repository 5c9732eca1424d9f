//! A place in somebody's PostgreSQL that nothing else lies in, and that is gone afterwards.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use crate::Result;

/// A database of our own beside the one that was named.
#[derive(Debug)]
pub struct Scratch {
    /// The address of the new one.
    pub url: String,
    given: String,
    name: String,
}

impl Scratch {
    /// Makes it. `Err` says what to do where its user may not.
    pub async fn make(given: &str) -> Result<Self> {
        let client = connect(given).await?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let name = format!("tenure_bench_{since}");
        // Names sort as bytes here; that is how Tenure sorts, and it is the cheaper for both sides.
        let sql = format!("CREATE DATABASE {name} ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0");
        match client.batch_execute(&sql).await {
            Ok(()) => Ok(Self { url: with_database(given, &name), given: given.to_owned(), name }),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Err(
                "the benchmark works in a database of its own, which this user may not create: name one who may \
                 (ALTER ROLE … CREATEDB)"
                    .into(),
            ),
            Err(error) => Err(explained(&error).into()),
        }
    }

    /// Takes it away, with whoever is still connected to it.
    pub async fn drop(self) -> Result {
        let left = |error: String| format!("the database {} could not be dropped: {error}", self.name);
        let client = connect(&self.given).await.map_err(|error| left(error.to_string()))?;
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        client.batch_execute(&sql).await.map_err(|error| left(explained(&error)).into())
    }
}

/// A connection, driven until it is dropped.
pub async fn connect(url: &str) -> Result<Client> {
    // The parser's own words may repeat what it was given, a password for one.
    let config: Config = url
        .parse()
        .map_err(|_| "the address is not of the form postgres://user:password@host:port/database")?;
    let (client, connection) = config.connect(NoTls).await.map_err(|error| explained(&error))?;
    tokio::spawn(async move {
        // Whoever waits for an answer hears of it.
        let _ = connection.await;
    });
    Ok(client)
}

/// The same address with another database: what stands last counts.
fn with_database(url: &str, name: &str) -> String {
    let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let before = match (is_url, url.contains('?')) {
        (true, true) => "&",
        (true, false) => "?",
        (false, _) => " ",
    };
    format!("{url}{before}dbname={name}")
}

fn explained(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(found), _) => format!("PostgreSQL says: {}", found.message()),
        (None, Some(source)) => format!("PostgreSQL: {error}: {source}"),
        (None, None) => format!("PostgreSQL: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_an_address_is_replaced_in_each_of_its_forms() {
        for given in [
            "postgres://u:p@h:1/theirs",
            "postgres://u@h/theirs?connect_timeout=3",
            "host=h user=u dbname=theirs",
        ] {
            let config: Config = with_database(given, "ours").parse().unwrap();
            assert_eq!(config.get_dbname(), Some("ours"), "{given}");
            assert_eq!(config.get_user(), Some("u"), "{given}");
        }
    }
}
