//! A claim that is held: renewed by a task of its own, and aware of when it must no longer be counted on.
//!
//! ```text
//!              heartbeat fails                server says so, or the safe deadline passes
//!      Held  ────────────────▶  Uncertain  ────────────────────────────────────────────▶  Lost
//!       ▲  ◀────────────────                                                               ▲
//!       │   heartbeat succeeds                                                             │
//!       └──────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The safe deadline: the server counts from the moment at which it decided, which came after the moment at
//! which the request was sent. Counting the same time from before the request, less a margin for clocks
//! that run at different speeds, ends earlier than the server does.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use parking_lot::Mutex as Lock;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinHandle;

use crate::clock::{Moment, jittered};
use crate::http::{Call, Http, part};
use crate::types::{Beat, ClaimInfo};
use crate::{Error, Lost, Watch, Watched};

/// The margin is a hundredth of the time, and at least this.
const MARGIN_MIN: Duration = Duration::from_millis(50);
/// The first pause after a heartbeat that failed, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// No heartbeats in quicker succession than this.
const BEAT_MIN: Duration = Duration::from_millis(100);
/// The time that a release on drop may take.
const DROP_TIME: Duration = Duration::from_secs(5);

/// What is known about a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The server said so last.
    Held,
    /// The last heartbeat failed. It is ours until the safe deadline, but may not be renewed again.
    Uncertain,
    /// It must no longer be counted on.
    Lost(Lost),
}

/// A claim that is held. Dropping it lets go, as well as that can be done without waiting.
#[derive(Debug)]
pub struct Claim {
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    http: Http,
    id: String,
    info: Lock<ClaimInfo>,
    deadline: Lock<Moment>,
    /// Told when the deadline moved otherwise than by the keeper.
    moved: Notify,
    state: watch::Sender<State>,
    /// One request at a time: the answer that comes last must be the newest.
    turn: Mutex<()>,
    renews: bool,
}

