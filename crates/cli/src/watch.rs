//! `tenure watch`: a collection as it changes. On a terminal a table of who holds what, drawn anew; for a
//! program that reads, a line for each event.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use tenure_client::{ClaimInfo, ClaimsFilter, Client, Since, Watched};
use tokio::time::MissedTickBehavior;

use crate::bench::Result;
use crate::look::{claims_table, line};
use crate::out::{bytes, say};
use crate::remote::{Remote, block_on};

/// How often the table is drawn: its times run down by seconds. What happens in between comes with the next.
const DRAW_EVERY: Duration = Duration::from_secs(1);
/// Rows that are asked for: more fits on no screen.
const ROWS_MAX: usize = 1_000;
/// Lines of a terminal that does not say how many it has.
const LINES_DEFAULT: usize = 24;

/// Follow a collection: a live table on a terminal, otherwise a line for each event.
#[derive(Args)]
pub(crate) struct Watch {
    /// The collection.
    #[arg(value_name = "KIND/NAME")]
    collection: String,
    /// Only what comes after this number.
    #[arg(long, default_value_t = 0)]
    since: u64,
    /// Print each event as a line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Watch {
    pub(crate) fn run(self) -> Result {
        let client = self.remote.client()?;
        block_on(async {
            // A stream tries again for ever. Whether there is a server at all is found out here.
            let claims = self.claims(&client).await?;
            if !self.json && std::io::stdout().is_terminal() {
                self.table(&client, claims).await
            } else {
                self.lines(&client).await
            }
        })
    }

    async fn lines(&self, client: &Client) -> Result {
        let exit = |error| self.remote.exit(&error);
        let mut watch = client.watch(&self.collection, Since::Seq(self.since)).map_err(exit)?;
        while let Some(watched) = watch.next().await {
            match watched.map_err(exit)? {
                Watched::Event(event) if self.json => say!("{}", serde_json::to_string(&event)?),
                Watched::Event(event) => say!("{}", line(&event)),
                Watched::Resync(_) if self.json => say!("{{\"type\":\"resync\"}}"),
                Watched::Resync(_) => say!("… events are missing here"),
                Watched::Away => eprintln!("tenure: connection lost, trying again"),
            }
        }
        Ok(())
    }

    async fn table(&self, client: &Client, claims: Vec<ClaimInfo>) -> Result {
        let newest = client.newest(&self.collection).await.map_err(|error| self.remote.exit(&error))?;
        let mut shown = Shown { claims, read_at: Instant::now(), note: String::new() };
        let mut watch =
            client.watch(&self.collection, Since::Seq(newest)).map_err(|error| self.remote.exit(&error))?;
        let mut ticks = tokio::time::interval(DRAW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_stale = false;
        loop {
            tokio::select! {
                watched = watch.next() => match watched {
                    Some(Ok(Watched::Event(event))) => {
                        shown.note = line(&event);
                        is_stale = true;
                    }
                    Some(Ok(Watched::Resync(_))) => is_stale = true,
                    Some(Ok(Watched::Away)) => "connection lost, trying again".clone_into(&mut shown.note),
                    Some(Err(error)) => return Err(self.remote.exit(&error).into()),
                    None => return Ok(()),
                },
                _ = ticks.tick() => {
                    // The events say that something changed, the server says what holds.
                    if is_stale && let Ok(claims) = self.claims(client).await {
                        (shown.claims, shown.read_at, is_stale) = (claims, Instant::now(), false);
                    }
                    bytes(shown.draw(&self.collection, lines()).as_bytes());
                }
            }
        }
    }

    async fn claims(&self, client: &Client) -> Result<Vec<ClaimInfo>> {
        let (collection, state) = (Some(self.collection.clone()), Some("active".to_owned()));
        let filter = ClaimsFilter { collection, state, ..ClaimsFilter::default() };
        Ok(client.claims(&filter, ROWS_MAX).await.map_err(|error| self.remote.exit(&error))?)
    }
}

/// What the table shows.
struct Shown {
    claims: Vec<ClaimInfo>,
    read_at: Instant,
    /// The newest event, or what is wrong.
    note: String,
}

impl Shown {
    /// A screen of so many lines.
    fn draw(&self, collection: &str, lines: usize) -> String {
        let passed_ms = u64::try_from(self.read_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Three lines for what stands around the table, and one for its head.
        let room = lines.saturating_sub(4).max(1);
        let rows = self.claims.iter().take(room);
        let table = claims_table(rows.map(|claim| (claim, claim.expires_in_ms.saturating_sub(passed_ms))));
        let hidden = self.claims.len().saturating_sub(room);
        let more = if hidden == 0 { String::new() } else { format!(", {hidden} more below") };
        // Home, and clear the screen.
        format!("\x1b[H\x1b[2J{collection}: {} held{more}\n\n{table}\n{}", self.claims.len(), self.note)
    }
}

fn lines() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(LINES_DEFAULT, |size| usize::from(size.ws_row)).max(5)
}
