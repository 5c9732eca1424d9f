//! One claim, so that a system-call trace can show what lies between the write and the answer.

use std::path::PathBuf;

use clap::Args;
use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, ItemId, Principal, Reply, Verb};
use tenure_engine::{Engine, Options, SystemClock};
use tenure_store::embedded::Embedded;

use super::Result;

/// Where, and what.
#[derive(Args)]
pub(crate) struct ClaimBench {
    data: PathBuf,
    key: String,
}

impl ClaimBench {
    pub(crate) fn run(self) -> Result {
        let store = Embedded::open(&self.data, &tenure_store::embedded::Options::default())?;
        let engine = Engine::start(store, SystemClock::new(), Options::default())?;
        let acquire = Acquire { items: vec![ItemId::new(self.key)?], ..Acquire::default() };
        let answer = engine.execute_blocking(Command {
            collection: CollectionKey::new("lock/bench")?,
            actor: Principal::new("bench", "Bench")?,
            verb: Verb::Acquire(acquire),
        });
        if let Reply::Acquired { claim, .. } = answer.outcome? {
            println!("granted {}", claim.token);
        }
        Ok(engine.stop()?)
    }
}
