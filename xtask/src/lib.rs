//! The project's tasks: `cargo xtask <task>`.
//!
//! [`plan`] says what the test command runs, [`run`] runs it, [`tools`] sees that the machine has what
//! a step needs, and [`house`] holds the rules that no other tool checks.
//!
//! Deliberately absent: any crate of the workspace. The tasks must build and run while those do not.

pub mod bench;
pub mod cargo;
pub mod counts;
pub mod house;
pub mod package;
pub mod plan;
pub mod run;
pub mod schemathesis;
mod server;
pub mod soak;
pub mod tools;
pub mod web;
