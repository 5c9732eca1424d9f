//! What a run says: the table as it was measured, the machine that it was measured on, the aims and what
//! became of them, what was left out, and plots.

use std::fmt::Write as _;

use tenure_load::Result;

use super::Options;
use super::letter;
use super::plot::{self, Series, short};
use super::setup::setup;
use super::table::{QUANTILES, Table};

/// Less than this much better is a tie.
const TIE: f64 = 1.2;

/// From a change to ten thousand sockets, for all but one in a hundred.
const SOCKETS_MS: f64 = 75.0;

/// What is compared with pipelines of Redis, ours and its own program's, and how many times as fast it is to be.
const PIPELINED: &str = "tenure socket pipelined";
const PIPELINED_LEAST: f64 = 1.7;

/// An aim: ours against theirs, at least so many times as fast.
struct Aim {
    ours: &'static str,
    theirs: &'static str,
    least: f64,
}

const AIMS: &[Aim] = &[
    aim("tenure http one", "redis always one", 1.0),
    aim("tenure http ten", "redis always ten script", 1.5),
    aim("tenure http ten", "redis always ten naive", 5.0),
    aim(PIPELINED, "redis always pipelined", PIPELINED_LEAST),
    aim("tenure http one", "etcd one", 10.0),
    aim("tenure http ten", "etcd ten", 12.0),
    aim("tenure http one", "postgresql row locks one", 4.0),
    aim("tenure http ten", "postgresql row locks ten", 6.0),
    aim("tenure http ten", "ticketing stack ten", 12.0),
];

const fn aim(ours: &'static str, theirs: &'static str, least: f64) -> Aim {
    Aim { ours, theirs, least }
}

/// Writes all of it; answers the summary.
pub(crate) fn write(options: &Options, table: &Table) -> Result<String> {
    let out = &options.out;
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("raw.csv"), table.csv())?;
    std::fs::write(out.join("setup.md"), setup(options))?;
    let summary = summary(options, table);
    std::fs::write(out.join("summary.md"), &summary)?;
    let at = u64::from(options.connections);
    let rates = table.designs("throughput").into_iter().filter_map(|design| {
        let (rate, _) = table.rate("throughput", &design, at)?;
        Some((design, rate))
    });
    let rates: Vec<_> = rates.collect();
    std::fs::write(
        out.join("throughput.svg"),
        plot::bars("Claims with their releases a second", "cycles/s", &rates),
    )?;
    let latencies = table.designs("throughput").into_iter().filter(|design| design.ends_with("one"));
    let latencies: Vec<Series> = latencies
        .map(|design| {
            let point = |(number, quantile): (usize, &f64)| {
                // The nines: 50 % is 2, 99 % is 100.
                Some((1.0 / (1.0 - quantile).max(1e-4), table.ms("throughput", &design, at, number)?))
            };
            Series { points: QUANTILES.iter().enumerate().filter_map(point).collect(), name: design }
        })
        .collect();
    let words = "one claim in so many takes longer (2: the median, 100: p99)";
    std::fs::write(
        out.join("latency.svg"),
        plot::lines("Time of a claim of one item", words, "ms", &latencies),
    )?;
    for (part, file, title, x) in [
        ("scaling", "scaling.svg", "Claims with their releases a second", "connections"),
        ("held items", "held.svg", "While more and more items are held", "held items"),
        (
            "slower disk",
            "slower-disk.svg",
            "On a disk whose syncs take longer",
            "microseconds more for a sync",
        ),
    ] {
        let series = series(table, part);
        if !series.is_empty() {
            std::fs::write(out.join(file), plot::lines(title, x, "cycles/s", &series))?;
        }
    }
    Ok(summary)
}

fn series(table: &Table, part: &str) -> Vec<Series> {
    let of = |design: String| {
        #[expect(clippy::cast_precision_loss, reason = "a place in a plot")]
        let point = |at: u64| table.rate(part, &design, at).map(|(rate, _)| (at as f64, rate));
        Series { points: table.places(part).into_iter().filter_map(point).collect(), name: design }
    };
    table.designs(part).into_iter().map(of).collect()
}

