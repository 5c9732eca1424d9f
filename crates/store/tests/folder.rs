//! A data folder on the real disk: owned by one process, backed up while in use, restored, checked.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use support::{collection, expected, look, step};
use tempfile::TempDir;
use tenure_core::command::{Acquire, Expect, ItemWrite, PutItem};
use tenure_core::limits::RESTORE_STEP;
use tenure_core::{Changed, Hash, ItemId, Json, Reply, Rows, Verb, decide};
use tenure_store::conformance::{Overlay, command, key, wants_of};
use tenure_store::embedded::archive::SqliteArchive;
use tenure_store::embedded::backup::{backup, restore};
use tenure_store::embedded::check::{Report, check, unmade_sentence};
use tenure_store::embedded::disk::RealDisk;
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::{Batch, Entry, Error, EventPage, ItemFilter, Kept, Store, View};

fn options() -> Options {
    Options { segment_bytes: 64 << 10, fold_bytes: 16 << 10, fold_after_ms: 5, ..Options::default() }
}

fn manual() -> Options {
    Options { fold: Fold::Manual, ..options() }
}

fn folder() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    (parent, dir)
}

/// A folder with so many steps, all of them folded.
fn filled(dir: &Path, steps: u64) {
    let mut store = Embedded::open(dir, &manual()).unwrap();
    for number in 0..steps {
        step(&mut store, number).unwrap();
    }
    store.close().unwrap();
}

fn checked(dir: &Path) -> Report {
    check(dir, &mut |_, _| {}).unwrap()
}

/// Changes the archive behind the store's back.
fn edit(dir: &Path, sql: &str) {
    let connection = Connection::open(dir.join("archive.db")).unwrap();
    let changed = connection.execute(sql, []).unwrap();
    assert!(changed > 0, "{sql} changed nothing");
}

/// Not a test of its own: what the test below starts as a second process.
#[test]
fn second_process() {
    let Ok(dir) = std::env::var("TENURE_TEST_FOLDER") else { return };
    let opened = Embedded::open(Path::new(&dir), &options()).map(|_| ());
    assert!(matches!(opened, Err(Error::Owned { .. })), "{opened:?}");
    println!("the folder is owned");
}

/// A commit that was decided while the one before it was made safe has decisions of several moments. What the archive is
/// given of an item must not depend on which of them wrote it.
#[test]
fn i14_what_was_decided_before_its_batch_was_begun_is_folded_whole() {
    for seed in 0..20_u64 {
        let (_parent, dir) = folder();
        let mut store = Embedded::open(&dir, &manual()).unwrap();
        let mut reference = tenure_store::memory::Memory::default();
        let mut dice = seed * 7_919 + 1;
        let mut below = |end: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % end
        };
        let mut at_ms = support::START_MS;
        for _ in 0..60 {
            let entries = {
                let view = store.load(&[]).unwrap();
                let mut overlay = Overlay::new(&view);
                let mut entries = Vec::new();
                for _ in 0..=below(6) {
                    at_ms += i64::try_from(below(4)).unwrap();
                    let item = ItemId::new(format!("i{}", below(8))).unwrap();
                    let asked = command("image/a", "ana", verb_of(below(6), item, &overlay));
                    let decided = decide(&overlay, &asked, at_ms);
                    entries.extend(overlay.take(&asked, None, decided, at_ms).1);
                }
                entries
            };
            // The batch's time is that of its last decision.
            let batch = Batch { at_ms, entries };
            reference.commit(batch.clone()).unwrap();
            store.commit(batch).unwrap();
            if below(3) == 0 {
                store.fold_now(1 + below(3)).unwrap();
            }
            if below(12) == 0 {
                // Now and then by way of the journal.
                drop(store);
                store = Embedded::open(&dir, &manual()).unwrap();
            }
        }
        store.close().unwrap();
        drop(store);
        let report = checked(&dir);
        assert!(report.is_good(), "seed {seed}: {report:?}");
        let store = Embedded::open(&dir, &manual()).unwrap();
        let [found, wanted] = [store.reader(), reference.reader()]
            .map(|reader| reader.snapshot(&key("image/a")).unwrap().unwrap().items);
        assert_eq!(found, wanted, "seed {seed}");
    }
}

