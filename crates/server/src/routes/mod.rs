//! One file per group of routes. A handler parses, asks the engine or a reader, and renders.

mod audit;
mod batch;
pub(crate) mod claims;
mod collections;
pub(crate) mod events;
mod items;
mod overrides;
mod policies;
mod verify;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;

/// Every route of the REST contract, with its part of the document.
pub(crate) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(claims::create_claim, claims::list_claims))
        .routes(routes!(claims::get_claim, claims::release_claim))
        .routes(routes!(claims::heartbeat_claim))
        .routes(routes!(claims::add_claim_item))
        .routes(routes!(claims::remove_claim_item))
        .routes(routes!(claims::advance_claim))
        .routes(routes!(claims::complete_claim))
        .routes(routes!(claims::cancel_claim))
        .routes(routes!(claims::nudge_claim))
        .routes(routes!(collections::list_collections))
        .routes(routes!(collections::get_collection, collections::put_collection))
        .routes(routes!(items::list_items))
        .routes(routes!(items::get_item, items::put_item, items::delete_item))
        .routes(routes!(overrides::explain_item))
        .routes(routes!(overrides::force_release_item))
        .routes(routes!(overrides::force_claim_item))
        .routes(routes!(events::list_events))
        .routes(routes!(crate::socket::open_socket))
        .routes(routes!(batch::run_batch))
        .routes(routes!(audit::list_audit))
        .routes(routes!(verify::verify_audit))
        .routes(routes!(policies::list_policies))
        .routes(routes!(policies::get_policy, policies::put_policy))
}
