//! The Rust client of Tenure: who holds what, until when.
//!
//! ```
//! # #[path = "../tests/client/support/mod.rs"] mod support;
//! # #[tokio::main] async fn main() -> Result<(), tenure_client::Error> {
//! # let server = support::Server::start().await;
//! # let (url, key) = (server.url(), support::ADMIN);
//! use std::time::Duration;
//! use tenure_client::Client;
//!
//! let client = Client::new(&url, key)?;
//! let claim = client.acquire("lock/jobs", ["nightly"]).wait(Duration::from_secs(5)).await?;
//! tokio::select! {
//!     lost = claim.lost() => eprintln!("stop working: {lost}"),
//!     () = work(claim.token()) => claim.release().await?,
//! }
//! # Ok(()) }
//! # async fn work(_token: u64) {}
//! ```
//!
//! A [`Claim`] renews itself at a third of its time to live. It knows a deadline of its own that is never
//! later than the server's: between the last answer and that deadline it can be counted on without asking,
//! and after it never. When the server cannot be reached it is [`State::Uncertain`] first, and lost at the
//! deadline.
//!
//! Read in this order: `claim` (the guard), `acquire`, `watch`, then `calls` and `jobs`.

mod acquire;
mod calls;
mod claim;
mod clock;
mod error;
mod http;
mod jobs;
mod lost;
mod types;
mod watch;

use std::path::Path;

pub use acquire::Acquire;
pub use calls::{AuditFilter, ClaimsFilter};
pub use claim::{Claim, State};
pub use clock::Moment;
pub use error::{Error, Problem};
pub use jobs::{Analysis, AnalysisError};
pub use lost::Lost;
pub use types::{
    Beat, ClaimInfo, ClaimState, EndReason, Event, Explanation, Holder, Item, KeyInfo, KindPolicy, Queue,
    Tenancy,
};
pub use watch::{Cursor, Since, Watch, Watched};

/// A server and a key to it. Cheap to clone; connections are shared.
#[derive(Clone, Debug)]
pub struct Client {
    http: http::Http,
}

impl Client {
    /// For a server at `http://host:port` or `https://host:port`. Nothing is sent yet.
    pub fn new(url: &str, key: &str) -> Result<Self, Error> {
        Ok(Self { http: http::Http::new(url, key, None)? })
    }

    /// The same, trusting the certificates of this PEM file instead of the system's.
    pub fn with_authority(url: &str, key: &str, authority: &Path) -> Result<Self, Error> {
        Ok(Self { http: http::Http::new(url, key, Some(authority))? })
    }

    /// Claims items of a collection, all or none.
    pub fn acquire(&self, collection: &str, items: impl IntoIterator<Item = impl Into<String>>) -> Acquire {
        Acquire::new(self.clone(), collection, items.into_iter().map(Into::into).collect())
    }

    /// Follows a collection's events. Needs a runtime.
    pub fn watch(&self, collection: &str, since: Since) -> Result<Watch, Error> {
        Watch::start(self.http.clone(), collection, since)
    }

    pub(crate) fn http(&self) -> &http::Http {
        &self.http
    }
}
