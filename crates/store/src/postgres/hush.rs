//! One `Sync` for a whole pipeline.
//!
//! The driver ends each statement with a `Sync`, and the server then hands over its answer at once: a batch of ten
//! statements is ten times a packet, and ten times somebody who wakes for it. All that a `Sync` does beyond that is to
//! end an implicit transaction and to say where the server goes on after a failure, and a pipeline needs that once. So
//! those within one are left out on the way to the server, and what the driver expects for them is put in on the way
//! back:
//!
//! ```text
//! driver   Bind Execute Sync   Bind Execute Sync   Bind Execute Sync
//! server   Bind Execute        Bind Execute        Bind Execute Sync
//!          … CommandComplete   … CommandComplete   … CommandComplete ReadyForQuery
//! driver   … ReadyForQuery     … ReadyForQuery     … ReadyForQuery
//! ```
//!
//! After a failure the server passes over everything up to the `Sync`, and the driver is told that those failed, too.
//! A statement without a `Sync` of its own is only ever one of an explicit transaction.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{HUSH_READ_BYTES, HUSH_WRITE_BYTES_MAX};

/// `ReadyForQuery`, inside of a transaction; the driver does not look at the last byte.
const READY: &[u8] = b"Z\0\0\0\x05T";
/// `ErrorResponse`, in the server's own words for what comes after a failure.
const SKIPPED: &[u8] =
    b"E\0\0\0\x4dSERROR\0VERROR\0C25P02\0Mskipped after a failure before it in its pipeline\0\0";

/// How many of the next statements do without their `Sync`.
#[derive(Clone, Debug, Default)]
pub(super) struct Hush(Arc<AtomicUsize>);

impl Hush {
    /// Of so many statements that are sent next, all but the last. Ends with what it answers.
    pub(super) fn all_but_last(&self, statements: usize) -> Hushing<'_> {
        self.0.store(statements.saturating_sub(1), Ordering::Release);
        Hushing(self)
    }

    fn take(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok()
    }
}

/// Whoever asks after it has its `Sync` again, whatever became of the pipeline.
pub(super) struct Hushing<'a>(&'a Hush);

impl Drop for Hushing<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

/// Bytes as messages: a letter, a length, a body.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; 5],
    had: usize,
    left: usize,
}

impl Frames {
    /// The next message's beginning or more of its body, and whether it ends with that.
    fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Part<'a>> {
        if self.had < self.head.len() {
            let (now, rest) = bytes.split_at(bytes.len().min(self.head.len() - self.had));
            self.head[self.had..self.had + now.len()].copy_from_slice(now);
            (self.had, *bytes) = (self.had + now.len(), rest);
            if self.had < self.head.len() {
                return None;
            }
            let [kind, a, b, c, d] = self.head;
            self.left = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
            if self.left == 0 {
                self.had = 0;
            }
            return Some(Part::Head(kind, self.head, self.left == 0));
        }
        if bytes.is_empty() {
            return None;
        }
        let (now, rest) = bytes.split_at(bytes.len().min(self.left));
        (self.left, *bytes) = (self.left - now.len(), rest);
        if self.left == 0 {
            self.had = 0;
        }
        Some(Part::Body(self.head[0], now, self.left == 0))
    }
}

enum Part<'a> {
    Head(u8, [u8; 5], bool),
    Body(u8, &'a [u8], bool),
}

/// What is under way.
#[derive(Debug, Default)]
struct Talk {
    /// The server has begun to take statements; what came before has no letter.
    begun: bool,
    asked: Frames,
    answered: Frames,
    /// Who waits for a `ReadyForQuery`, and whether the server will send none.
    owed: VecDeque<bool>,
    /// Something failed, and the server passes over everything up to the next `Sync`.
    skipping: bool,
}

impl Talk {
    fn ask(&mut self, mut bytes: &[u8], hush: &Hush, out: &mut Vec<u8>) {
        if !self.begun {
            out.extend_from_slice(bytes);
            return;
        }
        while let Some(part) = self.asked.next(&mut bytes) {
            match part {
                Part::Head(kind @ (b'S' | b'Q'), head, _) => {
                    let hushed = kind == b'S' && !self.skipping && hush.take();
                    self.owed.push_back(hushed);
                    if !hushed {
                        out.extend_from_slice(&head);
                    }
                }
                Part::Head(_, head, _) => out.extend_from_slice(&head),
                Part::Body(_, body, _) => out.extend_from_slice(body),
            }
        }
    }

