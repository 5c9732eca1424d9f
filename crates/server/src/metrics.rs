//! Figures for Prometheus. The recorder belongs to this server and not to the process, so that two servers
//! in one process do not mix theirs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::Mutex;
use tenure_apps::payments::PaymentFigures;
use tenure_core::ClaimState;
use tenure_engine::{ClaimFilter, Engine, Observer, Report, StoreError};

use crate::access::TABLE;
use crate::limits::{METRIC_CLAIMS_MAX, METRIC_KINDS_MAX};

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);
const SECONDS: &[f64] =
    &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0];

/// Classes of status codes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What is measured: its name, what it is, and in words.
#[derive(Clone, Copy)]
enum Shape {
    Counter,
    Gauge,
    Histogram(&'static [f64]),
}

const FIGURES: &[(&str, Shape, &str)] = &[
    (
        "tenure_http_request_seconds",
        Shape::Histogram(SECONDS),
        "Time to answer a request, by route, method and class of status.",
    ),
    ("tenure_refusals_total", Shape::Counter, "Refused requests and commands, by their code."),
    ("tenure_connections", Shape::Gauge, "Open connections, sockets included."),
    (
        "tenure_connections_refused_total",
        Shape::Counter,
        "Connections closed at once, by the limit that they met.",
    ),
    ("tenure_sockets", Shape::Gauge, "Open streams, by their sort."),
    ("tenure_resumes_total", Shape::Counter, "Streams that went on from a cursor, by outcome."),
    ("tenure_socket_closes_total", Shape::Counter, "Sockets that the server closed, by reason."),
    ("tenure_batch_commands", Shape::Histogram(COUNTS), "Requests answered by one turn of the engine."),
    ("tenure_commit_seconds", Shape::Histogram(SECONDS), "Time to make one batch durable."),
    ("tenure_decisions_total", Shape::Counter, "Decisions committed."),
    ("tenure_queue_length", Shape::Gauge, "Requests that wait for the engine."),
    ("tenure_expiries_total", Shape::Counter, "Claims that ran out."),
    (
        "tenure_expiry_lag_seconds",
        Shape::Histogram(SECONDS),
        "How late an expiry was noticed, at most, in one turn.",
    ),
    ("tenure_active_claims", Shape::Gauge, "Active claims, by kind."),
    ("tenure_payments_started", Shape::Gauge, "Payments begun since the start, by provider."),
    (
        "tenure_payments_succeeded",
        Shape::Gauge,
        "Payments that succeeded since the start, by provider. By those begun it is the conversion.",
    ),
    ("tenure_payments_late", Shape::Gauge, "Payments since the start whose numbers had to be taken again."),
    ("tenure_refunds_open", Shape::Gauge, "Payments whose money is owed: the refund is open or has failed."),
    (
        "tenure_raffle_reservations_total",
        Shape::Counter,
        "Reservations of raffles, by outcome: reserved, paid, and abandoned as cancelled or expired. Paid by reserved is \
         the conversion.",
    ),
    ("tenure_collections", Shape::Gauge, "Collections."),
    ("tenure_items", Shape::Gauge, "Items."),
    ("tenure_journal_bytes", Shape::Gauge, "Journal on disk, in bytes."),
    ("tenure_fold_lag_batches", Shape::Gauge, "Batches committed but not yet folded into the archive."),
    ("tenure_fold_lag_seconds", Shape::Gauge, "Age of the oldest batch that is not folded yet."),
    ("tenure_redis_connected", Shape::Gauge, "Redis is there, where it is configured, by what it is for."),
    (
        "tenure_store_answers",
        Shape::Gauge,
        "The store answered in time when this page was made; else what it knows is from before.",
    ),
    (
        "tenure_tls_certificate_expires_at_seconds",
        Shape::Gauge,
        "When the server's own certificate ends, in seconds since 1970. Only where there is one.",
    ),
    ("tenure_store_failures_total", Shape::Counter, "Failures of the store that ended the engine."),
];

/// The server's figures. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    batch: Histogram,
    commit: Histogram,
    decisions: Counter,
    expiries: Counter,
    expiry_lag: Histogram,
    connections: Gauge,
    kinds: Mutex<BTreeMap<String, u64>>,
    /// For each row of the access table and each class of status, once it was needed: asking the recorder
    /// for one builds its labels.
    requests: Vec<[OnceLock<Histogram>; CLASSES.len()]>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// With every figure described and at zero.
    pub fn new() -> Self {
        let mut builder = PrometheusBuilder::new();
        for (name, shape, _) in FIGURES {
            if let Shape::Histogram(buckets) = shape {
                let matcher = Matcher::Full((*name).to_owned());
                builder =
                    builder.set_buckets_for_metric(matcher, buckets).expect("the buckets are not empty");
            }
        }
        let recorder = builder.build_recorder();
        for (name, shape, words) in FIGURES {
            let (key, unit, words) = (KeyName::from_const_str(name), unit_of(name), (*words).into());
            match shape {
                Shape::Counter => recorder.describe_counter(key, unit, words),
                Shape::Gauge => recorder.describe_gauge(key, unit, words),
                Shape::Histogram(_) => recorder.describe_histogram(key, unit, words),
            }
        }
        let histogram = |name| recorder.register_histogram(&Key::from_static_name(name), &METADATA);
        let counter = |name| recorder.register_counter(&Key::from_static_name(name), &METADATA);
        counter("tenure_store_failures_total").absolute(0);
        let (decisions, expiries) = (counter("tenure_decisions_total"), counter("tenure_expiries_total"));
        let connections = recorder.register_gauge(&Key::from_static_name("tenure_connections"), &METADATA);
        let made = Self(Arc::new(Inner {
            handle: recorder.handle(),
            batch: histogram("tenure_batch_commands"),
            commit: histogram("tenure_commit_seconds"),
            expiry_lag: histogram("tenure_expiry_lag_seconds"),
            decisions,
            expiries,
            connections,
            kinds: Mutex::default(),
            requests: TABLE.iter().map(|_| Default::default()).collect(),
            recorder,
        }));
        // Before the first one: what appears with a value has not risen, to whoever watches.
        for limit in ["connections", "connections_per_address"] {
            made.connections_refused(limit).absolute(0);
        }
        for outcome in ["reserved", "paid", "cancelled", "expired"] {
            made.reservations(outcome).absolute(0);
        }
        made
    }

