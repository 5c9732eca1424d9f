//! The machine that a run was measured on, and what was asked of it.

use std::fmt::Write as _;
use std::process::Command;

use super::Options;

pub(crate) fn setup(options: &Options) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let unknown = || "not there".to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let etcd = options.etcd.as_ref().map_or_else(|| "etcd".to_owned(), |path| path.display().to_string());
    let tenure = options.tenure.display().to_string();
    let rows = [
        ("processor", field(&read("/proc/cpuinfo"), "model name")),
        ("cores", Some(cores.to_string())),
        ("memory", field(&read("/proc/meminfo"), "MemTotal")),
        ("system", said("uname", &["-sr"])),
        ("load before the end", read("/proc/loadavg").split(' ').next().map(str::to_owned)),
        ("file system", said("stat", &["-f", "-c", "%T", "."])),
        ("Tenure", said(&tenure, &["--version"])),
        ("commit", said("git", &["rev-parse", "--short", "HEAD"])),
        ("Redis", said("redis-server", &["--version"])),
        ("redis-benchmark", said("redis-benchmark", &["--version"])),
        ("etcd", said(&etcd, &["--version"])),
        ("PostgreSQL", said("psql", &["--version"])),
    ];
    let mut out = String::from("# How it was measured\n\n| what | |\n| --- | --- |\n");
    for (what, value) in rows {
        let _ = writeln!(out, "| {what} | {} |", value.unwrap_or_else(unknown));
    }
    let Options { connections, millis, rounds, held, sockets, .. } = options;
    let _ = writeln!(
        out,
        "\n{connections} connections, {rounds} rounds of {millis} ms each, up to {held} held items, {sockets} sockets. Everything runs on \
         this one machine, the generator too: one thread of it for whoever is spoken to by hand, two for PostgreSQL's \
         library. Repeat it with `cargo xtask bench --connections {connections} --millis {millis} --rounds {rounds} --held \
         {held} --sockets {sockets}`."
    );
    out
}
