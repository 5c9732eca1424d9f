//! What the log says of the request that a line was written in.
//!
//! A span for each request is written out in full before anybody knows whether there will be a line; that was a sixth
//! of what a request cost. So a request carries what it is, and the log makes a span of it when there is a line. Under
//! any other subscriber, and where a filter looks into spans, it is a span from the start.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use tracing::Span;

/// The log makes the spans itself.
static IS_LATE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The request that this thread is busy with.
    static CURRENT: RefCell<Option<Box<Context>>> = const { RefCell::new(None) };
}

/// A request, as the log names it.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) id: String,
    pub(crate) method: Method,
    pub(crate) route: Cow<'static, str>,
    /// Empty without one.
    pub(crate) trace: String,
    pub(crate) client: IpAddr,
}

impl Context {
    fn span(&self) -> Span {
        let Self { id, method, route, trace, client } = self;
        let route: &str = route;
        // Filters know it by this name.
        tracing::info_span!(target: "tenure_server::front", "request", id, %method, route, trace, %client)
    }
}

/// From now on the log makes a span for each line, of the request that it was written in.
pub(crate) fn be_late() {
    IS_LATE.store(true, Ordering::Relaxed);
}

/// The span of the request that this thread is busy with, unless it is in that already.
pub(crate) fn current_span() -> Option<Span> {
    if !IS_LATE.load(Ordering::Relaxed) {
        return None;
    }
    let span = |current: &RefCell<Option<Box<Context>>>| Some(current.try_borrow().ok()?.as_ref()?.span());
    CURRENT.try_with(span).ok().flatten()
}

/// A request's own scope: what is logged within is about it.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Empty while this thread is in it.
    context: Option<Box<Context>>,
    /// None where the log makes it.
    span: Span,
}

impl Scope {
    pub(crate) fn new(context: Context) -> Self {
        let span = if IS_LATE.load(Ordering::Relaxed) { Span::none() } else { context.span() };
        Self { context: Some(Box::new(context)), span }
    }

    /// What is known of it, from outside.
    pub(crate) fn context(&self) -> Option<&Context> {
        self.context.as_deref()
    }

    /// Does something within.
    pub(crate) fn enter<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let _entered = self.span.enter();
        let _current = Current::of(&mut self.context);
        work()
    }
}

/// As long as it lives the thread is busy with that request; also a panic ends it.
struct Current<'a>(&'a mut Option<Box<Context>>);

impl<'a> Current<'a> {
    fn of(context: &'a mut Option<Box<Context>>) -> Self {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, context));
        Self(context)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
    }
}
