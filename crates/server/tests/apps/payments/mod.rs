//! Payments over HTTP: the router in this process, the fake gateway on a port, and a browser between the two.

mod browser;
mod cards;
mod faults;
mod retries;
mod routes;
mod secrets;
mod world;
