//! What was measured, as lines of a table, and what several rounds of it say.

use std::fmt::Write as _;

use tenure_load::{Measured, median, spread};

/// One measurement.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) part: &'static str,
    pub(crate) design: String,
    /// What is changed along a plot: connections, held items, microseconds.
    pub(crate) at: u64,
    pub(crate) connections: usize,
    pub(crate) per_claim: u64,
    pub(crate) round: u16,
    pub(crate) rate: f64,
    pub(crate) ms: [f64; QUANTILES.len()],
}

/// The shares of claims whose times are kept.
pub(crate) const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

impl Line {
    pub(crate) fn measured(mut self, measured: &Measured) -> Self {
        self.rate = measured.per_second();
        self.ms = QUANTILES.map(|quantile| measured.quantile_ms(quantile));
        self
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) lines: Vec<Line>,
    /// What could not be measured and why, and how often.
    left_out: Vec<(String, u32)>,
    /// Whether nothing is to come any more.
    pub(crate) is_over: bool,
}

impl Table {
    fn rounds<'a>(&'a self, part: &'a str, design: &'a str, at: u64) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.part == part && line.design == design && line.at == at)
    }

    fn rates(&self, part: &str, design: &str, at: u64) -> Vec<f64> {
        self.rounds(part, design, at).map(|line| line.rate).collect()
    }

    /// Names what could not be measured. The same is named once.
    pub(crate) fn leave_out(&mut self, what: String) {
        match self.left_out.iter_mut().find(|(known, _)| *known == what) {
            Some((_, times)) => *times += 1,
            None => self.left_out.push((what, 1)),
        }
    }

    pub(crate) fn left_out(&self) -> &[(String, u32)] {
        &self.left_out
    }

    /// Cycles a second, in the middle, and how far the rounds lie apart.
    pub(crate) fn rate(&self, part: &str, design: &str, at: u64) -> Option<(f64, f64)> {
        let rates = self.rates(part, design, at);
        (!rates.is_empty()).then(|| (median(rates.clone()), spread(&rates)))
    }

    /// The median over the rounds of one quantile.
    pub(crate) fn ms(&self, part: &str, design: &str, at: u64, quantile: usize) -> Option<f64> {
        let ms: Vec<f64> = self.rounds(part, design, at).map(|line| line.ms[quantile]).collect();
        (!ms.is_empty()).then(|| median(ms))
    }

    /// The ratio of two designs, taken round by round: what is compared shares the machine's mood.
    pub(crate) fn ratio(&self, ours: (&str, &str), theirs: (&str, &str), at: u64) -> Option<f64> {
        let ratios = self.rounds(ours.0, ours.1, at).filter_map(|line| {
            let other = self.rounds(theirs.0, theirs.1, at).find(|other| other.round == line.round)?;
            Some(line.rate / other.rate)
        });
        let ratios: Vec<f64> = ratios.collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    /// The designs of a part, in the order in which they were measured.
    pub(crate) fn designs(&self, part: &str) -> Vec<String> {
        let mut designs: Vec<String> = Vec::new();
        for line in self.lines.iter().filter(|line| line.part == part) {
            if !designs.contains(&line.design) {
                designs.push(line.design.clone());
            }
        }
        designs
    }

    /// Where a part was measured, in order.
    pub(crate) fn places(&self, part: &str) -> Vec<u64> {
        let mut places: Vec<u64> =
            self.lines.iter().filter(|line| line.part == part).map(|line| line.at).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    pub(crate) fn csv(&self) -> String {
        let mut out =
            "part,design,at,connections,items_per_claim,round,cycles_per_second,p50_ms,p90_ms,p99_ms,p999_ms,max_ms\n"
                .to_owned();
        for line in &self.lines {
            let Line { part, design, at, connections, per_claim, round, rate, ms } = line;
            let [p50, p90, p99, p999, most] = ms;
            // Writing into a string cannot fail.
            let _ = writeln!(
                out,
                "{part},{design},{at},{connections},{per_claim},{round},{rate:.1},{p50:.3},{p90:.3},{p99:.3},{p999:.3},{most:.3}"
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(design: &str, round: u16, rate: f64) -> Line {
        let design = design.to_owned();
        Line { part: "throughput", design, at: 64, connections: 64, per_claim: 1, round, rate, ms: [1.0; 5] }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let rounds = [("a", 10.0, 5.0), ("a", 30.0, 10.0), ("a", 90.0, 90.0)];
        let mut table = Table::default();
        for (round, (_, ours, theirs)) in (0..).zip(rounds) {
            table.lines.push(line("ours", round, ours));
            table.lines.push(line("theirs", round, theirs));
        }
        let of = |design| ("throughput", design);
        assert_eq!(table.ratio(of("ours"), of("theirs"), 64), Some(2.0));
        assert_eq!(table.rate("throughput", "theirs", 64).map(|(middle, _)| middle), Some(10.0));
        assert_eq!(table.ratio(of("ours"), of("nobody"), 64), None);
        assert_eq!(table.designs("throughput"), ["ours", "theirs"]);
        assert!(table.csv().lines().nth(1).unwrap().starts_with("throughput,ours,64,64,1,0,10.0,1.000,"));
    }

    #[test]
    fn what_is_left_out_for_one_reason_is_named_once() {
        let mut table = Table::default();
        for what in ["etcd: gone", "Redis: gone", "etcd: gone"] {
            table.leave_out(what.to_owned());
        }
        assert_eq!(table.left_out(), [("etcd: gone".to_owned(), 2), ("Redis: gone".to_owned(), 1)]);
    }
}
