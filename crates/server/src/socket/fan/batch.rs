//! Events as the bytes that go out: frames, made once for all who read them alike.

use std::sync::Arc;

use axum::body::Bytes;
use tenure_core::Sealed;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::apps::raffle::RaffleForm;
use crate::stream::{EventText, Place};

/// Some events in a row.
pub(in crate::socket) struct Batch<'a> {
    place: &'a Place,
    events: &'a [Arc<Sealed>],
    after: u64,
    last: u64,
    /// As they are.
    plain: Option<Bytes>,
    /// On a raffle's page, for administrators and for those whom they are not about.
    whole: Option<Bytes>,
    public: Option<Bytes>,
    /// For the one whom they are about. Made anew for each.
    own: Bytes,
}

impl<'a> Batch<'a> {
    /// Events that come after this number, at least one.
    pub(in crate::socket) fn new(place: &'a Place, after: u64, events: &'a [Arc<Sealed>]) -> Self {
        let last = events.last().map_or(after, |sealed| sealed.event.seq);
        Self { place, events, after, last, plain: None, whole: None, public: None, own: Bytes::new() }
    }

    /// The number before its first event.
    pub(in crate::socket) fn after(&self) -> u64 {
        self.after
    }

    /// The number of its last event.
    pub(in crate::socket) fn last(&self) -> u64 {
        self.last
    }

    /// What goes out to a reader of this form; nothing where the events say nothing in it.
    pub(in crate::socket) fn bytes(&mut self, form: Option<&RaffleForm>) -> &Bytes {
        let (place, events) = (self.place, self.events);
        let Some(form) = form else {
            return self.plain.get_or_insert_with(|| frames(events.iter().map(|sealed| place.text(sealed))));
        };
        let make = || frames(events.iter().flat_map(|sealed| form.event(&sealed.event)));
        if form.is_admin() {
            self.whole.get_or_insert_with(make)
        } else if events.iter().any(|sealed| form.is_about(&sealed.event)) {
            self.own = make();
            &self.own
        } else {
            self.public.get_or_insert_with(make)
        }
    }
}

fn frames(texts: impl Iterator<Item = EventText>) -> Bytes {
    let mut bytes = Vec::new();
    for text in texts {
        let frame = Frame::message(text.message().clone(), OpCode::Data(Data::Text), true);
        frame.format(&mut bytes).expect("writing into memory cannot fail");
    }
    Bytes::from(bytes)
}
