//! What must be true when the crowd has gone, from the raffle's own record, the payments and the gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_core::{ClaimState, CollectionKey, EndReason, Event, Fact};
use tenure_store::EventPage;

use crate::client::{ADMIN, Running};
use crate::mixed::Crowd;
use crate::watchers::Heard;

const PRICE_MINOR: i64 = 100_000;
/// States from which something may still come.
const OPEN: &[&str] =
    &["created", "requires_action", "processing", "unknown", "pending_review", "conflicted"];
/// Money that somebody gets back, or has got back: it is on record.
const OWED: &[&str] = &["paid_unassigned", "refund_pending", "refund_failed", "refunded"];

pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    pub(crate) p95: Duration,
    pub(crate) worst: Duration,
}

pub(crate) fn percentiles(times: &mut [Duration]) -> Percentiles {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    Percentiles { p50: at(50), p95: at(95), worst: at(100) }
}

/// What the raffle's events say.
struct Record {
    /// Who has bought each number.
    sold: BTreeMap<String, String>,
    /// How reservations ended.
    ends: BTreeMap<String, usize>,
    /// The event that gave a reservation its numbers first.
    granted: BTreeMap<String, u64>,
}

/// Walks all events: no number is in two hands, and none is sold twice.
fn record(server: &Running) -> Record {
    let key = CollectionKey::new("raffle/navidad").unwrap();
    let EventPage::Events(events) = server.engine.reader().events(&key, 0, usize::MAX).unwrap() else {
        panic!("all events are retained");
    };
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    let mut record = Record { sold: BTreeMap::new(), ends: BTreeMap::new(), granted: BTreeMap::new() };
    for sealed in &events {
        let Event { seq, fact, .. } = &sealed.event;
        match fact {
            Fact::Granted(grant) => {
                for item in &grant.items {
                    assert!(!record.sold.contains_key(item.id.as_str()), "{seq}: {} is sold", item.id);
                    let before = held.insert(item.id.to_string(), *seq);
                    assert_eq!(before, None, "{seq}: {} is in two hands", item.id);
                }
                let link: Value = grant.data.as_ref().unwrap().read().unwrap();
                let name = link["reservation"].as_str().unwrap().strip_prefix("reservation-").unwrap();
                record.granted.entry(format!("navidad~{name}")).or_insert(*seq);
            }
            Fact::Ended(end) => {
                for item in end.items.iter() {
                    assert_eq!(held.remove(item.as_str()), Some(end.claim));
                }
                for completed in &end.writes {
                    assert_eq!(end.reason.state(), ClaimState::Completed);
                    let before =
                        record.sold.insert(completed.write.id.to_string(), end.holder.id.to_string());
                    assert_eq!(before, None, "{seq}: {} is sold twice", completed.write.id);
                }
                *record.ends.entry(format!("{:?}", end.reason)).or_default() += 1;
            }
            _ => {}
        }
    }
    assert!(held.is_empty(), "nothing is held when everybody is gone: {held:?}");
    record
}

/// Checks everything, and prints what it came to.
pub(crate) async fn check(crowd: &Crowd, heard: &[Heard]) {
    let server = &crowd.server;
    let record = record(server);
    let sold = i64::try_from(record.sold.len()).unwrap();
    let raffle = crowd.admin("GET", "/raffles/navidad", &json!({})).await;
    assert_eq!(raffle["counts"], json!({"available": 100 - sold, "reserved": 0, "sold": sold}));
    let payments = crowd.payments(None).await;
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for payment in &payments {
        let (provider, state) = (payment["provider"].as_str().unwrap(), payment["state"].as_str().unwrap());
        assert!(!OPEN.contains(&state), "it never ended: {payment}");
        *states.entry(format!("{provider} {state}")).or_default() += 1;
    }
    println!("R20: {sold} numbers sold; reservations {:?}; payments {states:?}", record.ends);
    check_money(crowd, &payments, sold);
    for end in [EndReason::Completed, EndReason::Cancelled, EndReason::Expired] {
        assert!(record.ends.contains_key(&format!("{end:?}")), "nobody's reservation was {end:?}");
    }
    for wanted in [
        "bac_credomatic succeeded",
        "bac_credomatic failed",
        "bac_credomatic expired",
        "bac_credomatic refunded",
        "sinpe_movil succeeded",
        "sinpe_movil failed",
        "sinpe_movil canceled",
        "sinpe_movil refund_pending",
    ] {
        assert!(states.contains_key(wanted), "no payment was {wanted}: {states:?}");
    }
    check_figures(crowd, &record, &states).await;
    check_heard(crowd, &record, heard);
    give_back(crowd).await;
}

