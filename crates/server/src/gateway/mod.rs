//! Card gateways: the connectors that ask them, and the fake one that plays theirs on this machine.

pub mod fake;
mod form;
mod powertranz;
mod wire;

pub use powertranz::{PowerTranz, PowerTranzSettings};
