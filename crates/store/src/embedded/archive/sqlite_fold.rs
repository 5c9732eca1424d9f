//! Folding a group of batches into the archive: one transaction, all of it or nothing.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use tenure_core::{Claim, ClaimState, CollectionKey, EndReason, Hash, Item, ItemId, Json, SessionId};

use super::chunk::{Chunk, build_chunks, read_events};
use super::group::{Group, GroupItem, GroupRows};
use super::sqlite::{hash_of, int, state_word, uint};
use crate::Error;
use crate::limits::CHUNK_BYTES_SMALL;
use crate::read::follows;

/// Folds a group; the outer error is SQLite's, the inner one is about what the archive holds.
pub(super) fn fold(
    connection: &mut Connection,
    path: &Path,
    group: &Group,
) -> rusqlite::Result<Result<(), Error>> {
    let transaction = connection.transaction()?;
    let fold = Fold::new(&transaction, group, path)?;
    if let Err(error) = fold.run()? {
        return Ok(Err(error));
    }
    drop(fold);
    transaction.commit()?;
    Ok(Ok(()))
}

/// One fold, inside its transaction.
struct Fold<'a> {
    connection: &'a Connection,
    group: &'a Group,
    path: &'a Path,
    put_item: RefCell<CachedStatement<'a>>,
    take_item: RefCell<CachedStatement<'a>>,
    put_claim: RefCell<CachedStatement<'a>>,
}

