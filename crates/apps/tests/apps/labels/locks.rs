//! One annotator per image.

use tenure_apps::labels::{EditImage, LockAnswer};
use tenure_apps::{LockState, Refusal, Time};
use tenure_core::{Refusal as Rule, Status};

use super::world::{COLLECTION, PROJECT, World, at};
use crate::common::{START_MS, code, keyed};

fn held_by(answer: &LockAnswer) -> (bool, &str, &str, Option<Time>, Time) {
    let LockAnswer { success, locked_by, locked_by_name, locked_at, expires_at, .. } = answer;
    (*success, locked_by, locked_by_name, *locked_at, *expires_at)
}

/// L3: a free image is locked for five minutes.
#[tokio::test]
async fn l03_a_free_image_is_locked_for_who_asks() {
    let w = World::new().await;
    let image = w.image().await;
    let answer = w.labels.acquire(&w.ana, &at(&image)).await.expect("is free").value;
    let (now, end) = (Time(START_MS), Time(START_MS + 300_000));
    assert_eq!(held_by(&answer), (true, "ana", "Ana", Some(now), end));
    assert_eq!((answer.expires_in_ms, answer.heartbeat_ms), (300_000, 120_000));
    let shown = w.shown(&image).lock;
    assert_eq!((shown.state, shown.mine, shown.expires_at), (LockState::Locked, true, Some(end)));
}

/// L3: the own lock is refreshed and keeps its beginning and its token.
#[tokio::test]
async fn l03_the_own_lock_is_refreshed() {
    let w = World::new().await;
    let image = w.image().await;
    let first = w.labels.acquire(&w.ana, &at(&image)).await.expect("is free").value;
    w.office.pass(200_000);
    let again = w.labels.acquire(&w.ana, &at(&image)).await.expect("is Ana's").value;
    assert_eq!(held_by(&again), (true, "ana", "Ana", Some(Time(START_MS)), Time(START_MS + 500_000)));
    assert_eq!(again.token, first.token);
}

/// L3: another's lock is answered with who has it, since when and until when; the lock stays as it is.
#[tokio::test]
async fn l03_anothers_lock_is_told_and_left() {
    let w = World::new().await;
    let image = w.image().await;
    w.labels.acquire(&w.ana, &at(&image)).await.expect("is free");
    w.office.pass(1_000);
    let commits = w.office.commits();
    let answer = w.labels.acquire(&w.bea, &at(&image)).await.expect("is an answer").value;
    assert_eq!(held_by(&answer), (false, "ana", "Ana", Some(Time(START_MS)), Time(START_MS + 300_000)));
    assert_eq!((answer.token, answer.expires_in_ms), (None, 299_000));
    assert_eq!(w.office.commits(), commits);
    assert!(w.shown(&image).lock.mine);
}

/// L3: of many who ask at once one gets it, and the others learn who did.
#[tokio::test]
async fn l03_of_many_who_ask_at_once_one_gets_it() {
    let w = World::new().await;
    let image = w.image().await;
    let asked = (0..50).map(|number| {
        let (labels, at) = (w.labels.clone(), at(&image));
        let actor = crate::common::person(&format!("p{number}"));
        tokio::spawn(async move { labels.acquire(&actor, &at).await.expect("is an answer").value })
    });
    let mut answers = Vec::new();
    for answer in asked.collect::<Vec<_>>() {
        answers.push(answer.await.expect("ends"));
    }
    assert_eq!(answers.iter().filter(|answer| answer.success).count(), 1);
    let winner = answers.iter().find(|answer| answer.success).expect("one");
    assert!(answers.iter().all(|answer| answer.locked_by == winner.locked_by));
}

/// L3: an archived image cannot be locked; what is not there cannot either.
#[tokio::test]
async fn l03_what_is_archived_or_unknown_is_not_locked() {
    let w = World::new().await;
    let image = w.image().await;
    let archived = EditImage { status: Status::new("archived").expect("a word") };
    w.labels.edit_image(&w.ana, PROJECT, &image, &archived).await.expect("is free");
    assert_eq!(code(&w.labels.acquire(&w.ana, &at(&image)).await), "finished");
    assert_eq!(code(&w.labels.acquire(&w.ana, &at("image-none")).await), "not_found");
    assert_eq!(code(&w.labels.acquire(&w.ana, &at("project")).await), "not_found");
    let nowhere = tenure_apps::labels::ImageAt { project_id: "nowhere".to_owned(), ..at(&image) };
    assert_eq!(code(&w.labels.acquire(&w.ana, &nowhere).await), "not_found");
}

/// L4: only the own lock is let go.
#[tokio::test]
async fn l04_only_the_own_lock_is_released() {
    let w = World::new().await;
    let image = w.image().await;
    assert_eq!(code(&w.labels.release(&w.ana, &at(&image)).await), "not_held");
    w.labels.acquire(&w.ana, &at(&image)).await.expect("is free");
    let refused = w.labels.release(&w.bea, &at(&image)).await;
    assert_eq!(code(&refused), "not_holder");
    assert!(w.shown(&image).lock.mine);
    assert!(w.labels.release(&w.ana, &at(&image)).await.expect("is Ana's").value.success);
    assert_eq!(w.shown(&image).lock.state, LockState::Free);
    assert_eq!(code(&w.labels.release(&w.bea, &at(&image)).await), "not_held");
    w.labels.acquire(&w.bea, &at(&image)).await.expect("is free again");
}