/// Something that may be refused.
fn verb_of(number: u64, item: ItemId, rows: &dyn Rows) -> Verb {
    let claim = rows.item(&key("image/a"), &item).map_or(0, |item| item.claim);
    let data = Json::of(&format!("written over claim {claim}")).ok();
    let write = ItemWrite { item: item.clone(), status: None, data };
    match number {
        0 => Verb::CreateCollection,
        1 | 2 => Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None }),
        3 => Verb::Acquire(Acquire { items: vec![item], ..Acquire::default() }),
        4 => Verb::Release { claim },
        _ => Verb::DeleteItem { item, expect: Expect::Any, guard: None },
    }
}

#[test]
fn a_second_process_is_told_that_the_folder_is_owned() {
    let (_parent, dir) = folder();
    let store = Embedded::open(&dir, &options()).unwrap();
    let output = Process::new(std::env::current_exe().unwrap())
        .args(["second_process", "--exact", "--nocapture"])
        .env("TENURE_TEST_FOLDER", &dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("the folder is owned"), "{said}");
    drop(store);
    Embedded::open(&dir, &options()).unwrap();
}

#[test]
fn replies_events_and_rows_survive_restarts_with_and_without_a_fold() {
    let (_parent, dir) = folder();
    let seen = expected(60);
    let mut number = 0;
    for round in 0..6 {
        let mut store = Embedded::open(&dir, &manual()).unwrap();
        assert_eq!(look(&mut store, 60), seen[usize::try_from(number).unwrap()], "round {round}");
        for _ in 0..10 {
            step(&mut store, number).unwrap();
            number += 1;
        }
        match round % 3 {
            0 => drop(store.fold_now(4).unwrap()),
            1 => store.close().unwrap(),
            _ => {}
        }
    }
}

#[test]
fn a_newer_or_foreign_archive_is_left_alone() {
    let (_parent, dir) = folder();
    filled(&dir, 3);
    let connection = Connection::open(dir.join("archive.db")).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    let opened = Embedded::open(&dir, &options()).map(|_| ());
    assert!(matches!(opened, Err(Error::Newer { found: 9, known: 1, .. })), "{opened:?}");
    connection.pragma_update(None, "user_version", 1).unwrap();
    connection.pragma_update(None, "application_id", 7).unwrap();
    let opened = Embedded::open(&dir, &options()).map(|_| ());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
    std::fs::write(dir.join("archive.db"), "not a database at all, but long enough to be looked at").unwrap();
    let opened = Embedded::open(&dir, &options()).map(|_| ());
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "{opened:?}");
}

#[test]
fn a_journal_of_another_folder_is_not_replayed() {
    let ((_a, one), (_b, other)) = (folder(), folder());
    filled(&one, 3);
    filled(&other, 3);
    let name = "journal/0000000000000001.journal";
    std::fs::copy(one.join(name), other.join(name)).unwrap();
    let opened = Embedded::open(&other, &manual()).map(|_| ());
    assert!(
        matches!(&opened, Err(Error::Corrupt { detail, .. }) if detail.contains("another")),
        "{opened:?}"
    );
}

#[test]
fn a_backup_under_load_has_everything_that_was_answered_before_it() {
    let (parent, dir) = folder();
    let mut store = Embedded::open(&dir, &options()).unwrap();
    let (answered, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    // What is compared with grows with the square of the steps: however slow a backup is, there are few.
    let steps_max = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                if number >= steps_max.load(Ordering::Acquire) {
                    std::thread::yield_now();
                    continue;
                }
                step(&mut store, number).unwrap();
                number += 1;
                answered.store(number, Ordering::Release);
            }
        });
        for round in 0..5 {
            steps_max.store(100 * (round + 1), Ordering::Release);
            while answered.load(Ordering::Acquire) < 100 * round + 20 {
                std::thread::yield_now();
            }
            let target = parent.path().join(format!("backup-{round}"));
            let before = answered.load(Ordering::Acquire);
            let last = backup(&dir, &target, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
            assert!(last >= before, "{last} of {before}");
            let report = checked(&target);
            assert!(report.is_good() && report.last_batch == last, "{report:?}");
            let mut copy =
                Embedded::open_with(Arc::new(RealDisk), &target, &manual(), SqliteArchive::open).unwrap();
            assert_eq!(copy.last_batch(), last);
            let reference = expected(last);
            assert_eq!(look(&mut copy, last), reference[usize::try_from(last).unwrap()]);
        }
    });
}

