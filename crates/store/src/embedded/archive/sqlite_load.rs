//! Reading all rows of the archive at start, as fast as SQLite gives them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Row};
use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, EndReason, Item, ItemId, Json, Policy, Principal, RowsMut,
    SessionId, Status, Text,
};

use super::group::KeptPlace;
use super::sqlite::{hash_of, uint};
use super::{Loaded, Meta};
use crate::{Error, State};

/// All rows; the outer error is SQLite's, the inner one is about what it holds.
pub(super) fn load(
    connection: &Connection,
    path: &Path,
    kept: &mut dyn FnMut(KeptPlace, &[u8]),
) -> rusqlite::Result<Result<Loaded, Error>> {
    let meta = read_meta(connection)?;
    let mut loading = Loading { path, state: State::default(), words: Words::default() };
    let keys = match loading.collections(connection)? {
        Ok(keys) => keys,
        Err(error) => return Ok(Err(error)),
    };
    for read in [Loading::policies, Loading::items, Loading::claims] {
        if let Err(error) = read(&mut loading, connection, &keys)? {
            return Ok(Err(error));
        }
    }
    self::kept(connection, kept)?;
    Ok(Ok(Loaded { meta, state: loading.state }))
}

/// Each chunk of kept replies, oldest first.
pub(super) fn kept(connection: &Connection, visit: &mut dyn FnMut(KeptPlace, &[u8])) -> rusqlite::Result<()> {
    let mut chunks = connection.prepare("SELECT through, part, data FROM kept ORDER BY through, part")?;
    let mut rows = chunks.query([])?;
    while let Some(row) = rows.next()? {
        let place = KeptPlace { through: uint(row.get(0)?), part: row.get(1)? };
        visit(place, row.get_ref(2)?.as_bytes()?);
    }
    Ok(())
}

pub(crate) fn read_meta(connection: &Connection) -> rusqlite::Result<Meta> {
    connection.query_row("SELECT store, folded_through, high_water_ms, epoch FROM meta", [], |row| {
        let store: i64 = row.get(0)?;
        Ok(Meta {
            store: u64::from_le_bytes(store.to_le_bytes()),
            folded_through: uint(row.get(1)?),
            high_water_ms: row.get(2)?,
            epoch: uint(row.get(3)?),
        })
    })
}

type Keys = HashMap<i64, CollectionKey>;
type Checked = rusqlite::Result<Result<(), Error>>;

struct Loading<'a> {
    path: &'a Path,
    state: State,
    words: Words,
}

