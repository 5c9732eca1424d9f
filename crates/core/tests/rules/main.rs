//! Every rule of the model, by theme. All tests go through [`world::World`], which audits each
//! decision: same answer twice, refusals without a trace, gap-free numbers, a chain that verifies,
//! rows that are what the events say, and no item held twice.
//!
//! A test that proves a requirement carries its id (`t04_…`, `r06_…`).

mod acquire;
mod amend;
mod chain;
mod documents;
mod end;
mod force;
mod groups;
mod heartbeat;
mod json;
mod judge;
mod limits;
mod memory;
mod names;
mod phases;
mod policy;
mod properties;
mod refusals;
mod sessions;
mod system;
mod timers;
mod world;
