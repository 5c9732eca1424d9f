//! `tenure-peers` from its start to its end, with next to nothing of everything: what is there is measured whole,
//! what is not is named, and no figure is nonsense.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PEERS: &str = env!("CARGO_BIN_EXE_tenure-peers");

/// A design, what it needs beside Tenure, and the parts in which it is measured.
const DESIGNS: &[(&str, &[Peer], &[&str])] = &[
    ("tenure http one", &[], &["throughput", "half load", "scaling", "held items", "slower disk"]),
    ("tenure http ten", &[], &["throughput"]),
    ("tenure socket pipelined", &[], &["throughput"]),
    ("tenure sockets", &[], &["sockets"]),
    (
        "redis always one",
        &[Peer::Redis],
        &["throughput", "half load", "scaling", "held items", "slower disk"],
    ),
    ("redis everysec one", &[Peer::Redis], &["throughput"]),
    ("redis no one", &[Peer::Redis], &["throughput"]),
    ("redis always ten script", &[Peer::Redis], &["throughput"]),
    ("redis everysec ten script", &[Peer::Redis], &["throughput"]),
    ("redis no ten script", &[Peer::Redis], &["throughput"]),
    ("redis always ten naive", &[Peer::Redis], &["throughput"]),
    ("redis always pipelined", &[Peer::Redis], &["throughput"]),
    ("redis-benchmark SET NX PX", &[Peer::Redis, Peer::Benchmark], &["redis-benchmark"]),
    ("redis-benchmark -t set", &[Peer::Redis, Peer::Benchmark], &["redis-benchmark"]),
    ("postgresql row locks one", &[Peer::Postgres], &["throughput", "scaling", "slower disk"]),
    ("postgresql row locks ten", &[Peer::Postgres], &["throughput"]),
    ("ticketing stack ten", &[Peer::Redis, Peer::Postgres], &["throughput"]),
    ("etcd one", &[Peer::Etcd], &["throughput", "scaling"]),
    ("etcd one", &[Peer::Etcd, Peer::Strace], &["slower disk"]),
    ("etcd ten", &[Peer::Etcd], &["throughput"]),
];

/// What a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Redis,
    Benchmark,
    Postgres,
    Etcd,
    Strace,
}

impl Peer {
    const ALL: [Self; 5] = [Self::Redis, Self::Benchmark, Self::Postgres, Self::Etcd, Self::Strace];

    /// How the line begins that says it is not there.
    fn named(self) -> &'static str {
        match self {
            Self::Redis => "Redis: ",
            Self::Benchmark => "redis-benchmark: ",
            Self::Postgres => "PostgreSQL: ",
            // Without strace it cannot be started on a slower disk.
            Self::Etcd | Self::Strace => "etcd: ",
        }
    }

    fn is_there(self) -> bool {
        let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
        match self {
            Self::Redis => runs("redis-server"),
            Self::Benchmark => runs("redis-benchmark"),
            Self::Etcd => runs("etcd"),
            Self::Strace => runs("strace"),
            Self::Postgres => {
                let mut versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
                versions.any(|version| version.path().join("bin/initdb").is_file())
            }
        }
    }
}

/// The server lies beside: a test of the whole workspace has just built it. Where only this crate is tested, and
/// nothing was before, it is built here.
fn tenure() -> PathBuf {
    let beside = Path::new(PEERS).with_file_name("tenure");
    if !beside.is_file() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--locked", "--package", "tenure-cli"]);
        let built = build.status().expect("cargo starts");
        assert!(built.success(), "the server does not build");
    }
    beside
}

/// A line of raw.csv.
struct Line<'a> {
    part: &'a str,
    design: &'a str,
    rate: f64,
    ms: Vec<f64>,
}

fn lines(csv: &str) -> impl Iterator<Item = Line<'_>> {
    csv.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 12, "{line}");
        let number = |field: &&str| field.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let ms = fields[7..].iter().map(number).collect();
        Line { part: fields[0], design: fields[1], rate: number(&fields[6]), ms }
    })
}

#[test]
fn a_run_measures_everyone_who_is_there_and_names_everyone_who_is_not() {
    let folder = tempfile::tempdir().unwrap();
    // PostgreSQL does not run as root, and nobody must reach its folder.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut run = Command::new(PEERS);
    run.arg("--smoke").arg("--tenure").arg(tenure()).args(["--out", "out"]).current_dir(folder.path());
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).expect(name);
    let (csv, summary) = (read("raw.csv"), read("summary.md"));
    let absent: Vec<Peer> = Peer::ALL.into_iter().filter(|peer| !peer.is_there()).collect();

    for (design, needs, parts) in DESIGNS {
        let is_measured = !needs.iter().any(|peer| absent.contains(peer));
        for part in *parts {
            let has = lines(&csv).any(|line| line.design == *design && line.part == *part);
            assert_eq!(has, is_measured, "{part} of {design}: {said}");
        }
        if is_measured && *design != "tenure sockets" {
            assert!(summary.contains(&format!("\n| {design} | ")), "no row of {design}: {summary}");
        }
    }
    for Line { part, design, rate, ms } in lines(&csv) {
        assert!(DESIGNS.iter().any(|(known, ..)| *known == design), "{design} is new: name it here");
        assert!(rate.is_finite() && (rate > 0.0) != (part == "sockets"), "{part} of {design}: {rate}");
        // Who measures by itself does not tell everything, but tells the median and p99.
        let told: &[usize] =
            if matches!(part, "sockets" | "redis-benchmark") { &[0, 2] } else { &[0, 1, 2, 3, 4] };
        for at in told {
            assert!(ms[*at].is_finite() && ms[*at] > 0.0, "{part} of {design}: {ms:?}");
        }
    }

    assert!(!summary.contains("NaN") && !summary.contains("inf"), "{summary}");
    assert!(!summary.contains("did not come to its end"), "{summary}");
    if absent.is_empty() {
        assert!(!summary.contains("not measured"), "{summary}");
    }
    let left_out = summary.split_once("## Left out\n\n").map_or("", |(_, rest)| rest);
    let left_out: Vec<&str> = left_out.lines().map_while(|line| line.strip_prefix("- ")).collect();
    for line in &left_out {
        assert!(absent.iter().any(|peer| line.starts_with(peer.named())), "{line}");
    }
    for peer in absent {
        // Of the two that come with another one nothing is said where that one is missing.
        let is_said = left_out.iter().any(|line| line.starts_with(peer.named()));
        let with = match peer {
            Peer::Benchmark => Peer::Redis,
            Peer::Strace => Peer::Etcd,
            other => other,
        };
        assert!(is_said || !with.is_there(), "nothing is said of {peer:?}: {summary}");
    }
    for plot in ["throughput.svg", "latency.svg", "scaling.svg", "held.svg", "slower-disk.svg"] {
        assert!(!read(plot).contains("NaN"), "{plot}");
    }
    assert!(read("setup.md").contains("| Tenure | tenure "));
}
