//! Commands at a steady pace, beside something else that is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, ItemId, Principal, SessionId, Verb};
use tenure_engine::{Engine, ReplyTo};
use tokio::sync::mpsc;

/// Sends about `rate` claims a second until told to stop; answers how many were answered.
pub(crate) fn commands(engine: &Engine, rate: u64, stop: &Arc<AtomicBool>) -> u64 {
    let collection = CollectionKey::new("lock/steady").expect("a valid key");
    let actor = Principal::new("steady", "Steady").expect("a valid principal");
    let session = Some(SessionId::new("steady").expect("a valid session"));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let (mut sent, mut answered) = (0_u64, 0_u64);
    let started = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX) * rate / 1_000_000;
        while sent < due {
            // The same thousand keys again and again: a renewal is a command like any other.
            let item = ItemId::new(format!("key-{}", sent % 1_000)).expect("a valid id");
            let verb =
                Verb::Acquire(Acquire { items: vec![item], session: session.clone(), ..Acquire::default() });
            let command = Command { collection: collection.clone(), actor: actor.clone(), verb };
            engine.submit(command.into(), ReplyTo::Tagged(sent, sender.clone()));
            sent += 1;
        }
        while let Ok((_, answer)) = receiver.try_recv() {
            answered += u64::from(answer.outcome.is_ok());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    answered
}