impl<'a> Fold<'a> {
    fn new(connection: &'a Connection, group: &'a Group, path: &'a Path) -> rusqlite::Result<Self> {
        let put_item =
            connection.prepare_cached("INSERT OR REPLACE INTO items VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)")?;
        let take_item = connection
            .prepare_cached("UPDATE items SET fence = ?3, claim = ?4 WHERE collection = ?1 AND id = ?2")?;
        let put_claim = connection.prepare_cached(
            "INSERT OR REPLACE INTO claims
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)",
        )?;
        Ok(Self {
            connection,
            group,
            path,
            put_item: put_item.into(),
            take_item: take_item.into(),
            put_claim: put_claim.into(),
        })
    }

    fn run(&self) -> rusqlite::Result<Result<(), Error>> {
        for (key, rows) in self.group.sorted() {
            if let Err(error) = self.fold_collection(key, rows)? {
                return Ok(Err(error));
            }
        }
        let mut put = self.connection.prepare_cached("INSERT OR REPLACE INTO policies VALUES (?1, ?2)")?;
        for (kind, policy) in &self.group.policies {
            put.execute(params![&**kind, serde_json::to_string(policy).expect("a policy always encodes")])?;
        }
        self.fold_kept()?;
        let mut over = self
            .connection
            .prepare_cached("DELETE FROM claims WHERE state <> 'active' AND blocked_until_ms <= ?1")?;
        over.execute([self.group.high_water_ms])?;
        let mut meta = self.connection.prepare_cached(
            "UPDATE meta SET folded_through = ?1, high_water_ms = max(high_water_ms, ?2), epoch = max(epoch, ?3)",
        )?;
        let epoch = self.group.epoch.unwrap_or(0);
        meta.execute([int(self.group.through), self.group.high_water_ms, int(epoch)])?;
        Ok(Ok(()))
    }

    fn fold_collection(&self, key: &CollectionKey, rows: &GroupRows) -> rusqlite::Result<Result<(), Error>> {
        let (id, seq, hash) = match self.head(key)? {
            Some(head) => head,
            None => (self.insert_head(key)?, 0, Hash::default()),
        };
        if let Some(first) = rows.events.first() {
            if !follows(&first.event, seq) {
                let detail = format!("{key} ends with event {seq}, but event {} comes next", first.event.seq);
                return Ok(Err(Error::Corrupt { path: self.path.to_owned(), detail }));
            }
            self.fold_events(id, hash, rows)?;
        }
        if let Some(head) = &rows.head {
            let mut put = self.connection.prepare_cached(
                "UPDATE collections SET seq = ?2, hash = ?3, created_at_ms = ?4 WHERE id = ?1",
            )?;
            put.execute(params![id, int(head.seq), &head.hash.0[..], head.created_at_ms])?;
        }
        self.fold_items(id, rows)?;
        self.fold_claims(id, seq, rows)?;
        Ok(Ok(()))
    }

    fn head(&self, key: &CollectionKey) -> rusqlite::Result<Option<(i64, u64, Hash)>> {
        let mut find =
            self.connection.prepare_cached("SELECT id, seq, hash FROM collections WHERE key = ?1")?;
        find.query_row([key.as_str()], |row| Ok((row.get(0)?, uint(row.get(1)?), hash_of(row.get_ref(2)?))))
            .optional()
    }

    fn insert_head(&self, key: &CollectionKey) -> rusqlite::Result<i64> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO collections (key, seq, hash, created_at_ms) VALUES (?1, 0, zeroblob(32), 0)",
        )?;
        insert.insert([key.as_str()])
    }

    fn fold_items(&self, collection: i64, rows: &GroupRows) -> rusqlite::Result<()> {
        // In the order of the table, so that each page is touched once.
        let mut items: Vec<(&ItemId, &GroupItem)> = rows.items.iter().collect();
        items.sort_unstable_by_key(|(id, _)| *id);
        for (id, GroupItem { row, is_written }) in items {
            let Some(item) = row else {
                let sql = "DELETE FROM items WHERE collection = ?1 AND id = ?2";
                self.connection.prepare_cached(sql)?.execute(params![collection, id.as_str()])?;
                continue;
            };
            self.put_item(collection, item, *is_written)?;
        }
        Ok(())
    }

    fn put_item(&self, collection: i64, item: &Item, is_written: bool) -> rusqlite::Result<()> {
        // Most have only been granted.
        if !is_written {
            let mut take = self.take_item.borrow_mut();
            if take.execute((collection, item.id.as_str(), int(item.fence), int(item.claim)))? == 1 {
                return Ok(());
            }
        }
        let mut put = self.put_item.borrow_mut();
        put.execute(params![
            collection,
            item.id.as_str(),
            item.status.as_str(),
            int(item.version),
            item.data.as_ref().map(Json::as_str),
            int(item.fence),
            int(item.claim),
            item.updated_at_ms,
            &*item.updated_by,
        ])?;
        Ok(())
    }

    fn fold_claims(&self, collection: i64, folded_seq: u64, rows: &GroupRows) -> rusqlite::Result<()> {
        let mut claims: Vec<&Claim> = rows.claims.values().map(|claim| &**claim).collect();
        claims.sort_unstable_by_key(|claim| claim.number);
        for claim in claims {
            let stays =
                claim.state == ClaimState::Active || claim.blocked_until_ms > self.group.high_water_ms;
            if stays {
                self.put_claim(collection, claim)?;
            } else if claim.number <= folded_seq {
                // One that began and ended within the group was never here.
                let sql = "DELETE FROM claims WHERE collection = ?1 AND number = ?2";
                self.connection.prepare_cached(sql)?.execute([collection, int(claim.number)])?;
            }
        }
        Ok(())
    }

    fn put_claim(&self, collection: i64, claim: &Claim) -> rusqlite::Result<()> {
        let items = serde_json::to_string(&claim.items).expect("names always encode");
        let mut put = self.put_claim.borrow_mut();
        put.execute(params![
            collection,
            int(claim.number),
            int(claim.token),
            items,
            &*claim.holder.id,
            &*claim.holder.name,
            claim.session.as_ref().map(SessionId::as_str),
            state_word(claim.state),
            claim.reason.map(EndReason::as_str),
            claim.ended_at_ms,
            claim.blocked_until_ms,
            &*claim.phase,
            claim.phase_since_ms,
            claim.ttl_ms,
            claim.since_ms,
            claim.heartbeat_at_ms,
            claim.acted_at_ms,
            claim.expires_at_ms,
            claim.idle,
            claim.data.as_ref().map(Json::as_str),
        ])?;
        Ok(())
    }

    fn fold_events(&self, collection: i64, before: Hash, rows: &GroupRows) -> rusqlite::Result<()> {
        let mut find = self.connection.prepare_cached(
            "SELECT rowid, before, data FROM chunks WHERE collection = ?1 AND length(data) < ?2
             AND first_seq = (SELECT max(first_seq) FROM chunks WHERE collection = ?1)",
        )?;
        let small = int(CHUNK_BYTES_SMALL as u64);
        let last = find
            .query_row([collection, small], |row| {
                let (before, data) = (hash_of(row.get_ref(1)?), row.get_ref(2)?.as_bytes()?);
                // One that cannot be read is left as it is, for `check` to find.
                let events = read_events(before, data).collect::<Result<Vec<_>, _>>().ok();
                Ok(events.map(|events| (row.get_unwrap::<_, i64>(0), before, events)))
            })
            .optional()?
            .flatten();
        let chunks = if let Some((rowid, before, events)) = last {
            self.connection.prepare_cached("DELETE FROM chunks WHERE rowid = ?1")?.execute([rowid])?;
            let mut all: Vec<_> = events.into_iter().map(Arc::new).collect();
            all.extend(rows.events.iter().cloned());
            build_chunks(before, &all)
        } else {
            build_chunks(before, &rows.events)
        };
        for chunk in &chunks {
            self.put_chunk(collection, chunk)?;
        }
        self.group.retain_events.map_or(Ok(()), |retained| self.prune_events(collection, retained))
    }

    fn put_chunk(&self, collection: i64, chunk: &Chunk) -> rusqlite::Result<()> {
        let mut put =
            self.connection.prepare_cached("INSERT INTO chunks VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)")?;
        put.execute(params![
            collection,
            int(chunk.first_seq),
            int(chunk.last_seq),
            chunk.first_at_ms,
            chunk.last_at_ms,
            int(chunk.events),
            &chunk.before.0[..],
            chunk.bloom,
            chunk.data,
        ])?;
        Ok(())
    }

    /// Removes the chunks that are not needed for the newest events. The oldest one that stays says
    /// with its first number and the hash before it from where the chain can still be verified.
    fn prune_events(&self, collection: i64, retained: u64) -> rusqlite::Result<()> {
        let mut newest = self.connection.prepare_cached(
            "SELECT first_seq, events FROM chunks WHERE collection = ?1 ORDER BY first_seq DESC",
        )?;
        let mut rows = newest.query([collection])?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            found += uint(row.get(1)?);
            if found >= retained {
                let sql = "DELETE FROM chunks WHERE collection = ?1 AND first_seq < ?2";
                let first_seq: i64 = row.get(0)?;
                self.connection.prepare_cached(sql)?.execute([collection, first_seq])?;
                break;
            }
        }
        Ok(())
    }

    fn fold_kept(&self) -> rusqlite::Result<()> {
        let mut put = self.connection.prepare_cached("INSERT INTO kept VALUES (?1, ?2, ?3, ?4)")?;
        for (place, chunk) in self.group.kept_places() {
            put.execute(params![int(place.through), place.part, chunk.last_at_ms, chunk.data])?;
        }
        // They are in order of time: those before the first that stays can go.
        let sql = "DELETE FROM kept WHERE through <
            (SELECT through FROM kept WHERE last_at_ms >= ?1 ORDER BY through, part LIMIT 1)";
        self.connection.prepare_cached(sql)?.execute([self.group.kept_from_ms])?;
        Ok(())
    }
}
