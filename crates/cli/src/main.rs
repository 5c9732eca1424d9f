//! The binary `tenure`.

mod bench;
mod child;
mod exit;
mod look;
mod manage;
mod migrate;
mod out;
mod progress;
mod raffle;
mod remote;
mod run;
mod serve;
mod store;
mod watch;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// With the commit that it was built from, where that is known.
const VERSION: &str = env!("TENURE_VERSION");

/// Who holds what, until when.
#[derive(Parser)]
#[command(name = "tenure", version = VERSION, arg_required_else_help = true)]
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
    /// Hold a claim around a command.
    #[command(after_help = run::EXIT_CODES)]
    Run(run::Run),
    /// Run queued analyses by a command.
    #[command(after_help = worker::HELP)]
    Worker(worker::Worker),
    /// Tell whether the server can serve: exit code 0, or 69 where none answers or it cannot. Needs no key.
    Health(remote::Remote),
    /// List claims.
    Ls(look::Ls),
    /// Explain an item, or show a claim.
    Show(look::Show),
    /// Follow a collection's events.
    Watch(watch::Watch),
    /// Let go of a claim, or free an item by force.
    Release(manage::Release),
    /// Read the audit log.
    Audit(look::Audit),
    /// Manage API keys.
    #[command(subcommand)]
    Keys(manage::Keys),
    /// Read or set a kind's policy.
    #[command(subcommand)]
    Policy(manage::PolicyCommand),
    /// Verify a raffle's draw.
    #[command(subcommand)]
    Raffle(raffle::RaffleCommand),
    /// Print what a shell needs to complete commands.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual's pages into a folder, one for each command.
    Man {
        /// The folder; made if it is not there.
        folder: std::path::PathBuf,
    },
    /// Copy a data folder, also while a server uses it.
    Backup(store::Backup),
    /// Make a data folder out of a backup. Every token and event number jumps ahead, so that nothing
    /// granted since the backup can be mistaken for a grant of today.
    Restore(store::Restore),
    /// Verify a data folder or a backup: journal, archive, rows against events, audit chain.
    Check(store::Check),
    /// Move an installation from a data folder to PostgreSQL, or back.
    #[command(after_help = migrate::HELP)]
    Migrate(migrate::Migrate),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn manual(folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Pages carry the release alone: a commit in each would make every build another manual.
    let command = Cli::command().version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    Ok(clap_mangen::generate_to(command, folder)?)
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
        Command::Run(run) => run.run(),
        Command::Worker(worker) => worker.run(),
        Command::Health(remote) => remote.ready(),
        Command::Ls(ls) => ls.run(),
        Command::Show(show) => show.run(),
        Command::Watch(watch) => watch.run(),
        Command::Release(release) => release.run(),
        Command::Audit(audit) => audit.run(),
        Command::Keys(keys) => keys.run(),
        Command::Policy(policy) => policy.run(),
        Command::Raffle(raffle) => raffle.run(),
        Command::Completions { shell } => {
            let mut command = Cli::command();
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command, "tenure", &mut text);
            out::bytes(&text);
            Ok(())
        }
        Command::Man { folder } => manual(&folder),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Check(check) => check.run(),
        Command::Migrate(migrate) => migrate.run(),
        Command::Bench(bench) => bench.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&*error),
    }
}
