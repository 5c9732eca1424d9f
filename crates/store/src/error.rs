//! What can go wrong with keeping. One type; each variant's text is a sentence for an operator.

use std::fmt;
use std::path::PathBuf;

/// A store's failure. Only [`Error::Full`], [`Error::Away`] and [`Error::Unknown`] may pass by themselves;
/// after [`Error::TooLarge`] a smaller batch goes through, and after [`Error::Conflict`] a new decision.
#[derive(Debug)]
pub enum Error {
    /// No room on the disk. Nothing was written; reads go on.
    Full {
        /// Where there is no room.
        path: PathBuf,
    },
    /// The data is not what was written.
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where in it and what is wrong.
        detail: String,
    },
    /// Another process owns the folder.
    Owned {
        /// The folder.
        path: PathBuf,
    },
    /// The data was written by a newer Tenure.
    Newer {
        /// Which file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
        /// The newest that this program knows.
        known: u32,
    },
    /// The disk did not confirm a write. What is on it is unknown; the process must end.
    SyncFailed {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Any other failure of the disk.
    Io {
        /// Which file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
    /// The archive's database failed.
    Archive {
        /// What was being done.
        doing: &'static str,
        /// Its word.
        source: rusqlite::Error,
    },
    /// A batch is larger than a store can commit at once. Nothing was written; a smaller one goes through.
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// What there may be.
        max: u64,
    },
    /// The store has stopped after an earlier failure.
    Stopped {
        /// That failure.
        detail: String,
    },
    /// Something on this machine or in this request does not allow it.
    Unsupported {
        /// What, and what would.
        detail: String,
    },
    /// The store cannot be reached now. Nothing was written.
    Away {
        /// Why.
        detail: String,
    },
    /// Somebody else came first. Nothing was written; load and decide anew.
    Conflict {
        /// How it showed.
        detail: String,
    },
    /// A commit's answer was lost, and the store could not be asked for it: it may have happened.
    Unknown {
        /// What was lost.
        detail: String,
    },
}

impl Error {
    /// The process must end: what is on disk is no longer known to be what memory says.
    pub fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::Full { .. }
                | Self::TooLarge { .. }
                | Self::Away { .. }
                | Self::Conflict { .. }
                | Self::Unknown { .. }
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { path } => {
                write!(f, "no room left for {}", path.display())
            }
            Self::Corrupt { path, detail } => {
                write!(
                    f,
                    "{} is damaged: {detail}. Nothing was changed; restore a backup or repair it",
                    path.display()
                )
            }
            Self::Owned { path } => {
                write!(f, "{} is in use by another tenure process; stop that one first", path.display())
            }
            Self::Newer { path, found, known } => write!(
                f,
                "{} was written by a newer tenure (format {found}, this program knows {known}); update this program",
                path.display()
            ),
            Self::SyncFailed { path, source } => write!(
                f,
                "the disk did not confirm a write to {} ({source}); stopping, since what is on it is unknown",
                path.display()
            ),
            Self::Io { path, doing, source } => write!(f, "could not {doing} {}: {source}", path.display()),
            Self::Archive { doing, source } => write!(f, "the archive could not {doing}: {source}"),
            Self::TooLarge { bytes, max } => {
                write!(f, "a batch of {bytes} bytes is more than the {max} that can be committed at once")
            }
            Self::Stopped { detail } => write!(f, "the store has stopped: {detail}"),
            Self::Unsupported { detail } => f.write_str(detail),
            Self::Away { detail } => write!(f, "the store cannot be reached: {detail}"),
            Self::Conflict { detail } => write!(f, "another node came first: {detail}"),
            Self::Unknown { detail } => write!(f, "whether a commit happened is not known: {detail}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::SyncFailed { source, .. } | Self::Io { source, .. } => Some(source),
            Self::Archive { source, .. } => Some(source),
            _ => None,
        }
    }
}
