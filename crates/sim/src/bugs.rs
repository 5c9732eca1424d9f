//! Bugs that can be planted, by name.

use tenure_engine::Planted;

/// A bug that somebody could have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// One of the engine's.
    Engine(tenure_engine::Bug),
}

impl Bug {
    /// All of them, with their names.
    pub const ALL: [(&str, Bug); 10] = {
        use tenure_engine::Bug as E;
        [
            ("answer-before-commit", Bug::Engine(E::AnswerBeforeCommit)),
            ("tell-before-commit", Bug::Engine(E::TellBeforeCommit)),
            ("forget-reply", Bug::Engine(E::ForgetReply)),
            ("grant-to-gone", Bug::Engine(E::GrantToGone)),
            ("time-runs-back", Bug::Engine(E::TimeRunsBack)),
            ("no-resume", Bug::Engine(E::NoResume)),
            ("stale-rows", Bug::Engine(E::StaleRows)),
            ("stale-time", Bug::Engine(E::StaleTime)),
            ("forget-timers", Bug::Engine(E::ForgetTimers)),
            ("last-come-first-served", Bug::Engine(E::LastComeFirstServed)),
        ]
    };

    /// The bug of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, bug)| *bug)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn planted(self) -> Planted {
        match self {
            Self::Engine(bug) => Planted::new(bug),
        }
    }
}
