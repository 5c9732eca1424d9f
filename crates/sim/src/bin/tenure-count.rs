//! A number of claims and releases on the embedded store, on one thread and without a network: what `cargo xtask test
//! counts` runs under callgrind. Instructions are the same on a busy machine as on an idle one.
//!
//! `tenure-count <items in a claim> <claims> [heartbeat | refuse | write]`: the last is what happens to each claim before
//! it is released.

use std::process::ExitCode;
use std::sync::Arc;

use tenure_core::command::{Acquire, Expect, ItemWrite, PutItem};
use tenure_core::{Claim, CollectionKey, Command, ItemId, Json, Principal, Refusal, Reply, Verb};
use tenure_engine::{Feed, Pending, Planted, Refused, Request, Ticket, Turn};
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
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = words.iter().take(2).filter_map(|number| number.parse().ok()).collect();
    let ([items, claims], Ok(between)) = (&numbers[..], Between::named(words.get(2))) else {
        eprintln!("usage: tenure-count <items in a claim> <claims> [heartbeat | refuse | write]");
        return ExitCode::from(64);
    };
    match run(*items, *claims, between) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenure-count: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What happens to a claim before it is released.
#[derive(Clone, Copy)]
enum Between {
    Nothing,
    Heartbeat,
    Refuse,
    Write,
}

impl Between {
    fn named(name: Option<&String>) -> Result<Self, ()> {
        match name.map(String::as_str) {
            None => Ok(Self::Nothing),
            Some("heartbeat") => Ok(Self::Heartbeat),
            Some("refuse") => Ok(Self::Refuse),
            Some("write") => Ok(Self::Write),
            Some(_) => Err(()),
        }
    }

    fn verb(self, claim: &Claim) -> Result<Option<Verb>, Refusal> {
        Ok(match self {
            Self::Nothing => None,
            Self::Heartbeat => {
                Some(Verb::Heartbeat { claim: claim.number, token: claim.token, idle_ms: None })
            }
            Self::Refuse => {
                Some(Verb::Acquire(Acquire { items: claim.items.to_vec(), ..Acquire::default() }))
            }
            Self::Write => {
                let data = Some(Json::parse(r#"{"title":"Kitchen lamp"}"#, "data")?);
                let write = ItemWrite { item: claim.items[0].clone(), status: None, data };
                Some(Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None }))
            }
        })
    }

    /// Whether that is the answer to it.
    fn is_answer(self, answer: &Result<Reply, Refused>) -> bool {
        match (self, answer) {
            (Self::Refuse, Err(Refused::Rule(Refusal::Held { .. }))) => true,
            (Self::Refuse, _) => false,
            (_, answer) => answer.is_ok(),
        }
    }
}

fn run(items: usize, claims: usize, between: Between) -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("tenure-count-{}", std::process::id()));
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let store = Embedded::open_with(Arc::new(RealDisk), &folder, &options, |_| Ok(MemoryArchive::default()))?;
    let mut turn = Turn::open(store, START_MS, Feed::default(), Planted::default())?;
    let collection = CollectionKey::new("lock/count")?;
    let (ana, ben) = (Principal::new("u-1", "Ana")?, Principal::new("u-2", "Ben")?);
    let asked = |actor: &Principal, verb| Pending {
        request: Request::from(Command { collection: collection.clone(), actor: actor.clone(), verb }),
        ticket: Nobody,
    };
    let pending = |verb| asked(&ana, verb);
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
        let inbox = wanted.collect::<Result<Vec<_>, Refusal>>()?;
        let mut answers = Vec::new();
        clock_ms += 1;
        turn.run(clock_ms, inbox, &mut answers)?;
        let (mut releases, mut others) = (Vec::new(), Vec::new());
        for answered in answers {
            let Ok(Reply::Acquired { claim, .. }) = answered.answer.outcome else {
                return Err("a claim was not granted".into());
            };
            let actor = if matches!(between, Between::Refuse) { &ben } else { &ana };
            others.extend(between.verb(&claim)?.map(|verb| asked(actor, verb)));
            releases.push(pending(Verb::Release { claim: claim.number }));
        }
        if !others.is_empty() {
            let mut answers = Vec::new();
            clock_ms += 1;
            turn.run(clock_ms, others, &mut answers)?;
            let right = answers.iter().filter(|answered| between.is_answer(&answered.answer.outcome)).count();
            if right != now {
                return Err("a claim was answered otherwise".into());
            }
        }
        clock_ms += 1;
        let mut answers = Vec::new();
        turn.run(clock_ms, releases, &mut answers)?;
        if answers.iter().filter(|answered| answered.answer.outcome.is_ok()).count() != now {
            return Err("a claim was not released".into());
        }
    }
    drop(turn);
    Ok(std::fs::remove_dir_all(&folder)?)
}
