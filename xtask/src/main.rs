//! The command line of the tasks.

use std::process::ExitCode;

use xtask::cargo::Workspace;
use xtask::run::Options;
use xtask::{bench, cargo, counts, house, package, plan, run, soak};

const HELP: &str = "\
The project's tasks.

usage: cargo xtask <task>

  test [--keep-going] [step …]  run every step, or only the named ones, in order;
                                stop at the first that fails unless --keep-going
  soak [part …]                 for hours what the test command does a few times: drills of the real server, and what
                                other tests do; every part although one fails, or only the named ones. A drill that
                                cannot be run here fails, in soak and in test, unless TENURE_DRILLS_MAY_SKIP=full,…
                                names it
  count                         count a command's instructions, and keep the numbers
  package                       build a Debian package in release
  house                         check the house rules alone
  layers                        check which crate depends on which, alone
  fix                           let clippy and rustfmt mend what they can
  bench [--quick] [option …]    measure Tenure beside Redis, etcd, PostgreSQL row locks and the classic ticketing
                                stack, and write what came of it to bench/runs/<date>; --help for its options
  help [task …]                 this text; with a task, whether all of its words are understood";

/// What was asked for, with its words understood.
enum Task<'a> {
    Test(Options),
    Soak(Vec<&'static str>),
    Count,
    Package,
    House,
    Layers,
    Fix,
    /// Its words are `tenure-peers`' own.
    Bench(&'a [&'a str]),
    Help,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match read(&arguments).and_then(take) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn read<'a>(arguments: &'a [&'a str]) -> Result<Task<'a>, String> {
    match arguments {
        ["test", rest @ ..] => Options::parse(rest).map(Task::Test),
        ["soak", named @ ..] => soak::chosen(named).map(Task::Soak),
        ["count"] => Ok(Task::Count),
        ["package"] => Ok(Task::Package),
        ["house"] => Ok(Task::House),
        ["layers"] => Ok(Task::Layers),
        ["fix"] => Ok(Task::Fix),
        ["bench", rest @ ..] => Ok(Task::Bench(rest)),
        ["help" | "--help" | "-h"] => Ok(Task::Help),
        ["help", task @ ..] => read(task).map(|_| Task::Help),
        [] => Err(format!("which task?\n\n{HELP}")),
        [unknown, ..] => Err(format!("there is no task like `{unknown}` with these arguments\n\n{HELP}")),
    }
}

fn take(task: Task<'_>) -> Result<(), String> {
    match task {
        Task::Test(options) => run::test(&Workspace::read()?, &options),
        Task::Soak(parts) => soak::long(&Workspace::read()?, &parts),
        Task::Count => counts::keep(&Workspace::read()?),
        Task::Package => package::release(&Workspace::read()?),
        Task::House => house::report(&house::check(&Workspace::read()?)?),
        Task::Layers => house::report(&house::check_layers(&Workspace::read()?)),
        Task::Bench(rest) => bench::run(&Workspace::read()?, rest),
        Task::Fix => {
            cargo::run(&[
                "clippy",
                "--fix",
                "--allow-dirty",
                "--allow-staged",
                "--workspace",
                "--all-targets",
                "--locked",
            ])?;
            cargo::run(&["fmt", "--all"])
        }
        Task::Help => {
            println!("{HELP}\n\nsteps of test:");
            for step in plan::STEPS {
                println!("  {:<12} {}", step.name, step.why);
            }
            println!("\nparts of soak:\n  {}", soak::names().join(", "));
            Ok(())
        }
    }
}