/// The money that was kept is the price of what is sold, and whatever else was paid has a refund on record.
fn check_money(crowd: &Crowd, payments: &[Value], sold: i64) {
    let sum = |keep: &dyn Fn(&Value) -> bool| -> i64 {
        let kept = payments.iter().filter(|payment| keep(payment));
        kept.map(|payment| payment["paid"]["minor"].as_i64().unwrap_or(0)).sum()
    };
    let is = |payment: &Value, states: &[&str]| states.iter().any(|state| payment["state"] == **state);
    let is_card = |payment: &Value| payment["provider"] == "bac_credomatic";
    assert_eq!(
        sum(&|payment| is(payment, &["succeeded"])),
        PRICE_MINOR * sold,
        "the money is that of what is sold"
    );
    // The gateway's own books: what it kept is what was sold by card, and what it gave back is on record here.
    let kept = sum(&|payment| is_card(payment) && is(payment, &["succeeded"]));
    let owed = sum(&|payment| {
        is_card(payment) && is(payment, &["refund_pending", "refund_failed", "paid_unassigned"])
    });
    assert_eq!(crowd.fake.taken_minor(), kept + owed, "what the gateway kept");
    let given = sum(&|payment| is_card(payment) && is(payment, &["refunded"]));
    assert_eq!(crowd.fake.refunds().iter().sum::<i64>(), given, "what the gateway gave back");
    for payment in payments.iter().filter(|payment| !payment["paid"].is_null()) {
        assert!(is(payment, &["succeeded"]) || is(payment, OWED), "paid for nothing: {payment}");
    }
}

/// The operator's figures are what happened: conversion, also by provider, what was abandoned, what came late.
async fn check_figures(crowd: &Crowd, record: &Record, states: &BTreeMap<String, usize>) {
    let (status, _) = crowd.server.http(ADMIN, "GET", "/metrics", &json!({})).await;
    assert_eq!(status, 200);
    let is = |line: &str, count: usize| {
        let figure = crowd.server.figure(line);
        assert_eq!(figure.to_string(), count.to_string(), "{line}");
    };
    let of = |end: EndReason| record.ends[&format!("{end:?}")];
    let reservations = |outcome: &str| format!("tenure_raffle_reservations_total{{outcome=\"{outcome}\"}}");
    is(&reservations("reserved"), crowd.begun.lock().len());
    is(&reservations("paid"), of(EndReason::Completed));
    is(&reservations("expired"), of(EndReason::Expired));
    let cancelled = crowd.server.figure(&reservations("cancelled"));
    assert!(cancelled >= 1.0, "{cancelled}");
    for provider in ["bac_credomatic", "sinpe_movil"] {
        let all = states.iter().filter(|(name, _)| name.starts_with(provider)).map(|(_, count)| count);
        is(&format!("tenure_payments_started{{provider=\"{provider}\"}}"), all.sum());
        let succeeded = states[&format!("{provider} succeeded")];
        is(&format!("tenure_payments_succeeded{{provider=\"{provider}\"}}"), succeeded);
    }
    let owed = states.iter().filter(|(name, _)| name.ends_with("refund_pending")).map(|(_, count)| count);
    is("tenure_refunds_open", owed.sum());
    is("tenure_payments_late", usize::try_from(crowd.server.app.payments().figures().late).unwrap());
}

/// Every page heard of every reservation; how soon after it was asked for, is printed.
fn check_heard(crowd: &Crowd, record: &Record, heard: &[Heard]) {
    let begun = crowd.begun.lock();
    let mut times = Vec::new();
    for (reservation, begun) in &*begun {
        let seq = record.granted[reservation];
        for page in heard {
            let at = page.get(&seq).unwrap_or_else(|| panic!("a page did not hear of {reservation}"));
            times.push(at.duration_since(*begun));
        }
    }
    let Percentiles { p50, p95, worst } = percentiles(&mut times);
    println!(
        "R21: request to receipt of {} reservations on {} pages in the crowd: p50 {p50:?}, p95 {p95:?}, worst {worst:?}",
        begun.len(),
        heard.len()
    );
}

/// The operator sees what is owed, gives it back by hand, and then nothing is owed.
async fn give_back(crowd: &Crowd) {
    let open = crowd.payments(Some("refund_pending")).await;
    let figure = || crowd.server.app.payments().figures().refunds_open;
    assert_eq!(figure(), open.len() as u64, "refunds are open");
    for payment in open {
        let id = payment["id"].as_str().unwrap();
        let sent = json!({"sent_reference": "2026-01"});
        let given = crowd.admin("POST", &format!("/admin/payments/{id}/refund"), &sent).await;
        assert_eq!(given["state"], "refunded");
    }
    assert_eq!(figure(), 0, "nothing is owed");
}
