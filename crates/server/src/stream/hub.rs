//! The text of an event, made once for everyone who follows its collection.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Weak};

use axum::body::Bytes;
use parking_lot::Mutex;
use tenure_core::{CollectionKey, Sealed};

use crate::limits::{STREAM_TEXTS_BYTES_MAX, STREAM_TEXTS_MAX};
use crate::view::EventView;

/// An event as it is sent. Clones share the text.
#[derive(Clone, Debug)]
pub(crate) struct EventText {
    /// Its number.
    pub(crate) seq: u64,
    /// What happened, in a word.
    pub(crate) action: &'static str,
    /// `{"type":"event","epoch":…,"seq":…,"event":{…}}`.
    message: Bytes,
    /// Where the event itself begins in it.
    event_at: usize,
}

impl EventText {
    /// A message of another form, which has no event in it.
    pub(crate) fn plain(seq: u64, action: &'static str, message: Bytes) -> Self {
        let event_at = 0;
        Self { seq, action, message, event_at }
    }

    /// The message for a socket.
    pub(crate) fn message(&self) -> &Bytes {
        &self.message
    }

    /// The event alone.
    pub(crate) fn event(&self) -> Bytes {
        self.message.slice(self.event_at..self.message.len() - 1)
    }

    fn of(key: &CollectionKey, epoch: u64, sealed: &Sealed) -> Self {
        let seq = sealed.event.seq;
        let mut text = String::with_capacity(512);
        // Writing into a string cannot fail.
        let _ = write!(text, r#"{{"type":"event","epoch":{epoch},"seq":{seq},"event":"#);
        let event_at = text.len();
        match serde_json::to_string(&EventView { collection: key, sealed }) {
            Ok(event) => text.push_str(&event),
            Err(error) => {
                tracing::error!(%error, collection = %key, seq, "an event could not be written as JSON");
                text.push_str("null");
            }
        }
        text.push('}');
        Self { seq, action: sealed.event.fact.action(), message: Bytes::from(text), event_at }
    }
}

/// The texts of all collections that somebody follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hub(Arc<Mutex<HashMap<CollectionKey, Weak<Texts>>>>);

impl Hub {
    /// The texts of one collection, shared with everyone who follows it now.
    pub(crate) fn texts(&self, key: &CollectionKey) -> Arc<Texts> {
        let mut all = self.0.lock();
        if let Some(texts) = all.get(key).and_then(Weak::upgrade) {
            return texts;
        }
        all.retain(|_, texts| texts.strong_count() > 0);
        let texts = Arc::new(Texts::default());
        all.insert(key.clone(), Arc::downgrade(&texts));
        texts
    }
}

/// One collection's newest texts.
#[derive(Debug, Default)]
pub(crate) struct Texts(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// In order of their numbers.
    texts: VecDeque<EventText>,
    bytes: usize,
}

impl Texts {
    /// The event's text: the one that another reader has made, or a new one. Old events are not kept, so
    /// that somebody who replays does not push out what everyone else is about to send.
    pub(crate) fn of(&self, key: &CollectionKey, epoch: u64, sealed: &Sealed) -> EventText {
        let seq = sealed.event.seq;
        let mut ring = self.0.lock();
        if ring.texts.back().is_some_and(|newest| newest.seq >= seq) {
            let found = ring.texts.binary_search_by_key(&seq, |text| text.seq);
            if let Some(text) = found.ok().and_then(|index| ring.texts.get(index)) {
                return text.clone();
            }
            drop(ring);
            return EventText::of(key, epoch, sealed);
        }
        // Made under the lock: whoever else wants it would otherwise make it too.
        let text = EventText::of(key, epoch, sealed);
        ring.bytes += text.message.len();
        ring.texts.push_back(text.clone());
        while ring.texts.len() > STREAM_TEXTS_MAX || ring.bytes > STREAM_TEXTS_BYTES_MAX {
            let Some(oldest) = ring.texts.pop_front() else { break };
            ring.bytes -= oldest.message.len();
        }
        text
    }
}
