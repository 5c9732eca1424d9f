//! `tenure ls`, `show`, `audit`: who holds what, and who did what.

use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use tenure_client::{AuditFilter, ClaimInfo, ClaimsFilter, Event, Explanation};

use crate::bench::Result;
use crate::exit::{Exit, USAGE};
use crate::out::say;
use crate::remote::Remote;

/// List claims.
#[derive(Args)]
pub(crate) struct Ls {
    /// Only of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only of this collection.
    #[arg(long, value_name = "KIND/NAME")]
    collection: Option<String>,
    /// Only of this holder, by id.
    #[arg(long, value_name = "ID")]
    holder: Option<String>,
    /// Those that ended, too.
    #[arg(long)]
    all: bool,
    /// At most so many.
    #[arg(long, default_value_t = 1_000)]
    limit: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Explain an item, or show a claim.
#[derive(Args)]
pub(crate) struct Show {
    /// A claim's id, or an item as KIND/NAME/ITEM.
    what: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Read the audit log.
#[derive(Args)]
pub(crate) struct Audit {
    /// By this actor, by id.
    #[arg(long, value_name = "ID")]
    actor: Option<String>,
    /// With this action: claim_granted, LOCK_FORCE_RELEASE, …
    #[arg(long)]
    action: Option<String>,
    /// In this collection.
    #[arg(long, value_name = "KIND/NAME")]
    collection: Option<String>,
    /// About this item.
    #[arg(long)]
    item: Option<String>,
    /// At this time or later, as 2026-01-02T03:04:05Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// At most so many, newest first.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Walk the chain of hashes instead, and say whether it holds.
    #[arg(long)]
    verify: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

impl Ls {
    pub(crate) fn run(self) -> Result {
        let state = (!self.all).then(|| "active".to_owned());
        let filter =
            ClaimsFilter { kind: self.kind, collection: self.collection, holder: self.holder, state };
        // One more than is shown, to know whether there is more.
        let asked = self.limit.saturating_add(1);
        let mut claims = self.remote.ask(async |client| client.claims(&filter, asked).await)?;
        if claims.len() > self.limit {
            claims.truncate(self.limit);
            eprintln!("tenure: there are more than these {}; see more with --limit", self.limit);
        }
        if self.json {
            return print(&claims);
        }
        say!("{}", claims_table(claims.iter().map(|claim| (claim, claim.expires_in_ms))));
        Ok(())
    }
}

impl Show {
    pub(crate) fn run(self) -> Result {
        if let Some((collection, item)) = item_of(&self.what) {
            let explanation = self.remote.ask(async |client| client.explain(collection, item).await)?;
            if self.json {
                return print(&explanation);
            }
            explain(&explanation);
        } else if !self.what.contains('~') {
            return Err(neither(&self.what).into());
        } else {
            let claim = self.remote.ask(async |client| client.claim(&self.what).await)?;
            if self.json {
                return print(&claim);
            }
            show(&claim);
        }
        Ok(())
    }
}

impl Audit {
    pub(crate) fn run(self) -> Result {
        if self.verify {
            let report = self.remote.ask(async |client| client.verify_audit().await)?;
            print(&report)?;
            if report["verified"] == true {
                return Ok(());
            }
            let what = report["summary"].as_str().unwrap_or("the server does not say that every link holds");
            return Err(Exit::new(1, format!("the audit log does not hold: {what}")).into());
        }
        let Self { actor, action, collection, item, from, to, .. } = self;
        let filter = AuditFilter { actor, action, collection, item, from, to };
        let rows = self.remote.ask(async |client| client.audit(&filter, self.limit).await)?;
        if self.json {
            return print(&rows);
        }
        for row in &rows {
            say!("{}", line(row));
        }
        Ok(())
    }
}

/// Claims, each with the time that it has left.
pub(crate) fn claims_table<'a>(claims: impl Iterator<Item = (&'a ClaimInfo, u64)>) -> Table {
    let mut table = table(&["claim", "items", "holder", "state", "since", "time left"]);
    for (claim, left_ms) in claims {
        table.add_row([
            claim.id.clone(),
            claim.items.join(", "),
            claim.holder.to_string(),
            word(&claim.state),
            claim.since.clone(),
            time(left_ms),
        ]);
    }
    table
}

/// `kind/name/item`; an item's id may have slashes of its own.
pub(crate) fn item_of(what: &str) -> Option<(&str, &str)> {
    let (kind, rest) = what.split_once('/')?;
    let (name, item) = rest.split_once('/')?;
    Some((&what[..=kind.len() + name.len()], item))
}

/// What is neither a claim nor an item.
pub(crate) fn neither(what: &str) -> Exit {
    Exit::new(
        USAGE,
        format!("{what:?} is neither a claim's id, KIND~NAME~NUMBER, nor an item, KIND/NAME/ITEM"),
    )
}

pub(crate) fn print(value: &impl Serialize) -> Result {
    say!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

pub(crate) fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(heads.iter().map(|head| head.to_uppercase()));
    table
}

fn show(claim: &ClaimInfo) {
    say!("{}", claim.id);
    say!("  holds    {} in {}", claim.items.join(", "), claim.collection);
    say!("  holder   {}", claim.holder);
    say!("  state    {}, {}", word(&claim.state), claim.phase);
    say!("  token    {}", claim.token);
    say!("  since    {}", claim.since);
    match (&claim.ended_at, &claim.reason) {
        (Some(ended_at), Some(reason)) => say!("  ended    {ended_at}, {}", reason.as_str()),
        _ => say!("  expires  {}, in {}", claim.expires_at, time(claim.expires_in_ms)),
    }
}

fn explain(explanation: &Explanation) {
    let Explanation { collection, item, claim, queue, refusal, history, .. } = explanation;
    say!("{collection}/{item}: {}", explanation.status.as_deref().unwrap_or("not there yet"));
    match claim {
        Some(claim) => say!(
            "  held by {} since {} for another {} ({})",
            claim.holder,
            claim.since,
            time(claim.expires_in_ms),
            claim.id
        ),
        None => say!("  free"),
    }
    say!("  waiting: {}", queue.waiting);
    let detail =
        refusal.as_ref().and_then(|refusal| refusal.get("detail")).and_then(|detail| detail.as_str());
    match detail {
        Some(detail) => say!("  claiming it now would be refused: {detail}"),
        None => say!("  claiming it now would succeed"),
    }
    for tenancy in history {
        let holder = tenancy.holder.as_ref().map_or_else(|| "somebody".to_owned(), ToString::to_string);
        let since = tenancy.since.as_deref().unwrap_or("long ago");
        let end = tenancy.ended_at.as_deref().unwrap_or("now");
        let reason = tenancy.reason.map_or("", tenure_client::EndReason::as_str);
        say!("  {since} – {end}  {holder}  {reason}");
    }
}

pub(crate) fn line(event: &Event) -> String {
    let Event { seq, at, action, actor, collection, items, .. } = event;
    let reason = event.more.get("reason").and_then(|reason| reason.as_str());
    let reason = reason.map_or(String::new(), |reason| format!("  {reason}"));
    format!("{at}  {collection} #{seq}  {action}  {}  {actor}{reason}", items.join(","))
}

fn time(ms: u64) -> String {
    // Parts of a second only tell people something when there is nothing else.
    let shown = if ms >= 1_000 { ms - ms % 1_000 } else { ms };
    humantime::format_duration(std::time::Duration::from_millis(shown)).to_string()
}

fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::item_of;

    #[test]
    fn an_item_is_told_from_a_claim() {
        assert_eq!(item_of("lock/demo/staging"), Some(("lock/demo", "staging")));
        assert_eq!(item_of("lock/demo/a/b"), Some(("lock/demo", "a/b")));
        assert_eq!(item_of("lock~demo~6"), None);
        assert_eq!(item_of("lock/demo"), None);
    }
}
