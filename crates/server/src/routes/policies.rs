//! Policies: a kind's numbers. Built-in kinds have presets until somebody sets their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tenure_core::{CollectionKey, Fact, Policy, Text, Verb};
use tenure_engine::{AuditFilter, Reader, StoreError};
use utoipa::ToSchema;

use crate::body::Body;
use crate::command::Rendered;
use crate::limits::PAGE_MAX;
use crate::params::{AtKind, Nothing, Query};
use crate::problem::from_store;
use crate::schema::PolicySchema;
use crate::{App, Caller, Problem, schema};

/// A kind's policy, and where it comes from.
#[derive(Serialize, ToSchema)]
#[schema(as = KindPolicy)]
pub(crate) struct PolicyView<'a> {
    /// The kind.
    #[schema(value_type = schema::Kind)]
    kind: &'a str,
    /// `preset` as it was built in, `own` as somebody set it.
    #[schema(value_type = schema::PolicySource)]
    source: &'static str,
    /// Its numbers.
    #[schema(value_type = PolicySchema)]
    policy: &'a Policy,
}

/// All policies, by kind.
#[derive(Serialize, ToSchema)]
#[schema(as = Policies)]
pub(crate) struct PoliciesView<'a> {
    policies: Vec<PolicyView<'a>>,
}

/// List policies
#[utoipa::path(get, path = "/v1/policies", tag = "policies",
    responses((status = 200, description = "Every kind's policy.", body = PoliciesView<'static>)))]
pub(crate) async fn list_policies(
    State(app): State<App>,
    caller: Caller,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let found = app.read(all).await?;
    let visible = found.iter().filter(|(kind, ..)| caller.covers(kind));
    let policies = visible.map(|(kind, source, policy)| PolicyView { kind, source, policy });
    Rendered::json(&PoliciesView { policies: policies.collect() })
}

/// Read a kind's policy
#[utoipa::path(get, path = "/v1/policies/{kind}", tag = "policies", params(AtKind),
    responses((status = 200, description = "The policy.", body = PolicyView<'static>)))]
pub(crate) async fn get_policy(
    State(app): State<App>,
    AtKind(kind): AtKind,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let own = app.reader().policy(&kind).map_err(|error| from_store(&error))?;
    let source = if own.is_some() { "own" } else { "preset" };
    let policy = own.or_else(|| Policy::preset(&kind));
    let policy = policy.ok_or_else(|| Problem::not_found("kind", &kind))?;
    Rendered::json(&PolicyView { kind: &kind, source, policy: &policy })
}

/// Set a kind's policy
///
/// Holds for every decision from here on. Claims keep the deadlines that they have.
#[utoipa::path(put, path = "/v1/policies/{kind}", tag = "policies", params(AtKind),
    request_body = PolicySchema,
    responses((status = 200, description = "The policy as it is now.", body = PolicyView<'static>)))]
pub(crate) async fn put_policy(
    State(app): State<App>,
    caller: Caller,
    AtKind(kind): AtKind,
    Body { value, .. }: Body<Policy>,
) -> Result<Rendered, Problem> {
    let policy = Arc::new(value);
    let verb = Verb::SetPolicy { kind: kind.clone(), policy: policy.clone() };
    let answer = app.ask(&caller, CollectionKey::policies(), verb, None).await;
    match &answer.outcome {
        Ok(_) => Rendered::json(&PolicyView { kind: &kind, source: "own", policy: &policy }),
        Err(refused) => Err(Problem::from_refused(refused, answer.server_time_ms)),
    }
}

type Found = (Text, &'static str, Arc<Policy>);

/// The presets, and the kinds that somebody ever gave a policy: the log of `tenure/policies` names them.
fn all(reader: &dyn Reader) -> Result<Vec<Found>, StoreError> {
    let mut kinds: BTreeSet<Text> = Policy::preset_kinds().map(Text::from).collect();
    let mut filter = AuditFilter { collection: Some(CollectionKey::policies()), ..AuditFilter::default() };
    loop {
        let page = reader.audit(&filter, PAGE_MAX)?;
        for (_, sealed) in &page.rows {
            if let Fact::PolicySet { kind, .. } = &sealed.event.fact {
                kinds.insert(kind.clone());
            }
        }
        match page.rows.last() {
            Some((key, sealed)) if page.more => {
                filter.before = Some((sealed.event.at_ms, key.clone(), sealed.event.seq));
            }
            _ => break,
        }
    }
    let mut found = Vec::new();
    for kind in kinds {
        if let Some(policy) = reader.policy(&kind)? {
            found.push((kind, "own", policy));
        } else if let Some(policy) = Policy::preset(&kind) {
            found.push((kind, "preset", policy));
        }
    }
    Ok(found)
}
