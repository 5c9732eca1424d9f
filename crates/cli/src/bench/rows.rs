//! The usual way: a database row per command on the commit path. SQLite in WAL mode with full
//! synchronisation, prepared statements, a transaction for each batch of 64.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::Result;
use super::load::Dice;

/// Claims and releases as row updates with an event row each; commands a second.
pub(crate) fn sqlite(folder: &Path, items: u64, batch: usize, time: Duration) -> Result<f64> {
    let path = folder.join("rows.db");
    let mut db = Connection::open(&path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch(
        "CREATE TABLE IF NOT EXISTS item (id TEXT PRIMARY KEY, holder TEXT, fence INTEGER, expires_at INTEGER) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS event (seq INTEGER PRIMARY KEY, item TEXT, holder TEXT, at INTEGER);",
    )?;
    let present: i64 = db.query_row("SELECT count(*) FROM item", [], |row| row.get(0))?;
    if present == 0 {
        let transaction = db.transaction()?;
        {
            let mut insert = transaction.prepare("INSERT INTO item VALUES (?1, NULL, 0, 0)")?;
            for number in 0..items {
                insert.execute([format!("item-{number:07}")])?;
            }
        }
        transaction.commit()?;
    }
    let mut seq: i64 = db.query_row("SELECT coalesce(max(seq), 0) FROM event", [], |row| row.get(0))?;
    let (mut dice, mut commands) = (Dice::new(7), 0_u64);
    let started = Instant::now();
    while started.elapsed() < time {
        let transaction = db.transaction()?;
        {
            let mut read = transaction.prepare_cached("SELECT holder, expires_at FROM item WHERE id = ?1")?;
            let mut write = transaction
                .prepare_cached("UPDATE item SET holder = ?2, fence = ?3, expires_at = ?4 WHERE id = ?1")?;
            let mut tell = transaction.prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3, ?4)")?;
            for _ in 0..batch {
                let id = format!("item-{:07}", dice.below(items));
                let held: Option<String> = read.query_row([&id], |row| row.get(0))?;
                seq += 1;
                let holder = if held.is_some() { None } else { Some("caller-1") };
                write.execute(params![id, holder, seq, 1_000])?;
                tell.execute(params![seq, id, holder, 1_000])?;
            }
        }
        transaction.commit()?;
        commands += batch as u64;
    }
    Ok(super::load::as_f64(commands) / started.elapsed().as_secs_f64())
}
