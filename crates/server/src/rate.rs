//! Rates: so many requests per principal and group of routes, evenly refilled (GCRA), with a burst on top.
//! Whoever is not signed in counts by address. Memory is bounded: who has been quiet is forgotten.
//!
//! With Redis all nodes count together, there. Whenever it does not answer at once, each counts by itself.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use serde::{Deserialize, Serialize};
use tenure_core::Text;

use tenure_redis::{Count, Counted, Counts};

use crate::access::Group;
use crate::fields::Fields;
use crate::limits::RATE_KEYS_MAX;
use crate::net::counted;
use crate::{Caller, Problem};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// How much of a group one principal may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests per second in the long run; 0 for no limit.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

/// Who counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// Somebody who is signed in, with whatever credential.
    Principal(Text),
    /// Somebody who is not.
    Address(IpAddr),
    /// Everybody who came when too many were already counted.
    Crowd,
}

impl Who {
    pub(crate) fn of(caller: Option<&Caller>, address: IpAddr) -> Self {
        match caller {
            Some(caller) => Self::Principal(caller.principal.id.clone()),
            None => Self::Address(counted(address)),
        }
    }

    /// What stands for it in Redis.
    fn key(&self, name: &str) -> String {
        match self {
            Self::Principal(id) => format!("tenure:rate:{name}:principal:{id}"),
            Self::Address(address) => format!("tenure:rate:{name}:address:{address}"),
            Self::Crowd => format!("tenure:rate:{name}:crowd"),
        }
    }
}

/// The counters of all groups. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rates {
    limiters: Arc<BTreeMap<&'static str, Limiter>>,
    /// Counts with the other nodes.
    counts: Option<Counts>,
}

type Keyed = RateLimiter<Who, DashMapStateStore<Who>, DefaultClock, StateInformationMiddleware>;

struct Limiter {
    keyed: Keyed,
    clock: DefaultClock,
    period: Duration,
    burst: u32,
    policy: HeaderValue,
    asked: AtomicU32,
    crowded: AtomicBool,
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limiter")
            .field("burst", &self.burst)
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

impl Rates {
    /// With a rate for each group that has one.
    pub fn new(rates: impl IntoIterator<Item = (Group, Rate)>) -> Self {
        Self::of(rates, [])
    }

    /// The same, and groups of which one principal may ask for so many in a minute; 0 for no limit.
    pub fn of(
        rates: impl IntoIterator<Item = (Group, Rate)>,
        per_minute: impl IntoIterator<Item = (Group, u32)>,
    ) -> Self {
        let limiters = rates.into_iter().filter_map(|(group, rate)| {
            let name = group.name()?;
            Some((name, Limiter::new(name, rate)?))
        });
        let slow = per_minute.into_iter().filter_map(|(group, count)| {
            let (name, burst) = (group.name()?, NonZeroU32::new(count)?);
            Some((name, Limiter::with(name, Duration::from_mins(1) / count, burst)?))
        });
        Self { limiters: Arc::new(limiters.chain(slow).collect()), counts: None }
    }

    /// Counts together with whoever else counts there.
    #[must_use]
    pub fn with_counts(self, counts: Counts) -> Self {
        Self { counts: Some(counts), ..self }
    }

    /// Counts a request. What to add to the answer, or why there is none.
    pub(crate) async fn check(&self, group: Group, who: Who) -> Result<Option<Allowance>, Problem> {
        let Some(name) = group.name() else { return Ok(None) };
        let Some(limiter) = self.limiters.get(name) else { return Ok(None) };
        limiter.check(name, who, NonZeroU32::MIN, self.counts.as_ref()).await.map(Some)
    }

    /// Nobody counts what belongs to this group.
    pub(crate) fn is_free(&self, group: Group) -> bool {
        group.name().is_none_or(|name| !self.limiters.contains_key(name))
    }

