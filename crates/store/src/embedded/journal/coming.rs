//! What takes as long as hundreds of commits, done beside them: the file of the next segment is made before it is needed.

use std::io;
use std::thread::JoinHandle;

/// What came of it, for one a file of zeros, or why there is none.
pub(super) enum Coming<F> {
    Made(io::Result<F>),
    Making(Making<F>),
    /// There is no thread to be had: it is made when it is needed.
    Later,
}

/// A thread that is at it. It is waited for however this ends: nothing is written to a folder whose lock is let go of.
pub(super) struct Making<F>(Option<JoinHandle<io::Result<F>>>);

impl<F: Send + 'static> Coming<F> {
    /// Has it made beside what else is done, or at once for a store without threads.
    pub(super) fn start(threads: bool, make: impl FnOnce() -> io::Result<F> + Send + 'static) -> Self {
        if !threads {
            return Self::Made(make());
        }
        let builder = std::thread::Builder::new().name("tenure-segment".to_owned());
        builder.spawn(make).map_or(Self::Later, |thread| Self::Making(Making(Some(thread))))
    }

    /// Nobody is at it any more.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Made(_) | Self::Later => true,
            Self::Making(Making(thread)) => thread.as_ref().is_none_or(JoinHandle::is_finished),
        }
    }

    /// `None` where nobody has begun to make it.
    pub(super) fn wait(self) -> io::Result<Option<F>> {
        match self {
            Self::Made(made) => made.map(Some),
            Self::Making(making) => making.wait().map(Some),
            Self::Later => Ok(None),
        }
    }
}

impl<F> Making<F> {
    fn wait(mut self) -> io::Result<F> {
        let joined = self.0.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_else(|| Err(io::Error::other("its thread panicked")))
    }
}

impl<F> Drop for Making<F> {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn nobody_writes_any_more_once_it_is_dropped() {
        let (go_on, gate) = channel::<()>();
        let is_over = Arc::new(AtomicBool::new(false));
        let coming = Coming::start(true, {
            let is_over = is_over.clone();
            move || {
                // Only once somebody drops it, or a moment later.
                let _ = gate.recv();
                std::thread::yield_now();
                is_over.store(true, Ordering::SeqCst);
                Ok(())
            }
        });
        let opener = std::thread::spawn(move || drop(go_on));
        drop(coming);
        assert!(is_over.load(Ordering::SeqCst));
        opener.join().expect("it only lets go");
    }

    #[test]
    fn a_panic_is_an_error() {
        let coming = Coming::<()>::start(true, || panic!("a planted panic"));
        assert!(coming.wait().is_err());
    }
}
