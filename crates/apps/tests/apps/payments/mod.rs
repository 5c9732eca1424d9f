//! Payments on the engine, with a provider that does as it is told. Tests are named after the rows of the table
//! of states.

mod crash;
mod late;
mod providers;
mod refunds;
mod rows;
mod transfers;
mod world;
