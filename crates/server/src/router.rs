//! All routes together, with the document that describes them. Who may is another layer's concern: put
//! the access check around what this gives.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::docs::{self, Documents};
use crate::{App, Problem, apps, document, own_routes, routes as rest, web};

/// The server's own routes and their document.
pub fn router(app: App) -> (Router, OpenApi) {
    router_with(app, OpenApiRouter::default())
}

/// The same, with more routes in the same document.
pub fn router_with(app: App, more: OpenApiRouter<App>) -> (Router, OpenApi) {
    let (router, api) = bare_router(more);
    (router.with_state(app), api)
}

/// The same without an application behind it. Making the document is most of the work, so whoever starts very many
/// servers, as tests do, makes this once and clones it.
pub fn bare_router(more: OpenApiRouter<App>) -> (Router<App>, OpenApi) {
    let routes = rest::api()
        .merge(own_routes())
        .merge(apps::routes())
        .merge(more)
        .routes(routes!(docs::get_openapi))
        .routes(routes!(docs::get_docs))
        .routes(routes!(docs::get_problems))
        .routes(routes!(docs::get_style));
    let (router, mut api) = routes.split_for_parts();
    document::finish(&mut api);
    let documents = Arc::new(Documents::of(&api));
    let router =
        router.fallback(web::serve).method_not_allowed_fallback(unknown_method).layer(Extension(documents));
    (router, api)
}

/// The router adds `Allow` to this.
async fn unknown_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    let detail = format!("{method} is not supported here");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail).into_response()
}
