//! Plain calls: look, list, override, administer.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tenure_core::{CollectionKey, Policy};

use crate::http::{Call, part};
use crate::types::{ClaimInfo, Event, Explanation, Item, KeyInfo, KindPolicy};
use crate::{Client, Error};

/// Which claims; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct ClaimsFilter {
    /// Of collections of this kind. The server does not filter by it: pages are read until there are enough.
    pub kind: Option<String>,
    /// Of this collection.
    pub collection: Option<String>,
    /// Of this holder, by id.
    pub holder: Option<String>,
    /// In this state: `active`, `expired`, …
    pub state: Option<String>,
}

/// Which rows of the audit log; what is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// By this actor, by id.
    pub actor: Option<String>,
    /// With this action.
    pub action: Option<String>,
    /// In this collection.
    pub collection: Option<String>,
    /// About this item.
    pub item: Option<String>,
    /// At this time or later, RFC 3339.
    pub from: Option<String>,
    /// Before this time.
    pub to: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    claims: Vec<ClaimInfo>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Items {
    items: Vec<Item>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<Event>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    seq: u64,
}

#[derive(Deserialize)]
struct Keys {
    keys: Vec<KeyInfo>,
}

#[derive(Deserialize)]
struct Policies {
    policies: Vec<KindPolicy>,
}

#[derive(Deserialize)]
struct Freed {
    claim: Option<ClaimInfo>,
}

/// The longest that a server which is asked whether it can serve may take.
const READY_TIME: Duration = Duration::from_secs(5);

impl Client {
    /// The server answers and its store does. Needs no key.
    pub async fn ready(&self) -> Result<(), Error> {
        // Whoever asks acts upon it, and the server itself waits for less.
        self.http().nothing(Call { time: READY_TIME, ..Call::get("/readyz") }).await
    }

    /// At most `limit` claims, by collection and number.
    pub async fn claims(&self, filter: &ClaimsFilter, limit: usize) -> Result<Vec<ClaimInfo>, Error> {
        let ClaimsFilter { kind, collection, holder, state } = filter;
        // Of a page that is filtered here nobody knows how much is left.
        let asked = |found: usize| if kind.is_some() { limit } else { limit - found };
        let query = [("collection", collection), ("holder", holder), ("state", state)];
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page: Claims =
                self.page("/v1/claims", &query, "after", after.as_deref(), asked(found.len())).await?;
            let is_wanted = |claim: &ClaimInfo| {
                kind.as_deref().is_none_or(|kind| claim.collection.split('/').next() == Some(kind))
            };
            found.extend(page.claims.into_iter().filter(is_wanted));
            after = page.next;
            if after.is_none() || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    /// One claim, as it is now.
    pub async fn claim(&self, id: &str) -> Result<ClaimInfo, Error> {
        Ok(self.http().json(Call::get(format!("/v1/claims/{}", part(id)))).await?.1)
    }

    /// At most `limit` items of a collection, each with the claim that holds it.
    pub async fn items(&self, collection: &str, limit: usize) -> Result<Vec<Item>, Error> {
        let path = format!("{}/items", path_of(collection)?);
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page: Items = self.page(&path, &[], "after", after.as_deref(), limit - found.len()).await?;
            found.extend(page.items);
            after = page.next;
            if after.is_none() || found.len() >= limit {
                return Ok(found);
            }
        }
    }

    /// The number of a collection's newest event: where to follow it from.
    pub async fn newest(&self, collection: &str) -> Result<u64, Error> {
        Ok(self.http().json::<Head>(Call::get(path_of(collection)?)).await?.1.seq)
    }

    /// Who holds an item, who waits, who held it, and why the caller would be refused.
    pub async fn explain(&self, collection: &str, item: &str) -> Result<Explanation, Error> {
        let path = format!("{}/items/{}/explain", path_of(collection)?, part(item));
        Ok(self.http().json(Call::get(path)).await?.1)
    }

    /// Lets go of a claim of one's own, by id. For a claim of this process use its guard.
    pub async fn release(&self, id: &str) -> Result<(), Error> {
        self.http().nothing(Call::new(Method::DELETE, format!("/v1/claims/{}", part(id)))).await
    }

