//! How a raffle's events read on its page's socket: what became of which number. Whose a number is, only its
//! owner and an administrator learn.

use axum::body::Bytes;
use serde_json::{Value, json};
use tenure_apps::raffle::{KIND, number_of};
use tenure_core::{CollectionKey, Event, Fact, ItemId, Principal};
use tenure_engine::Snapshot;

use crate::access::Role;
use crate::stream::EventText;
use crate::time::rfc3339;
use crate::{App, Caller};

/// One reader of a raffle's events.
#[derive(Clone, Debug)]
pub(crate) struct RaffleForm {
    key: CollectionKey,
    who: Principal,
    is_admin: bool,
}

impl RaffleForm {
    pub(crate) fn new(key: &CollectionKey, caller: &Caller) -> Self {
        Self { key: key.clone(), who: caller.principal.clone(), is_admin: caller.role == Role::Admin }
    }

    /// It reads whose everything is.
    pub(crate) fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// The event is this reader's, and may read otherwise than it does to others.
    pub(crate) fn is_about(&self, event: &Event) -> bool {
        let whose = match &event.fact {
            Fact::Granted(grant) => &grant.holder,
            Fact::Ended(end) => &end.holder,
            _ => &event.actor,
        };
        whose.id == self.who.id
    }

    /// All numbers at one moment.
    pub(crate) fn snapshot(&self, app: &App, snapshot: Option<&Snapshot>, epoch: u64) -> EventText {
        let now_ms = app.now_ms();
        let seq = snapshot.map_or(0, |snapshot| snapshot.head.seq);
        let grid = snapshot
            .and_then(|snapshot| app.raffles().seen(self.key.name(), snapshot, &self.who.id, now_ms).ok());
        let mut message = json!({
            "type": "snapshot", "raffle_id": self.key.name(), "epoch": epoch, "seq": seq,
            "server_time": rfc3339(now_ms),
        });
        if let (Some((status, grid)), Some(message)) = (grid, message.as_object_mut()) {
            message.insert("status".to_owned(), json!(status));
            message.insert("numbers".to_owned(), json!(grid.numbers));
            message.insert("counts".to_owned(), json!(grid.counts));
        }
        text(seq, "snapshot", &message)
    }

    /// What an event says to this reader; nothing where it is about no number. All messages of one event but
    /// the last carry the number before it: whoever is cut off between them comes back to all of them.
    pub(crate) fn event(&self, event: &Event) -> Vec<EventText> {
        let mut told = self.messages(event);
        let count = told.len();
        for (index, message) in told.iter_mut().enumerate() {
            let seq = if index + 1 == count { event.seq } else { event.seq.saturating_sub(1) };
            message["seq"] = json!(seq);
        }
        let texts = told.iter().map(|message| {
            let seq = message["seq"].as_u64().unwrap_or(event.seq);
            text(seq, event.fact.action(), message)
        });
        texts.collect()
    }

    fn messages(&self, event: &Event) -> Vec<Value> {
        let update = |item: &ItemId, status: &str, whose: Option<&Principal>| {
            let number = number_of(item)?;
            let mut message = json!({"type": "number_update", "number_id": number, "status": status});
            if let Some(whose) = whose.filter(|whose| self.is_admin || whose.id == self.who.id) {
                message["user_id"] = json!(whose.id);
            }
            Some(message)
        };
        match &event.fact {
            Fact::Granted(grant) => {
                let items = grant.items.iter().map(|item| &item.id);
                items.filter_map(|item| update(item, "reserved", Some(&grant.holder))).collect()
            }
            Fact::ItemAdded { item, .. } => {
                update(&item.id, "reserved", Some(&event.actor)).into_iter().collect()
            }
            Fact::ItemRemoved { item, .. } => update(item, "available", None).into_iter().collect(),
            Fact::Ended(end) => {
                let is_sold = |item: &ItemId| {
                    let mut writes = end.writes.iter().map(|completed| &completed.write);
                    writes.any(|write| write.id == *item && write.status.as_str() == "sold")
                };
                let updates = end.items.iter().filter_map(|item| {
                    if is_sold(item) {
                        update(item, "sold", Some(&end.holder))
                    } else {
                        update(item, "available", None)
                    }
                });
                let mut all: Vec<Value> = updates.collect();
                if end.reason.state() == tenure_core::ClaimState::Expired {
                    let numbers: Vec<u32> = end.items.iter().filter_map(number_of).collect();
                    all.push(json!({"type": "reservation_expired", "number_ids": numbers}));
                }
                all
            }
            Fact::ItemPut { write, .. } if write.id.as_str() == KIND => {
                vec![json!({"type": "raffle_update", "status": write.status})]
            }
            _ => Vec::new(),
        }
    }
}

fn text(seq: u64, action: &'static str, message: &Value) -> EventText {
    EventText::plain(seq, action, Bytes::from(message.to_string()))
}