    /// Counts so many more than the one that was counted, or as many as can ever be had at once.
    pub(crate) async fn check_many(
        &self,
        group: Group,
        who: Who,
        count: usize,
    ) -> Result<Option<Allowance>, Problem> {
        let Some(name) = group.name() else { return Ok(None) };
        let Some(limiter) = self.limiters.get(name) else { return Ok(None) };
        // One is counted already.
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(limiter.burst - 1);
        let Some(count) = NonZeroU32::new(count) else { return Ok(None) };
        limiter.check(name, who, count, self.counts.as_ref()).await.map(Some)
    }

    /// Forgets who has been quiet. Called now and then.
    pub(crate) fn forget_quiet(&self) {
        for limiter in self.limiters.values() {
            limiter.keyed.retain_recent();
            limiter.keyed.shrink_to_fit();
        }
    }

    /// How many are counted.
    #[cfg(test)]
    fn counted(&self) -> usize {
        self.limiters.values().map(|limiter| limiter.keyed.len()).sum()
    }
}

impl Limiter {
    fn new(name: &str, rate: Rate) -> Option<Self> {
        let burst = NonZeroU32::new(rate.burst.max(1))?;
        let period = Duration::from_secs(1).checked_div(rate.per_second)?.max(Duration::from_nanos(1));
        Self::with(name, period, burst)
    }

    /// One more each period, at most so many at once.
    fn with(name: &str, period: Duration, burst: NonZeroU32) -> Option<Self> {
        let quota = Quota::with_period(period)?.allow_burst(burst);
        let window_s = whole_seconds(period.saturating_mul(burst.get())).max(1);
        let policy = HeaderValue::from_str(&format!("\"{name}\";q={burst};w={window_s}")).ok()?;
        let clock = DefaultClock::default();
        let limiter = RateLimiter::dashmap_with_clock(quota, clock.clone())
            .with_middleware::<StateInformationMiddleware>();
        Some(Self {
            keyed: limiter,
            clock,
            period,
            burst: burst.get(),
            policy,
            asked: AtomicU32::new(0),
            crowded: AtomicBool::new(false),
        })
    }

    async fn check(
        &self,
        name: &str,
        who: Who,
        count: NonZeroU32,
        counts: Option<&Counts>,
    ) -> Result<Allowance, Problem> {
        if let Some(counts) = counts {
            let (period, burst, count) = (self.period, self.burst, count.get());
            match counts.count(Count { key: who.key(name), period, burst, count }).await {
                Some(Counted::Allowed { left }) => return Ok(self.allowed(name, left)),
                Some(Counted::Refused { wait }) => return Err(self.refused(name, wait)),
                None => {}
            }
        }
        self.check_here(name, who, count)
    }

    /// By this node's own count.
    fn check_here(&self, name: &str, who: Who, count: NonZeroU32) -> Result<Allowance, Problem> {
        let who = if self.is_crowded() { Who::Crowd } else { who };
        // It is never more than the burst, which is all that this could refuse by itself.
        let checked = self.keyed.check_key_n(&who, count).map_err(|_| Problem::internal())?;
        match checked {
            Ok(state) => Ok(self.allowed(name, state.remaining_burst_capacity())),
            Err(not_until) => Err(self.refused(name, not_until.wait_time_from(self.clock.now()))),
        }
    }

    fn allowed(&self, name: &str, left: u32) -> Allowance {
        let full_in = self.period.saturating_mul(self.burst.saturating_sub(left));
        Allowance { limit: value(name, left, whole_seconds(full_in)), policy: self.policy.clone() }
    }

    fn refused(&self, name: &str, wait: Duration) -> Problem {
        let wait_s = whole_seconds(wait).max(1);
        let mut problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate_limited",
            format!("too many requests of the group {name}; try again in {wait_s} s"),
        );
        problem.retry_after = Some(wait_s);
        problem.headers =
            vec![(RATE_LIMIT, value(name, 0, wait_s)), (RATE_LIMIT_POLICY, self.policy.clone())];
        problem
    }