    /// Frees an item, whoever holds it; the claim that ended, if there was one. For administrators, audited.
    pub async fn force_release(
        &self,
        collection: &str,
        item: &str,
        reason: &str,
    ) -> Result<Option<ClaimInfo>, Error> {
        let path = format!("{}/items/{}/force-release", path_of(collection)?, part(item));
        let freed: Freed = self.http().json(Call::post(path, json!({"reason": reason}))).await?.1;
        Ok(freed.claim)
    }

    /// At most `limit` rows of the audit log, newest first. For administrators.
    pub async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<Event>, Error> {
        let AuditFilter { actor, action, collection, item, from, to } = filter;
        let query = [
            ("actor", actor),
            ("action", action),
            ("collection", collection),
            ("item", item),
            ("from", from),
            ("to", to),
        ];
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let page: Rows =
                self.page("/v1/audit", &query, "cursor", cursor.as_deref(), limit - found.len()).await?;
            found.extend(page.rows);
            cursor = page.next;
            if cursor.is_none() || found.len() >= limit {
                return Ok(found);
            }
        }
    }

    /// Walks the audit log's chains; the server's report.
    pub async fn verify_audit(&self) -> Result<Value, Error> {
        Ok(self.http().json(Call::get("/v1/audit/verify")).await?.1)
    }

    /// Every API key, without its text. For administrators.
    pub async fn keys(&self) -> Result<Vec<KeyInfo>, Error> {
        Ok(self.http().json::<Keys>(Call::get("/v1/keys")).await?.1.keys)
    }

    /// Makes an API key. The answer is the only place where its text stands.
    pub async fn create_key(
        &self,
        name: &str,
        subject: (&str, &str),
        role: &str,
        kinds: Option<&[String]>,
    ) -> Result<KeyInfo, Error> {
        let (id, who) = subject;
        let mut body = Map::new();
        body.insert("name".to_owned(), json!(name));
        body.insert("subject".to_owned(), json!({"id": id, "name": who}));
        body.insert("role".to_owned(), json!(role));
        if let Some(kinds) = kinds {
            body.insert("kinds".to_owned(), json!(kinds));
        }
        Ok(self.http().json(Call::post("/v1/keys", Value::Object(body))).await?.1)
    }

    /// Revokes an API key, at once.
    pub async fn revoke_key(&self, id: &str) -> Result<(), Error> {
        self.http().nothing(Call::new(Method::DELETE, format!("/v1/keys/{}", part(id)))).await
    }

    /// Every kind's policy.
    pub async fn policies(&self) -> Result<Vec<KindPolicy>, Error> {
        Ok(self.http().json::<Policies>(Call::get("/v1/policies")).await?.1.policies)
    }

    /// A kind's policy. For administrators.
    pub async fn policy(&self, kind: &str) -> Result<KindPolicy, Error> {
        Ok(self.http().json(Call::get(format!("/v1/policies/{}", part(kind)))).await?.1)
    }

    /// Sets a kind's policy. For administrators.
    pub async fn set_policy(&self, kind: &str, policy: &Policy) -> Result<KindPolicy, Error> {
        let call = Call {
            body: Some(serde_json::to_value(policy).map_err(|error| Error::Invalid(error.to_string()))?),
            ..Call::new(Method::PUT, format!("/v1/policies/{}", part(kind)))
        };
        Ok(self.http().json(call).await?.1)
    }

    /// A raffle's draw, with all that is needed to do it again.
    pub async fn raffle_draw(&self, raffle: &str) -> Result<Value, Error> {
        Ok(self.http().json(Call::get(format!("/raffles/{}/draw", part(raffle)))).await?.1)
    }

    async fn page<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &Option<String>)],
        place: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<T, Error> {
        let mut path = format!("{path}?limit={}", limit.clamp(1, 1_000));
        let given = query.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        for (name, value) in given.chain(after.map(|after| (place, after))) {
            path.extend(["&", name, "=", &part(value)]);
        }
        Ok(self.http().json(Call::get(path)).await?.1)
    }
}

/// The path of a collection, `kind/name`.
pub(crate) fn path_of(collection: &str) -> Result<String, Error> {
    let key = CollectionKey::new(collection).map_err(|refusal| Error::Invalid(refusal.to_string()))?;
    Ok(format!("/v1/collections/{}/{}", part(key.kind()), part(key.name())))
}
