//! `tenure bench`: figures that anyone can repeat.

mod across;
mod bare;
mod claim;
mod engine;
mod expiry;
mod hints;
mod http;
mod load;
mod report;
mod restart;
mod rows;
mod steady;
mod store;

use clap::Subcommand;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Subcommand)]
pub(crate) enum Bench {
    /// The engine in this process, durable, against a bare journal and against rows in SQLite.
    Engine(engine::EngineBench),
    /// A server over the network: one that runs, or one that is started for it.
    Http(http::HttpBench),
    /// One and two nodes over a PostgreSQL, against a transaction with row locks for each request.
    Store(store::StoreBench),
    /// Open a data folder and say how long it took and how much memory it needs.
    #[command(hide = true)]
    Open(restart::OpenBench),
    /// Claim one key, durably, and say so.
    #[command(hide = true)]
    Claim(claim::ClaimBench),
    /// Leave a data folder as a crash would, with a journal of unfolded batches.
    #[command(hide = true)]
    Tail(restart::TailBench),
}

impl Bench {
    pub(crate) fn run(self) -> Result {
        match self {
            Self::Engine(bench) => bench.run(),
            Self::Http(bench) => bench.run(),
            Self::Store(bench) => bench.run(),
            Self::Open(bench) => bench.run(),
            Self::Tail(bench) => bench.run(),
            Self::Claim(bench) => bench.run(),
        }
    }
}
