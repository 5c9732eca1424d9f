//! The client's clock. `std::time::Instant` stands still while a Linux machine sleeps, and a claim does
//! not: deadlines are counted on the boot-time clock, which goes on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment on the boot-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

/// The longest that the runtime's timer is trusted: it, too, stands still while the machine sleeps.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanos))
    }

    /// The time from now until then; zero when it is past.
    pub fn left(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    /// The time from another moment until this one; zero when that came later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// So much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// So much earlier.
    #[must_use]
    pub fn minus(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// It is past.
    pub fn is_past(self) -> bool {
        self.left().is_zero()
    }

    /// Ends then, also if the machine sleeps in between.
    pub async fn reached(self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
        }
    }
}

/// A random part of a time, so that many clients do not come back at the same moment.
pub(crate) fn jittered(time: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    time.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

/// A name that nobody else has.
pub(crate) fn unique() -> Result<String, crate::Error> {
    let random = getrandom::u64().and_then(|high| Ok((high, getrandom::u64()?)));
    let (high, low) = random.map_err(|error| crate::Error::Invalid(format!("no randomness: {error}")))?;
    Ok(format!("{high:016x}{low:016x}"))
}