impl Claim {
    /// Takes over a claim that was just granted.
    pub(crate) async fn start(
        http: Http,
        sent: Moment,
        info: ClaimInfo,
        renews: bool,
        watch: Option<Watch>,
    ) -> Result<Self, Error> {
        let left = Duration::from_millis(info.expires_in_ms);
        let shared = Arc::new(Shared {
            http,
            id: info.id.clone(),
            deadline: Lock::new(safe(sent, left)),
            info: Lock::new(info),
            moved: Notify::new(),
            state: watch::Sender::new(State::Held),
            turn: Mutex::new(()),
            renews,
        });
        // The grant may have come after a wait: counted from the request, its time may be over before it
        // began. Until a heartbeat has answered, nobody may judge it by that.
        let waited = Moment::now().since(sent) > left / 10;
        let beaten = if waited { shared.beat(None, left).await.map(drop) } else { Ok(()) };
        let claim = Self { keeper: tokio::spawn(keep(shared.clone(), left / 3, watch)), shared };
        // Dropped on the way out, it is released.
        beaten.map(|()| claim)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// The fencing token: hand it to whatever checks it.
    pub fn token(&self) -> u64 {
        self.shared.info.lock().token
    }

    /// The claim as the server last described it.
    pub fn info(&self) -> ClaimInfo {
        self.shared.info.lock().clone()
    }

    /// The moment after which it must not be counted on, unless it is renewed before.
    pub fn deadline(&self) -> Moment {
        *self.shared.deadline.lock()
    }

    /// The time until the safe deadline; zero once it is lost.
    pub fn left(&self) -> Duration {
        if self.is_held() { self.deadline().left() } else { Duration::ZERO }
    }

    /// It can be counted on right now. Ask before every step that must not be done without it.
    pub fn is_held(&self) -> bool {
        !matches!(&*self.shared.state.borrow(), State::Lost(_)) && !self.deadline().is_past()
    }

    /// What is known about it.
    pub fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// Every change of what is known about it.
    pub fn states(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }

    /// Ends when the claim is lost, with the reason: at once when the server says so, and at the safe
    /// deadline when it says nothing.
    pub async fn lost(&self) -> Lost {
        let mut states = self.states();
        loop {
            if let State::Lost(lost) = &*states.borrow_and_update() {
                return lost.clone();
            }
            if states.changed().await.is_err() {
                return Lost::OutOfReach { last: "the guard is gone".to_owned() };
            }
        }
    }

    /// Sends a heartbeat now, telling how long the person has done nothing real.
    pub async fn heartbeat(&self, idle: Option<Duration>) -> Result<Beat, Error> {
        let beat = self.shared.beat(idle, self.left()).await;
        self.shared.moved.notify_one();
        beat
    }

    /// Goes to the next phase.
    pub async fn advance(&self) -> Result<ClaimInfo, Error> {
        let info = self.shared.change("advance", json!({})).await;
        self.shared.moved.notify_one();
        info
    }

    /// Finishes: writes status and document of the items and ends the claim, in one commit. When it is
    /// refused the claim goes on.
    pub async fn complete(&self, status: Option<&str>, data: Option<Value>) -> Result<ClaimInfo, Error> {
        let mut body = Map::new();
        body.insert("token".to_owned(), json!(self.token()));
        if let Some(status) = status {
            body.insert("status".to_owned(), json!(status));
        }
        if let Some(data) = data {
            body.insert("data".to_owned(), data);
        }
        let info = self.shared.change("complete", Value::Object(body)).await?;
        self.shared.lose(Lost::Completed);
        Ok(info)
    }

    /// Ends it by a route that does so in one commit with something else. Heartbeats wait meanwhile.
    pub(crate) async fn end_by(&self, call: Call) -> Result<(), Error> {
        let _turn = self.shared.turn.lock().await;
        let answer = self.shared.http.nothing(call).await;
        match &answer {
            Ok(()) => self.shared.lose(Lost::Completed),
            Err(error) => {
                if let Some(lost) = Lost::of(error) {
                    self.shared.lose(lost);
                }
            }
        }
        answer
    }

    /// Lets go, and waits until the server knows.
    pub async fn release(self) -> Result<(), Error> {
        self.keeper.abort();
        let released = {
            let _turn = self.shared.turn.lock().await;
            self.shared.http.nothing(self.shared.release_call()).await
        };
        if released.is_ok() {
            self.shared.lose(Lost::Released);
        }
        released
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keeper.abort();
        if matches!(&*self.shared.state.borrow(), State::Lost(_)) {
            return;
        }
        // Without a runtime it runs out by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = self.shared.clone();
            runtime.spawn(async move {
                let call = Call { time: DROP_TIME, ..shared.release_call() };
                if let Err(error) = shared.http.nothing(call).await {
                    tracing::debug!(claim = shared.id, %error, "a dropped claim runs out by itself");
                }
            });
        }
    }
}

impl Shared {
    fn path(&self, verb: &str) -> String {
        format!("/v1/claims/{}/{verb}", part(&self.id))
    }

    fn release_call(&self) -> Call {
        Call::new(Method::DELETE, format!("/v1/claims/{}", part(&self.id)))
    }

