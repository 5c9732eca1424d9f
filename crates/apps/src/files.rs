//! Files that documents speak of: kept by what is in them, never changed, read by many.
//!
//! A document names a file by the hash of its bytes. A file is kept before the document that names it is
//! committed, so a document's file is always there; what a crash leaves without a document is found again
//! when the same bytes come a second time.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tenure_core::Hash;

use crate::durable;

/// The SHA-256 of a file's bytes, as 64 hexadecimal digits. It can be nothing else, so no path is ever made
/// of somebody's words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileId(String);

/// Where files are kept. Calls block: make them away from the threads that answer everyone.
pub trait Files: fmt::Debug + Send + Sync {
    /// Keeps the bytes for good, and says under which id.
    fn keep(&self, bytes: &[u8]) -> io::Result<FileId>;
    /// The file, from its beginning; `None` if nobody kept it.
    fn open(&self, id: &FileId) -> io::Result<Option<Box<dyn Read + Send>>>;
}

/// Files in a folder: `ab/cdef…`, by the id's digits. Several processes may share it.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

/// Files that are gone with the process.
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    files: Arc<Mutex<BTreeMap<FileId, Arc<[u8]>>>>,
}

impl FileId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Hash(Sha256::digest(bytes).into()).to_string())
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for FileId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() == 64 && text.bytes().all(is_digit) {
            Ok(Self(text))
        } else {
            Err("a file's id has 64 hexadecimal digits")
        }
    }
}

impl From<FileId> for String {
    fn from(id: FileId) -> Self {
        id.0
    }
}

impl Folder {
    /// In this folder, which is made when the first file comes.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Copies every file into another folder; gives how many. Tells of those that cannot be read or are not what their
    /// names say: they are left out, and the others are worth having.
    pub fn copy_to(&self, other: &Self, tell: impl FnMut(String)) -> io::Result<usize> {
        self.each(tell, |id, bytes| {
            let path = &other.path(id).1;
            other.keep(bytes).map(drop).map_err(|error| named("keep", path, &error))
        })
    }

    /// Looks whether every file is what its name says; gives how many are. Tells of those that are not.
    pub fn check(&self, tell: impl FnMut(String)) -> io::Result<usize> {
        self.each(tell, |_, _| Ok(()))
    }

    fn each(
        &self,
        mut tell: impl FnMut(String),
        mut look: impl FnMut(&FileId, &[u8]) -> io::Result<()>,
    ) -> io::Result<usize> {
        let mut count = 0;
        let list = |folder: &Path| fs::read_dir(folder).map_err(|error| named("list", folder, &error));
        let folders = match list(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            folders => folders?,
        };
        for folder in folders {
            let folder = folder?;
            // Whatever else somebody left there.
            if folder.file_name().len() != 2 || !folder.file_type()?.is_dir() {
                continue;
            }
            for file in list(&folder.path())? {
                let file = file?;
                let name =
                    [folder.file_name(), file.file_name()].map(|name| name.to_string_lossy().into_owned());
                // What was being written when the power went is no file.
                let Ok(id) = FileId::try_from(name.concat()) else { continue };
                let path = file.path();
                match fs::read(&path) {
                    Ok(bytes) if FileId::of(&bytes) == id => {
                        look(&id, &bytes)?;
                        count += 1;
                    }
                    Ok(_) => tell(format!("{} is damaged: it is not what its name says", path.display())),
                    Err(error) => tell(named("read", &path, &error).to_string()),
                }
            }
        }
        Ok(count)
    }

    fn path(&self, id: &FileId) -> (PathBuf, PathBuf) {
        let (first, rest) = id.0.split_at(2);
        let folder = self.root.join(first);
        let path = folder.join(rest);
        (folder, path)
    }
}

