//! Targets: each takes any bytes and must neither panic nor do what it must not. The corpora are small and written by
//! hand; `mutate` spoils them, the same way for the same seed, so that a number names a failure.
//!
//! The tests run ten thousand inputs for each, `cargo run --release -p tenure-fuzz -- --inputs 10000000` as many as you
//! like. An input that breaks something is kept in `fuzz/broken`.
//!
//! On the server a socket's frames are read by tungstenite, which is not ours to spoil; `wire` is the benchmark's own
//! reader.

pub mod head;
pub mod journal;
pub mod mutate;
pub mod request;
pub mod wire;

use tenure_core::Policy;

/// Something that reads bytes from outside.
pub trait Target {
    /// Reads them. An error says which promise is broken; a panic is one too.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String>;
}

/// The targets' names, which are those of their corpora.
pub const TARGETS: [&str; 6] = ["frame", "head", "journal", "policy", "request", "wire"];

/// The target of a name.
pub fn target(name: &str) -> Result<Box<dyn Target>, String> {
    Ok(match name {
        "frame" => Box::new(Frame),
        "head" => Box::new(head::Head),
        "journal" => Box::new(journal::Journal::new()?),
        "policy" => Box::new(PolicyFile),
        "request" => Box::new(request::Requests::new()?),
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

/// Gives a target its corpus, and then one spoiled input for each number.
pub fn run(name: &str, numbers: impl Iterator<Item = u64>) -> Result<u64, String> {
    let mut target = target(name)?;
    let corpus = corpus(name)?;
    let mut count = 0;
    for whole in &corpus {
        given(&mut *target, name, whole)?;
        count += 1;
    }
    for number in numbers {
        let bytes = mutate::mutate(&corpus, &mut mutate::Random::new(number));
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
