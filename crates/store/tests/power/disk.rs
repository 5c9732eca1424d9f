//! A disk that did what the kernel was asked for, and what may be left of it when the power goes.
//!
//! Bytes are safe once a sync of their file has returned that began after they were written; names once a sync of their
//! folder has. Until then each sector may be there, or not, or as an earlier write had it; names come in order, up to
//! a point. What was written before a sync that failed is safe by no later one: the system has forgotten it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::fault_disk::Dice;
use crate::trace::{Call, Files, Moment};

/// SQLite's way to share between processes. It is made anew at each start, so it may hold anything.
const SHARED: &str = "archive.db-shm";

#[derive(Debug, Default)]
pub(crate) struct PowerDisk {
    names: BTreeMap<PathBuf, Node>,
    safe_names: BTreeMap<PathBuf, Node>,
    /// Changes of names since, in order.
    changes: Vec<(usize, Change)>,
    files: Vec<Content>,
    /// By descriptor.
    open: HashMap<i64, Node>,
    under_way: HashMap<usize, (Call, HashSet<usize>)>,
    /// The newest line that counts: so many steps are confirmed.
    pub(crate) confirmed: u64,
    /// A sync failed whose file matters, and this came after it.
    pub(crate) confirmed_after_failure: Option<u64>,
    failed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Folder(PathBuf),
}

#[derive(Clone, Debug)]
enum Change {
    Make(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Content {
    safe: Vec<u8>,
    pending: Vec<Pending>,
}

/// A change of a file's bytes that is not safe.
#[derive(Clone, Debug)]
struct Pending {
    call: usize,
    is_over: bool,
    /// A sync of it failed.
    is_forgotten: bool,
    edit: Edit,
}

#[derive(Clone, Debug)]
enum Edit {
    Write(u64, Arc<Vec<u8>>),
    Length(u64),
}

/// What becomes of what is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Nothing,
    Everything,
    /// Each part of so many bytes by chance.
    Parts(usize),
    /// Each file as a whole by chance.
    Files,
    /// Of each file the first few writes, and of the next one the beginning.
    Beginning,
}

pub(crate) const FATES: [Fate; 6] =
    [Fate::Nothing, Fate::Everything, Fate::Parts(512), Fate::Parts(4096), Fate::Files, Fate::Beginning];

impl PowerDisk {
    /// A disk on which these files are safe.
    pub(crate) fn with(files: &Files, confirmed: u64) -> Self {
        let mut disk = Self { confirmed, ..Self::default() };
        disk.names.insert(PathBuf::new(), Node::Folder(PathBuf::new()));
        for (path, bytes) in files {
            let folder = folder_of(path);
            disk.names.insert(folder.clone(), Node::Folder(folder));
            disk.names.insert(path.clone(), Node::File(disk.files.len()));
            disk.files.push(Content { safe: bytes.clone(), ..Content::default() });
        }
        disk.safe_names = disk.names.clone();
        disk
    }

    pub(crate) fn take(&mut self, moment: &Moment) {
        match moment {
            Moment::Begins(number, call) => self.begin(*number, call),
            Moment::Ends(number, answer) => self.end(*number, *answer),
            Moment::Dies(files) => self.die(files),
        }
    }

    /// What is left after the power was gone, by chance.
    pub(crate) fn after_loss(&self, fate: Fate, dice: &mut Dice) -> Files {
        let mut names = self.safe_names.clone();
        let folders: HashSet<PathBuf> = self.changes.iter().map(|(_, change)| change.folder()).collect();
        let mut folders: Vec<_> = folders.into_iter().collect();
        folders.sort();
        for folder in folders {
            let changes: Vec<_> =
                self.changes.iter().filter(|(_, change)| change.folder() == folder).collect();
            let survives = match fate {
                Fate::Nothing => 0,
                Fate::Everything => changes.len(),
                _ => usize::try_from(dice.below(changes.len() as u64 + 1)).expect("small"),
            };
            changes[..survives].iter().for_each(|(_, change)| change.apply(&mut names));
        }
        let is_there = |path: &Path| matches!(names.get(&folder_of(path)), Some(Node::Folder(_)));
        let files = names.iter().filter(|(path, _)| is_there(path)).filter_map(|(path, node)| match node {
            Node::File(_) if is_shared(path) => {
                Some((path.clone(), (0..32_768).map(|_| dice.below(256).to_le_bytes()[0]).collect()))
            }
            Node::File(file) => Some((path.clone(), self.files[*file].after_loss(fate, dice))),
            Node::Folder(_) => None,
        });
        files.collect()
    }

    /// Bytes of a file that are not safe.
    pub(crate) fn unsafe_writes(&self, path: &Path) -> usize {
        match self.names.get(path) {
            Some(Node::File(file)) => self.files[*file].pending.len(),
            _ => 0,
        }
    }

    /// The name of an open file.
    pub(crate) fn path_of(&self, file: i64) -> Option<&Path> {
        let node = self.open.get(&file)?;
        self.names.iter().find(|(_, named)| *named == node).map(|(path, _)| &**path)
    }