impl Loading<'_> {
    fn collections(&mut self, connection: &Connection) -> rusqlite::Result<Result<Keys, Error>> {
        let mut keys = Keys::new();
        let mut all = connection.prepare("SELECT id, key, seq, hash, created_at_ms FROM collections")?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let Ok(key) = CollectionKey::new(row.get_ref(1)?.as_str()?) else {
                return Ok(Err(self.damaged("a collection's key")));
            };
            let head = Collection {
                seq: uint(row.get(2)?),
                hash: hash_of(row.get_ref(3)?),
                created_at_ms: row.get(4)?,
            };
            // Without an event there is no head: only a collection of policies can be so.
            if head.seq > 0 {
                self.state.put_collection(&key, Arc::new(head));
            }
            keys.insert(row.get(0)?, key);
        }
        Ok(Ok(keys))
    }

    fn policies(&mut self, connection: &Connection, _keys: &Keys) -> Checked {
        let mut all = connection.prepare("SELECT kind, policy FROM policies")?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let Ok(policy) = serde_json::from_str::<Policy>(row.get_ref(1)?.as_str()?) else {
                return Ok(Err(self.damaged("a policy")));
            };
            self.state.put_policy(row.get_ref(0)?.as_str()?, Arc::new(policy));
        }
        Ok(Ok(()))
    }

    /// Rows come in the order of their ids, so each collection's map is built at once.
    fn items(&mut self, connection: &Connection, keys: &Keys) -> Checked {
        let mut all = connection.prepare(
            "SELECT collection, id, status, version, data, fence, claim, updated_at_ms, updated_by
             FROM items ORDER BY collection, id",
        )?;
        let mut rows = all.query([])?;
        let mut current = None;
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            let collection: i64 = row.get(0)?;
            if current != Some(collection) {
                if let Err(error) = self.fill(keys, current, std::mem::take(&mut items)) {
                    return Ok(Err(error));
                }
                current = Some(collection);
            }
            match self.item(row)? {
                Some(item) => items.push(Arc::new(item)),
                None => return Ok(Err(self.damaged("an item"))),
            }
        }
        Ok(self.fill(keys, current, items))
    }

    fn fill(&mut self, keys: &Keys, collection: Option<i64>, items: Vec<Arc<Item>>) -> Result<(), Error> {
        let Some(collection) = collection else { return Ok(()) };
        let key = keys.get(&collection).ok_or_else(|| self.damaged("an item's collection"))?;
        self.state.fill_items(key, items);
        Ok(())
    }

    fn item(&mut self, row: &Row<'_>) -> rusqlite::Result<Option<Item>> {
        let Ok(id) = ItemId::new(row.get_ref(1)?.as_str()?) else { return Ok(None) };
        let Some(status) = self.words.status(row.get_ref(2)?.as_str()?) else { return Ok(None) };
        let Ok(data) = json(row, 4)? else { return Ok(None) };
        Ok(Some(Item {
            id,
            status,
            version: uint(row.get(3)?),
            data,
            fence: uint(row.get(5)?),
            claim: uint(row.get(6)?),
            updated_at_ms: row.get(7)?,
            updated_by: self.words.shared(row.get_ref(8)?.as_str()?),
        }))
    }

    fn claims(&mut self, connection: &Connection, keys: &Keys) -> Checked {
        let mut all = connection.prepare("SELECT * FROM claims ORDER BY collection, number")?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let (Some(key), Some(claim)) = (keys.get(&row.get(0)?), self.claim(row)?) else {
                return Ok(Err(self.damaged("a claim")));
            };
            self.state.put_claim(key, Arc::new(claim));
        }
        Ok(Ok(()))
    }

    fn claim(&mut self, row: &Row<'_>) -> rusqlite::Result<Option<Claim>> {
        let Ok(items) = serde_json::from_str::<Vec<ItemId>>(row.get_ref(3)?.as_str()?) else {
            return Ok(None);
        };
        let session = row.get_ref(6)?.as_str_or_null()?.map(SessionId::new).transpose();
        let (Ok(session), Ok(data)) = (session, json(row, 19)?) else { return Ok(None) };
        let reason = row.get_ref(8)?.as_str_or_null()?.map(reason_of);
        let (Some(state), None | Some(Some(_))) = (state_of(row.get_ref(7)?.as_str()?), reason) else {
            return Ok(None);
        };
        let holder = Principal {
            id: self.words.shared(row.get_ref(4)?.as_str()?),
            name: self.words.shared(row.get_ref(5)?.as_str()?),
        };
        Ok(Some(Claim {
            number: uint(row.get(1)?),
            token: uint(row.get(2)?),
            items: items.into(),
            holder,
            session,
            state,
            reason: reason.flatten(),
            ended_at_ms: row.get(9)?,
            blocked_until_ms: row.get(10)?,
            phase: self.words.shared(row.get_ref(11)?.as_str()?),
            phase_since_ms: row.get(12)?,
            ttl_ms: row.get(13)?,
            since_ms: row.get(14)?,
            heartbeat_at_ms: row.get(15)?,
            acted_at_ms: row.get(16)?,
            expires_at_ms: row.get(17)?,
            idle: row.get(18)?,
            data,
        }))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Corrupt { path: self.path.to_owned(), detail: format!("{what} in it is none") }
    }
}

/// Words that stand in many rows are kept once.
#[derive(Default)]
struct Words {
    statuses: Vec<Status>,
    shared: HashSet<Text>,
}

impl Words {
    /// A kind has few statuses: a short list is faster than a table.
    fn status(&mut self, text: &str) -> Option<Status> {
        if let Some(known) = self.statuses.iter().find(|status| status.as_str() == text) {
            return Some(known.clone());
        }
        let status = Status::new(text).ok()?;
        if self.statuses.len() < 64 {
            self.statuses.push(status.clone());
        }
        Some(status)
    }

    fn shared(&mut self, text: &str) -> Text {
        if let Some(known) = self.shared.get(text) {
            return known.clone();
        }
        let shared: Text = Text::from(text);
        self.shared.insert(shared.clone());
        shared
    }
}

fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Result<Option<Json>, tenure_core::Refusal>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    Ok(text.map(|text| Json::parse(text, "data")).transpose())
}

fn state_of(word: &str) -> Option<ClaimState> {
    Some(match word {
        "active" => ClaimState::Active,
        "released" => ClaimState::Released,
        "completed" => ClaimState::Completed,
        "expired" => ClaimState::Expired,
        "cancelled" => ClaimState::Cancelled,
        "revoked" => ClaimState::Revoked,
        _ => return None,
    })
}

fn reason_of(word: &str) -> Option<EndReason> {
    use EndReason::{Cancelled, Completed, Expired, ForceReleased, Idle, MaxHold, Released, TakenOver};
    let all = [Released, Completed, Expired, Idle, MaxHold, Cancelled, ForceReleased, TakenOver];
    all.into_iter().find(|reason| reason.as_str() == word)
}

/// The rows of the claims and items tables are read by position.
#[cfg(test)]
mod tests {
    #[test]
    fn every_end_has_a_word_that_reads_back() {
        use tenure_core::EndReason::{Idle, MaxHold, TakenOver};
        for reason in [Idle, MaxHold, TakenOver] {
            assert_eq!(super::reason_of(reason.as_str()), Some(reason));
            let state = reason.state();
            assert_eq!(super::state_of(super::super::sqlite::state_word(state)), Some(state));
        }
    }
}
