//! A measurement, and what several of them say together.

use std::time::Duration;

use hdrhistogram::Histogram;

/// What a run of callers measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Answers.
    pub commands: u64,
    /// In this time.
    pub elapsed: Duration,
    /// Microseconds from asking to the durable answer.
    pub latency: Histogram<u64>,
}

impl Measured {
    /// Answers a second.
    pub fn per_second(&self) -> f64 {
        as_f64(self.commands) / self.elapsed.as_secs_f64()
    }

    /// Milliseconds that this share of the answers took at the most.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        as_f64(self.latency.value_at_quantile(quantile)) / 1_000.0
    }
}

/// Counts are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The middle one of several rounds.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How far apart the rounds lie, as a share of their median: 0 when all are alike.
pub fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    (most - least) / median(values.to_vec())
}

/// Up to a minute, to three digits.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("valid bounds")
}

/// At least one: nothing takes no time at all.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// A small generator of our own: the same items in every run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Another seed, other throws.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// From 0 up to this, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_a_middle_and_a_spread() {
        let rounds = vec![30.0, 10.0, 20.0];
        assert!((spread(&rounds) - 1.0).abs() < 1e-9);
        assert!((median(rounds) - 20.0).abs() < 1e-9);
        assert!(median(Vec::new()).is_nan());
    }
}