    /// Looked at now and then: counting the keys walks all of the map's shards.
    fn is_crowded(&self) -> bool {
        if self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
            if self.keyed.len() >= RATE_KEYS_MAX {
                self.keyed.retain_recent();
            }
            self.crowded.store(self.keyed.len() >= RATE_KEYS_MAX, Ordering::Relaxed);
        }
        self.crowded.load(Ordering::Relaxed)
    }
}

/// What is left, for the answer's headers.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    limit: HeaderValue,
    policy: HeaderValue,
}

impl Allowance {
    pub(crate) fn write(self, fields: &mut impl Fields) {
        fields.put(RATE_LIMIT, self.limit);
        fields.put(RATE_LIMIT_POLICY, self.policy);
    }
}

fn value(name: &str, left: u32, seconds: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{name}\";r={left};t={seconds}"))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Rounded up, so that whoever waits that long has waited long enough.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn rates(per_second: u32, burst: u32) -> Rates {
        Rates::new([(Group::Write, Rate { per_second, burst })])
    }

    /// Without Redis nothing is waited for.
    fn now<T>(checked: impl Future<Output = T>) -> T {
        checked.now_or_never().expect("at once")
    }

    fn ana() -> Who {
        Who::Principal(Text::from("ana"))
    }

    #[test]
    fn a_burst_passes_and_the_next_is_told_when_to_come_back() {
        let rates = rates(1, 3);
        for left in ["\"write\";r=2;t=1", "\"write\";r=1;t=2", "\"write\";r=0;t=3"] {
            let allowance = now(rates.check(Group::Write, ana())).unwrap().unwrap();
            assert_eq!(allowance.limit, left);
            assert_eq!(allowance.policy, "\"write\";q=3;w=3");
        }
        let problem = now(rates.check(Group::Write, ana())).unwrap_err();
        assert_eq!(
            (problem.status.as_u16(), problem.code, problem.retry_after),
            (429, "rate_limited", Some(1))
        );
        assert_eq!(problem.headers[0].1, "\"write\";r=0;t=1");
    }

    #[test]
    fn principals_addresses_and_groups_count_apart() {
        let rates = rates(1, 1);
        assert!(now(rates.check(Group::Write, ana())).is_ok());
        assert!(now(rates.check(Group::Write, ana())).is_err());
        assert!(now(rates.check(Group::Write, Who::Principal(Text::from("bo")))).is_ok());
        assert!(now(rates.check(Group::Write, Who::Address("10.0.0.1".parse().unwrap()))).is_ok());
        assert!(now(rates.check(Group::Read, ana())).unwrap().is_none());
        assert!(now(rates.check(Group::Free, ana())).unwrap().is_none());
    }

    /// R24: ten at once, then one each six seconds.
    #[test]
    fn r24_so_many_in_a_minute() {
        let rates = Rates::of([], [(Group::Reserve, 10)]);
        assert!((0..10).all(|_| now(rates.check(Group::Reserve, ana())).is_ok()));
        let problem = now(rates.check(Group::Reserve, ana())).unwrap_err();
        assert_eq!((problem.status.as_u16(), problem.retry_after), (429, Some(6)));
        let none = Rates::of([], [(Group::Reserve, 0)]);
        assert!((0..100).all(|_| now(none.check(Group::Reserve, ana())).is_ok()));
    }

    #[test]
    fn zero_is_no_limit() {
        let rates = rates(0, 1);
        assert!((0..100).all(|_| now(rates.check(Group::Write, ana())).is_ok()));
    }

    #[test]
    fn memory_is_bounded_and_the_quiet_are_forgotten() {
        let rates = rates(1, 1);
        for number in 0..u32::try_from(RATE_KEYS_MAX).unwrap() + 1_000 {
            let _ =
                now(rates.check(Group::Write, Who::Address(std::net::Ipv4Addr::from_bits(number).into())));
        }
        assert!(rates.counted() <= RATE_KEYS_MAX + 65, "{}", rates.counted());
        let fast = Rates::new([(Group::Write, Rate { per_second: u32::MAX, burst: 1 })]);
        assert!(now(fast.check(Group::Write, ana())).is_ok());
        fast.forget_quiet();
        assert_eq!(fast.counted(), 0);
    }
}
