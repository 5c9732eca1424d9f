//! Bugs that can be planted, by name.

use tenure_engine::Planted;
use tenure_store::embedded::Faults;

/// A bug that somebody could have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// One of the engine's.
    Engine(tenure_engine::Bug),
    /// One of the embedded store's.
    Store(StoreBug),
}

/// The embedded store's, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreBug {
    /// Answers without waiting for the disk.
    SkipSync,
    /// Takes the first bad record for the journal's end, whatever follows.
    StopAtBadRecord,
    /// Believes what a record says without checking its sums.
    IgnoreCrc,
    /// Makes no name in the journal's folder safe.
    SkipDirSync,
    /// Folds a batch before the journal has it.
    FoldBeforeSync,
    /// Shows a batch to readers before it is safe.
    ShowBeforeSync,
    /// Replays the events and not the heartbeats.
    ForgetBeats,
    /// Replays the events and not the kept replies.
    LoseKept,
}

impl Bug {
    /// All of them, with their names.
    pub const ALL: [(&str, Bug); 20] = {
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
            ("blind-ahead", Bug::Engine(E::BlindAhead)),
            ("keep-on-top", Bug::Engine(E::KeepOnTop)),
            ("skip-sync", Bug::Store(StoreBug::SkipSync)),
            ("stop-at-bad-record", Bug::Store(StoreBug::StopAtBadRecord)),
            ("ignore-crc", Bug::Store(StoreBug::IgnoreCrc)),
            ("skip-dir-sync", Bug::Store(StoreBug::SkipDirSync)),
            ("fold-before-sync", Bug::Store(StoreBug::FoldBeforeSync)),
            ("show-before-sync", Bug::Store(StoreBug::ShowBeforeSync)),
            ("forget-beats", Bug::Store(StoreBug::ForgetBeats)),
            ("lose-kept", Bug::Store(StoreBug::LoseKept)),
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
            Self::Store(_) => Planted::default(),
        }
    }

    pub(crate) fn faults(self) -> Faults {
        let mut faults = Faults::default();
        let Self::Store(bug) = self else { return faults };
        let switch = match bug {
            StoreBug::SkipSync => &mut faults.skip_sync,
            StoreBug::StopAtBadRecord => &mut faults.stop_at_first_bad_record_silently,
            StoreBug::IgnoreCrc => &mut faults.ignore_crc,
            StoreBug::SkipDirSync => &mut faults.skip_dir_sync,
            StoreBug::FoldBeforeSync => &mut faults.fold_before_sync,
            StoreBug::ShowBeforeSync => &mut faults.show_before_sync,
            StoreBug::ForgetBeats => &mut faults.forget_beats_on_replay,
            StoreBug::LoseKept => &mut faults.lose_kept_on_replay,
        };
        *switch = true;
        faults
    }
}
