//! What an administrator overrides, what one who waits can ask, and what is logged and audited.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_apps::tasks::COLLECTION;
use tenure_core::{EndReason, Event, Fact};
use tracing_subscriber::fmt::MakeWriter;

use super::world::{World, bring};
use crate::common::{code, person};

fn find(w: &World, action: &str) -> Vec<Event> {
    w.office.events(COLLECTION).into_iter().filter(|event| event.fact.action() == action).collect()
}

/// T16: force-release frees it whoever holds it, is idempotent and audited.
#[tokio::test]
async fn t16_force_release_frees_it_once_and_is_audited() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    w.office.pass(5);
    let task = w.tasks.force_release(&w.root, &id, &"Ana went home".into()).await.expect("frees").value;
    assert_eq!(task.lock, tenure_apps::Lock::FREE);
    assert_eq!(code(&w.tasks.force_release(&w.root, &id, &"again".into()).await), "ok");
    let audited = find(&w, "LOCK_FORCE_RELEASE");
    assert_eq!(audited.len(), 1, "freeing what is free is nothing to record");
    let Fact::Ended(end) = &audited[0].fact else { panic!("{audited:?}") };
    assert_eq!((&*audited[0].actor.id, &*end.holder.id), ("root", "ana"));
    assert_eq!(end.note.as_deref(), Some("Ana went home"));
    assert_eq!((audited[0].at_ms, end.reason), (w.office.desk.now_ms(), EndReason::ForceReleased));
    assert_eq!(code(&w.tasks.force_release(&w.root, &id, &" ".into()).await), "invalid");
}

/// T17: force-claim takes or renews it for the administrator, and is audited.
#[tokio::test]
async fn t17_force_claim_takes_it_and_is_audited() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    let task = w.tasks.force_claim(&w.root, &id, &"urgent".into()).await.expect("takes").value;
    assert_eq!(task.lock.locked_by.expect("is locked").id, "root");
    assert!(task.lock.mine);
    w.office.pass(60_000);
    let task = w.tasks.force_claim(&w.root, &id, &"more time".into()).await.expect("renews").value;
    assert_eq!(task.lock.expires_in_ms, Some(180_000));
    let audited = find(&w, "LOCK_FORCE_CLAIM");
    assert_eq!(audited.len(), 2);
    let Fact::Granted(grant) = &audited[0].fact else { panic!("{audited:?}") };
    let forced = grant.forced.as_ref().expect("was forced");
    assert_eq!(&*forced.reason, "urgent");
    assert_eq!(forced.previous.as_ref().map(|previous| &*previous.id), Some("ana"));
    assert_eq!(code(&w.tasks.validate_line(&w.ana, &id, "1").await), "held", "she can do no harm");
    let draft = w.draft(Vec::new()).await;
    assert_eq!(code(&w.tasks.force_claim(&w.root, &draft, &"why".into()).await), "not_claimable");
}

/// T18: one who waits can ask the holder to let go; it changes no lock.
#[tokio::test]
async fn t18_a_request_for_release_is_told_and_changes_nothing() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    let before = w.task(&id).lock;
    let words = Some("the lorry is here".into());
    let task = w.tasks.request_release(&w.bea, &id, words).await.expect("is told").value;
    assert_eq!((task.lock.locked_by, task.lock.expires_at), (before.locked_by.clone(), before.expires_at));
    assert_eq!(w.task(&id).lock, before);
    let told = find(&w, "release_requested");
    let Fact::Nudged { message, .. } = &told[0].fact else { panic!("{told:?}") };
    assert_eq!((&*told[0].actor.id, message.as_deref()), ("bea", Some("the lorry is here")));
    w.tasks.leave(&w.ana, &id).await.expect("is hers");
    assert_eq!(code(&w.tasks.request_release(&w.bea, &id, None).await), "not_held");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// T22, T11: grants, denials, denied heartbeats, releases and overrides are logged with actor and task.
#[tokio::test]
async fn t22_locks_are_logged_with_actor_and_task() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    // For the whole process: one that is a thread's own misses what other threads were the first to reach.
    tracing::subscriber::set_global_default(subscriber).expect("no other test listens");
    let w = World::new();
    let id = w.ready(Vec::new()).await;
    let reason = "because".into();
    drop(w.tasks.process(&w.ana, &id).await);
    drop(w.tasks.process(&w.bea, &id).await);
    drop(w.tasks.process(&person("vera"), &id).await);
    drop(w.tasks.heartbeat(&w.ana, &id, Some(0)).await);
    drop(w.tasks.heartbeat(&w.bea, &id, Some(0)).await);
    drop(w.tasks.leave(&w.ana, &id).await);
    drop(w.tasks.force_claim(&w.root, &id, &reason).await);
    drop(w.tasks.force_release(&w.root, &id, &reason).await);
    let text = String::from_utf8(log.0.lock().clone()).expect("UTF-8");
    let told: Vec<_> = text
        .lines()
        .filter(|line| line.contains(&format!("task=\"{id}\"")))
        .map(|line| {
            let field = |name: &str| {
                let rest = line.split(&format!("{name}=\"")).nth(1);
                rest.and_then(|rest| rest.split('"').next()).unwrap_or("").to_owned()
            };
            (field("actor"), field("action"), field("code"))
        })
        .collect();
    let told: Vec<_> = told.iter().map(|(who, what, code)| (&**who, &**what, &**code)).collect();
    assert_eq!(
        told,
        [
            ("ana", "process", ""),
            ("bea", "process", "held"),
            ("vera", "process", "forbidden"),
            ("bea", "heartbeat", "not_holder"),
            ("ana", "leave", ""),
            ("root", "force-claim", ""),
            ("root", "force-release", ""),
        ]
    );
}
