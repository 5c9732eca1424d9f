//! PostgreSQL behaves like the reference.

mod in_turn;
mod lost;
mod migrations;
mod moving;
mod plans;
mod pooler;
mod recent;
mod stuck;
mod support;
mod tls;
mod versions;
mod writers;

use std::cell::RefCell;

use tenure_store::conformance::{self, Server};
use tenure_store::postgres::{Options, Postgres};

/// Figures are always counted anew, so that they can be compared.
pub(crate) fn exact() -> Options {
    Options { stats_ms: 0, ..Options::default() }
}

#[test]
fn e09_postgres_behaves_like_the_reference() {
    let url = RefCell::new(String::new());
    let open = || Postgres::open(&url.borrow(), &exact()).expect("opens");
    let make = || {
        *url.borrow_mut() = Server::shared().database();
        open()
    };
    conformance::run_durable(make, |store| {
        drop(store);
        open()
    });
}