impl Files for Folder {
    fn keep(&self, bytes: &[u8]) -> io::Result<FileId> {
        let id = FileId::of(bytes);
        let (folder, path) = self.path(&id);
        durable::make_folder(&self.root)?;
        durable::make_folder(&folder)?;
        if path.exists() {
            // Whoever put it there may not have come to this yet.
            durable::sync_folder(&folder)?;
        } else {
            durable::replace(&path, bytes)?;
        }
        Ok(id)
    }

    fn open(&self, id: &FileId) -> io::Result<Option<Box<dyn Read + Send>>> {
        match File::open(self.path(id).1) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Files for InMemory {
    fn keep(&self, bytes: &[u8]) -> io::Result<FileId> {
        let id = FileId::of(bytes);
        self.files.lock().entry(id.clone()).or_insert_with(|| Arc::from(bytes));
        Ok(id)
    }

    fn open(&self, id: &FileId) -> io::Result<Option<Box<dyn Read + Send>>> {
        let found = self.files.lock().get(id).cloned();
        Ok(found.map(|bytes| Box::new(Cursor::new(bytes)) as Box<dyn Read + Send>))
    }
}

fn named(doing: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("could not {doing} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &dyn Files, id: &FileId) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        files.open(id).expect("opens")?.read_to_end(&mut bytes).expect("reads");
        Some(bytes)
    }

    #[test]
    fn a_kept_file_is_there_whole_and_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("files");
        for files in [&Folder::new(&root) as &dyn Files, &InMemory::default()] {
            let id = files.keep(b"seven bytes").expect("is kept");
            assert_eq!(files.keep(b"seven bytes").expect("is kept again"), id);
            assert_eq!(read(files, &id).as_deref(), Some(&b"seven bytes"[..]));
            assert_eq!(read(files, &FileId::of(b"another")), None);
        }
        let id = FileId::of(b"seven bytes");
        let (first, rest) = id.as_str().split_at(2);
        let names = |path: &Path| -> Vec<_> {
            let entries = fs::read_dir(path).expect("a folder");
            entries.map(|entry| entry.expect("an entry").file_name()).collect()
        };
        assert_eq!(names(&root), [first]);
        assert_eq!(names(&root.join(first)), [rest], "nothing else is left behind");
    }

    #[test]
    fn a_copy_has_every_file_and_finds_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other, third] = ["one", "other", "third"].map(|name| Folder::new(folder.path().join(name)));
        let sound = |problem: String| panic!("{problem}");
        assert_eq!(one.copy_to(&other, sound).expect("is nothing"), 0);
        let ids = [&b"a"[..], b"b", b"c"].map(|bytes| one.keep(bytes).expect("is kept"));
        fs::write(one.path(&ids[0]).0.join(".half"), "x").expect("is written");
        fs::write(one.root.join(".DS_Store"), "x").expect("is written");
        fs::create_dir(one.root.join("lost+found")).expect("is made");
        assert_eq!(one.copy_to(&other, sound).expect("is copied"), 3);
        assert_eq!(read(&other, &ids[1]).as_deref(), Some(&b"b"[..]));
        fs::write(one.path(&ids[2]).1, "else").expect("is written");
        let mut told = Vec::new();
        assert_eq!(one.copy_to(&third, |problem| told.push(problem)).expect("the others are copied"), 2);
        assert_eq!(one.check(|problem| told.push(problem)).expect("is read"), 2);
        let is_named = |told: &String| told.contains(&ids[2].as_str()[2..]) && told.contains("is damaged");
        assert!(told.len() == 2 && told.iter().all(is_named), "{told:?}");
        assert_eq!(third.check(sound).expect("is read"), 2);
    }

    #[test]
    fn an_id_is_a_hash_and_no_path() {
        let check = |text: &str, good: bool| {
            assert_eq!(FileId::try_from(text.to_owned()).is_ok(), good, "{text}");
        };
        check(&"0a".repeat(32), true);
        check(&"0A".repeat(32), false);
        check(&"../".repeat(21), false);
        check(&format!("{}/", "0".repeat(63)), false);
        check("", false);
    }
}
