//! Writers that take turns, each with rows that it still has from before: nothing that one does is missed by the other.

use std::sync::Arc;

use tenure_store::conformance::{self, Server};
use tenure_store::postgres::{Postgres, PostgresView};
use tenure_store::{Batch, Error, Reader, Store, Tidier, Want};

/// Two writers, of which one or the other takes the next batch: now in turn, now the same several times.
struct InTurn {
    writers: [Postgres; 2],
    batches: u64,
}

impl InTurn {
    fn open() -> Self {
        let store = Postgres::open(&Server::shared().database(), &crate::exact()).expect("opens");
        let other = store.another();
        Self { writers: [store, other], batches: 0 }
    }

    fn now(&self) -> usize {
        // Some turns of each length: 0 1 1 0 1 0 0 1, and every other time four times as long.
        let (step, pattern) = (self.batches / if self.batches & 64 == 0 { 1 } else { 4 }, 0b1001_0110_u64);
        usize::try_from((pattern >> (step % 8)) & 1).expect("one of two")
    }
}

impl Store for InTurn {
    type View<'a> = PostgresView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<PostgresView<'_>, Error> {
        self.batches += 1;
        let now = self.now();
        // What a load began ends with the next one, whoever that is.
        let _ = self.writers[1 - now].abandon();
        self.writers[now].load(wants)
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let now = self.now();
        self.writers[now].commit(batch)
    }

    fn abandon(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.writers[now].abandon()
    }

    fn tidier(&self) -> Option<Tidier> {
        self.writers[0].tidier()
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn high_water_ms(&self) -> i64 {
        self.writers[0].high_water_ms()
    }

    fn epoch(&self) -> u64 {
        self.writers[0].epoch()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.writers[0].reader()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.writers.iter_mut().try_for_each(Store::close)
    }
}

#[test]
fn e09_writers_in_turn_behave_like_the_reference() {
    conformance::run(InTurn::open);
}
