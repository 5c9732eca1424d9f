//! A number of claims and releases on the embedded store, on one thread and without a network: what `cargo xtask test
//! counts` runs under callgrind. Instructions are the same on a busy machine as on an idle one.
//!
//! `tenure-count <items in a claim> <claims>`

use std::process::ExitCode;
use std::sync::Arc;

use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, ItemId, Principal, Reply, Verb};
use tenure_engine::{Feed, Pending, Planted, Request, Ticket, Turn};
use tenure_store::embedded::archive::MemoryArchive;
use tenure_store::embedded::disk::RealDisk;
use tenure_store::embedded::{Embedded, Fold, Options};

/// Commands in one commit, as with 64 in flight.
const TURN: usize = 64;
const START_MS: i64 = 1_700_000_000_000;

#[derive(Debug)]
struct Nobody;

impl Ticket for Nobody {
    fn is_gone(&self) -> bool {
        false
    }
}

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [items, claims] = numbers[..] else {
        eprintln!("usage: tenure-count <items in a claim> <claims>");
        return ExitCode::from(64);
    };
    match run(items, claims) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenure-count: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(items: usize, claims: usize) -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("tenure-count-{}", std::process::id()));
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let store = Embedded::open_with(Arc::new(RealDisk), &folder, &options, |_| Ok(MemoryArchive::default()))?;
    let mut turn = Turn::open(store, START_MS, Feed::default(), Planted::default())?;
    let collection = CollectionKey::new("lock/count")?;
    let actor = Principal::new("u-1", "Ana")?;
    let pending = |verb| Pending {
        request: Request::from(Command { collection: collection.clone(), actor: actor.clone(), verb }),
        ticket: Nobody,
    };
    let mut clock_ms = START_MS;
    let mut left = claims;
    while left > 0 {
        let now = left.min(TURN);
        left -= now;
        let wanted = (0..now).map(|claim| {
            let ids = (0..items).map(|item| ItemId::new(format!("i{claim}-{item}")));
            Ok(pending(Verb::Acquire(Acquire {
                items: ids.collect::<Result<_, _>>()?,
                ..Acquire::default()
            })))
        });
        let inbox = wanted.collect::<Result<Vec<_>, tenure_core::Refusal>>()?;
        let mut answers = Vec::new();
        clock_ms += 1;
        turn.run(clock_ms, inbox, &mut answers)?;
        let mut releases = Vec::new();
        for answered in answers {
            let Ok(Reply::Acquired { claim, .. }) = answered.answer.outcome else {
                return Err("a claim was not granted".into());
            };
            releases.push(pending(Verb::Release { claim: claim.number }));
        }
        clock_ms += 1;
        turn.run(clock_ms, releases, &mut Vec::new())?;
    }
    drop(turn);
    Ok(std::fs::remove_dir_all(&folder)?)
}
