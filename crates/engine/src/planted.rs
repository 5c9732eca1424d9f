//! Bugs to plant, so that the simulator can prove that it would find them. Without the feature
//! `planted` none can be switched on and the checks compile to nothing.

/// A bug that somebody could have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Answers before the commit.
    AnswerBeforeCommit,
    /// Tells the feed before the commit.
    TellBeforeCommit,
    /// Does not keep the reply of a request with an idempotency key.
    ForgetReply,
    /// Grants to a waiter whose caller has left.
    GrantToGone,
    /// Forgets the highest committed time at a start.
    TimeRunsBack,
    /// Gives active claims no time back after a pause.
    NoResume,
    /// Decisions of one turn do not see each other.
    StaleRows,
    /// Decides with the time of the turn before.
    StaleTime,
    /// Loses the timers at a start.
    ForgetTimers,
    /// Serves the waiter who came last.
    LastComeFirstServed,
    /// Decides without what a commit that is under way will change.
    BlindAhead,
    /// Keeps what was decided on top of a commit that failed.
    KeepOnTop,
}

/// Which bug is planted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    #[cfg(feature = "planted")]
    bug: Option<Bug>,
}

impl Planted {
    /// Plants one.
    #[cfg(feature = "planted")]
    pub fn new(bug: Bug) -> Self {
        Self { bug: Some(bug) }
    }

    #[cfg(feature = "planted")]
    pub(crate) fn is(self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "planted"))]
    #[expect(clippy::unused_self, reason = "the same call with the feature and without")]
    pub(crate) fn is(self, _bug: Bug) -> bool {
        false
    }
}