    fn begin(&mut self, number: usize, call: &Call) {
        let mut covered = HashSet::new();
        match call {
            Call::Write { file, offset, bytes } => {
                self.edit(*file, number, Edit::Write(*offset, bytes.clone()));
            }
            Call::SetLength { file, bytes } => self.edit(*file, number, Edit::Length(*bytes)),
            // At once: another thread may get the same number before this one hears of it.
            Call::Close { file } => drop(self.open.remove(file)),
            Call::Sync { file, .. } => match self.open.get(file) {
                Some(Node::File(file)) => {
                    let pending = self.files[*file].pending.iter();
                    covered = pending.filter(|pending| pending.is_over).map(|pending| pending.call).collect();
                }
                Some(Node::Folder(folder)) => {
                    let changes = self.changes.iter().filter(|(_, change)| change.folder() == *folder);
                    covered = changes.map(|(call, _)| *call).collect();
                }
                None => {}
            },
            Call::Say(line) => {
                if let Some(confirmed) = line.strip_prefix("confirmed ").and_then(|text| text.parse().ok()) {
                    self.confirmed = confirmed;
                    if self.failed {
                        self.confirmed_after_failure = Some(confirmed);
                    }
                }
            }
            Call::Unknown { name, file } => {
                assert!(!self.open.contains_key(file), "{name} of a file in the folder is not understood");
            }
            _ => {}
        }
        self.under_way.insert(number, (call.clone(), covered));
    }

    fn end(&mut self, number: usize, answer: i64) {
        let (call, covered) = self.under_way.remove(&number).expect("what ends has begun");
        match call {
            Call::Write { file, ref bytes, .. } => {
                assert!(answer < 0 || answer.unsigned_abs() == bytes.len() as u64, "written in part");
                self.edited(file, number, answer);
            }
            Call::SetLength { file, .. } => self.edited(file, number, answer),
            Call::Sync { file, .. } => self.synced(file, &covered, answer == 0),
            _ if answer < 0 => {}
            Call::Open { path, makes } => {
                let node = self.names.get(&path).cloned();
                assert!(node.is_some() || makes, "{} was opened, and nobody made it", path.display());
                let node = node.unwrap_or_else(|| self.make(number, path));
                self.open.insert(answer, node);
            }
            call => self.rename(number, call),
        }
    }

    fn make(&mut self, number: usize, path: PathBuf) -> Node {
        self.files.push(Content::default());
        let node = Node::File(self.files.len() - 1);
        self.change(number, Change::Make(path, node.clone()));
        node
    }

    fn rename(&mut self, number: usize, call: Call) {
        match call {
            Call::Rename { from, to } => self.change(number, Change::Rename(from, to)),
            Call::Remove { path } => self.change(number, Change::Remove(path)),
            // The folder itself is there from the start.
            Call::MakeFolder { path } if !path.as_os_str().is_empty() => {
                self.change(number, Change::Make(path.clone(), Node::Folder(path)));
            }
            _ => {}
        }
    }

    fn change(&mut self, number: usize, change: Change) {
        change.apply(&mut self.names);
        self.changes.push((number, change));
    }

    fn edit(&mut self, file: i64, call: usize, edit: Edit) {
        if let Some(Node::File(file)) = self.open.get(&file) {
            let pending = Pending { call, is_over: false, is_forgotten: false, edit };
            self.files[*file].pending.push(pending);
        }
    }

    fn edited(&mut self, file: i64, call: usize, answer: i64) {
        let Some(Node::File(file)) = self.open.get(&file) else { return };
        let pending = &mut self.files[*file].pending;
        if answer < 0 {
            pending.retain(|pending| pending.call != call);
        }
        pending.iter_mut().filter(|pending| pending.call == call).for_each(|pending| pending.is_over = true);
    }

    fn synced(&mut self, file: i64, covered: &HashSet<usize>, is_good: bool) {
        match self.open.get(&file) {
            Some(Node::File(file)) if is_good => self.files[*file].settle(covered),
            Some(Node::File(file)) => {
                let is_next = self.names.get(Path::new("journal/next.tmp")) == Some(&Node::File(*file));
                let pending = self.files[*file].pending.iter_mut();
                pending
                    .filter(|pending| covered.contains(&pending.call))
                    .for_each(|one| one.is_forgotten = true);
                // What was being made can be thrown away; nothing depends on it yet.
                self.failed |= !is_next;
            }
            Some(Node::Folder(_)) if is_good => {
                for (_, change) in self.changes.extract_if(.., |(call, _)| covered.contains(call)) {
                    change.apply(&mut self.safe_names);
                }
            }
            // SQLite syncs the names of its files, too, and goes on where that fails. The store then does it itself.
            Some(Node::Folder(folder)) => self.failed |= folder == Path::new("journal"),
            None => {}
        }
    }

