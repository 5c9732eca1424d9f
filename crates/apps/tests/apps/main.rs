//! The applications on the engine, with time moved by hand. Names begin with the id of the requirement that
//! they prove.

mod common;

mod demo;
mod jobs;
mod labels;
mod payments;
mod raffle;
mod tasks;