/// Ends a thread that works until then, also where the test fails before.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The tokens that were given out after it would be given out again.
#[test]
fn i02_a_backup_is_not_served() {
    let (parent, dir) = folder();
    filled(&dir, 3);
    let saved = parent.path().join("saved");
    backup(&dir, &saved, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    let refused = Embedded::open(&saved, &manual()).unwrap_err().to_string();
    assert!(refused.contains("is a backup") && refused.contains("tenure restore"), "{refused}");
    // Neither a backup of it is, and what is made of that is.
    let again = parent.path().join("again");
    backup(&saved, &again, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    assert!(Embedded::open(&again, &manual()).is_err());
    let restored = parent.path().join("restored");
    restore(&again, &restored, 0, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    Embedded::open(&restored, &manual()).unwrap();
}

#[test]
fn a_backup_goes_only_into_an_empty_folder_and_only_from_a_data_folder() {
    let (parent, dir) = folder();
    let refused = |result: Result<u64, Error>| assert!(matches!(result, Err(Error::Unsupported { .. })));
    refused(backup(&dir, &parent.path().join("b"), &mut |_| Ok(()), &mut |_, _| {}));
    filled(&dir, 3);
    let target = parent.path().join("b");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("something"), "").unwrap();
    refused(backup(&dir, &target, &mut |_| Ok(()), &mut |_, _| {}));
    refused(restore(&dir, &target, 0, &mut |_| Ok(()), &mut |_, _| {}));
    std::fs::remove_file(target.join("something")).unwrap();
    backup(&dir, &target, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
}

/// As where no descriptor is left: what opens a file is refused and may ask again, and the writer needs none.
#[test]
fn e04_a_kept_answer_is_found_where_no_file_can_be_opened() {
    let (_parent, dir) = folder();
    filled(&dir, 12);
    let mut store = Embedded::open(&dir, &Options { kept_values_max: 0, ..manual() }).unwrap();
    std::fs::rename(dir.join("archive.db"), dir.join("elsewhere")).unwrap();
    let read = store.reader().events(&collection(), 0, 10);
    assert!(matches!(read, Err(Error::Away { .. })), "{read:?}");
    // Who holds what is asked of memory alone, whatever else was held before.
    let held = store.reader().held_items(&collection(), &ItemFilter::default(), 10).unwrap();
    assert!(!held.rows.is_empty() && held.rows.iter().all(|held| held.claim.is_none()), "{held:?}");
    let reply = support::reply_key(3);
    let want = wants_of(&command("lock/a", "ana", Verb::CreateCollection), Some(reply.clone()));
    assert!(store.load(&[want]).unwrap().kept(&reply).is_some());
}

/// What stands behind the wanted one may have megabytes.
#[test]
fn e04_of_a_chunk_of_kept_answers_none_is_read_behind_the_wanted_one() {
    let (_parent, dir) = folder();
    filled(&dir, 12);
    let mut store = Embedded::open(&dir, &Options { kept_values_max: 0, ..manual() }).unwrap();
    // All of them are in one chunk, of which the last one cannot be read.
    edit(&dir, "UPDATE kept SET data = substr(data, 1, length(data) - 3)");
    let want =
        |reply| wants_of(&command("lock/a", "ana", Verb::CreateCollection), Some(support::reply_key(reply)));
    assert!(store.load(&[want(10)]).unwrap().kept(&support::reply_key(10)).is_some());
    assert!(matches!(store.load(&[want(11)]), Err(Error::Corrupt { .. })));
}

/// I16
#[test]
fn i16_of_a_key_that_was_used_again_after_its_day_the_newer_answer_is_found() {
    let (_parent, dir) = folder();
    let mut store = Embedded::open(&dir, &Options { kept_values_max: 0, ..manual() }).unwrap();
    let key = support::reply_key(1);
    for at_ms in [support::START_MS, support::START_MS + Kept::KEEP_MS] {
        let kept = Arc::new(Kept { fingerprint: Hash::default(), at_ms, outcome: Ok(Reply::Done) });
        let entry = Entry {
            collection: collection(),
            events: Vec::new(),
            beats: Vec::new(),
            changed: Changed::default(),
            kept: Some((key.clone(), kept)),
        };
        store.commit(Batch { at_ms, entries: vec![entry] }).unwrap();
    }
    // Into one chunk.
    assert_eq!(store.fold_now(2).unwrap(), 2);
    let want = wants_of(&command("lock/a", "ana", Verb::CreateCollection), Some(key.clone()));
    let found = store.load(&[want]).unwrap().kept(&key).unwrap();
    assert_eq!(found.at_ms, support::START_MS + Kept::KEEP_MS);
}

#[test]
fn a_copy_that_cannot_be_finished_leaves_nothing_behind() {
    let (parent, dir) = folder();
    filled(&dir, 3);
    let saved = parent.path().join("saved");
    backup(&dir, &saved, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    let mut full = |_: &std::path::Path| Err(std::io::ErrorKind::StorageFull.into());
    let target = parent.path().join("b");
    let said = [
        backup(&dir, &target, &mut full, &mut |_, _| {}).unwrap_err(),
        restore(&saved, &target, 0, &mut full, &mut |_, _| {}).unwrap_err(),
    ];
    for error in said {
        assert!(matches!(error, Error::Io { doing: "put the files into", .. }), "{error}");
    }
    let mut names: Vec<_> =
        std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [dir.file_name().unwrap(), saved.file_name().unwrap()]);
    // What is beside the documents is in the copy before that has its name.
    let mut put = |copy: &std::path::Path| std::fs::write(copy.join("beside"), "");
    backup(&dir, &target, &mut put, &mut |_, _| {}).unwrap();
    assert!(target.join("beside").exists());
}

#[test]
fn a_backup_of_a_damaged_folder_says_so() {
    let (parent, dir) = folder();
    let mut store = Embedded::open(&dir, &manual()).unwrap();
    for number in 0..5 {
        step(&mut store, number).unwrap();
    }
    drop(store);
    let segment = dir.join("journal/0000000000000001.journal");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[2 * 4096 + 100] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let result = backup(&dir, &parent.path().join("b"), &mut |_| Ok(()), &mut |_, _| {});
    assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
    assert!(!parent.path().join("b").exists());
}

#[test]
fn a_restore_raises_the_epoch_and_every_token() {
    let (parent, dir) = folder();
    filled(&dir, 31);
    let saved = parent.path().join("backup");
    backup(&dir, &saved, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    // What the backup does not have: tokens that were given after it.
    let mut store = Embedded::open(&dir, &manual()).unwrap();
    for number in 31..40 {
        step(&mut store, number).unwrap();
    }
    let lost = store.reader().collection(&collection()).unwrap().unwrap().seq;
    drop(store);
    let restored = parent.path().join("restored");
    // A restore that was cut off left this behind; it is no data folder and is swept away.
    std::fs::create_dir(parent.path().join("restored.partial")).unwrap();
    let now_ms = support::START_MS + 1_000_000;
    let epoch = restore(&saved, &restored, now_ms, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    assert_eq!(epoch, u64::try_from(now_ms).unwrap());
    assert!(checked(&restored).is_good());
    let mut store = Embedded::open(&restored, &manual()).unwrap();
    assert_eq!((store.epoch(), store.high_water_ms()), (epoch, now_ms));
    let seq = store.reader().collection(&collection()).unwrap().unwrap().seq;
    assert!(seq > RESTORE_STEP && seq > lost);
    let page = store.reader().events(&collection(), lost, 10).unwrap();
    assert!(matches!(page, EventPage::Resync { .. }), "a cursor from the lost time: {page:?}");
    store.close().unwrap();
    drop(store);
    // And again from a backup of that, with a clock that cannot be right.
    let again = parent.path().join("again");
    assert!(restore(&restored, &again, 0, &mut |_| Ok(()), &mut |_, _| {}).unwrap() > epoch);
    let store = Embedded::open(&again, &manual()).unwrap();
    assert!(store.reader().collection(&collection()).unwrap().unwrap().seq > seq + RESTORE_STEP);
}

/// Claims an item of a collection that is made on the way; answers the token.
fn token_of(dir: &Path, name: &str, now_ms: i64) -> u64 {
    let mut store = Embedded::open(dir, &manual()).unwrap();
    let items = vec![ItemId::new("a").unwrap()];
    let acquire = Verb::Acquire(Acquire { items, ..Acquire::default() });
    let decision = decide(&store.load(&[]).unwrap(), &command(name, "ana", acquire), now_ms).unwrap();
    let Reply::Acquired { claim, .. } = decision.reply else { panic!("not granted") };
    let (events, beats, changed) = (decision.events, decision.beats, decision.changed);
    let entry = Entry { collection: key(name), events, beats, changed, kept: None };
    store.commit(Batch { at_ms: now_ms, entries: vec![entry] }).unwrap();
    store.close().unwrap();
    claim.token
}

#[test]
fn i02_a_backup_that_is_restored_twice_gives_no_token_twice() {
    let (parent, dir) = folder();
    filled(&dir, 31);
    let mut tokens = Vec::new();
    let mut epochs = Vec::new();
    for round in 1..4 {
        let restored = parent.path().join(format!("restored-{round}"));
        let now_ms = support::START_MS + round * 1_000_000;
        epochs.push(restore(&dir, &restored, now_ms, &mut |_| Ok(()), &mut |_, _| {}).unwrap());
        tokens.push(token_of(&restored, "lock/a", now_ms + 400_000));
        assert!(checked(&restored).is_good());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

/// What was made after the backup is lost with its numbers, and is made again.
#[test]
fn i02_a_collection_that_the_backup_does_not_have_gives_no_token_twice() {
    let (parent, dir) = folder();
    filled(&dir, 31);
    let saved = parent.path().join("backup");
    backup(&dir, &saved, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    let before = token_of(&dir, "lock/new", support::START_MS + 1_000);
    let restored = parent.path().join("restored");
    restore(&saved, &restored, support::START_MS + 2_000, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    let after = token_of(&restored, "lock/new", support::START_MS + 3_000);
    assert!(after > before, "{before} was given, and then {after}");
    assert!(checked(&restored).is_good());
    let store = Embedded::open(&restored, &manual()).unwrap();
    let page = store.reader().events(&key("lock/new"), 0, 10).unwrap();
    assert!(matches!(page, EventPage::Events(events) if events.len() == 3));
}

#[test]
fn a_restore_of_an_empty_store_raises_the_epoch_too() {
    let (parent, dir) = folder();
    drop(Embedded::open(&dir, &manual()).unwrap());
    let restored = parent.path().join("restored");
    restore(&dir, &restored, 0, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    assert!(Embedded::open(&restored, &manual()).unwrap().epoch() > 1);
}

#[test]
fn a_check_finds_nothing_wrong_in_a_good_folder_and_needs_it_for_itself() {
    let (_parent, dir) = folder();
    filled(&dir, 200);
    let report = checked(&dir);
    assert!(report.is_good(), "{report:?}");
    assert_eq!((report.collections, report.events, report.items, report.last_batch), (1, 134, 5, 200));
    assert_eq!(report.journal_events, 0);
    let mut store = Embedded::open(&dir, &manual()).unwrap();
    step(&mut store, 200).unwrap();
    drop(store);
    let report = checked(&dir);
    assert_eq!((report.events, report.journal_events, report.last_batch), (134, 1, 201), "one is not folded");
    let store = Embedded::open(&dir, &manual()).unwrap();
    assert!(matches!(check(&dir, &mut |_, _| {}), Err(Error::Owned { .. })));
    drop(store);
}

#[test]
fn a_check_finds_each_planted_change() {
    let plants: [(&str, &str, &str); 15] = [
        ("a changed event", "UPDATE chunks SET data = CAST(replace(data, 'ana', 'ben') AS BLOB)", "hash"),
        (
            "a dropped chunk",
            "DELETE FROM chunks WHERE first_seq = (SELECT max(first_seq) FROM chunks)",
            "end",
        ),
        (
            "a cut chunk",
            "UPDATE chunks SET data = substr(data, 1, length(data) - 9) WHERE first_seq = 1",
            "chunk",
        ),
        ("a changed item", "UPDATE items SET fence = fence - 1 WHERE id = 'item-2'", "item-2"),
        ("a missing item", "DELETE FROM items WHERE id = 'item-3'", "item-3 is missing"),
        (
            "a new item",
            "INSERT INTO items SELECT collection, 'new', status, version, data, fence, claim,
          updated_at_ms, updated_by FROM items LIMIT 1",
            "new is in no event",
        ),
        ("a changed claim", "UPDATE claims SET holder_id = 'eve'", "claim"),
        ("a missing claim", "DELETE FROM claims", "active claims"),
        ("an unreadable kept reply", "UPDATE kept SET data = substr(data, 1, length(data) - 3)", "kept reply"),
        ("a search that finds nothing", "UPDATE chunks SET bloom = zeroblob(length(bloom))", "found"),
        ("a wrong time of events", "UPDATE chunks SET last_at_ms = last_at_ms - 1", "found"),
        (
            "a policy that nobody set",
            "INSERT INTO policies VALUES ('task', (SELECT '{\"phases\":[{\"name\":\"x\",\"ttl_ms\":1000,
              \"renew\":true,\"at_end\":\"release\"}],\"idle_guard_ms\":null,\"rolling_ms\":null,
              \"heartbeat_ms\":100,\"max_items\":1,\"claimable\":[\"open\"],\"finished\":[],
              \"status_on_claim\":null,\"create_on_claim\":false,\"one_claim_per_session\":false,
              \"session_exclusive\":false,
              \"max_claims_per_holder\":null,\"max_wait_ms\":0,\"lock_delay_ms\":0,
              \"ttl_ms_min\":1000,\"ttl_ms_max\":1000}'))",
            "policy of task",
        ),
        (
            "a claim that blocks its items",
            "INSERT INTO claims SELECT collection, number - 3, token - 3, items, holder_id, holder_name, session,
              'expired', 'expired', 1, 9000000000000, phase, phase_since_ms, ttl_ms, since_ms,
              heartbeat_at_ms, acted_at_ms, expires_at_ms, idle, data FROM claims",
            "claim",
        ),
        ("a time that runs back", "UPDATE meta SET high_water_ms = high_water_ms - 1000", "time"),
        ("a collection without its head", "UPDATE collections SET seq = 0", "no collection"),
    ];
    let (parent, dir) = folder();
    // One claim is still active, and the events fill several chunks.
    filled(&dir, 1_501);
    for (index, (name, sql, word)) in plants.into_iter().enumerate() {
        let copy = parent.path().join(format!("copy-{index}"));
        backup(&dir, &copy, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
        assert!(checked(&copy).is_good());
        edit(&copy, sql);
        let report = checked(&copy);
        assert!(report.problems.iter().any(|problem| problem.contains(word)), "{name}: {report:?}");
    }
}

/// A fold that is in SQLite's log may be in the system's memory only, when the process died before its
/// sync. The journal's segments are used again on the strength of it.
#[test]
fn what_the_archives_log_has_is_made_safe_at_the_start() {
    let (parent, dir) = folder();
    let mut store = Embedded::open(&dir, &manual()).unwrap();
    for number in 0..10 {
        step(&mut store, number).unwrap();
    }
    while store.fold_now(u64::MAX).unwrap() > 0 {}
    let killed = parent.path().join("killed");
    std::fs::create_dir_all(killed.join("journal")).unwrap();
    for name in ["archive.db", "archive.db-wal", "journal/0000000000000001.journal"] {
        std::fs::copy(dir.join(name), killed.join(name)).unwrap();
    }
    assert!(std::fs::metadata(killed.join("archive.db-wal")).unwrap().len() > 0);
    let store = Embedded::open(&killed, &manual()).unwrap();
    assert_eq!(store.folded_through(), 10);
    assert_eq!(std::fs::metadata(killed.join("archive.db-wal")).unwrap().len(), 0);
}

/// What the power may leave of a first start.
fn half_made(parent: &Path) -> Vec<PathBuf> {
    let made = |name: &str| {
        let dir = parent.join(name);
        std::fs::create_dir_all(dir.join("journal")).unwrap();
        dir
    };
    let [nothing, empty, page, rolls_back] = ["nothing", "empty", "page", "rolls-back"].map(made);
    std::fs::write(empty.join("archive.db"), "").unwrap();
    for dir in [&page, &rolls_back] {
        let connection = Connection::open(dir.join("archive.db")).unwrap();
        connection.pragma_update(None, "page_size", 8192).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        // What stays of a segment that was being made is none.
        std::fs::write(dir.join("journal/next.tmp"), [0; 4096]).unwrap();
    }
    std::fs::write(rolls_back.join("archive.db"), [1; 512]).unwrap();
    std::fs::write(rolls_back.join("archive.db-journal"), hot_journal()).unwrap();
    vec![nothing, empty, page, rolls_back]
}

/// SQLite's journal of a transaction that found an empty file: what was written to that is taken back.
fn hot_journal() -> Vec<u8> {
    let numbers = [0_u32, 7, 0, 512, 8192];
    let mut bytes = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    bytes.resize(512, 0);
    bytes
}

/// I11
#[test]
fn i11_a_first_start_that_did_not_end_is_no_damage_and_nothing_to_copy() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("target");
    for dir in half_made(parent.path()) {
        let report = checked(&dir);
        assert!(report.is_unmade && report.is_good(), "{}: {report:?}", dir.display());
        let copied = backup(&dir, &target, &mut |_| Ok(()), &mut |_, _| {}).map(drop);
        let restored = restore(&dir, &target, 0, &mut |_| Ok(()), &mut |_, _| {}).map(drop);
        for refused in [copied, restored] {
            assert_eq!(refused.unwrap_err().to_string(), unmade_sentence(&dir));
        }
        assert!(!target.exists());
        drop(Embedded::open(&dir, &manual()).unwrap());
        let report = checked(&dir);
        assert!(!report.is_unmade && report.is_good(), "{}: {report:?}", dir.display());
    }
}

/// A segment is made after the archive, and a backup is made whole.
#[test]
fn i11_an_archive_that_is_gone_beside_a_segment_or_in_a_backup_is_damage() {
    let parent = tempfile::tempdir().unwrap();
    for dir in half_made(parent.path()).into_iter().skip(1) {
        std::fs::write(dir.join("journal/0000000000000001.journal"), "").unwrap();
        let report = checked(&dir);
        assert!(!report.is_unmade && !report.is_good(), "{}: {report:?}", dir.display());
    }
    let (dir, copy) = (parent.path().join("data"), parent.path().join("copy"));
    filled(&dir, 3);
    backup(&dir, &copy, &mut |_| Ok(()), &mut |_, _| {}).unwrap();
    std::fs::write(copy.join("archive.db"), "").unwrap();
    std::fs::remove_file(copy.join("journal/0000000000000001.journal")).unwrap();
    let report = checked(&copy);
    assert!(!report.is_unmade && !report.is_good(), "{report:?}");
}

#[test]
fn a_check_finds_a_damaged_journal_and_changes_nothing() {
    let (_parent, dir) = folder();
    let mut store = Embedded::open(&dir, &manual()).unwrap();
    for number in 0..6 {
        step(&mut store, number).unwrap();
    }
    drop(store);
    let segment = dir.join("journal/0000000000000001.journal");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[3 * 4096 + 50] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let report = checked(&dir);
    assert!(report.problems[0].contains("batch 3 at offset 12288"), "{report:?}");
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
}

#[test]
fn old_events_are_pruned_by_whole_chunks_and_a_late_cursor_is_told() {
    let (_parent, dir) = folder();
    let pruning = Options { retain_events: Some(100), ..manual() };
    let mut store = Embedded::open(&dir, &pruning).unwrap();
    for number in 0..1_500 {
        step(&mut store, number).unwrap();
        if number % 100 == 99 {
            store.fold_now(u64::MAX).unwrap();
        }
    }
    let last = store.reader().collection(&collection()).unwrap().unwrap().seq;
    let EventPage::Resync { first, .. } = store.reader().events(&collection(), 0, 10).unwrap() else {
        panic!("the first events are gone");
    };
    assert!(first > 1 && last - first >= 100, "{first} to {last}");
    let EventPage::Events(events) = store.reader().events(&collection(), first - 1, 10_000).unwrap() else {
        panic!("the retained ones are there");
    };
    assert_eq!(events.len() as u64, last - first + 1);
    store.close().unwrap();
    drop(store);
    let report = checked(&dir);
    assert!(report.is_good() && report.pruned == 1, "{report:?}");
    Embedded::open(&dir, &pruning).unwrap();
}

#[test]
fn many_small_folds_make_few_chunks() {
    let (_parent, dir) = folder();
    let mut store = Embedded::open(&dir, &manual()).unwrap();
    for number in 0..600 {
        step(&mut store, number).unwrap();
        store.fold_now(u64::MAX).unwrap();
    }
    drop(store);
    let connection = Connection::open(dir.join("archive.db")).unwrap();
    let chunks: i64 = connection.query_row("SELECT count(*) FROM chunks", [], |row| row.get(0)).unwrap();
    assert!(chunks < 60, "{chunks} chunks for 400 events of a kilobyte");
    assert!(checked(&dir).is_good());
}
