//! Raffle, on the engine with a clock that is moved by hand.

mod checkout;
mod draw;
mod limits;
mod orders;
mod races;
mod raffles;
mod reserve;
pub(crate) mod world;
