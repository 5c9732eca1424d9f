//! The binary, as people run it: a server on a port of its own, and commands that ask it.

mod asking;
mod bench;
mod deploy;
mod folder;
mod hints;
mod http;
mod logging;
mod migrate;
mod nginx;
mod nodes;
mod pooler;
mod process;
mod proof;
mod raffle;
mod run;
mod serve;
mod upstream;
mod watching;
mod worker;
