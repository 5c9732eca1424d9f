//! What the kernel was asked for, from the log that strace wrote: each call begins at one moment and ends at a later one,
//! and others may come in between. What it does not know it does not pass over.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All calls that can change a file, or make a change safe. One that a machine does not have is left out.
pub(crate) const CALLS: &str = "trace=?open,?openat,?creat,?close,?write,?pwrite64,?writev,?pwritev,?pwritev2,\
    ?ftruncate,?truncate,?fallocate,?fsync,?fdatasync,?rename,?renameat,?renameat2,?unlink,?unlinkat,?rmdir,?mkdir,\
    ?mkdirat,?link,?linkat,?copy_file_range,?sendfile,?dup,?dup2,?dup3";

/// What happened next. Calls are numbered.
#[derive(Clone, Debug)]
pub(crate) enum Moment {
    Begins(usize, Call),
    /// With what it answered.
    Ends(usize, i64),
    /// The process is over, and the system shows these files.
    Dies(Arc<Files>),
}

/// Files by their paths in the folder.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

#[derive(Clone, Debug)]
pub(crate) enum Call {
    /// Answers a descriptor.
    Open {
        path: PathBuf,
        makes: bool,
    },
    Close {
        file: i64,
    },
    Write {
        file: i64,
        offset: u64,
        bytes: Arc<Vec<u8>>,
    },
    SetLength {
        file: i64,
        bytes: u64,
    },
    Sync {
        file: i64,
        /// By `fdatasync`.
        is_data: bool,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    MakeFolder {
        path: PathBuf,
    },
    /// A line to whoever listens.
    Say(String),
    /// What is not understood of this descriptor.
    Unknown {
        name: String,
        file: i64,
    },
}

/// Reads a log. Of what is not in the folder only the descriptors are told. Calls are numbered from `first` on.
pub(crate) fn read(log: &str, folder: &Path, first: usize) -> Vec<Moment> {
    let mut moments = Vec::new();
    let mut under_way = HashMap::new();
    let mut next = first;
    for line in log.lines() {
        let (thread, rest) = line.trim_start().split_once(' ').expect("a line begins with a number");
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if rest.starts_with("<...") {
            let answer = rest.rsplit_once(" = ").and_then(|(_, answer)| number(answer));
            if let (Some(call), Some(answer)) = (under_way.remove(thread).flatten(), answer) {
                moments.push(Moment::Ends(call, answer));
            }
            continue;
        }
        let (name, rest) = rest.split_once('(').expect("a call has a name");
        let (arguments, answer) = match rest.strip_suffix("<unfinished ...>") {
            Some(arguments) => (arguments, None),
            None => rest.rsplit_once(" = ").map(|(asked, answer)| (asked, Some(answer))).expect("an answer"),
        };
        let arguments: Vec<&str> = arguments.trim_end().trim_end_matches(')').split(", ").collect();
        let call = read_call(name, &arguments, folder).map(|call| {
            next += 1;
            moments.push(Moment::Begins(next, call));
            next
        });
        match answer.map(number) {
            None => drop(under_way.insert(thread, call)),
            Some(Some(answer)) => moments.extend(call.map(|call| Moment::Ends(call, answer))),
            // It was killed in the middle of it.
            Some(None) => {}
        }
    }
    moments
}

fn read_call(name: &str, arguments: &[&str], folder: &Path) -> Option<Call> {
    let mut paths = arguments.iter().filter(|argument| argument.starts_with('"')).map(|text| {
        let path = String::from_utf8(unquote(text)).expect("a path is text");
        Path::new(&path).strip_prefix(folder).ok().map(Path::to_path_buf)
    });
    let file = || number(arguments[0]).expect("a descriptor");
    let count =
        |index: usize| u64::try_from(number(arguments[index]).expect("a number")).expect("not below 0");
    Some(match name {
        "open" | "openat" => {
            let flags = arguments.iter().find(|argument| argument.starts_with("O_")).expect("has flags");
            let path = paths.next().flatten()?;
            assert!(!flags.contains("O_TRUNC"), "{} is emptied as it is opened", path.display());
            Call::Open { path, makes: flags.contains("O_CREAT") }
        }
        "close" => Call::Close { file: file() },
        "write" if file() <= 2 => {
            Call::Say(String::from_utf8_lossy(&unquote(arguments[1])).trim_end().to_owned())
        }
        "pwrite64" => Call::Write { file: file(), offset: count(3), bytes: Arc::new(unquote(arguments[1])) },
        "ftruncate" => Call::SetLength { file: file(), bytes: count(1) },
        "fsync" | "fdatasync" => Call::Sync { file: file(), is_data: name == "fdatasync" },
        "rename" | "renameat" | "renameat2" => match (paths.next().flatten(), paths.next().flatten()) {
            (Some(from), Some(to)) => Call::Rename { from, to },
            (None, None) => return None,
            half => panic!("a rename into the folder or out of it: {half:?}"),
        },
        "unlink" | "unlinkat" => Call::Remove { path: paths.next().flatten()? },
        "mkdir" | "mkdirat" => Call::MakeFolder { path: paths.next().flatten()? },
        "creat" | "truncate" | "rmdir" | "link" | "linkat" => {
            assert!(paths.all(|path| path.is_none()), "{name} in the folder");
            return None;
        }
        _ => Call::Unknown { name: name.to_owned(), file: file() },
    })
}

/// The number that a text begins with.
fn number(text: &str) -> Option<i64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Bytes as strace writes them: each as `\x` and two digits.
fn unquote(text: &str) -> Vec<u8> {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let inner = inner.unwrap_or_else(|| panic!("no whole text, but {} characters", text.len()));
    let digit = |character: u8| match character {
        b'0'..=b'9' => character - b'0',
        b'a'..=b'f' => character - b'a' + 10,
        other => panic!("{other} is no digit"),
    };
    inner.as_bytes().chunks_exact(4).map(|code| digit(code[2]) << 4 | digit(code[3])).collect()
}
