//! The files of the repository, as git sees them: tracked ones, and new ones that it does not ignore,
//! so that a finding comes before the commit.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// Text files by their path from the root.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

#[derive(Debug)]
struct File {
    text: String,
    tracked: bool,
}

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard"]);
        let output = git.current_dir(root).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("could not start git: {error}"))?;
        if !output.status.success() {
            return Err(format!("git cannot list the files: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let listing = String::from_utf8(output.stdout).map_err(|_| "a file's name is not UTF-8")?;
        let mut tree = Self::default();
        for (path, tracked) in entries(&listing) {
            match fs::read_to_string(root.join(path)) {
                Ok(text) => drop(tree.files.insert(path.to_owned(), File { text, tracked })),
                // Deleted but not yet committed, or not a text.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => {}
                Err(error) => return Err(format!("could not read {path}: {error}")),
            }
        }
        Ok(tree)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.text.as_str()))
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|file| file.text.as_str())
    }

    pub(super) fn is_tracked(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|file| file.tracked)
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |text: &str| File { text: text.to_owned(), tracked: true };
        Self { files: files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect() }
    }
}

/// Paths of git's tagged listing, and whether each is tracked (`?` says that it is not).
fn entries(listing: &str) -> impl Iterator<Item = (&str, bool)> {
    let entries = listing.split('\0').filter_map(|entry| entry.split_once(' '));
    entries.map(|(tag, path)| (path, tag != "?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_tells_tracked_files_from_new_ones() {
        let listing = "H Cargo.toml\0? docs/a page.md\0";
        assert_eq!(entries(listing).collect::<Vec<_>>(), [("Cargo.toml", true), ("docs/a page.md", false)]);
    }
}
