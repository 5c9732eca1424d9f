//! The configuration as a commented `tenure.toml`: every key, what it means and what it is now.

use std::fmt::Write;

use toml::{Table, Value};

use super::Config;
use super::keys::KEYS;

impl Config {
    /// The whole configuration as it would stand in a file. Secrets are masked, and what is not set is
    /// commented out, so that the defaults read back as they are.
    pub fn show(&self) -> String {
        let table = table(self);
        let mut text = String::new();
        let mut section = "";
        for key in KEYS {
            let (of, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
            // Writing to a string cannot fail.
            if of != section {
                let _ = writeln!(text, "\n[{of}]");
                section = of;
            }
            let _ = writeln!(text, "# {} ({})", key.words, key.variable());
            let _ = match find(&table, key.path) {
                Some(value) if is_masked(value) => writeln!(text, "# {name} = {value}"),
                Some(value) => writeln!(text, "{name} = {value}"),
                None => writeln!(text, "# {name} ="),
            };
        }
        text
    }
}

/// Every key that is set, as TOML.
pub(super) fn table(config: &Config) -> Table {
    Table::try_from(config).expect("a configuration is a table")
}

fn find<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut parts = path.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

fn is_masked(value: &Value) -> bool {
    value.as_str() == Some(crate::identity::MASK)
}
