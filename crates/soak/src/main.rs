//! `cargo run -p tenure-soak -- --tenure target/debug/tenure`

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tenure_soak::Failure;
use tenure_soak::drills::{Given, Outcome, clock, full, kills, memory, paused, stalled};

/// Drills for the real server.
///
/// A drill that cannot be run here fails, unless `TENURE_DRILLS_MAY_SKIP` names it: `TENURE_DRILLS_MAY_SKIP=full` where
/// nothing can be mounted.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    inner: Option<Inner>,
    /// The binary.
    #[arg(long, default_value = "target/debug/tenure")]
    tenure: PathBuf,
    /// As often as takes hours, instead of minutes.
    #[arg(long)]
    long: bool,
    /// Only these.
    drills: Vec<String>,
}

#[derive(Subcommand)]
enum Inner {
    /// The worker of the drill that pauses one.
    #[command(hide = true)]
    Worker {
        server: SocketAddr,
        database: PathBuf,
        #[arg(long)]
        fenced: bool,
    },
}

/// The drills that need not be run where they cannot be, by name.
const MAY_SKIP: &str = "TENURE_DRILLS_MAY_SKIP";

struct Drill {
    name: &'static str,
    /// What is counted.
    of: &'static str,
    short: u64,
    long: u64,
    run: fn(Given<'_>) -> Outcome,
}

#[rustfmt::skip] // One line each reads as the table that it is.
const DRILLS: &[Drill] = &[
    Drill { name: "kills", of: "kill -9 under load", short: 20, long: 1_000, run: kills::run },
    Drill { name: "clock", of: "clock jumps", short: 20, long: 1_000, run: clock::run },
    Drill { name: "paused", of: "holders stopped for longer than their claim", short: 3, long: 100, run: paused::run },
    Drill { name: "full", of: "times that the disk is full", short: 1, long: 50, run: full::run },
    Drill { name: "stalled", of: "clients that stall", short: 200, long: 10_000, run: stalled::run },
    Drill { name: "memory", of: "seconds of the same work", short: 9, long: 1_800, run: memory::run },
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Inner::Worker { server, database, fenced }) = arguments.inner {
        return match paused::work(server, &database, fenced) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let may_skip = std::env::var(MAY_SKIP).unwrap_or_default();
    let may_skip: Vec<_> = may_skip.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    let mut named = arguments.drills.iter().map(String::as_str).chain(may_skip.iter().copied());
    if let Some(name) = named.find(|name| DRILLS.iter().all(|drill| drill.name != *name)) {
        let names: Vec<_> = DRILLS.iter().map(|drill| drill.name).collect();
        eprintln!("there is no drill {name}; there are: {}", names.join(", "));
        return ExitCode::from(64);
    }
    let Ok(program) = arguments.tenure.canonicalize() else {
        eprintln!("there is no {}: build it, or say where it is with --tenure", arguments.tenure.display());
        return ExitCode::from(64);
    };
    let is_chosen = |drill: &&Drill| {
        arguments.drills.is_empty() || arguments.drills.iter().any(|name| name == drill.name)
    };
    let mut failed = Vec::new();
    for drill in DRILLS.iter().filter(is_chosen) {
        if !run(drill, &program, arguments.long, may_skip.contains(&drill.name)) {
            failed.push(drill.name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("drills that failed: {}", failed.join(", "));
    ExitCode::FAILURE
}

fn run(drill: &Drill, program: &Path, is_long: bool, may_skip: bool) -> bool {
    let count = if is_long { drill.long } else { drill.short };
    let bar = ProgressBar::new(count);
    if let Ok(style) = ProgressStyle::with_template("{msg}  {pos}/{len}  {bar:40}  {eta} left") {
        bar.set_style(style);
    }
    bar.set_message(drill.of);
    let begun = Instant::now();
    let outcome = tempfile::tempdir().map_err(Failure::from).and_then(|folder| {
        let outcome = (drill.run)(Given { program, folder: folder.path(), count, is_long, bar: &bar });
        if let Err(Failure::Broken(_)) = &outcome {
            // What is left of the server tells more than a message.
            eprintln!("{}: kept in {}", drill.name, folder.keep().display());
        }
        outcome
    });
    bar.finish_and_clear();
    let seconds = begun.elapsed().as_secs_f64();
    match outcome {
        Ok(said) => println!("{:8} {count} {}: {said} ({seconds:.1} s)", drill.name, drill.of),
        Err(skipped @ Failure::Skipped(_)) if may_skip => println!("{:8} {skipped}", drill.name),
        Err(skipped @ Failure::Skipped(_)) => {
            println!("{:8} {skipped}; that is no success: {MAY_SKIP}={} allows it", drill.name, drill.name);
            return false;
        }
        Err(broken) => {
            println!("{:8} BROKEN after {seconds:.1} s: {broken}", drill.name);
            return false;
        }
    }
    true
}
