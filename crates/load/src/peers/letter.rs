//! `redis-benchmark -P 32` itself, against the Redis that syncs before it answers. The pipelines of the main part
//! claim and release, from a generator of our own; this is what Redis's own program says, to the letter. It counts
//! requests, and releases nothing.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_load::{Result, as_f64};

use super::cells::{Design, Peers};
use super::drive::DEPTH;
use super::place::Running;
use super::redis::Redis;
use super::resp::{Reply, Resp, command};
use super::run::{HANGS, Run};
use super::slow::Delayed;
use super::table::{Line, QUANTILES};

/// Its part of the table, where a rate is of requests and not of cycles.
pub(crate) const PART: &str = "redis-benchmark";
/// One sort of request.
pub(crate) struct Sort {
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
    /// Whether every request makes a key of its own.
    makes_keys: bool,
}

/// Names are chosen from so many that hardly one comes twice: a key that is there is refused, and costs no sync.
pub(crate) const SORTS: [Sort; 2] = [
    Sort {
        name: "redis-benchmark SET NX PX",
        arguments: &["-r", "1000000000", "SET", "key:__rand_int__", "v", "NX", "PX", "60000"],
        makes_keys: true,
    },
    Sort { name: "redis-benchmark -t set", arguments: &["-t", "set"], makes_keys: false },
];

/// Where nothing is known of this Redis yet.
const PER_SECOND: f64 = 200_000.0;
/// Pipelines of each connection, at the least.
const PIPELINES_MIN: u64 = 5;

impl Run<'_> {
    /// What is asked for, where `redis-benchmark` is there.
    pub(super) fn letter(&mut self, peers: &Peers) -> Vec<&'static Sort> {
        let sorts: Vec<_> = SORTS.iter().filter(|sort| self.options.asks_for(sort.name)).collect();
        if peers.always.is_none() || sorts.is_empty() {
            return Vec::new();
        }
        let version = Command::new("redis-benchmark").arg("--version").stdin(Stdio::null()).output();
        let there = version.map_err(|error| format!("it comes with Debian's redis-tools: {error}").into());
        self.there("redis-benchmark", there).map_or_else(Vec::new, |_| sorts)
    }

    /// One run of it, as long as the others about: it is told how many, not for how long.
    pub(super) fn by_the_letter(&mut self, peers: &Peers, sort: &Sort, round: u16) {
        let Some(redis) = &peers.always else { return };
        let connections = usize::from(self.options.connections);
        let at = connections as u64;
        let known = self.table.rate("throughput", &Design::RedisPipelined.name(1), at);
        // A cycle is two commands.
        let per_second = known.map_or(PER_SECOND, |(cycles, _)| 2.0 * cycles);
        let least = as_f64(PIPELINES_MIN * at * DEPTH as u64);
        let requests = (per_second * self.time.as_secs_f64()).max(least).round();
        self.settle(peers);
        let limit = self.time + HANGS;
        let mut said = self.soon(empty(redis)).and_then(|()| ask(redis, sort, connections, requests, limit));
        if said.is_ok() && sort.makes_keys {
            said = self.soon(keys(redis)).and_then(|made| match made {
                made if made < requests * 0.9 => {
                    Err(format!("of {requests} requests {made} made a key").into())
                }
                _ => said,
            });
        }
        // What is left would run out in the middle of what comes next.
        let said = self.soon(empty(redis)).and(said);
        let design = sort.name.to_owned();
        let line = Line { part: PART, design, at, connections, per_claim: 1, round, rate: 0.0, ms: [0.0; 5] };
        self.keep(line, said, |line, (rate, ms)| Line { rate, ms, ..line });
    }

    /// An answer that takes longer never comes.
    fn soon<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| "it does not answer any more";
        self.one.block_on(async { tokio::time::timeout(HANGS, answer).await.map_err(late)? })
    }
}

/// What it said: requests a second, and times.
type Said = (f64, [f64; QUANTILES.len()]);

fn ask(redis: &Redis, sort: &Sort, connections: usize, requests: f64, limit: Duration) -> Result<Said> {
    let mut command = Command::new("redis-benchmark");
    command.args(["--csv", "-h", "127.0.0.1", "-p", &redis.port.to_string(), "-P", &DEPTH.to_string()]);
    command.args(["-c", &connections.to_string(), "-n", &requests.to_string()]).args(sort.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running { child: command.spawn()?, delayed: Delayed::Not };
    // Two lines, which the pipe takes while nobody reads it.
    running.ends_within(limit)?;
    let mut said = String::new();
    running.child.stdout.take().ok_or("it has no output")?.read_to_string(&mut said)?;
    parse(&said).ok_or_else(|| format!("it says {said:?}").into())
}

/// The line below the heading: a name, requests a second, and the average, least, p50, p95, p99 and longest time.
fn parse(said: &str) -> Option<Said> {
    let line = said.lines().find(|line| line.starts_with('"') && !line.starts_with("\"test\""))?;
    let fields: Vec<&str> = line.trim().trim_matches('"').split("\",\"").collect();
    let figure = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let ms = |at| figure(at).unwrap_or(f64::NAN);
    Some((figure(1)?, [ms(4), f64::NAN, ms(6), f64::NAN, ms(7)]))
}

async fn empty(redis: &Redis) -> Result {
    Resp::connect(redis.port).await?.ask(&command(&["FLUSHALL"])).await?;
    Ok(())
}

async fn keys(redis: &Redis) -> Result<f64> {
    match Resp::connect(redis.port).await?.ask(&command(&["DBSIZE"])).await? {
        Reply::Number(keys) => Ok(as_f64(u64::try_from(keys)?)),
        other => Err(format!("Redis counts {other:?} keys").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_a_second_are_read_from_the_line_below_the_heading() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
             \"p99_latency_ms\",\"max_latency_ms\"\n\
             \"SET key:__rand_int__ v NX PX 60000\",\"392156.88\",\"4.8\",\"0.9\",\"4.7\",\"6.0\",\"7.5\",\"8.1\"\n";
        let (rate, [p50, p90, p99, p999, most]) = parse(said).unwrap();
        assert_eq!((rate, p50, p99, most), (392_156.88, 4.7, 7.5, 8.1));
        assert!(p90.is_nan() && p999.is_nan());
        // As older ones say it.
        assert_eq!(parse("\"SET\",\"1000.50\"\n").map(|(rate, _)| rate), Some(1000.5));
        assert!(parse("Could not connect\n").is_none());
    }
}
