//! Writers that take turns, each with rows that it still has from before.

use std::sync::Arc;

use tenure_core::{Claim, ItemId, Reply, Rows, Verb};
use tenure_store::conformance::{self, Server, command, key};
use tenure_store::postgres::{Options, Postgres, PostgresView};
use tenure_store::{Batch, Error, Reader, Store, Tidier, Want};

use crate::support::{acquire, run};

const PLACE: &str = "lock/a";

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

fn granted(store: &mut Postgres, actor: &str, items: &[&str]) -> Arc<Claim> {
    let outcomes = run(store, &[acquire(PLACE, actor, items)]).expect("commits");
    let Ok(Reply::Acquired { claim, .. }) = &outcomes[0] else { panic!("{outcomes:?}") };
    claim.clone()
}

fn released(store: &mut Postgres, actor: &str, claim: u64) {
    let freed = run(store, &[command(PLACE, actor, Verb::Release { claim })]).expect("commits");
    assert!(freed[0].is_ok(), "{freed:?}");
}

/// What `store` decides on, asked for as a command would.
fn seen(store: &mut Postgres, item: &str, claim: u64) -> (Option<u64>, Option<Arc<Claim>>) {
    let id = ItemId::new(item).expect("a valid id");
    let want = Want {
        collection: key(PLACE),
        items: vec![id.clone()],
        claims: vec![claim],
        holder: None,
        reply: None,
    };
    let seen = {
        let view = store.load(&[want]).expect("loads");
        (view.item(&key(PLACE), &id).map(|item| item.claim), view.claim(&key(PLACE), claim))
    };
    store.abandon().expect("reads");
    seen
}

/// Both work there; ana's claim on `mine` has ended, and `ours` is known to the first.
fn contended() -> (&'static Server, String, Postgres, Postgres, Arc<Claim>) {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name").to_owned();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let mut other = store.another();
    let mine = granted(&mut store, "ana", &["mine"]);
    released(&mut store, "ana", mine.number);
    let ours = granted(&mut store, "ana", &["ours"]);
    released(&mut store, "ana", ours.number);
    // Until then it believed to be alone.
    granted(&mut other, "ben", &["theirs"]);
    for known in [&mine, &ours] {
        assert_eq!(seen(&mut store, known.items[0].as_str(), known.number).0, Some(known.number));
    }
    granted(&mut other, "ben", &["theirs-too"]);
    (server, name, store, other, mine)
}

#[test]
fn e09_where_several_work_a_writer_reads_again_only_what_their_events_name() {
    let (server, name, mut store, mut other, mine) = contended();
    // Whoever reads them now cannot.
    server.run(&name, "UPDATE tenure.items SET body = '' WHERE id = 'mine'");
    server.run(&name, &format!("UPDATE tenure.claims SET body = '' WHERE number = {}", mine.number));
    assert_eq!(seen(&mut store, "mine", mine.number).0, Some(mine.number), "nothing of it is read");
    let taken = granted(&mut other, "ben", &["ours"]);
    assert_eq!(seen(&mut store, "ours", taken.number), (Some(taken.number), Some(taken.clone())));
    let refused = run(&mut store, &[acquire(PLACE, "ana", &["ours"])]).expect("runs");
    assert!(refused[0].is_err(), "{refused:?}");
    // What is created and deleted is named, too.
    assert_eq!(seen(&mut store, "new", 0).0, None);
    let new = granted(&mut other, "ben", &["new"]);
    assert_eq!(seen(&mut store, "new", 0).0, Some(new.number));
    released(&mut other, "ben", new.number);
    let delete = Verb::DeleteItem {
        item: ItemId::new("new").expect("a valid id"),
        expect: tenure_core::Expect::Present,
        guard: None,
    };
    assert!(run(&mut other, &[command(PLACE, "ben", delete)]).expect("commits")[0].is_ok());
    assert_eq!(seen(&mut store, "new", 0).0, None);
}

/// A heartbeat brings no event, so no claim is believed that had not ended.
#[test]
fn e09_a_heartbeat_on_another_node_is_seen_where_several_work() {
    let (_, _, mut store, mut other, _) = contended();
    let claim = granted(&mut store, "ana", &["ours"]);
    let Claim { number, token, .. } = *claim;
    std::thread::sleep(std::time::Duration::from_millis(2));
    let beat = command(PLACE, "ana", Verb::Heartbeat { claim: number, token, idle_ms: None });
    assert!(run(&mut other, &[beat]).expect("commits")[0].is_ok());
    let found = seen(&mut store, "ours", number).1.expect("a claim");
    assert!(found.expires_at_ms > claim.expires_at_ms);
}

/// An event that is missing between, or more of them than are read: nothing is believed.
#[test]
fn e09_rows_are_believed_only_where_every_event_since_is_known() {
    let (server, name, mut store, mut other, mine) = contended();
    let taken = granted(&mut other, "ben", &["mine"]);
    server.run(&name, &format!("DELETE FROM tenure.events WHERE seq = {}", taken.number));
    assert_eq!(seen(&mut store, "mine", mine.number).0, Some(taken.number), "it was read");
    let (_, _, mut store, mut other, mine) = contended();
    let many: Vec<_> = (0..600).map(|n| acquire(PLACE, "ben", &[&format!("item-{n}")])).collect();
    assert!(run(&mut other, &many).expect("commits").iter().all(Result::is_ok));
    let taken = granted(&mut other, "ben", &["mine"]);
    assert_eq!(seen(&mut store, "mine", mine.number).0, Some(taken.number), "it was read");
}
