//! `tenure release`, `keys`, `policy`: what changes something.

use std::io::Read;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tenure_client::KindPolicy;

use crate::bench::Result;
use crate::exit::{Exit, USAGE};
use crate::look::{item_of, neither, print, table};
use crate::out::{note, say};
use crate::remote::Remote;

/// Let go of a claim, or free an item by force.
#[derive(Args)]
pub(crate) struct Release {
    /// A claim's id, or an item as KIND/NAME/ITEM.
    what: String,
    /// Whoever holds it. For administrators; stands in the audit log.
    #[arg(long, requires = "reason")]
    force: bool,
    /// Why.
    #[arg(long, requires = "force")]
    reason: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Manage API keys.
#[derive(Subcommand)]
pub(crate) enum Keys {
    /// List keys, without their text.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// Make a key, and print it: the only time that it is shown.
    Create {
        /// What it is for.
        name: String,
        /// Who acts with it: an id.
        #[arg(long, value_name = "ID")]
        subject: String,
        /// The name that people see [default: the id].
        #[arg(long, value_name = "NAME")]
        subject_name: Option<String>,
        /// viewer, editor, worker or admin.
        #[arg(long, default_value = "editor")]
        role: String,
        /// Only for this kind; may be repeated.
        #[arg(long)]
        kind: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// Revoke a key, at once.
    Revoke {
        /// Its id, as `list` shows it.
        id: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
}

/// Read or set a kind's policy.
#[derive(Subcommand)]
pub(crate) enum PolicyCommand {
    /// List the kinds, and where the policy of each comes from.
    List {
        /// Print JSON, with the policies.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// Print a kind's policy.
    Get {
        /// The kind.
        kind: String,
        /// Print JSON: the only form there is.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// Set a kind's policy.
    Set {
        /// The kind.
        kind: String,
        /// A file with the policy as JSON, or - for standard input.
        file: PathBuf,
        /// Print JSON: the only form there is.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
}

impl Release {
    pub(crate) fn run(self) -> Result {
        let ended = self.remote.ask(async |client| match (item_of(&self.what), &self.reason) {
            (Some((collection, item)), Some(reason)) => client.force_release(collection, item, reason).await,
            (None, Some(reason)) => {
                let claim = client.claim(&self.what).await?;
                match claim.items.first() {
                    Some(item) if claim.state == tenure_client::ClaimState::Active => {
                        client.force_release(&claim.collection, item, reason).await
                    }
                    _ => Ok(None),
                }
            }
            (Some((collection, item)), None) => match client.explain(collection, item).await?.claim {
                Some(claim) => client.release(&claim.id).await.map(|()| Some(claim)),
                None => Ok(None),
            },
            (None, None) => {
                client.release(&self.what).await?;
                client.claim(&self.what).await.map(Some)
            }
        });
        let ended = match ended {
            Err(error) if self.what.contains('/') && item_of(&self.what).is_none() => {
                drop(error);
                return Err(neither(&self.what).into());
            }
            ended => ended?,
        };
        if self.json {
            return print(&serde_json::json!({"claim": ended}));
        }
        match ended {
            Some(claim) => say!("{} of {} is released.", claim.id, claim.holder),
            None => say!("Nobody held it."),
        }
        Ok(())
    }
}

impl Keys {
    pub(crate) fn run(self) -> Result {
        match self {
            Self::List { json, remote } => {
                let keys = remote.ask(async |client| client.keys().await)?;
                if json {
                    return print(&keys);
                }
                let mut table = table(&["id", "name", "subject", "role", "kinds", "created"]);
                for key in keys {
                    let kinds = key.kinds.map_or_else(|| "all".to_owned(), |kinds| kinds.join(", "));
                    table.add_row([
                        key.id,
                        key.name,
                        key.subject.to_string(),
                        key.role,
                        kinds,
                        key.created_at,
                    ]);
                }
                say!("{table}");
                Ok(())
            }
            Self::Create { name, subject, subject_name, role, kind, json, remote } => {
                let who = subject_name.unwrap_or_else(|| subject.clone());
                let kinds = (!kind.is_empty()).then_some(kind);
                let made = remote.ask(async |client| {
                    client.create_key(&name, (&subject, &who), &role, kinds.as_deref()).await
                })?;
                if json {
                    return print(&made);
                }
                note!("{} for {}, shown only now:", made.id, made.subject);
                say!("{}", made.key.unwrap_or_default());
                Ok(())
            }
            Self::Revoke { id, json, remote } => {
                remote.ask(async |client| client.revoke_key(&id).await)?;
                if json {
                    return print(&serde_json::json!({"revoked": id}));
                }
                say!("{id} is revoked.");
                Ok(())
            }
        }
    }
}

impl PolicyCommand {
    pub(crate) fn run(self) -> Result {
        match self {
            Self::List { json, remote } => {
                let policies = remote.ask(async |client| client.policies().await)?;
                if json {
                    return print(&policies);
                }
                let mut table = table(&["kind", "policy"]);
                for KindPolicy { kind, source, .. } in policies {
                    table.add_row([kind, source]);
                }
                say!("{table}");
                Ok(())
            }
            Self::Get { kind, json: _, remote } => {
                // As `set` reads it.
                print(&remote.ask(async |client| client.policy(&kind).await)?.policy)
            }
            Self::Set { kind, file, json: _, remote } => {
                let mut text = String::new();
                if file.as_os_str() == "-" {
                    std::io::stdin().read_to_string(&mut text)?;
                } else {
                    text = std::fs::read_to_string(&file)
                        .map_err(|error| Exit::new(USAGE, format!("{}: {error}", file.display())))?;
                }
                let policy = serde_json::from_str(&text)
                    .map_err(|error| Exit::new(USAGE, format!("{}: {error}", file.display())))?;
                print(&remote.ask(async |client| client.set_policy(&kind, &policy).await)?.policy)
            }
        }
    }
}