fn summary(options: &Options, table: &Table) -> String {
    let at = u64::from(options.connections);
    let mut out = String::from("# Side by side\n\n");
    if !table.is_over {
        out.push_str("**This run did not come to its end: parts are missing.**\n\n");
    }
    // Writing into a string cannot fail.
    let _ = writeln!(
        out,
        "Cycles (a claim and its release) a second over {at} connections, medians of {} rounds and how far those lie \
         apart; times are of the claim alone. `setup.md` says on which machine, `raw.csv` has every measurement.\n",
        options.rounds
    );
    out.push_str("| design | cycles/s | spread | p50 | p99 |\n| --- | ---: | ---: | ---: | ---: |\n");
    for design in table.designs("throughput") {
        let Some((rate, apart)) = table.rate("throughput", &design, at) else { continue };
        let ms = |quantile| table.ms("throughput", &design, at, quantile).unwrap_or(f64::NAN);
        let _ = writeln!(
            out,
            "| {design} | {} | {:.0} % | {:.2} ms | {:.2} ms |",
            short(rate),
            100.0 * apart,
            ms(0),
            ms(2)
        );
    }
    out.push_str("\n## Aims\n\n| figure | measured | aim | |\n| --- | ---: | ---: | --- |\n");
    for Aim { ours, theirs, least } in AIMS {
        let row = match table.ratio(("throughput", ours), ("throughput", theirs), at) {
            Some(ratio) => format!("{ratio:.2}× | {least}× | {}", verdict(ratio, *least)),
            None => format!("not measured | {least}× | its peer is missing"),
        };
        let _ = writeln!(out, "| {ours} / {theirs} | {row} |");
    }
    let half = |design| table.ms("half load", design, at, 2);
    if let (Some(ours), Some(theirs)) = (half("tenure http one"), half("redis always one")) {
        let word = verdict(theirs / ours, 1.0);
        let _ = writeln!(
            out,
            "| p99 at half load, beside Redis `always` | {ours:.2} ms | {theirs:.2} ms | {word} |"
        );
    }
    if let Some(ms) = table.ms("sockets", "tenure sockets", options.sockets, 2) {
        // What is aimed at is of ten thousand.
        #[expect(clippy::cast_precision_loss, reason = "a share of a figure")]
        let most_ms = SOCKETS_MS * (options.sockets as f64 / 10_000.0).max(0.1);
        let word = if ms <= most_ms { "reached" } else { "**missed**" };
        let _ = writeln!(
            out,
            "| {} sockets hear ten events a second, p99 | {ms:.1} ms | {most_ms:.1} ms | {word} |",
            options.sockets
        );
    }
    push_letter(&mut out, table, at);
    push_slower_disk(&mut out, table, at);
    if !table.left_out().is_empty() {
        out.push_str("\n## Left out\n\n");
    }
    for (what, times) in table.left_out() {
        let times = if *times == 1 { String::new() } else { format!(" ({times} times)") };
        let _ = writeln!(out, "- {what}{times}");
    }
    out.push_str(
        "\n## How to read it\n\n\
         A ratio is taken within each round. Less than 1.2× either way is a tie. Nothing is measured before Tenure has folded \
         what it committed before, for that is done aside; rewrites of Redis's log are turned off.\n\n\
         What each does: Tenure commits a claim, its event and its audit row, durably, and the same for the release. \
         Redis sets keys with a value of one's own and compares before it deletes; `always` syncs before it answers, \
         `everysec` and `no` answer before. etcd grants a lease, puts the keys in a transaction and revokes the lease, \
         through its JSON gateway, which costs it more than gRPC would. Row locks are one transaction with `SELECT … FOR \
         UPDATE` for the claim and one for the release, prepared. The ticketing stack sets ten keys in Redis (`everysec`), \
         sells in one transaction in PostgreSQL, and deletes the ten keys. Pipelined: 32 commands of each connection at once.\n",
    );
    out
}

