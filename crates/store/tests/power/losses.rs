//! The power goes at many moments of a record, with many fates for what was not safe.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tenure_store::conformance::times;

use crate::disk::{FATES, Fate, PowerDisk};
use crate::life::{Folding, Life, Planted, Trouble, read_files, record, write_files};
use crate::support::fault_disk::Dice;
use crate::trace::{Call, Files, Moment};
use crate::{beside_the_disk, expected, survives};

/// Losses of one record.
const LOSSES: u64 = 100;
/// Steps of one life.
const STEPS: u64 = 24;
/// How the names end of files at whose sync a process is killed.
const LOG: &str = "archive.db-wal";
const SEGMENTS: &str = ".journal";

/// A folder's life, in several processes one after the other.
struct Record {
    /// What was there at first, all of it safe.
    files: Files,
    confirmed: u64,
    moments: Vec<Moment>,
}

/// A moment at which the power goes, and what becomes of what is not safe.
#[derive(Clone, Copy, Debug)]
struct Loss {
    at: usize,
    fate: Fate,
    seed: u64,
}

impl Record {
    /// Five lives, after each of which the next one finds what the system has and the disk may not.
    fn new(files: Files, confirmed: u64, planted: Planted, dice: &mut Dice) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        write_files(&folder, &files);
        let mut made = Self { files, confirmed, moments: Vec::new() };
        let lives = [
            (Folding::Often, false, Some(LOG)),
            (Folding::Seldom, false, Some(SEGMENTS)),
            (Folding::Beside, false, None),
            (Folding::Often, false, Some(LOG)),
            (Folding::Seldom, true, None),
        ];
        for (index, (folding, closes, killed_at)) in (1..).zip(lives) {
            let through = confirmed + STEPS * index;
            let mut life = Life { through, folding, closes, planted, trouble: None };
            life.trouble = killed_at.and_then(|path| made.rehearse(&folder, life, path, dice));
            made.moments.extend(record(&folder, life, made.moments.len()));
        }
        made
    }

    /// Has a life lived in a copy of the folder, and chooses a sync of such a file to be killed at. Without threads the same
    /// calls come in the same order.
    fn rehearse(&self, folder: &Path, life: Life, path: &str, dice: &mut Dice) -> Option<Trouble> {
        let parent = tempfile::tempdir().unwrap();
        let copy = parent.path().join("data");
        let files = read_files(folder);
        write_files(&copy, &files);
        let mut disk = PowerDisk::with(&files, self.confirmed);
        let (mut syncs, mut found) = (0, Vec::new());
        for moment in record(&copy, life, 0) {
            if let Moment::Begins(_, Call::Sync { file, is_data: true }) = moment {
                syncs += 1;
                let is_such = disk.path_of(file).is_some_and(|name| name.to_string_lossy().ends_with(path));
                // The first ones are those of its start.
                found.extend((is_such && syncs > 3).then_some(syncs));
            }
            disk.take(&moment);
        }
        let chosen = usize::try_from(dice.below(found.len().max(1) as u64)).unwrap();
        found.get(chosen).map(|nth| Trouble::Kill("fdatasync", *nth))
    }

    /// One that goes on from what a loss of this one left.
    fn after_a_loss(&self, dice: &mut Dice) -> Self {
        let at = usize::try_from(dice.below(self.moments.len() as u64)).unwrap();
        let mut disk = self.disk();
        self.moments[..at].iter().for_each(|moment| disk.take(moment));
        Self::new(disk.after_loss(Fate::Parts(512), dice), disk.confirmed, Planted::Nothing, dice)
    }

    /// The disk as it is after so many moments.
    fn disk(&self) -> PowerDisk {
        PowerDisk::with(&self.files, self.confirmed)
    }

    /// Before and after each sync, at each answer, and at any moment.
    fn losses(&self, count: u64, dice: &mut Dice) -> Vec<Loss> {
        let is_sharp =
            |moment: &Moment| matches!(moment, Moment::Begins(_, Call::Sync { .. } | Call::Say(_)));
        let sharp = self.moments.iter().enumerate().filter(|(_, moment)| is_sharp(moment));
        let sharp: Vec<usize> = sharp.flat_map(|(at, _)| [at, at + 1, at + 2]).collect();
        let mut losses: Vec<Loss> = (0..count)
            .map(|index| {
                let seed = dice.below(u64::MAX);
                let fate = FATES[usize::try_from(dice.below(FATES.len() as u64)).unwrap()];
                let spread = |from: usize| {
                    // Evenly over the whole record, and in each piece by chance.
                    let (from, piece) = (from as u64, seed % 1_000);
                    usize::try_from((index * 1_000 + piece) * from / (count * 1_000)).unwrap()
                };
                let at = if index % 4 == 3 { spread(self.moments.len()) } else { sharp[spread(sharp.len())] };
                Loss { at: at.min(self.moments.len()), fate, seed }
            })
            .collect();
        // As soon as something is heard of a folder that was left to itself, it must be safe.
        let starts = self.moments.iter().enumerate().filter(|(at, _)| {
            let before = self.moments[..*at].iter().rposition(is_confirmed);
            let died = self.moments[..*at].iter().rposition(|moment| matches!(moment, Moment::Dies(_)));
            is_confirmed(&self.moments[*at]) && before <= died
        });
        losses.extend(starts.map(|(at, _)| Loss { at: at + 1, fate: Fate::Nothing, seed: 0 }));
        losses.sort_by_key(|loss| loss.at);
        losses
    }

    /// What a loss leaves.
    fn left(&self, loss: &Loss) -> Files {
        let mut disk = self.disk();
        self.moments[..loss.at].iter().for_each(|moment| disk.take(moment));
        disk.after_loss(loss.fate, &mut Dice(loss.seed))
    }

    /// Loses the power at each of these moments. Answers at how many, or what was left and is not good.
    fn lose(&self, losses: &[Loss]) -> Result<u64, (String, Files)> {
        // Made here: what goes wrong with it is nothing that was noticed.
        let _ = expected();
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        std::thread::scope(|scope| {
            let work = |worker: usize| {
                let mut disk = self.disk();
                let mut at = 0;
                let mut done = 0;
                for loss in losses.iter().skip(worker).step_by(workers) {
                    self.moments[at..loss.at].iter().for_each(|moment| disk.take(moment));
                    at = loss.at;
                    let files = disk.after_loss(loss.fate, &mut Dice(loss.seed));
                    let parent = beside_the_disk();
                    let folder = parent.path().join("data");
                    write_files(&folder, &files);
                    judge(&folder, disk.confirmed)
                        .map_err(|problem| (format!("{loss:?}: {problem}"), files))?;
                    done += 1;
                }
                Ok(done)
            };
            let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        })
    }
}

