//! Ten thousand spoiled requests through everything that a request passes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};
use tenure_server::TABLE;

use crate::inputs;
use crate::judge;
use crate::random::Random;
use crate::spoil::{Spoiled, spoil};
use crate::templates::templates;
use crate::world::{Reply, World};

const SEED: u64 = 7;

/// `None` where not even hyper would take it; the wire's tests send such.
fn request(spoiled: &Spoiled) -> Option<Request<Body>> {
    let mut request = Request::new(Body::from(spoiled.body.clone()));
    *request.method_mut() = Method::from_bytes(spoiled.method.as_bytes()).ok()?;
    *request.uri_mut() = spoiled.target.parse().ok()?;
    for (name, value) in &spoiled.headers {
        request.headers_mut().append(*name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(request)
}

fn judged(spoiled: &Spoiled, reply: &Reply) -> Result<(), String> {
    if spoiled.is_batch && reply.status == 200 {
        return judge::batch(&reply.text);
    }
    let header = |name: &str| reply.headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    if header("content-type") != b"application/problem+json" {
        return Err(format!("answered {} as no problem", reply.status));
    }
    if header("cache-control") != b"no-store" || header("x-request-id").is_empty() {
        return Err("a header is missing".to_owned());
    }
    // Its own id is a random number and can spell anything.
    for (_, value) in reply.headers.iter().filter(|(name, _)| *name != "x-request-id") {
        judge::told(&String::from_utf8_lossy(value.as_bytes()))?;
    }
    judge::problem(u64::from(reply.status), &reply.text)
}

#[tokio::test]
async fn every_route_has_a_request_that_works_until_it_is_spoiled() {
    let known = World::new().await.known;
    let all = templates(&known);
    let tried: BTreeSet<_> = all.iter().map(|template| (template.method, template.route)).collect();
    assert_eq!(tried, TABLE.iter().map(|rule| (rule.method, rule.path)).collect());
    for index in 0..all.len() {
        let world = World::new().await;
        let template = &templates(&world.known)[index];
        let reply = world.send(request(&Spoiled::new(template)).expect("a request")).await;
        let expected = if template.route.ends_with("/ws") { 426 } else { 200 };
        assert!(reply.status / 100 == expected / 100, "{} {}: {reply:?}", template.method, template.path());
        if template.is_batch {
            assert!(!reply.text.contains("problems"), "{}", reply.text);
        }
    }
}

/// E9: bad input is refused clearly, changes nothing, breaks nothing, tells nothing.
#[tokio::test]
async fn ten_thousand_spoiled_requests_are_refused_and_change_nothing() {
    let world = World::new().await;
    let all = templates(&world.known);
    let with_body: Vec<_> = all.iter().filter(|template| template.body.is_some()).collect();
    let before = world.state();
    let mut random = Random(SEED);
    let mut ways: BTreeMap<(&str, u16), usize> = BTreeMap::new();
    let mut bad: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let (mut sent, mut unsendable) = (0, 0);
    while sent < inputs() {
        let template = if sent % 2 == 0 { &all[sent / 2 % all.len()] } else { random.one(&with_body) };
        let spoiled = spoil(template, &mut random);
        let Some(request) = request(&spoiled) else {
            unsendable += 1;
            assert!(unsendable < inputs(), "hardly any can be sent");
            continue;
        };
        sent += 1;
        let answered = tokio::time::timeout(Duration::from_secs(20), world.send(request)).await;
        let reply = answered.unwrap_or_else(|_| panic!("no answer to {}", shown(&spoiled)));
        *ways.entry((spoiled.how, reply.status)).or_default() += 1;
        let mut verdict = judged(&spoiled, &reply);
        if matches!(spoiled.how, "a wrong type" | "a wrong number")
            && reply.text.contains(r#""field":"body""#)
        {
            verdict = Err("the field is not named".to_owned());
        }
        if bad.is_empty() && sent % 50 == 0 && world.state() != before {
            verdict = Err("one of the last fifty changed something".to_owned());
        }
        if let Err(why) = verdict {
            let text = format!("{} → {}", shown(&spoiled), reply.text);
            bad.entry(format!("{}: {why}", spoiled.how)).or_insert((0, text)).0 += 1;
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(world.state(), before);
    // The seed reaches every way, and hardly any way is refused for one reason only.
    let reached: BTreeSet<_> = ways.keys().map(|(how, _)| how).collect();
    assert_eq!(reached.len(), 27, "{ways:#?}");
}

fn shown(spoiled: &Spoiled) -> String {
    let body = String::from_utf8_lossy(&spoiled.body);
    let body: String = body.chars().take(300).collect();
    let headers: Vec<_> = spoiled
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {:.60}", String::from_utf8_lossy(value)))
        .collect();
    format!("{} {:.300} {headers:?} {body}", spoiled.method, spoiled.target)
}
