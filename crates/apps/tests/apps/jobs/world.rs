//! Short words for jobs: a runner that waits until it is told to end, and a pace that is moved with the
//! clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_apps::jobs::{
    Analysis, COLLECTION, Delivery, Failure, Finish, Job, Jobs, NewAnalysis, NotAcquired, Outcome, Pace,
    Runner, Running, Stop, Workshop,
};
use tenure_apps::{Actor, Done, LockState, Refusal};
use tenure_core::{Json, SessionId, Status};
use tokio::sync::{Semaphore, watch};

use crate::common::{Office, person};

/// The kind's preset.
pub(crate) const TTL_MS: i64 = 300_000;
pub(crate) const BEAT_MS: i64 = 60_000;

/// A runner whose runs end when the test says so.
#[derive(Clone, Debug)]
pub(crate) struct Bench(Arc<Runs>);

#[derive(Debug)]
struct Runs {
    begun: AtomicUsize,
    stopped: AtomicUsize,
    ends: Semaphore,
    tokens: parking_lot::Mutex<Vec<u64>>,
}

impl Default for Bench {
    fn default() -> Self {
        let (begun, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Runs { begun, stopped, ends: Semaphore::new(0), tokens: Vec::new().into() }))
    }
}

impl Bench {
    /// How many runs have begun.
    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(Ordering::SeqCst)
    }

    /// How many of them were told to stop.
    pub(crate) fn stopped(&self) -> usize {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// The tokens under which they began.
    pub(crate) fn tokens(&self) -> Vec<u64> {
        self.0.tokens.lock().clone()
    }

    /// So many runs end.
    pub(crate) fn end(&self, runs: usize) {
        self.0.ends.add_permits(runs);
    }
}

impl Runner for Bench {
    fn run(&self, job: Job, mut stop: Stop) -> Running {
        let runs = self.0.clone();
        runs.tokens.lock().push(job.token);
        runs.begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::select! {
                end = runs.ends.acquire() => end.expect("is open").forget(),
                () = stop.asked() => {
                    runs.stopped.fetch_add(1, Ordering::SeqCst);
                    return Err(Failure::new("stopped", "too late"));
                }
            }
            match &*job.input {
                "panic" => panic!("a runner's own mistake"),
                "fail" => Err(Failure::new("exit", "exit code 3")),
                "away" if runs.begun.load(Ordering::SeqCst) == 1 => {
                    Err(Failure::passing("unreachable", "is away"))
                }
                "deep" => {
                    Ok(Json::parse(&format!("{}{}", "[".repeat(127), "]".repeat(127)), "x").expect("JSON"))
                }
                "huge" => Ok(Json::of(&"x".repeat(20_000)).expect("JSON")),
                input => Ok(Json::of(&json!({"echo": input, "token": job.token})).expect("JSON")),
            }
        })
    }
}

/// Pauses that end when the test has moved the time far enough.
#[derive(Clone, Debug)]
pub(crate) struct HandPace(watch::Sender<(i64, usize)>);

impl Pace for HandPace {
    fn pause(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut moved = self.0.subscribe();
            let until = moved.borrow().0 + i64::try_from(time.as_millis()).expect("short");
            self.0.send_modify(|(_, waiting)| *waiting += 1);
            moved.wait_for(|(now, _)| *now >= until).await.expect("the pace is there");
            self.0.send_modify(|(_, waiting)| *waiting -= 1);
        })
    }
}

pub(crate) struct World {
    pub(crate) office: Office,
    pub(crate) jobs: Jobs,
    pub(crate) bench: Bench,
    pub(crate) wes: Actor,
    pub(crate) pace: HandPace,
    workshop: Workshop,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::in_office(Office::new(), Bench::default(), 16)
    }

    pub(crate) fn with_room(at_once: usize) -> Self {
        Self::in_office(Office::new(), Bench::default(), at_once)
    }

    fn in_office(office: Office, bench: Bench, at_once: usize) -> Self {
        let pace = HandPace(watch::Sender::new((0, 0)));
        let workshop = Workshop::new(bench.clone(), at_once).at_pace(pace.clone());
        let jobs = Jobs::new(office.desk.clone(), workshop.clone());
        Self { jobs, office, bench, wes: person("wes"), pace, workshop }
    }

    /// A new process on what was kept; its runs begin from nothing.
    pub(crate) fn restart(self) -> Self {
        let Self { office, jobs, .. } = self;
        drop(jobs);
        Self::in_office(office.restart(), Bench::default(), 16)
    }

    /// A queued analysis.
    pub(crate) async fn queued(&self, id: &str, input: &str) {
        let new = NewAnalysis { id: Some(id.to_owned()), input: input.to_owned() };
        self.jobs.create(&self.wes, new).await.expect("is queued");
    }

    /// The server stops, and gives what runs no time.
    pub(crate) async fn close(&self) {
        self.workshop.close(Duration::ZERO).await;
    }

    /// A delivery on its own.
    pub(crate) fn deliver(&self, id: &str) -> tokio::task::JoinHandle<Result<Done<Delivery>, Refusal>> {
        let (jobs, actor, id) = (self.jobs.clone(), self.wes.clone(), id.to_owned());
        tokio::spawn(async move { jobs.deliver(&actor, &id).await })
    }

    /// The owner gets the lock; its token.
    pub(crate) async fn locked(&self, id: &str, by: &str) -> u64 {
        let locked = self.jobs.lock(&self.wes, id, &owner(by), None).await.expect("is asked").value;
        assert!(locked.acquired, "{locked:?}");
        locked.token.expect("a token")
    }

    /// Whether the owner gets the lock, or why not.
    pub(crate) async fn lock(&self, id: &str, by: &str) -> Result<u64, NotAcquired> {
        let locked = self.jobs.lock(&self.wes, id, &owner(by), None).await.expect("is asked").value;
        locked.token.ok_or_else(|| locked.reason.expect("a reason"))
    }

    pub(crate) fn analysis(&self, id: &str) -> Analysis {
        self.jobs.get(&self.wes, id).expect("is there")
    }

    pub(crate) fn status(&self, id: &str) -> String {
        self.analysis(id).status.to_string()
    }

    /// Who runs it, by owner.
    pub(crate) fn owner(&self, id: &str) -> Option<String> {
        let hold = self.analysis(id).lock;
        assert_eq!(hold.lock.state == LockState::Locked, hold.owner.is_some());
        hold.owner
    }

    /// Time passes, also for those who pause.
    pub(crate) fn pass(&self, by_ms: i64) {
        self.office.pass(by_ms);
        self.pace.0.send_modify(|(now, _)| *now += by_ms);
    }

    /// So many runs are under way, each between two heartbeats.
    pub(crate) async fn running(&self, runs: usize) {
        until("the runs begin and pause", || self.bench.begun() >= runs && self.pace.0.borrow().1 >= 1).await;
    }

    /// Events of the collection, as the audit log names them.
    pub(crate) fn actions(&self) -> Vec<&'static str> {
        self.office.actions(COLLECTION)
    }
}

pub(crate) fn owner(name: &str) -> SessionId {
    SessionId::new(name).expect("a test's owner")
}

pub(crate) fn ready(token: u64) -> Finish {
    Finish { token, result: Some(Json::of(&json!({"by": token})).expect("JSON")), error: None }
}

pub(crate) fn delivery(outcome: Outcome, reason: Option<NotAcquired>, status: &str) -> Delivery {
    Delivery { outcome, reason, status: Status::new(status).expect("a test's status") }
}

/// Lets the others work until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::task::yield_now().await;
    }
}
