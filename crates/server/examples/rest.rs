//! The REST routes over a store in memory, for tools that test an API from its document. Everyone who
//! sends `Authorization: Bearer example` is an administrator.
//!
//! `cargo run -p tenure-server --example rest -- 127.0.0.1:8099`

use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::http::header;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use tenure_core::Principal;
use tenure_engine::{Engine, Options, SystemClock};
use tenure_server::{App, Caller, Credential, May, Problem, Role, router, rule_of};
use tenure_store::memory::Memory;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8099".to_owned());
    let engine = Engine::start(Memory::default(), SystemClock::new(), Options::default())?;
    let (router, _) = router(App::new(engine));
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on {address}");
    axum::serve(listener, router.layer(from_fn(check_access))).await?;
    Ok(())
}

async fn check_access(mut request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let rule = matched.and_then(|path| rule_of(request.method(), path.as_str()));
    let Some(May::Roles { .. }) = rule.map(|rule| rule.may) else {
        return next.run(request).await;
    };
    let credentials = request.headers().get(header::AUTHORIZATION);
    if credentials.is_none_or(|value| value.as_bytes() != b"Bearer example") {
        return Problem::unauthenticated("send Authorization: Bearer example").into_response();
    }
    let Ok(principal) = Principal::new("example", "Example") else {
        return Problem::internal().into_response();
    };
    let credential = Credential::Key(Arc::from("example"));
    request.extensions_mut().insert(Caller { principal, role: Role::Admin, kinds: None, credential });
    next.run(request).await
}