/// A panic is a way to notice, too: what was lost may make nonsense of the rest. Only here: one in what makes the record or
/// the disk is a fault of this test.
fn judge(folder: &Path, confirmed: u64) -> Result<(), String> {
    let judged = catch_unwind(AssertUnwindSafe(|| survives(folder, confirmed)));
    judged.unwrap_or_else(|_| Err("it panicked, as said above".to_owned()))
}

fn is_confirmed(moment: &Moment) -> bool {
    matches!(moment, Moment::Begins(_, Call::Say(line)) if line.starts_with("confirmed"))
}

/// What of the store's work a record has: what it does not have, it does not prove.
fn assert_it_has_all(records: &[Record]) {
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    let log = Path::new(LOG);
    let is_of = |disk: &PowerDisk, file: i64, path: &str| disk.path_of(file) == Some(Path::new(path));
    for record in records {
        let mut disk = record.disk();
        for moment in &record.moments {
            let mut note = |what| *found.entry(what).or_default() += 1;
            match moment {
                Moment::Begins(_, Call::Rename { from, .. }) if from.ends_with("next.tmp") => {
                    note("segments");
                }
                Moment::Begins(_, Call::Rename { to, .. }) if to.ends_with("next.tmp") => note("used again"),
                Moment::Begins(_, Call::Rename { to, .. }) if to.ends_with("gone.tmp") => note("given back"),
                Moment::Begins(_, Call::Write { file, .. }) if is_of(&disk, *file, "archive.db") => {
                    note("moved");
                }
                Moment::Begins(_, Call::Write { file, offset: 0, .. }) if is_of(&disk, *file, LOG) => {
                    note("logs");
                }
                Moment::Dies(_) if disk.unsafe_writes(log) > 0 => note("killed before the log was safe"),
                _ => {}
            }
            disk.take(moment);
        }
    }
    let least = [
        ("segments", 20),
        ("used again", 10),
        ("given back", 1),
        ("moved", 100),
        ("logs", 6),
        ("killed before the log was safe", 4),
    ];
    for (what, least) in least {
        assert!(found.get(what).is_some_and(|count| *count >= least), "{what}: {found:?}");
    }
}