    fn answer(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let Some(part) = self.answered.next(&mut bytes) {
            let (kind, ends) = match part {
                Part::Head(kind, head, ends) => {
                    if kind == b'Z' {
                        self.ready(out);
                    }
                    out.extend_from_slice(&head);
                    (kind, ends)
                }
                Part::Body(kind, body, ends) => {
                    out.extend_from_slice(body);
                    (kind, ends)
                }
            };
            if ends && self.owed.front() == Some(&true) {
                self.end_of(kind, out);
            }
        }
    }

    /// The server is ready itself.
    fn ready(&mut self, out: &mut Vec<u8>) {
        self.begun = true;
        // It has answered nothing to the one whose `Sync` that was.
        if std::mem::take(&mut self.skipping) {
            out.extend_from_slice(SKIPPED);
        }
        self.owed.pop_front();
    }

    /// A message that may be the last one of a statement without a `Sync`.
    fn end_of(&mut self, kind: u8, out: &mut Vec<u8>) {
        match kind {
            // Complete, empty, or as far as was asked for.
            b'C' | b'I' | b's' => {
                out.extend_from_slice(READY);
                self.owed.pop_front();
            }
            b'E' => {
                out.extend_from_slice(READY);
                self.owed.pop_front();
                self.skipping = true;
                while self.owed.front() == Some(&true) {
                    out.extend_from_slice(SKIPPED);
                    out.extend_from_slice(READY);
                    self.owed.pop_front();
                }
            }
            _ => {}
        }
    }
}

/// A connection on which that is done.
#[derive(Debug)]
pub(super) struct Hushed<S> {
    inner: S,
    hush: Hush,
    talk: Talk,
    /// To the server.
    out: Vec<u8>,
    /// To the driver, from here on.
    back: (Vec<u8>, usize),
}

impl<S> Hushed<S> {
    pub(super) fn new(inner: S, hush: Hush) -> Self {
        Self { inner, hush, talk: Talk::default(), out: Vec::new(), back: (Vec::new(), 0) }
    }
}

impl<S: AsyncWrite + Unpin> Hushed<S> {
    fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut done = 0;
        while done < self.out.len() {
            match Pin::new(&mut self.inner).poll_write(context, &self.out[done..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => done += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.out.drain(..done);
                    return Poll::Pending;
                }
            }
        }
        self.out.clear();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hushed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.out.len() >= HUSH_WRITE_BYTES_MAX {
            ready!(this.poll_out(context))?;
        }
        this.talk.ask(bytes, &this.hush, &mut this.out);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Hushed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.back.1 == this.back.0.len() {
            this.back.0.clear();
            this.back.1 = 0;
            let mut bytes = [std::mem::MaybeUninit::uninit(); HUSH_READ_BYTES];
            let mut read = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.talk.answer(read.filled(), &mut this.back.0);
        }
        let (bytes, from) = &mut this.back;
        let some = &bytes[*from..];
        let some = &some[..some.len().min(buffer.remaining())];
        buffer.put_slice(some);
        *from += some.len();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a short one").to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    /// A statement as the driver sends it.
    fn statement(name: &[u8]) -> Vec<u8> {
        [message(b'B', name), message(b'E', b""), message(b'S', b"")].concat()
    }

    fn kinds(mut bytes: &[u8]) -> String {
        let (mut frames, mut kinds) = (Frames::default(), String::new());
        while let Some(part) = frames.next(&mut bytes) {
            if let Part::Head(kind, ..) = part {
                kinds.push(char::from(kind));
            }
        }
        kinds
    }

    /// Asks so many statements at once, in pieces of so many bytes; answers what the server gets, and a talk.
    fn asked(statements: usize, piece: usize) -> (Talk, String) {
        let (mut talk, hush, mut out) =
            (Talk { begun: true, ..Talk::default() }, Hush::default(), Vec::new());
        let all: Vec<u8> = (0..statements).flat_map(|_| statement(b"one")).collect();
        let hushing = hush.all_but_last(statements);
        all.chunks(piece).for_each(|piece| talk.ask(piece, &hush, &mut out));
        drop(hushing);
        (talk, kinds(&out))
    }

    #[test]
    fn e05_of_a_pipeline_only_the_last_statement_has_a_sync_and_each_has_an_end() {
        let served = [message(b'2', b""), message(b'D', b"Z"), message(b'C', b"SELECT 1\0")].concat();
        for piece in [1, 3, 4, 5, 7, 1_000] {
            let (mut talk, sent) = asked(3, piece);
            assert_eq!(sent, "BEBEBES");
            let (mut back, all) =
                (Vec::new(), [&served[..], &served, &served, &message(b'Z', b"T")].concat());
            all.chunks(piece).for_each(|piece| talk.answer(piece, &mut back));
            assert_eq!(kinds(&back), "2DCZ2DCZ2DCZ");
            assert!(talk.owed.is_empty());
        }
        assert_eq!(asked(1, 4).1, "BES");
    }