    /// Sends a heartbeat, with so much time left.
    async fn beat(&self, idle: Option<Duration>, left: Duration) -> Result<Beat, Error> {
        let _turn = self.turn.lock().await;
        let mut body = Map::new();
        body.insert("token".to_owned(), json!(self.info.lock().token));
        if let Some(idle) = idle {
            body.insert("idle_ms".to_owned(), json!(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)));
        }
        let mut call = Call::post(self.path("heartbeat"), Value::Object(body));
        // An answer after the deadline helps nobody, and one try must not use up the time of the next.
        call.time = call.time.min(left / 2).max(BEAT_MIN);
        let sent = Moment::now();
        let answer = self.http.json::<Beat>(call).await;
        self.note(sent, answer.as_ref().map(|(_, beat)| beat.expires_in_ms));
        Ok(answer?.1)
    }

    /// Changes the claim by a POST that answers it.
    async fn change(&self, verb: &str, body: Value) -> Result<ClaimInfo, Error> {
        let _turn = self.turn.lock().await;
        let call = Call::post(self.path(verb), body).header("idempotency-key", crate::clock::unique()?);
        let sent = Moment::now();
        let answer = self.http.json::<ClaimInfo>(call).await;
        self.note(sent, answer.as_ref().map(|(_, info)| info.expires_in_ms));
        let info = answer?.1;
        *self.info.lock() = info.clone();
        Ok(info)
    }

    /// Draws the conclusions from an answer to a request that was sent then.
    fn note(&self, sent: Moment, left_ms: Result<u64, &Error>) {
        match left_ms {
            Ok(left_ms) => {
                *self.deadline.lock() = safe(sent, Duration::from_millis(left_ms));
                self.become_if_not_lost(State::Held);
            }
            Err(error) => {
                if let Some(lost) = Lost::of(error) {
                    self.lose(lost);
                } else if error.is_temporary() || error.code() == Some("unauthenticated") {
                    self.become_if_not_lost(State::Uncertain);
                }
            }
        }
    }

    fn become_if_not_lost(&self, next: State) {
        self.state.send_if_modified(|state| {
            let changes = *state != next && !matches!(state, State::Lost(_));
            if changes {
                *state = next;
            }
            changes
        });
    }

    fn lose(&self, lost: Lost) {
        self.become_if_not_lost(State::Lost(lost));
    }

    fn is_lost(&self) -> bool {
        matches!(&*self.state.borrow(), State::Lost(_))
    }
}

/// The safe deadline for so much time, counted from before the request.
fn safe(sent: Moment, left: Duration) -> Moment {
    sent.plus(left.saturating_sub((left / 100).max(MARGIN_MIN)))
}

/// Ends when something happened to the claim, or may have. A stream that ends for good is done without.
async fn touched(watch: &mut Option<Watch>, id: &str) {
    while let Some(stream) = watch {
        match stream.next().await {
            Some(Ok(Watched::Event(event))) if event.claim.as_deref() != Some(id) => {}
            // Heartbeats find out for themselves whether the server answers.
            Some(Ok(Watched::Away)) => {}
            Some(Ok(_)) => return,
            Some(Err(_)) | None => *watch = None,
        }
    }
    std::future::pending::<()>().await;
}

/// Renews at a third of the time, tries again while that fails, and declares the claim lost at the safe
/// deadline. What the stream tells is only a reason to ask now: the answer to a heartbeat decides.
async fn keep(shared: Arc<Shared>, first: Duration, mut watch: Option<Watch>) {
    let mut next = Moment::now().plus(first.max(BEAT_MIN));
    let mut retry = RETRY.0;
    let mut last = "no heartbeat was due".to_owned();
    while !shared.is_lost() {
        let deadline = *shared.deadline.lock();
        if deadline.is_past() {
            shared.lose(Lost::OutOfReach { last });
            return;
        }
        tokio::select! {
            () = deadline.reached() => continue,
            () = shared.moved.notified() => {
                next = Moment::now().plus((shared.deadline.lock().left() / 3).max(BEAT_MIN));
                continue;
            }
            () = next.reached(), if shared.renews => {}
            () = touched(&mut watch, &shared.id), if shared.renews => {}
        }
        let beat = tokio::select! {
            beat = shared.beat(None, deadline.left()) => beat,
            () = deadline.reached() => continue,
        };
        let pause = match beat {
            Ok(beat) => {
                retry = RETRY.0;
                Duration::from_millis(beat.expires_in_ms) / 3
            }
            Err(error) => {
                last = error.to_string();
                let pause = jittered(retry);
                retry = (retry * 2).min(RETRY.1).min((deadline.left() / 4).max(RETRY.0));
                pause
            }
        };
        next = Moment::now().plus(pause.max(BEAT_MIN));
    }
}
