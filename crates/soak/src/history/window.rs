//! Real time. What was answered before something else was asked stands before it, and that is all that time says.

/// Something whose place in the record is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) asked: u64,
    pub(super) answered: u64,
    /// The number of its event.
    pub(super) place: u64,
}

/// Between which events something without a place of its own was answered.
pub(super) struct Window {
    /// By time of the answer, with the highest place so far.
    answered: Vec<(u64, u64)>,
    /// By time of asking, with the lowest place from there on.
    asked: Vec<(u64, u64)>,
}

impl Window {
    pub(super) fn new(placed: &[Placed]) -> Self {
        let mut answered: Vec<_> = placed.iter().map(|one| (one.answered, one.place)).collect();
        answered.sort_unstable();
        let mut highest = 0;
        for (_, place) in &mut answered {
            highest = highest.max(*place);
            *place = highest;
        }
        let mut asked: Vec<_> = placed.iter().map(|one| (one.asked, one.place)).collect();
        asked.sort_unstable();
        let mut lowest = u64::MAX;
        for (_, place) in asked.iter_mut().rev() {
            lowest = lowest.min(*place);
            *place = lowest;
        }
        Self { answered, asked }
    }

    /// The first had happened, the second had not.
    pub(super) fn of(&self, asked: u64, answered: u64) -> (u64, u64) {
        let after = self.asked.partition_point(|(time, _)| *time <= answered);
        (self.before(asked), self.asked.get(after).map_or(u64::MAX, |one| one.1))
    }

    /// The highest place that was answered before this time.
    pub(super) fn before(&self, asked: u64) -> u64 {
        let before = self.answered.partition_point(|(time, _)| *time < asked);
        before.checked_sub(1).map_or(0, |at| self.answered[at].1)
    }
}

/// What was answered before something was asked stands before it.
pub(super) fn in_real_time(placed: &[Placed], window: &Window) -> Result<(), String> {
    for one in placed {
        let before = window.before(one.asked);
        if before > one.place {
            return Err(format!(
                "{} was asked for after {before} had been answered, and stands before it",
                one.place
            ));
        }
    }
    Ok(())
}
