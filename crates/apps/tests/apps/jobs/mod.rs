//! Jobs: J1 to J9.

mod world;

mod deliver;
mod list;
mod lock;
mod result;
mod retries;
