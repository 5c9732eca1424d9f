//! The REST contract, through the router in this process: every route, every answer. Names begin with the
//! id of the requirement that they prove.

mod faulty;
mod server;

mod access;
mod audit;
mod bad_input;
mod batch;
mod claims;
mod collections;
mod docs;
mod document;
mod ends;
mod events;
mod idempotency;
mod items;
mod overrides;
mod policies;
mod waiting;
