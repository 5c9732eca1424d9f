//! Raffle, on the engine with a clock that is moved by hand.

mod checkout;
mod orders;
mod reserve;
pub(crate) mod world;
