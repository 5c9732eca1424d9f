//! The binary `tenure`.

mod bench;
mod exit;
mod progress;
mod serve;
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
    /// Run the server.
    Serve(serve::Serve),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(serve::ConfigCommand),
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help that was asked for is no mistake.
            let code = if error.use_stderr() { ExitCode::from(exit::USAGE) } else { ExitCode::SUCCESS };
            let _ = error.print();
            return code;
        }
    };
    let result = match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Config(config) => config.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Check(check) => check.run(),
        Command::Bench(bench) => bench.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&*error),
    }
}
