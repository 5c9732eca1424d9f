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
  soak [part …]                 for hours what the test command does a few times: drills of the real server (kills,
                                clock, paused, full, stalled, memory), crashes, commits, buyers, inputs, seeds
  count                         count a command's instructions, and keep the numbers
  package                       build a Debian package in release
  house                         check the house rules alone
  layers                        check which crate depends on which, alone
  fix                           let clippy and rustfmt mend what they can
  bench [--quick] [option …]    measure Tenure beside Redis, etcd, PostgreSQL row locks and the classic ticketing
                                stack, and write what came of it to bench/runs/<date>; --help for its options
  help                          this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match task(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn task(arguments: &[&str]) -> Result<(), String> {
    match arguments {
        ["test", rest @ ..] => run::test(&Workspace::read()?, &Options::parse(rest)?),
        ["soak", drills @ ..] => soak::long(&Workspace::read()?, drills),
        ["count"] => counts::keep(&Workspace::read()?),
        ["package"] => package::release(&Workspace::read()?),
        ["house"] => house::report(&house::check(&Workspace::read()?)?),
        ["layers"] => house::report(&house::check_layers(&Workspace::read()?)),
        ["bench", rest @ ..] => bench::run(&Workspace::read()?, rest),
        ["fix"] => {
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
        ["help" | "--help" | "-h"] => {
            println!("{HELP}\n\nsteps of test:");
            for step in plan::STEPS {
                println!("  {:<12} {}", step.name, step.why);
            }
            Ok(())
        }
        [] => Err(format!("which task?\n\n{HELP}")),
        [unknown, ..] => Err(format!("there is no task like `{unknown}` with these arguments\n\n{HELP}")),
    }
}
