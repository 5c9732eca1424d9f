//! Targets: each takes any bytes and must neither panic nor do what it must not. The corpora are small and written by
//! hand; `mutate` spoils them, the same way for the same seed, so that a number names a failure.
//!
//! The tests run ten thousand inputs for each, `cargo run --release -p tenure-fuzz -- --inputs 10000000` as many as you
//! like. An input that breaks something is kept in `fuzz/broken`.
//!
//! `frame` is one message of a socket, `socket` are whole streams of a client's frames through the server's own handshake
//! and session, and `wire` is the benchmark's own reader of what a server says. Parsers that nobody can reach from
//! here are spoiled in the tests of their crates, by the same `tenure-spoil`.

pub mod head;
pub mod journal;
pub mod request;
mod served;
pub mod socket;
pub mod upload;
pub mod wire;

use tenure_core::Policy;
use tenure_server::config::Config;
use tenure_spoil::{Random, mutate};

/// Something that reads bytes from outside.
pub trait Target {
    /// Reads them. An error says which promise is broken; a panic is one too.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String>;

    /// What is spoiled, where it is made and no file in `fuzz/corpus`.
    fn corpus(&self) -> Option<Vec<Vec<u8>>> {
        None
    }
}

/// The targets' names, which are those of their corpora.
pub const TARGETS: [&str; 9] =
    ["config", "frame", "head", "journal", "policy", "request", "socket", "upload", "wire"];

/// The target of a name.
pub fn target(name: &str) -> Result<Box<dyn Target>, String> {
    Ok(match name {
        "config" => Box::new(ConfigFile::default()),
        "frame" => Box::new(Frame),
        "head" => Box::new(head::Head),
        "journal" => Box::new(journal::Journal::new()?),
        "policy" => Box::new(PolicyFile),
        "request" => Box::new(request::Requests::new()?),
        "socket" => Box::new(socket::Sockets::new()?),
        "upload" => Box::new(upload::Uploads::new()?),
        "wire" => Box::new(wire::Wire),
        _ => return Err(format!("there is no target {name}; there are: {}", TARGETS.join(", "))),
    })
}

/// A message on a socket.
#[derive(Debug)]
struct Frame;

impl Target for Frame {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            // Read or refused; what is read is not written back longer than it came.
            let echoed = tenure_server::echo_frame(text);
            if echoed.is_some_and(|id| id.len() > tenure_server::limits::SOCKET_ID_BYTES_MAX) {
                return Err("an id was taken that is too long to be echoed".to_owned());
            }
        }
        Ok(())
    }
}

/// A policy, as an administrator sends it.
#[derive(Debug)]
struct PolicyFile;

impl Target for PolicyFile {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Ok(policy) = serde_json::from_slice::<Policy>(bytes) else { return Ok(()) };
        if policy.validate().is_err() {
            return Ok(());
        }
        // What is taken is written and read again as the same.
        let text = serde_json::to_string(&policy).map_err(|error| error.to_string())?;
        let again: Policy = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
        if again == policy { Ok(()) } else { Err(format!("read again it is another: {text}")) }
    }
}

/// `tenure.toml`.
#[derive(Debug, Default)]
struct ConfigFile {
    taken: u64,
}

impl Target for ConfigFile {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
        let config = match Config::parse(text) {
            Ok(config) => config,
            Err(errors) if errors.is_empty() => return Err("it is refused and nothing is wrong".to_owned()),
            Err(errors) => {
                match errors.iter().find(|error| error.key.is_empty() || error.reason.is_empty()) {
                    Some(error) => return Err(format!("it is not said what is wrong: {error:?}")),
                    None => return Ok(()),
                }
            }
        };
        if let Some(error) = config.check().iter().find(|error| error.key.is_empty()) {
            return Err(format!("it is not said what is wrong: {error:?}"));
        }
        // Most of the time goes into what follows, and it is the same for most.
        self.taken += 1;
        if !self.taken.is_multiple_of(8) {
            return Ok(());
        }
        // What is taken is shown and read again as the same, but for secrets, which are not shown.
        let shown = config.show();
        let again = Config::parse(&shown).map_err(|errors| format!("{shown}\nis refused: {errors:?}"))?;
        let lines =
            |text: &str| text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        if lines(&again.show()) == lines(&shown) {
            Ok(())
        } else {
            Err(format!("read again it is another: {shown}"))
        }
    }
}

/// Gives a target its corpus, and then one spoiled input for each number.
pub fn run(name: &str, numbers: impl Iterator<Item = u64>) -> Result<u64, String> {
    let mut target = target(name)?;
    let corpus = target.corpus().map_or_else(|| corpus(name), Ok)?;
    let mut count = 0;
    for whole in &corpus {
        given(&mut *target, name, whole)?;
        count += 1;
    }
    for number in numbers {
        let bytes = mutate(&corpus, &mut Random::new(number));
        given(&mut *target, name, &bytes).map_err(|broken| format!("input {number}: {broken}"))?;
        count += 1;
    }
    Ok(count)
}

fn given(target: &mut dyn Target, name: &str, bytes: &[u8]) -> Result<(), String> {
    let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target.take(bytes)));
    let broken = match taken {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(broken)) => broken,
        Err(_) => "it panicked".to_owned(),
    };
    let folder = folder().join("broken");
    let kept = folder.join(name);
    match std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&kept, bytes)) {
        Ok(()) => Err(format!("{broken}; the input is kept in fuzz/broken/{name}")),
        Err(_) => Err(broken),
    }
}

fn folder() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn corpus(name: &str) -> Result<Vec<Vec<u8>>, String> {
    let folder = folder().join("corpus").join(name);
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .map_err(told)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(told)?;
    paths.sort();
    let corpus = paths.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>().map_err(told)?;
    if corpus.is_empty() { Err(format!("{name} has no corpus")) } else { Ok(corpus) }
}
