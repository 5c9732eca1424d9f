//! Taking a claim.
//!
//! Processes often share a key, and so a principal; each guard has a session of its own. In a kind that is
//! exclusive to sessions (`lock`, `analysis`) the server keeps them apart. In one that is not (`task`) it
//! gives the claim of one session to all of that principal's, and a guard refuses what is not its own.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::claim::Claim;
use crate::clock::{Moment, jittered, unique};
use crate::http::{ANSWER_TIME, Call};
use crate::types::{ClaimInfo, ClaimState};
use crate::{Client, Error, Problem, Since};

/// The longest single wait: proxies cut a connection that is silent for a minute. A longer one is asked for again.
const WAIT_MAX: Duration = Duration::from_secs(55);
/// The pause between two tries where the kind's policy lets nobody wait.
const TRY_EVERY: Duration = Duration::from_secs(1);
/// How often a request whose outcome is unknown is sent again.
const RETRIES: u32 = 3;

/// A claim to be taken: await it.
#[derive(Clone, Debug)]
#[must_use = "nothing is claimed until it is awaited"]
pub struct Acquire {
    client: Client,
    collection: String,
    items: Vec<String>,
    session: Option<String>,
    ttl: Option<Duration>,
    wait: Duration,
    data: Option<Value>,
    renews: bool,
    follows: bool,
}

impl Acquire {
    pub(crate) fn new(client: Client, collection: &str, items: Vec<String>) -> Self {
        Self {
            client,
            collection: collection.to_owned(),
            items,
            session: None,
            ttl: None,
            wait: Duration::ZERO,
            data: None,
            renews: true,
            follows: false,
        }
    }

    /// The caller's tab or worker instance: who comes back with the same one gets its claim back. Without
    /// it every guard has one of its own.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Another time to live than the kind's, within its bounds.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for held items, first come first served. A wait is asked for in pieces of at most 55
    /// seconds, or of what the kind's policy allows; each piece joins the queue anew, so whoever waits for
    /// longer than one can be overtaken between two of them.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// A document that goes with the claim.
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The guard sends no heartbeats: the caller does, with [`Claim::heartbeat`].
    pub fn by_hand(mut self) -> Self {
        self.renews = false;
        self
    }

    /// The guard also follows the collection's events, so that it knows of a loss at once and not only at
    /// its next heartbeat. Costs a connection, and all that happens in the collection comes through it.
    pub fn follow(mut self) -> Self {
        self.follows = true;
        self
    }

    async fn run(self) -> Result<Claim, Error> {
        let session = match &self.session {
            Some(session) => session.clone(),
            None => unique()?,
        };
        let until = Moment::now().plus(self.wait);
        let mut longest = WAIT_MAX;
        loop {
            let wait = until.left().min(longest);
            match self.ask(&session, wait).await {
                // Two guards on one claim would each let go of the other's. Waiting for it would renew it.
                Ok((_, claim)) if claim.session.as_deref() != Some(&session) => return Err(held(&claim)),
                Ok((sent, claim)) => {
                    let after = Since::Seq(claim.token);
                    let watch =
                        if self.follows { Some(self.client.watch(&self.collection, after)?) } else { None };
                    return Claim::start(self.client.http().clone(), sent, claim, self.renews, watch).await;
                }
                Err(error) if error.code() == Some("held") && !until.is_past() => {
                    if longest < TRY_EVERY {
                        tokio::time::sleep(jittered(TRY_EVERY).min(until.left())).await;
                    }
                }
                Err(error) => match wait_max(&error) {
                    Some(max) if max < wait => longest = max,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Asks once, and again with the same idempotency key while the outcome is unknown. The moment is that
    /// before the first request: a repeated answer counts from then.
    async fn ask(&self, session: &str, wait: Duration) -> Result<(Moment, ClaimInfo), Error> {
        let mut body = Map::new();
        body.insert("collection".to_owned(), json!(self.collection));
        body.insert("items".to_owned(), json!(self.items));
        body.insert("session".to_owned(), json!(session));
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if let Some(ttl) = self.ttl {
            body.insert("ttl_ms".to_owned(), json!(ms(ttl)));
        }
        if !wait.is_zero() {
            body.insert("wait_ms".to_owned(), json!(ms(wait)));
        }
        if let Some(data) = &self.data {
            body.insert("data".to_owned(), data.clone());
        }
        let mut call = Call::post("/v1/claims", Value::Object(body)).header("idempotency-key", unique()?);
        call.time = wait + ANSWER_TIME;
        let sent = Moment::now();
        let mut tries = 0;
        loop {
            match self.client.http().json::<ClaimInfo>(call.clone()).await {
                Ok((_, claim)) => return Ok((sent, claim)),
                Err(error) if error.is_temporary() && tries < RETRIES => {
                    tries += 1;
                    tokio::time::sleep(jittered(Duration::from_millis(100 << tries))).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Claim, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The longest wait that the kind's policy allows, where the refusal says that this was too long.
fn wait_max(error: &Error) -> Option<Duration> {
    let Error::Refused(problem) = error else { return None };
    let is_wait =
        problem.code == "invalid" && problem.body.get("field").is_some_and(|field| field == "wait_ms");
    problem.body.get("max").filter(|_| is_wait).and_then(Value::as_u64).map(Duration::from_millis)
}

/// The refusal that the server would give to somebody else.
fn held(claim: &ClaimInfo) -> Error {
    debug_assert_eq!(claim.state, ClaimState::Active);
    let item = claim.items.first().map_or("", String::as_str);
    let detail = format!("{item} is held by {} in another session until {}", claim.holder, claim.expires_at);
    let retry_after_s = Some(claim.expires_in_ms.div_ceil(1_000).max(1));
    let items = json!([{
        "item": item, "why": "held", "holder": claim.holder,
        "since": claim.since, "expires_at": claim.expires_at,
    }]);
    let body = Map::from_iter([("code".to_owned(), json!("held")), ("items".to_owned(), items)]);
    Error::Refused(Box::new(Problem { status: 409, code: "held".to_owned(), detail, retry_after_s, body }))
}
