//! The binary `tenure`.

mod bench;
mod progress;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Who holds what, until when.
#[derive(Parser)]
#[command(name = "tenure", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy a data folder, also while a server uses it.
    Backup(store::Backup),
    /// Make a data folder out of a backup. Every token and event number jumps ahead, so that nothing
    /// granted since the backup can be mistaken for a grant of today.
    Restore(store::Restore),
    /// Verify a data folder or a backup: journal, archive, rows against events, audit chain.
    Check(store::Check),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Check(check) => check.run(),
        Command::Bench(bench) => bench.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenure: {error}");
            ExitCode::FAILURE
        }
    }
}
