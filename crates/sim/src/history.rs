//! What happened, line by line: the newest lines for whoever reads a failure, and a hash over all of
//! them, so that two runs of a seed can be compared.

use std::collections::VecDeque;
use std::fmt;

use tenure_core::{Claim, Reply};

/// The lines of one seed.
#[derive(Clone, Debug)]
pub struct History {
    newest: VecDeque<String>,
    kept: usize,
    hash: u64,
    lines: u64,
}

impl History {
    /// Keeps that many of the newest lines.
    pub fn new(kept: usize) -> Self {
        Self { newest: VecDeque::new(), kept, hash: 0xcbf2_9ce4_8422_2325, lines: 0 }
    }

    /// Adds a line at a real time.
    pub fn add(&mut self, real_ms: i64, line: fmt::Arguments<'_>) {
        let line = format!("{real_ms:>9} {line}");
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if self.newest.len() >= self.kept {
            self.newest.pop_front();
        }
        self.newest.push_back(line);
    }

    /// FNV-1a over every line.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many there were.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The newest of them.
    pub fn newest(&self) -> impl Iterator<Item = &str> {
        self.newest.iter().map(String::as_str)
    }
}

/// A reply in few words.
pub(crate) struct Brief<'a>(pub(crate) &'a Reply);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reply::Acquired { claim, how } => write!(f, "{how:?} {}", BriefClaim(claim)),
            Reply::Beat { renewed, reason, claim } => {
                write!(f, "Beat (renewed {renewed}, {reason:?}) {}", BriefClaim(claim))
            }
            Reply::Claim { claim } | Reply::Freed { claim: Some(claim) } => BriefClaim(claim).fmt(f),
            Reply::Item { item, created } => {
                write!(f, "item {} {} version {} (new: {created})", item.id, item.status, item.version)
            }
            Reply::Collection { collection, created } => {
                write!(f, "head {} (new: {created})", collection.seq)
            }
            Reply::Group(replies) => replies.iter().try_for_each(|reply| write!(f, "{{{}}} ", Brief(reply))),
            Reply::Freed { claim: None } | Reply::Done => f.write_str("done"),
        }
    }
}

struct BriefClaim<'a>(&'a Claim);

impl fmt::Display for BriefClaim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.0;
        write!(
            f,
            "claim {} token {} {:?} of {} in {} until {} ttl {}",
            claim.number,
            claim.token,
            claim.items,
            claim.holder.id,
            claim.phase,
            claim.expires_at_ms,
            claim.ttl_ms
        )?;
        match claim.reason {
            Some(reason) => write!(f, " ended {} blocked {}", reason.as_str(), claim.blocked_until_ms),
            None => Ok(()),
        }
    }
}
