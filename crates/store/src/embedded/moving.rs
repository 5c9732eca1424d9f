//! A data folder as one end of a move. What is read is the archive, into which the journal was folded; what is
//! made is an archive and an empty journal that goes on from it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenure_core::{Claim, Collection, CollectionKey, Hash, Item, ItemId, Sealed};

use super::archive::{
    self, Archive, ChunkAsk, Group, GroupItem, Inspection, SqliteArchive, read_events, read_kept,
};
use super::backup::{empty_journal, require, sync_folder};
use super::commit::Embedded;
use super::disk::{Disk, RealDisk, RealLock};
use super::journal::io_error;
use super::options::{Fold, Options};
use super::reader::all_of;
use super::recover::{JOURNAL_DIR, LOCK_NAME, lock};
use crate::check::Bounds;
use crate::moving::{
    About, Identity, Mark, PAGE_BYTES, PAGE_ROWS, Part, Policies, Source, Target, VisitReplies, refusal,
    stays,
};
use crate::{ClaimFilter, Error, ItemFilter, Kept, ReplyKey, Store};

/// The file that says that a folder is no installation yet, or none any more.
const MARK_NAME: &str = "move.json";
/// What an operator may have put into a folder before the move.
const MAY_BE_THERE: [&str; 4] = ["files", "secrets", "secret.key", LOCK_NAME];

/// Refuses a folder that a move has marked.
pub(super) fn refuse_marked(dir: &Path) -> Result<(), Error> {
    let Some(text) = read_mark(dir)? else { return Ok(()) };
    Err(refusal(&dir.display().to_string(), Mark::decode(&text).as_ref()))
}

/// A backup, or one end of a move.
pub(super) fn is_marked(dir: &Path) -> Result<bool, Error> {
    Ok(read_mark(dir)?.is_some())
}

fn read_mark(dir: &Path) -> Result<Option<String>, Error> {
    let path = dir.join(MARK_NAME);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io_error(&path, "read", source)),
    }
}

pub(super) fn write_mark(dir: &Path, mark: &Mark) -> Result<(), Error> {
    let (path, next) = (dir.join(MARK_NAME), dir.join("move.json.next"));
    let written = fs::write(&next, mark.encode()).and_then(|()| fs::File::open(&next)?.sync_all());
    let written = written.and_then(|()| fs::rename(&next, &path)).and_then(|()| RealDisk.sync_dir(dir));
    written.map_err(|source| io_error(&path, "write", source))
}

/// A folder that is read, and owned meanwhile.
pub(crate) struct FolderSource {
    store: Embedded,
    archive: Inspection,
    dir: PathBuf,
    about: About,
    /// The claims of the collection that was asked for last.
    claims: Option<(CollectionKey, Vec<Arc<Claim>>)>,
}

impl FolderSource {
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        require(dir)?;
        // Before it is opened, which may change it.
        if read_mark(dir)?.and_then(|text| Mark::decode(&text)) == Some(Mark::Backup) {
            return Err(refusal(&dir.display().to_string(), Some(&Mark::Backup)));
        }
        let options = Options { fold: Fold::Manual, ..Options::default() };
        let mut store = Embedded::open_with(Arc::new(RealDisk), dir, &options, SqliteArchive::open)?;
        store.close()?;
        let mark = read_mark(dir)?;
        let label = dir.display().to_string();
        let mark = mark.map(|text| Mark::decode(&text).ok_or_else(|| refusal(&label, None))).transpose()?;
        let archive = Inspection::open(&dir.join(archive::FILE_NAME))?;
        if let Some(line) = archive.integrity()?.first() {
            let detail = format!("SQLite says of it: {line}");
            return Err(Error::Corrupt { path: dir.join(archive::FILE_NAME), detail });
        }
        let meta = archive.meta()?;
        let stats = store.reader().stats();
        let about = About {
            identity: Identity {
                id: format!("{:016x}", meta.store),
                version: store.last_batch().to_string(),
            },
            bounds: Bounds { high_water_ms: store.high_water_ms(), epoch: store.epoch() },
            label,
            mark,
            keeps_ended: false,
            size: stats.items + stats.active_claims + archive.events()?,
        };
        Ok(Self { store, archive, dir: dir.to_owned(), about, claims: None })
    }
}