/// Tenure's commands against the requests of Redis's own program.
fn push_letter(out: &mut String, table: &Table, at: u64) {
    let designs = table.designs(letter::PART);
    if designs.is_empty() {
        return;
    }
    out.push_str(
        "\n## `redis-benchmark -P 32`, to the letter\n\n\
         Redis's own program, on as many connections, against the same Redis with `appendfsync always`. It only sets: `SET NX \
         PX` on keys that are new, and its own `-t set` on one key. Beside it Tenure's commands over pipelined sockets, two to a \
         cycle: a claim, and a release that is checked. `raw.csv` has requests where it has cycles of others.\n\n\
         | redis-benchmark | requests/s | spread | p50 | p99 | Tenure, commands/s | ratio | aim | |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    let ours = table.rate("throughput", PIPELINED, at);
    for design in designs {
        let Some((rate, apart)) = table.rate(letter::PART, &design, at) else { continue };
        let ms = |quantile| table.ms(letter::PART, &design, at, quantile).unwrap_or(f64::NAN);
        let ratio = table.ratio(("throughput", PIPELINED), (letter::PART, &design), at);
        let compared = match (ours, ratio.map(|cycles| 2.0 * cycles)) {
            (Some((cycles, _)), Some(ratio)) => {
                let word = verdict(ratio, PIPELINED_LEAST);
                format!("{} | {ratio:.2}× | {PIPELINED_LEAST}× | {word}", short(2.0 * cycles))
            }
            _ => format!("not measured | | {PIPELINED_LEAST}× |"),
        };
        let _ = writeln!(
            out,
            "| {design} | {} | {:.0} % | {:.2} ms | {:.2} ms | {compared} |",
            short(rate),
            100.0 * apart,
            ms(0),
            ms(2)
        );
    }
}

/// What became of everyone whose syncs took longer, beside what it does without.
fn push_slower_disk(out: &mut String, table: &Table, at: u64) {
    let (part, places) = ("slower disk", table.places("slower disk"));
    if places.is_empty() {
        return;
    }
    out.push_str(
        "\n## On a slower disk\n\n\
         Cycles a second when every sync takes so much longer, at the least. A shim in front of the C library delays Tenure, \
         Redis and PostgreSQL. etcd makes its system calls by itself: strace stops it at its syncs, which costs by itself; \
         how much is seen where the delay is least, against what it does without. Delayed syncs are counted, and who has too \
         few of them for what it did is left out.\n\n| design | without |",
    );
    for micros in &places {
        let _ = write!(out, " {micros} µs |");
    }
    let _ = writeln!(out, "\n| --- | ---: |{}", " ---: |".repeat(places.len()));
    for design in table.designs(part) {
        let figure =
            |rate: Option<(f64, f64)>| rate.map_or_else(|| "left out".to_owned(), |(rate, _)| short(rate));
        let _ = write!(out, "| {design} | {} |", figure(table.rate("throughput", &design, at)));
        for micros in &places {
            let _ = write!(out, " {} |", figure(table.rate(part, &design, *micros)));
        }
        out.push('\n');
    }
}

/// What became of an aim.
fn verdict(ratio: f64, least: f64) -> &'static str {
    if ratio >= least {
        // Being level is all that was aimed for, and neither is ahead.
        if least <= 1.0 && ratio < TIE { "reached (tie)" } else { "reached" }
    } else if least <= 1.0 && ratio > 1.0 / TIE {
        "tie"
    } else {
        "**missed**"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_level_is_a_tie_and_what_is_behind_is_missed() {
        for (ratio, least, word) in [
            (1.1, 1.0, "reached (tie)"),
            (1.3, 1.0, "reached"),
            (0.9, 1.0, "tie"),
            (0.7, 1.0, "**missed**"),
            (3.9, 4.0, "**missed**"),
            (4.0, 4.0, "reached"),
        ] {
            assert_eq!(verdict(ratio, least), word, "{ratio}");
        }
    }
}