    /// To be given to the engine when it starts.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(self.clone())
    }

    /// A command was refused. Requests are counted by themselves; batches and sockets count each command.
    pub fn refused(&self, code: &'static str) {
        self.counter("tenure_refusals_total", vec![Label::from_static_parts("code", code)]).increment(1);
    }

    /// A reservation of a raffle was `reserved` or `cancelled`.
    pub fn reservation(&self, outcome: &'static str) {
        self.reservations(outcome).increment(1);
    }

    fn reservations(&self, outcome: &'static str) -> Counter {
        let labels = vec![Label::from_static_parts("outcome", outcome)];
        self.counter("tenure_raffle_reservations_total", labels)
    }

    /// A stream is open as long as the guard lives. `sort` is `ws` or `sse`.
    pub fn stream(&self, sort: &'static str) -> Open {
        let gauge = self.gauge("tenure_sockets", vec![Label::from_static_parts("sort", sort)]);
        gauge.increment(1.0);
        Open(gauge)
    }

    /// A stream went on from a cursor: `replayed` or `resync`.
    pub fn resumed(&self, outcome: &'static str) {
        self.counter("tenure_resumes_total", vec![Label::from_static_parts("outcome", outcome)]).increment(1);
    }

    /// The server closed a socket.
    pub(crate) fn socket_closed(&self, reason: &'static str) {
        self.counter("tenure_socket_closes_total", vec![Label::from_static_parts("reason", reason)])
            .increment(1);
    }

    pub(crate) fn request(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        let make = || {
            let labels = vec![
                Label::new("route", route.to_owned()),
                Label::from_static_parts("method", method_of(method)),
                Label::from_static_parts("status", CLASSES[class]),
            ];
            let key = Key::from_parts("tenure_http_request_seconds", labels);
            self.0.recorder.register_histogram(&key, &METADATA)
        };
        match TABLE.iter().position(|rule| rule.method == method.as_str() && rule.path == route) {
            Some(row) => self.0.requests[row][class].get_or_init(make).record(took),
            None => make().record(took),
        }
    }

    pub(crate) fn connection(&self) -> Open {
        self.0.connections.increment(1.0);
        Open(self.0.connections.clone())
    }

    pub(crate) fn connection_refused(&self, limit: &'static str) {
        self.connections_refused(limit).increment(1);
    }

    fn connections_refused(&self, limit: &'static str) -> Counter {
        self.counter("tenure_connections_refused_total", vec![Label::from_static_parts("limit", limit)])
    }

    /// When the server's certificate ends, in seconds since 1970.
    pub(crate) fn certificate(&self, ends_at_s: i64) {
        #[expect(clippy::cast_precision_loss, reason = "exact for as long as years have four digits")]
        self.gauge("tenure_tls_certificate_expires_at_seconds", Vec::new()).set(ends_at_s as f64);
    }

    /// The page, with what can only be asked now.
    pub fn render(&self, engine: &Engine) -> String {
        let answers = self.look(engine);
        self.page(answers)
    }

    /// The page, with what was last found, and whether the store answered in time just now.
    pub(crate) fn page(&self, store_answers: bool) -> String {
        self.gauge("tenure_store_answers", Vec::new()).set(f64::from(u8::from(store_answers)));
        self.0.handle.render()
    }

    /// Asks the store, which may take its time. Where it does not answer, what was found before stays.
    pub(crate) fn look(&self, engine: &Engine) -> bool {
        if engine.reader().ready().is_err() {
            return false;
        }
        let set = |name: &'static str, value: f64| self.gauge(name, Vec::new()).set(value);
        let stats = engine.reader().stats();
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        {
            set("tenure_queue_length", engine.queued() as f64);
            set("tenure_collections", stats.collections as f64);
            set("tenure_items", stats.items as f64);
            set("tenure_journal_bytes", stats.journal_bytes as f64);
            set("tenure_fold_lag_batches", stats.fold_lag_batches as f64);
            // By the time that it is now: where nothing more is committed, what is not folded grows old all the same.
            let lag_ms = stats.unfolded_at_ms.map_or(0, |at_ms| (engine.now_ms() - at_ms).max(0));
            set("tenure_fold_lag_seconds", lag_ms as f64 / 1_000.0);
            for (kind, count) in self.count_claims(engine) {
                self.gauge("tenure_active_claims", vec![Label::new("kind", kind)]).set(count as f64);
            }
        }
        true
    }

    /// Whether Redis is there. Looked at now and then.
    pub(crate) fn redis(&self, redis: &tenure_redis::Redis) {
        for (what, state) in [("hints", redis.hints()), ("rates", redis.counts())] {
            let gauge = self.gauge("tenure_redis_connected", vec![Label::from_static_parts("for", what)]);
            gauge.set(f64::from(u8::from(state.is_there())));
        }
    }

    /// What payments have come to. Told when somebody asks.
    pub(crate) fn payments(&self, figures: &PaymentFigures) {
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        let set = |name, labels, value: u64| self.gauge(name, labels).set(value as f64);
        for (provider, begun, paid) in &figures.by_provider {
            let labels = || vec![Label::new("provider", provider.clone())];
            set("tenure_payments_started", labels(), *begun);
            set("tenure_payments_succeeded", labels(), *paid);
        }
        let paid = figures.by_provider.iter().map(|(_, _, paid)| paid).sum();
        self.reservations("paid").absolute(paid);
        set("tenure_payments_late", Vec::new(), figures.late);
        set("tenure_refunds_open", Vec::new(), figures.refunds_open);
    }

    /// Folds samples that no scrape has taken, which would otherwise pile up. Called now and then.
    pub(crate) fn upkeep(&self) {
        self.0.handle.run_upkeep();
    }

    /// A kind that has no more claims stays, at zero.
    fn count_claims(&self, engine: &Engine) -> BTreeMap<String, u64> {
        let mut kinds = self.0.kinds.lock();
        kinds.values_mut().for_each(|count| *count = 0);
        let mut filter = ClaimFilter { state: Some(ClaimState::Active), ..ClaimFilter::default() };
        let mut seen = 0;
        while seen < METRIC_CLAIMS_MAX {
            let Ok(page) = engine.reader().claims(&filter, 10_000) else { break };
            seen += page.rows.len();
            for row in &page.rows {
                let kind = row.collection.kind();
                let known = kinds.contains_key(kind) || kinds.len() < METRIC_KINDS_MAX;
                *kinds.entry(if known { kind } else { "other" }.to_owned()).or_default() += 1;
            }
            match page.rows.last() {
                Some(last) if page.more => filter.after = Some((last.collection.clone(), last.claim.number)),
                _ => break,
            }
        }
        kinds.clone()
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> Counter {
        self.0.recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    fn gauge(&self, name: &'static str, labels: Vec<Label>) -> Gauge {
        self.0.recorder.register_gauge(&Key::from_parts(name, labels), &METADATA)
    }
}

impl Observer for Metrics {
    fn turn(&self, report: &Report) {
        #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
        let (answered, lag_s) = (report.answered as f64, report.expiry_lag_ms as f64 / 1_000.0);
        if report.answered > 0 {
            self.0.batch.record(answered);
        }
        if !report.commit.is_zero() {
            self.0.commit.record(report.commit);
        }
        self.0.decisions.increment(report.committed as u64);
        if report.expired > 0 {
            self.0.expiries.increment(report.expired as u64);
            let of_raffles = report.expired_of.get(tenure_apps::raffle::KIND).copied().unwrap_or(0);
            self.reservations("expired").increment(of_raffles as u64);
            self.0.expiry_lag.record(lag_s);
        }
    }

    fn failed(&self, _error: &StoreError) {
        let key = Key::from_static_name("tenure_store_failures_total");
        self.0.recorder.register_counter(&key, &METADATA).increment(1);
    }
}

/// Something is open as long as this lives.
#[derive(Debug)]
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A method that nobody knows must not become a label: anybody can send any.
fn method_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn unit_of(name: &str) -> Option<Unit> {
    if name.ends_with("_seconds") {
        Some(Unit::Seconds)
    } else if name.ends_with("_bytes") {
        Some(Unit::Bytes)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_the_trade() {
        for (name, shape, words) in FIGURES {
            assert!(name.starts_with("tenure_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert_eq!(name.ends_with("_total"), matches!(shape, Shape::Counter), "{name}");
            assert!(words.ends_with('.'), "{name}");
            assert!(!["_ms", "_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end)), "{name}");
        }
    }
}
