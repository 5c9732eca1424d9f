//! `cargo run --release -p tenure-fuzz -- --inputs 1000000 journal`

use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressIterator};
use tenure_fuzz::TARGETS;

/// Spoils what comes from outside.
#[derive(Parser)]
struct Arguments {
    /// Inputs for each target.
    #[arg(long, default_value_t = 10_000)]
    inputs: u64,
    /// The first input's number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these.
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen =
        if arguments.targets.is_empty() { TARGETS.map(str::to_owned).to_vec() } else { arguments.targets };
    for name in chosen {
        let bar = ProgressBar::new(arguments.inputs);
        let numbers = (arguments.seed..arguments.seed + arguments.inputs).progress_with(bar.clone());
        let result = tenure_fuzz::run(&name, numbers);
        bar.finish_and_clear();
        match result {
            Ok(count) => println!("{name}: {count} inputs, nothing broke"),
            Err(broken) => {
                println!("{name}: {broken}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
