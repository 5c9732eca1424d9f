//! Where payments keep what nobody may read: a gateway's key, the token of a page, the page itself.
//!
//! Documents are events: they are kept for ever, shown in logs of changes and copied into backups. So a secret
//! is never part of one. It lies in a file of its own, for the server's user alone, under a name that a
//! document mentions; what is over is deleted. A key that seals documents would have to be kept in such a file
//! as well, and what it sealed would stay for ever.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::Text;

use crate::durable;

/// A text that never prints itself and cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Text);

impl Sealed {
    /// This text.
    pub fn new(text: impl Into<Text>) -> Self {
        Self(text.into())
    }

    /// The text itself. Ask only to hand it to whom it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealed(…)")
    }
}

/// Keeps secrets by name. Calls block, shortly: the files are small.
pub trait Vault: fmt::Debug + Send + Sync + 'static {
    /// Keeps it, durably, instead of what had the name before.
    fn put(&self, name: &str, secret: &Sealed) -> io::Result<()>;
    /// It, if it is there.
    fn get(&self, name: &str) -> io::Result<Option<Sealed>>;
    /// Forgets it. Forgetting twice is forgetting.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// One file each in a folder that only the server's user can enter.
#[derive(Clone, Debug)]
pub struct FileVault {
    root: PathBuf,
}

/// Secrets that are gone with the process.
#[derive(Clone, Default)]
pub struct MemoryVault {
    secrets: Arc<Mutex<BTreeMap<String, Sealed>>>,
}

impl FileVault {
    /// In this folder, which is made when the first secret comes.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// No path is ever made of somebody's words.
    fn path(&self, name: &str) -> io::Result<PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
        if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no name of a secret"));
        }
        Ok(self.root.join(name))
    }
}

impl MemoryVault {
    /// The names of what is kept, for tests.
    pub fn names(&self) -> Vec<String> {
        self.secrets.lock().keys().cloned().collect()
    }
}

impl Vault for FileVault {
    fn put(&self, name: &str, secret: &Sealed) -> io::Result<()> {
        let path = self.path(name)?;
        durable::make_folder(&self.root)?;
        durable::replace(&path, secret.expose().as_bytes())
    }

    fn get(&self, name: &str) -> io::Result<Option<Sealed>> {
        match fs::read_to_string(self.path(name)?) {
            Ok(text) => Ok(Some(Sealed::new(text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Vault for MemoryVault {
    fn put(&self, name: &str, secret: &Sealed) -> io::Result<()> {
        self.secrets.lock().insert(name.to_owned(), secret.clone());
        Ok(())
    }

    fn get(&self, name: &str) -> io::Result<Option<Sealed>> {
        Ok(self.secrets.lock().get(name).cloned())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.secrets.lock().remove(name);
        Ok(())
    }
}

impl fmt::Debug for MemoryVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryVault(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_kept_replaced_and_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("secrets");
        for vault in [&FileVault::new(&root) as &dyn Vault, &MemoryVault::default()] {
            assert_eq!(vault.get("a-1").expect("reads"), None);
            for text in ["first", "second"] {
                vault.put("a-1", &Sealed::new(text)).expect("is kept");
            }
            let found = vault.get("a-1").expect("reads").expect("is there");
            assert_eq!(
                (found.expose(), format!("{found:?} {vault:?}").contains("second")),
                ("second", false)
            );
            vault.remove("a-1").expect("is forgotten");
            vault.remove("a-1").expect("and again");
            assert_eq!(vault.get("a-1").expect("reads"), None);
        }
    }

    #[test]
    fn a_secrets_file_is_for_its_owner_alone_and_its_name_is_no_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("secrets");
        let vault = FileVault::new(&root);
        vault.put("a-1", &Sealed::new("x")).expect("is kept");
        let mode = |path: PathBuf| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!((mode(root.clone()), mode(root.join("a-1"))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&root).expect("a folder").count(), 1, "nothing else is left behind");
        for name in ["", ".", "..", "../a", "a/b", ".a", "a b", &"x".repeat(201)] {
            assert!(vault.put(name, &Sealed::new("x")).is_err() && vault.get(name).is_err(), "{name}");
        }
    }
}