impl Source for FolderSource {
    fn about(&self) -> &About {
        &self.about
    }

    fn heads(&mut self) -> Result<Vec<(CollectionKey, Arc<Collection>)>, Error> {
        Ok(self.store.live.read().state.collections(None, usize::MAX - 1).rows)
    }

    fn policies(&mut self) -> Result<Policies, Error> {
        Ok(self.store.live.read().state.policies().collect())
    }

    fn items(&mut self, key: &CollectionKey, after: Option<&ItemId>) -> Result<Vec<Arc<Item>>, Error> {
        let filter = ItemFilter { after: after.cloned(), ..ItemFilter::default() };
        Ok(self.store.live.read().state.items(key, &filter, PAGE_ROWS).rows)
    }

    fn claims(&mut self, key: &CollectionKey, after: u64) -> Result<Vec<Arc<Claim>>, Error> {
        if self.claims.as_ref().is_none_or(|(known, _)| known != key) {
            let all = ClaimFilter { collection: Some(key.clone()), ..ClaimFilter::default() };
            let rows = self.store.live.read().state.claims(&all, usize::MAX - 1).rows;
            let high_water_ms = self.about.bounds.high_water_ms;
            let claims = rows.into_iter().map(|row| row.claim).filter(|claim| stays(claim, high_water_ms));
            self.claims = Some((key.clone(), claims.collect()));
        }
        let claims = self.claims.as_ref().map_or(&[][..], |(_, claims)| claims);
        let start = claims.partition_point(|claim| claim.number <= after);
        Ok(claims[start..].iter().take(PAGE_ROWS).cloned().collect())
    }

    fn events(&mut self, key: &CollectionKey, after: (u64, Hash)) -> Result<Vec<Arc<Sealed>>, Error> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        let ask = ChunkAsk { from_seq: after.0 + 1, ..all_of(key) };
        self.archive.chunks(&ask, &mut |_, chunk| {
            for sealed in read_events(chunk.before, chunk.data) {
                let sealed = sealed?;
                if sealed.event.seq > after.0 {
                    bytes += sealed.bytes.len();
                    events.push(Arc::new(sealed));
                }
            }
            Ok(events.len() < PAGE_ROWS && bytes < PAGE_BYTES)
        })?;
        Ok(events)
    }

    fn replies(&mut self, visit: &mut VisitReplies<'_>) -> Result<(), Error> {
        let path = self.dir.join(archive::FILE_NAME);
        self.archive.kept(&mut |data| {
            let replies = read_kept(data).collect::<Result<Vec<(ReplyKey, Arc<Kept>)>, _>>();
            visit(replies.map_err(|error| Error::Corrupt {
                path: path.clone(),
                detail: format!("a kept reply cannot be read: {error}"),
            })?)
        })
    }

    fn mark(&mut self, mark: &Mark) -> Result<(), Error> {
        write_mark(&self.dir, mark)
    }
}

/// A folder that comes to be.
pub(crate) struct FolderTarget {
    dir: PathBuf,
    label: String,
    id: String,
    resumed: bool,
    bounds: Bounds,
    /// `None` while somebody else examines it.
    archive: Option<(SqliteArchive, RealLock)>,
    /// The last group that it took.
    through: u64,
}

