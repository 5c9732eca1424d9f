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
    let unknown = arguments.drills.iter().find(|name| DRILLS.iter().all(|drill| drill.name != **name));
    if let Some(name) = unknown {
        let names: Vec<_> = DRILLS.iter().map(|drill| drill.name).collect();
        eprintln!("there is no drill {name}; there are: {}", names.join(", "));
        return ExitCode::from(64);
    }
    let Ok(program) = arguments.tenure.canonicalize() else {
        eprintln!("there is no {}: build it, or say where it is with --tenure", arguments.tenure.display());
        return ExitCode::from(64);
    };
    let mut is_well = true;
    for drill in DRILLS
        .iter()
        .filter(|drill| arguments.drills.is_empty() || arguments.drills.iter().any(|name| name == drill.name))
    {
        is_well &= run(drill, &program, arguments.long);
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(drill: &Drill, program: &Path, is_long: bool) -> bool {
    let count = if is_long { drill.long } else { drill.short };
    let bar = ProgressBar::new(count);
    if let Ok(style) = ProgressStyle::with_template("{msg}  {pos}/{len}  {bar:40}  {eta} left") {
        bar.set_style(style);
    }
    bar.set_message(drill.of);
    let begun = Instant::now();
    let outcome = tempfile::tempdir().map_err(Failure::from).and_then(|folder| {
        let outcome = (drill.run)(Given { program, folder: folder.path(), count, bar: &bar });
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
        Err(skipped @ Failure::Skipped(_)) => println!("{:8} {skipped}", drill.name),
        Err(broken) => {
            println!("{:8} BROKEN after {seconds:.1} s: {broken}", drill.name);
            return false;
        }
    }
    true
}
