//! Results of workers of one's own.

use serde_json::json;
use tenure_apps::Refusal;
use tenure_apps::jobs::{Failure, Finish};
use tenure_core::Json;

use super::world::{TTL_MS, World, ready};
use crate::common::{code, person};

/// J8: result, status and release in one commit.
#[tokio::test]
async fn j08_a_result_ends_the_lock_in_the_same_commit() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    let before = w.actions().len();
    let analysis = w.jobs.complete(&w.wes, "a", ready(token)).await.expect("is ours").value;
    assert_eq!((analysis.status.as_str(), analysis.lock.owner), ("READY", None));
    assert_eq!(w.actions()[before..], ["claim_completed"]);
}

/// J8: an old token is refused, whoever holds the lock now, and nothing is written.
#[tokio::test]
async fn j08_a_result_with_an_old_token_is_refused() {
    let w = World::new();
    w.queued("a", "text").await;
    assert_eq!(code(&w.jobs.complete(&w.wes, "a", ready(1)).await), "not_held");
    let old = w.locked("a", "w-1").await;
    w.pass(TTL_MS);
    assert_eq!(code(&w.jobs.complete(&w.wes, "a", ready(old)).await), "lost");
    let new = w.locked("a", "w-2").await;
    // The same key, so the same principal: it is the token alone that tells the two apart.
    assert_eq!(code(&w.jobs.complete(&w.wes, "a", ready(old)).await), "stale_token");
    assert_eq!(code(&w.jobs.complete(&w.wes, "a", ready(new + 1)).await), "stale_token");
    assert_eq!(code(&w.jobs.complete(&person("xe"), "a", ready(new)).await), "not_holder");
    assert_eq!((w.status("a").as_str(), w.analysis("a").result), ("RUNNING", None));
    w.jobs.complete(&w.wes, "a", ready(new)).await.expect("is the newest");
    assert_eq!(code(&w.jobs.complete(&w.wes, "a", ready(old)).await), "lost");
    assert_eq!(w.analysis("a").result.expect("a result").as_str(), format!(r#"{{"by":{new}}}"#));
}

/// What is too large or says nothing is refused with the field, and the lock stays.
#[tokio::test]
async fn a_result_that_cannot_be_kept_is_refused_with_the_field() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    let json = |value| Json::of(&value).expect("JSON");
    let failure = |reason: &str, message: String| {
        let mut failure = Failure::new("x", "");
        (failure.reason, failure.message) = (reason.to_owned(), message);
        failure
    };
    let wrong = [
        (None, None, "result"),
        (Some(json(json!(1))), Some(failure("exit", String::new())), "error"),
        (Some(json(json!("x".repeat(16 * 1024)))), None, "result"),
        (None, Some(failure("Exit code", String::new())), "error.reason"),
        (None, Some(failure("exit", "x".repeat(2_001))), "error.message"),
        (None, Some(failure("exit", "\u{7}".to_owned())), "error.message"),
    ];
    for (result, error, field) in wrong {
        let refused =
            w.jobs.complete(&w.wes, "a", Finish { token, result, error }).await.expect_err("is wrong");
        assert!(matches!(&refused, Refusal::Invalid { field: wrong, .. } if wrong == field), "{refused:?}");
    }
    assert_eq!(w.owner("a").as_deref(), Some("w-1"));
    let largest = Some(json(json!("x".repeat(16 * 1024 - 2))));
    w.jobs.complete(&w.wes, "a", Finish { token, result: largest, error: None }).await.expect("fits");
}

/// The largest input and the largest result fit one document together.
#[tokio::test]
async fn the_largest_input_and_result_fit_together() {
    let w = World::new();
    w.queued("a", &"\u{1}".repeat(40 * 1024 / 6 - 1)).await;
    let token = w.locked("a", "w-1").await;
    let result = Some(Json::of(&"\"".repeat(8 * 1024 - 1)).expect("JSON"));
    w.jobs.complete(&w.wes, "a", Finish { token, result, error: None }).await.expect("fits");
    w.queued("b", &"é".repeat(20 * 1024 - 1)).await;
    let token = w.locked("b", "w-1").await;
    let error = Some(Failure::new(&"x".repeat(64), &"\"\n".repeat(1_000)));
    w.jobs.complete(&w.wes, "b", Finish { token, result: None, error }).await.expect("fits");
}