    #[test]
    fn e05_what_comes_after_a_failure_in_a_pipeline_has_failed_too() {
        let (mut talk, _) = asked(4, 1_000);
        let (mut back, hush, mut out) = (Vec::new(), Hush::default(), Vec::new());
        talk.answer(&[message(b'2', b""), message(b'C', b"BEGIN\0")].concat(), &mut back);
        talk.answer(&message(b'E', b"SERROR\0\0"), &mut back);
        assert_eq!(kinds(&back), "2CZEZEZ");
        // Sent before anyone knew of it: that one has its Sync, since the server waits for one.
        talk.ask(&statement(b"more"), &hush, &mut out);
        talk.answer(&message(b'Z', b"E"), &mut back);
        assert_eq!(kinds(&back), "2CZEZEZEZ");
        talk.answer(
            &[message(b'2', b""), message(b'C', b"ROLLBACK\0"), message(b'Z', b"I")].concat(),
            &mut back,
        );
        assert_eq!(kinds(&back), "2CZEZEZEZ2CZ");
        assert!(talk.owed.is_empty() && !talk.skipping);
    }

    #[test]
    fn e05_a_pipeline_that_is_still_being_sent_when_it_fails_goes_on_with_syncs() {
        let (mut talk, hush) = (Talk { begun: true, ..Talk::default() }, Hush::default());
        let (mut out, mut back, _hushing) = (Vec::new(), Vec::new(), hush.all_but_last(3));
        talk.ask(&statement(b"one"), &hush, &mut out);
        talk.answer(&message(b'E', b"SERROR\0\0"), &mut back);
        talk.ask(&[statement(b"two"), statement(b"three")].concat(), &hush, &mut out);
        assert_eq!(kinds(&out), "BEBESBES");
        let third = [message(b'E', b"SERROR\0\0"), message(b'Z', b"E")].concat();
        talk.answer(&[&message(b'Z', b"E")[..], &third].concat(), &mut back);
        assert_eq!(kinds(&back), "EZEZEZ");
        assert!(talk.owed.is_empty());
    }

    #[test]
    fn e05_the_words_for_what_was_skipped_are_a_message() {
        assert_eq!(kinds(&[SKIPPED, READY].concat()), "EZ");
        assert_eq!(u32::from_be_bytes([0, 0, 0, SKIPPED[4]]) as usize, SKIPPED.len() - 1);
    }

    /// E9: whatever a server says reaches the driver as it is, but for the ends that were left out; however it is cut.
    #[test]
    fn e9_spoiled_answers_reach_the_driver_as_they_are_however_they_are_cut() {
        const STATEMENTS: usize = 3;
        let served = [message(b'2', b""), message(b'D', b"Z"), message(b'C', b"SELECT 1\0")].concat();
        let failed = message(b'E', b"SERROR\0C42P01\0Mno such table\0\0");
        let ready = message(b'Z', b"T");
        let corpus = [
            [&served[..], &served, &served, &ready].concat(),
            [&served[..], &failed, &ready].concat(),
            [&failed[..], &ready].concat(),
            [&message(b'N', b"SNOTICE\0\0")[..], &served, &message(b'I', b""), &message(b's', b""), &ready]
                .concat(),
        ];
        let judged = tenure_spoil::spoiled(&corpus, |bytes| {
            let (mut back, mut alone) = (Vec::new(), Vec::new());
            Talk { begun: true, ..Talk::default() }.answer(bytes, &mut alone);
            // A head waits until it is whole.
            let held = bytes.len().saturating_sub(alone.len());
            if !bytes.starts_with(&alone) || held >= 5 {
                return Err("without a pipeline it is changed".to_owned());
            }
            let (mut talk, _) = asked(STATEMENTS, 1_000);
            talk.answer(bytes, &mut back);
            for piece in [1, 3, 7] {
                let ((mut talk, _), mut pieces) = (asked(STATEMENTS, 1_000), Vec::new());
                bytes.chunks(piece).for_each(|piece| talk.answer(piece, &mut pieces));
                if pieces != back {
                    return Err(format!("in pieces of {piece} it is another"));
                }
            }
            // One end for each statement, and one failure for each that was passed over: nothing else was put in.
            let more = (back.len() + held).checked_sub(bytes.len()).ok_or("something is missing")?;
            let fits = |ends: usize, skipped: usize| more == ends * READY.len() + skipped * SKIPPED.len();
            if (0..=STATEMENTS).any(|ends| (0..=STATEMENTS).any(|skipped| fits(ends, skipped))) {
                Ok(talk.owed.is_empty())
            } else {
                Err(format!("{more} bytes were put in"))
            }
        });
        assert!(judged.reaches_both(), "{judged:?}");
    }
}