/// L4: a heartbeat renews the own lock.
#[tokio::test]
async fn l04_a_heartbeat_renews_the_own_lock() {
    let w = World::new().await;
    let image = w.image().await;
    w.labels.acquire(&w.ana, &at(&image)).await.expect("is free");
    for beat in 1..=10_i64 {
        w.office.pass(120_000);
        let answer = w.labels.heartbeat(&w.ana, &at(&image)).await.expect("is Ana's").value;
        let end = Time(START_MS + beat * 120_000 + 300_000);
        assert_eq!(held_by(&answer), (true, "ana", "Ana", Some(Time(START_MS)), end));
    }
}

/// L4: a heartbeat of who has lost the lock is told so, in whichever way it was lost; and it is told who has
/// the image now.
#[tokio::test]
async fn l04_a_heartbeat_of_a_lost_lock_is_told_so() {
    let w = World::new().await;
    let image = w.image().await;
    // Never had.
    let never = w.labels.heartbeat(&w.ana, &at(&image)).await;
    assert!(matches!(never, Err(Refusal::Lost { holder: None, .. })), "{never:?}");
    // Run out, at the deadline's own millisecond.
    w.labels.acquire(&w.ana, &at(&image)).await.expect("is free");
    w.office.pass(300_000);
    let over = w.labels.heartbeat(&w.ana, &at(&image)).await;
    let rule = over.as_ref().expect_err("is over").rule();
    assert!(matches!(rule, Some(Rule::Lost { .. })), "{over:?}");
    assert_eq!(code(&over), "lost");
    // Another's by now.
    w.labels.acquire(&w.bea, &at(&image)).await.expect("is free again");
    let taken = w.labels.heartbeat(&w.ana, &at(&image)).await;
    assert!(matches!(&taken, Err(Refusal::Lost { holder: Some(bea), .. }) if bea.id == "bea"), "{taken:?}");
    assert_eq!(code(&taken), "lost");
    // Another's, and over again.
    w.office.pass(300_000);
    let over = w.labels.heartbeat(&w.ana, &at(&image)).await;
    assert!(matches!(over, Err(Refusal::Lost { holder: None, .. })), "{over:?}");
}

/// L4, T16: a lock that an administrator freed is lost.
#[tokio::test]
async fn l04_a_freed_lock_is_lost() {
    use tenure_core::{CollectionKey, Command, ItemId, Principal, Verb};
    let w = World::new().await;
    let image = w.image().await;
    w.labels.acquire(&w.ana, &at(&image)).await.expect("is free");
    let command = Command {
        collection: CollectionKey::new(COLLECTION).expect("a key"),
        actor: Principal::new("root", "Root").expect("a person"),
        verb: Verb::ForceRelease { item: ItemId::new(&*image).expect("an id"), reason: "she left".into() },
    };
    w.office.engine.execute(command).await.outcome.expect("is freed");
    assert_eq!(code(&w.labels.heartbeat(&w.ana, &at(&image)).await), "lost");
}

/// L5: who has which image, without those whose time is up, swept or not.
#[tokio::test]
async fn l05_the_locks_of_a_project_are_those_that_hold() {
    let w = World::new().await;
    let mut images = [w.image().await, w.image().await, w.image().await];
    images.sort_unstable();
    let [one, two, three] = images;
    assert!(w.labels.locks(PROJECT).await.expect("is read").is_empty());
    w.labels.acquire(&w.ana, &at(&one)).await.expect("is free");
    w.office.pass(100_000);
    w.labels.acquire(&w.bea, &at(&two)).await.expect("is free");
    w.labels.acquire(&w.bea, &at(&three)).await.expect("is free");
    w.labels.release(&w.bea, &at(&three)).await.expect("is Bea's");
    let locks = w.labels.locks(PROJECT).await.expect("is read");
    assert_eq!(locks.keys().collect::<Vec<_>>(), [&one, &two]);
    let anas = &locks[&one];
    assert_eq!((anas.user_id.as_str(), anas.user_name.as_str()), ("ana", "Ana"));
    assert_eq!((anas.locked_at, anas.expires_at), (Time(START_MS), Time(START_MS + 300_000)));
    w.office.pass(200_000);
    let locks = w.labels.locks(PROJECT).await.expect("is read");
    assert_eq!(locks.keys().collect::<Vec<_>>(), [&two]);
    w.office.pass(100_000);
    assert!(w.labels.locks(PROJECT).await.expect("is read").is_empty());
    assert_eq!(code(&w.labels.locks("nowhere").await), "not_found");
}

/// E4: a retried lock is the first decision, also where that was a no.
#[tokio::test]
async fn e04_a_retried_lock_gets_the_first_answer() {
    let w = World::new().await;
    let image = w.image().await;
    w.labels.acquire(&w.bea, &at(&image)).await.expect("is free");
    let ana = keyed(&w.ana, "lock-1");
    assert!(!w.labels.acquire(&ana, &at(&image)).await.expect("is an answer").value.success);
    w.labels.release(&w.bea, &at(&image)).await.expect("is Bea's");
    let again = w.labels.acquire(&ana, &at(&image)).await.expect("is an answer").value;
    assert_eq!((again.success, again.locked_by.as_str()), (false, "bea"));
}