    /// The process is gone, and what it was in the middle of has happened or not: the system's files tell.
    fn die(&mut self, files: &Files) {
        let mut under_way: Vec<_> = self.under_way.drain().collect();
        under_way.sort_by_key(|(number, _)| *number);
        for (number, (call, _)) in under_way {
            match call {
                Call::Write { file, offset, .. } => self.cut(file, number, |path, edit| {
                    let Edit::Write(_, bytes) = edit else { return };
                    let from = usize::try_from(offset).expect("fits");
                    let found = files.get(path).and_then(|found| found.get(from..)).unwrap_or_default();
                    *edit = Edit::Write(offset, Arc::new(found[..found.len().min(bytes.len())].to_vec()));
                }),
                Call::SetLength { file, .. } => self.cut(file, number, |path, edit| {
                    *edit = Edit::Length(files.get(path).map_or(0, |found| found.len() as u64));
                }),
                Call::Open { path, .. } if files.contains_key(&path) && !self.names.contains_key(&path) => {
                    drop(self.make(number, path));
                }
                Call::Rename { ref from, .. } if !files.contains_key(from) => self.rename(number, call),
                Call::Remove { ref path } if !files.contains_key(path) => self.rename(number, call),
                _ => {}
            }
        }
        self.open.clear();
        let names: Vec<&PathBuf> = self
            .names
            .iter()
            .filter(|(_, node)| matches!(node, Node::File(_)))
            .map(|(path, _)| path)
            .collect();
        assert_eq!(names, files.keys().collect::<Vec<_>>(), "the files are others than was understood");
        for (path, bytes) in files.iter().filter(|(path, _)| !is_shared(path)) {
            let Some(Node::File(file)) = self.names.get(path) else { continue };
            let understood = self.files[*file].all();
            assert!(understood == *bytes, "{} holds something else than was understood", path.display());
        }
    }

    fn cut(&mut self, file: i64, call: usize, change: impl Fn(&Path, &mut Edit)) {
        let Some(Node::File(file)) = self.open.get(&file) else { return };
        let path = self.names.iter().find(|(_, node)| **node == Node::File(*file)).map(|(path, _)| path);
        let pending = self.files[*file].pending.iter_mut().find(|pending| pending.call == call);
        if let (Some(path), Some(pending)) = (path, pending) {
            pending.is_over = true;
            change(path, &mut pending.edit);
        }
    }
}

impl Content {
    fn settle(&mut self, covered: &HashSet<usize>) {
        let is_safe = |pending: &mut Pending| covered.contains(&pending.call) && !pending.is_forgotten;
        for pending in self.pending.extract_if(.., is_safe) {
            pending.edit.apply(&mut self.safe);
        }
    }

    /// As the system shows it.
    fn all(&self) -> Vec<u8> {
        let mut bytes = self.safe.clone();
        self.pending.iter().for_each(|pending| pending.edit.apply(&mut bytes));
        bytes
    }

    fn after_loss(&self, fate: Fate, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.safe.clone();
        let count = self.pending.len();
        let first = usize::try_from(dice.below(count as u64 + 1)).expect("small");
        let is_kept = dice.below(2) == 0;
        for (index, Pending { edit, .. }) in self.pending.iter().enumerate() {
            match (fate, edit) {
                (Fate::Everything, edit) => edit.apply(&mut bytes),
                (Fate::Files, edit) if is_kept => edit.apply(&mut bytes),
                (Fate::Beginning, edit) if index < first => edit.apply(&mut bytes),
                (Fate::Beginning, Edit::Write(offset, written)) if index == first => {
                    let parts = (written.len() / 512) as u64;
                    let kept = 512 * usize::try_from(dice.below(parts + 1)).expect("small");
                    Edit::Write(*offset, Arc::new(written[..kept].to_vec())).apply(&mut bytes);
                }
                (Fate::Parts(size), Edit::Write(offset, written)) => {
                    let mut at = *offset;
                    let mut rest = &written[..];
                    while !rest.is_empty() {
                        // Parts lie where the disk's do, wherever the write begins.
                        let room = size - usize::try_from(at).expect("fits") % size;
                        let (part, after) = rest.split_at(room.min(rest.len()));
                        if dice.below(2) == 0 {
                            write(&mut bytes, at, part);
                        }
                        at += part.len() as u64;
                        rest = after;
                    }
                }
                (Fate::Parts(_), edit) if dice.below(2) == 0 => edit.apply(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, written) => write(bytes, *offset, written),
            Self::Length(length) => bytes.resize(usize::try_from(*length).expect("fits"), 0),
        }
    }
}

impl Change {
    fn folder(&self) -> PathBuf {
        match self {
            Self::Make(path, _) | Self::Rename(path, _) | Self::Remove(path) => folder_of(path),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Make(path, node) => drop(names.insert(path.clone(), node.clone())),
            Self::Remove(path) => drop(names.remove(path)),
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

fn write(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let from = usize::try_from(offset).expect("fits");
    if written.is_empty() {
        return;
    }
    if bytes.len() < from + written.len() {
        bytes.resize(from + written.len(), 0);
    }
    bytes[from..from + written.len()].copy_from_slice(written);
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn is_shared(path: &Path) -> bool {
    path == Path::new(SHARED)
}
