//! Tasks: T1 to T22.

mod world;

mod finalize;
mod lines;
mod lock;
mod overrides;
mod renewal;
mod retries;
mod stock;
