//! `cargo run --release -p tenure-sim -- --seeds 1000`

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use tenure_sim::{Bug, On, Options, Outcome, run};

/// Runs seeds and says whether every promise held.
#[derive(Parser)]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first of them. Alone, without --seeds, the only one.
    #[arg(long)]
    seed: Option<u64>,
    /// Happenings before the faults stop.
    #[arg(long, default_value_t = tenure_sim::STEPS)]
    steps: u64,
    /// Plants a bug, to see that it is caught.
    #[arg(long, value_parser = named_bug)]
    bug: Option<Bug>,
    /// Runs on the memory store instead of the embedded one on a simulated disk.
    #[arg(long)]
    memory: bool,
    /// Threads, each with seeds of its own.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Lines of history to print where a promise breaks.
    #[arg(long, default_value_t = 40)]
    lines: usize,
    /// Prints each seed's hash.
    #[arg(long)]
    hashes: bool,
}

fn named_bug(name: &str) -> Result<Bug, String> {
    Bug::named(name).ok_or_else(|| {
        let names: Vec<&str> = Bug::ALL.iter().map(|(name, _)| *name).collect();
        format!("known are: {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let first = arguments.seed.unwrap_or(1);
    let alone = arguments.seed.is_some() && !std::env::args().any(|argument| argument.starts_with("--seeds"));
    let on = if arguments.memory { On::Memory } else { On::Disk };
    let options = Options { steps: arguments.steps, bug: arguments.bug, lines: arguments.lines, on };
    let count = if alone { 1 } else { arguments.seeds };
    let bar = ProgressBar::new(count);
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} seeds  {bar:40}  {per_sec}  {eta} left") {
        bar.set_style(style);
    }
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let total = Mutex::new(Total::default());
    let failure: Mutex<Option<Outcome>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = run(seed, &options);
                    bar.inc(1);
                    if arguments.hashes {
                        bar.suspend(|| println!("{seed} {:016x}", outcome.history.hash()));
                    }
                    total.lock().expect("no thread panics with it").add(&outcome);
                    if outcome.violation.is_some() {
                        stop.store(true, Ordering::Relaxed);
                        let mut failure = failure.lock().expect("no thread panics with it");
                        if failure.as_ref().is_none_or(|earlier| earlier.seed > outcome.seed) {
                            *failure = Some(outcome);
                        }
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    println!("{}", total.into_inner().expect("all threads are done"));
    match failure.into_inner().expect("all threads are done") {
        None => ExitCode::SUCCESS,
        Some(outcome) => {
            print_failure(&outcome, &arguments);
            ExitCode::FAILURE
        }
    }
}

fn print_failure(outcome: &Outcome, arguments: &Arguments) {
    for line in outcome.history.newest() {
        println!("{line}");
    }
    if let Some(violation) = &outcome.violation {
        println!("\nseed {} broke {violation}", outcome.seed);
        println!("after {} lines of history, hash {:016x}", outcome.history.lines(), outcome.history.hash());
    }
    let steps = if arguments.steps == tenure_sim::STEPS {
        String::new()
    } else {
        format!(" --steps {}", arguments.steps)
    };
    let bug = arguments.bug.map_or_else(String::new, |bug| format!(" --bug {}", bug.name()));
    let memory = if arguments.memory { " --memory" } else { "" };
    println!("again: cargo run --release -p tenure-sim -- --seed {}{steps}{bug}{memory}", outcome.seed);
}

/// Sums over all seeds.
#[derive(Default)]
struct Total {
    seeds: u64,
    parts: Vec<(&'static str, u64)>,
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        let (tally, figures) = (&outcome.tally, &outcome.figures);
        let parts = [
            ("requests", tally.sent),
            ("turns", tally.turns),
            ("crashes", tally.crashes),
            ("stops", tally.stops),
            ("faults", tally.faults),
            ("damages found", tally.damages),
            ("clock jumps", tally.jumps),
            ("pauses", tally.pauses),
            ("messages lost", tally.lost),
            ("messages doubled", tally.doubled),
            ("answers judged", figures.answers),
            ("refusals", figures.refusals),
            ("replays", figures.replays),
            ("events", figures.events),
            ("grants", figures.grants),
            ("expiries", figures.expiries),
            ("waiters granted", figures.waited),
            ("unknown batches kept", figures.unknown[0]),
            ("unknown batches gone", figures.unknown[1]),
            ("client deadlines", figures.beliefs),
            ("feed deliveries", figures.feed),
        ];
        self.seeds += 1;
        if self.parts.is_empty() {
            self.parts = parts.to_vec();
        } else {
            for ((_, sum), (_, part)) in self.parts.iter_mut().zip(parts) {
                *sum += part;
            }
        }
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} seeds", self.seeds)?;
        for (name, sum) in &self.parts {
            write!(f, ", {sum} {name}")?;
        }
        Ok(())
    }
}