impl FolderTarget {
    pub(crate) fn open(dir: &Path, source: &About) -> Result<Self, Error> {
        let mark = read_mark(dir)?;
        let label = dir.display().to_string();
        let resumed = match mark.as_deref().map(Mark::decode) {
            None => {
                require_room(dir)?;
                false
            }
            Some(Some(Mark::Unfinished { source: known, .. })) if known.id == source.identity.id => {
                known == source.identity
            }
            Some(mark) => return Err(refusal(&label, mark.as_ref())),
        };
        RealDisk.create_dir(dir).map_err(|source| io_error(dir, "make", source))?;
        let owned = lock(&RealDisk, dir)?;
        if !resumed {
            let mark = Mark::Unfinished { source: source.identity.clone(), from: source.label.clone() };
            write_mark(dir, &mark)?;
            // What an earlier try copied is of another moment.
            for name in ["archive.db", "archive.db-wal", "archive.db-shm"] {
                remove(&dir.join(name), |path| fs::remove_file(path))?;
            }
        }
        remove(&dir.join(JOURNAL_DIR), |path| fs::remove_dir_all(path))?;
        let archive = SqliteArchive::open(dir)?;
        let meta = Inspection::open(&dir.join(archive::FILE_NAME))?.meta()?;
        Ok(Self {
            dir: dir.to_owned(),
            label,
            id: format!("{:016x}", meta.store),
            resumed,
            bounds: source.bounds,
            archive: Some((archive, owned)),
            through: meta.folded_through,
        })
    }

    fn archive(&mut self) -> Result<&mut SqliteArchive, Error> {
        let closed = || Error::Stopped { detail: "the copy is closed".to_owned() };
        self.archive.as_mut().map(|(archive, _)| archive).ok_or_else(closed)
    }
}

fn require_room(dir: &Path) -> Result<(), Error> {
    let names = match RealDisk.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(io_error(dir, "list", source)),
    };
    if names.iter().all(|name| MAY_BE_THERE.contains(&name.as_str())) {
        return Ok(());
    }
    let detail = format!("{} is not empty; name a folder that is empty or not there", dir.display());
    Err(Error::Unsupported { detail })
}

fn remove(path: &Path, how: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, "remove", error)),
        _ => Ok(()),
    }
}

impl Target for FolderTarget {
    fn id(&self) -> &str {
        &self.id
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn is_resumed(&self) -> bool {
        self.resumed
    }

    fn keeps_ended(&self) -> bool {
        false
    }

    fn heads(&mut self) -> Result<Vec<(CollectionKey, Arc<Collection>)>, Error> {
        let loaded = Inspection::open(&self.dir.join(archive::FILE_NAME))?.load(&mut |_, _| {})?;
        Ok(loaded.state.collections(None, usize::MAX - 1).rows)
    }

    fn begin_replies(&mut self) -> Result<(), Error> {
        self.archive()?.forget_kept()
    }

    fn put(&mut self, part: Part) -> Result<(), Error> {
        let Part { head, items, claims, events, policies, replies } = part;
        let mut group = Group {
            through: self.through + 1,
            batches: 1,
            high_water_ms: self.bounds.high_water_ms,
            epoch: Some(self.bounds.epoch),
            kept_from_ms: i64::MIN,
            ..Group::default()
        };
        if let Some((key, head)) = head {
            let rows = group.rows_mut(&key);
            rows.head = head;
            rows.items = items
                .into_iter()
                .map(|item| (item.id.clone(), GroupItem { row: Some(item), is_written: true }))
                .collect();
            rows.claims = claims.into_iter().map(|claim| (claim.number, claim)).collect();
            rows.events = events;
        }
        group.policies.extend(policies);
        for (key, kept) in &replies {
            group.add_kept(0, key, kept);
        }
        self.archive()?.fold(&group)?;
        self.through += 1;
        Ok(())
    }

    fn close(&mut self, _bounds: Bounds) -> Result<Box<dyn Source>, Error> {
        self.archive()?.close()?;
        let journal = self.dir.join(JOURNAL_DIR);
        RealDisk.create_dir(&journal).map_err(|source| io_error(&journal, "make", source))?;
        let meta = Inspection::open(&self.dir.join(archive::FILE_NAME))?.meta()?;
        empty_journal(&journal, &meta)?;
        // Whoever examines it owns it. Nobody else opens it: it is marked.
        self.archive = None;
        Ok(Box::new(FolderSource::open(&self.dir)?))
    }

    fn finish(&mut self) -> Result<(), Error> {
        sync_folder(&self.dir)?;
        remove(&self.dir.join(MARK_NAME), |path| fs::remove_file(path))?;
        RealDisk.sync_dir(&self.dir).map_err(|source| Error::SyncFailed { path: self.dir.clone(), source })
    }
}