#[test]
fn what_was_confirmed_survives_a_loss_of_power_at_any_moment_of_the_real_store() {
    let wanted = times(200, 10_000);
    let mut dice = Dice(1);
    let mut lost = 0;
    while lost < wanted {
        let first = Record::new(Files::new(), 0, Planted::Nothing, &mut dice);
        let records = [first.after_a_loss(&mut dice), first];
        assert_it_has_all(&records);
        for record in &records {
            lost += record.lose(&record.losses(LOSSES, &mut dice)).unwrap_or_else(|(problem, files)| {
                let left = tempfile::tempdir().unwrap().keep();
                write_files(&left, &files);
                panic!("{problem}. What was left is in {}", left.display())
            });
        }
    }
    assert!(lost >= wanted, "{lost} losses of {wanted}");
}

/// Nothing is confirmed before its end, so that only what is made of its remains is judged.
#[test]
fn a_first_start_that_loses_its_power_at_any_moment_is_no_damage() {
    let mut dice = Dice(3);
    let parent = tempfile::tempdir().unwrap();
    let life =
        Life { through: 0, folding: Folding::Often, closes: false, planted: Planted::Nothing, trouble: None };
    let moments = record(&parent.path().join("data"), life, 0);
    let record = Record { files: Files::new(), confirmed: 0, moments };
    let ats = 0..=record.moments.len();
    let losses: Vec<Loss> = ats
        .flat_map(|at| FATES.map(|fate| (at, fate)))
        .map(|(at, fate)| Loss { at, fate, seed: dice.below(u64::MAX) })
        .collect();
    let left: Vec<Files> = losses.iter().map(|loss| record.left(loss)).collect();
    let archive = |files: &Files| files.get(Path::new("archive.db")).map(Vec::len);
    let has = |files: &Files, name: &str| files.contains_key(Path::new(name));
    for (what, count) in [
        ("no archive", left.iter().filter(|files| archive(files).is_none()).count()),
        ("an empty one", left.iter().filter(|files| archive(files) == Some(0)).count()),
        ("one without tables", left.iter().filter(|files| archive(files) == Some(8192)).count()),
        ("one to be rolled back", left.iter().filter(|files| has(files, "archive.db-journal")).count()),
        ("a segment", left.iter().filter(|files| has(files, "journal/0000000000000001.journal")).count()),
    ] {
        assert!(count > 0, "there is never {what}");
    }
    record.lose(&losses).unwrap_or_else(|(problem, _)| panic!("{problem}"));
}

/// The proof that it looks.
#[test]
fn each_planted_mistake_is_noticed() {
    for planted in [Planted::SkipSync, Planted::SkipDirSync, Planted::SkipLogSync, Planted::FoldBeforeSync] {
        let mut dice = Dice(2);
        let record = Record::new(Files::new(), 0, planted, &mut dice);
        let lost = record.lose(&record.losses(LOSSES, &mut dice)).map_err(|(problem, _)| problem);
        let problem = lost.expect_err(&format!("{planted:?} went unnoticed"));
        println!("{planted:?}: {problem}");
    }
}
