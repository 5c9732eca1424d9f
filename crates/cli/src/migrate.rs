//! `tenure migrate`: an installation moves from a data folder to PostgreSQL, or back.

use std::io::IsTerminal;
use std::path::Path;

use clap::Args;
use tenure_store::moving::{Moved, Place, Step, migrate};

use crate::bench::Result;
use crate::exit::{Exit, USAGE};
use crate::out::say;
use crate::progress::bar;

/// The variable that names the database, as for the server.
const DATABASE_URL: &str = "TENURE_DATABASE_URL";

pub(crate) const HELP: &str = "\
Stop every server first. What --from or --to leaves out is the database of TENURE_DATABASE_URL, so that no
password stands in a command line:

    TENURE_DATABASE_URL=postgres://… tenure migrate --from ./tenure-data   # to the database
    TENURE_DATABASE_URL=postgres://… tenure migrate --to ./tenure-back     # and back

A move that was interrupted goes on when the same command runs again.";

/// What to move where.
#[derive(Args)]
pub(crate) struct Migrate {
    /// A data folder, or postgres://user:password@host/name.
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// A folder that is empty or not there, or an empty database.
    #[arg(long, value_name = "PLACE")]
    to: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Migrate {
    pub(crate) fn run(self) -> Result {
        let [from, to] = places(self.from, self.to, std::env::var(DATABASE_URL).ok())?;
        let mut shown = Shown::default();
        let moved = migrate(&from, &to, &mut |step, done, total| shown.show(step, done, total))?;
        shown.end();
        if self.json {
            say!("{}", serde_json::to_string_pretty(&moved)?);
            return Ok(());
        }
        let Moved { collections, items, claims, events, replies, policies, .. } = moved;
        say!(
            "Moved and verified: {collections} collections, {items} items, {claims} open claims, {events} events \
             with their chains, {replies} kept replies, {policies} policies."
        );
        for line in left(&from, &to) {
            say!("{line}");
        }
        Ok(())
    }
}

/// Where from and where to: a folder and a database, of which the database may come from the environment.
fn places(from: Option<String>, to: Option<String>, url: Option<String>) -> Result<[Place; 2]> {
    let usage = |message: &str| Err(Exit::new(USAGE, message).into());
    let place = |text: String| {
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        if is_url { Place::Database(text) } else { Place::Folder(text.into()) }
    };
    let by_environment = url.map(Place::Database);
    let places = match (from.map(place), to.map(place), by_environment) {
        (Some(from), Some(to), _) => [from, to],
        (Some(from), None, Some(url)) => [from, url],
        (None, Some(to), Some(url)) => [url, to],
        (None, None, _) => return usage("--from or --to: name the data folder"),
        (_, _, None) => {
            return usage("--from and --to: name both, or the database in TENURE_DATABASE_URL");
        }
    };
    match places {
        [Place::Folder(_), Place::Folder(_)] | [Place::Database(_), Place::Database(_)] => {
            usage("--from and --to: name one folder and one database")
        }
        places => Ok(places),
    }
}

/// What a move leaves to the operator.
fn left(from: &Place, to: &Place) -> Vec<String> {
    let mut lines = Vec::new();
    match (from, to) {
        (Place::Folder(dir), _) => {
            lines.push(format!(
                "{} is not served any more; keep it until you trust the new one.",
                dir.display()
            ));
            lines.push("Files are not in a database. For every node to reach, copy or share:".to_owned());
            lines.extend(files(dir));
        }
        (_, Place::Folder(dir)) => {
            lines
                .push("The database is not served any more; keep it until you trust the new one.".to_owned());
            lines
                .push("Files were never in it. Where the nodes had none of these settings, copy:".to_owned());
            lines.extend(files(dir));
        }
        _ => {}
    }
    lines
}

fn files(dir: &Path) -> [String; 3] {
    let path = |name: &str| dir.join(name).display().to_string();
    [
        format!("  {} (files.dir): what people uploaded", path("files")),
        format!("  {} (payments.secrets_dir): the gateways' keys", path("secrets")),
        format!("  {} (secret, secret_file): sessions and draws go by it", path("secret.key")),
    ]
}

/// A bar for each step; where there is no terminal, a line now and then.
#[derive(Default)]
struct Shown {
    step: Option<Step>,
    bar: Option<indicatif::ProgressBar>,
    tenths: u64,
}

impl Shown {
    fn show(&mut self, step: Step, done: u64, total: u64) {
        let total = total.max(done).max(1);
        if self.step != Some(step) {
            self.end();
            (self.step, self.tenths) = (Some(step), 0);
            self.bar = Some(bar(name(step), total));
            line(step, 0);
        }
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        }
        let tenths = done.saturating_mul(10) / total;
        if tenths > self.tenths {
            self.tenths = tenths;
            line(step, tenths);
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn line(step: Step, tenths: u64) {
    if !std::io::stderr().is_terminal() {
        eprintln!("{} {} %", name(step), tenths * 10);
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Examining => "examining the source",
        Step::Copying => "copying",
        Step::Verifying => "verifying the copy",
        Step::Finishing => "finishing",
    }
}
