//! When two answers are the same. Words meant for people and the chain's hash are left out: the one
//! may change freely, the other is judged by itself.

use tenure_core::{Refusal, Reply};
use tenure_engine::Refused;

/// The answer is the expected one.
pub(crate) fn same_reply(expected: &Result<Reply, Refusal>, answer: &Result<Reply, Refused>) -> bool {
    match (expected, answer) {
        (Ok(expected), Ok(reply)) => same(expected, reply),
        (Err(expected), Err(Refused::Rule(refusal))) => same_refusal(expected, refusal),
        _ => false,
    }
}

fn same(expected: &Reply, reply: &Reply) -> bool {
    match (expected, reply) {
        (Reply::Collection { collection: a, created: was }, Reply::Collection { collection: b, created }) => {
            (a.seq, a.created_at_ms, was) == (b.seq, b.created_at_ms, created)
        }
        (Reply::Group(a), Reply::Group(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(expected, reply)| same(expected, reply))
        }
        _ => expected == reply,
    }
}

fn same_refusal(expected: &Refusal, refusal: &Refusal) -> bool {
    match (expected, refusal) {
        (Refusal::Invalid { field: a, .. }, Refusal::Invalid { field: b, .. }) => a == b,
        (Refusal::InGroup { index: i, refusal: a }, Refusal::InGroup { index: j, refusal: b }) => {
            i == j && same_refusal(a, b)
        }
        _ => expected == refusal,
    }
}
