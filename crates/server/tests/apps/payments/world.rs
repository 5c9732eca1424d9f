//! Short words for payments over HTTP.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use tenure_apps::payments::{BAC_CREDOMATIC, FileVault, SINPE_MOVIL, Till};
use tenure_apps::raffle::{NewRaffle, NewReservation, PatchRaffle, RaffleStatus};
use tenure_apps::{Actor, Permission};
use tenure_core::Principal;
use tenure_engine::{Engine, ManualClock, Options};
use tenure_server::App;
use tenure_server::gateway::fake::{API_KEY, FakeGateway, MERCHANT_ID};
use tenure_server::gateway::{PowerTranz, PowerTranzSettings};

use super::browser::{encode, form, post};
use crate::server::{Call, Reply, START_MS, Server, any_store};

pub(crate) const APPROVED: &str = "4012 0000 0002 0071";
pub(crate) const PUBLIC_URL: &str = "https://rifa.example";

/// A server with an open raffle and both providers, and the gateway that it pays with.
pub(crate) struct Shop {
    pub(crate) server: Server,
    pub(crate) app: App,
    pub(crate) fake: FakeGateway,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn connector(fake: &FakeGateway) -> PowerTranz {
    PowerTranz::new(PowerTranzSettings {
        base: Some(fake.base()),
        allowed: vec!["127.0.0.1".parse().expect("a network")],
        // Nobody waits half a minute in a test.
        time: Duration::from_secs(2),
        ..PowerTranzSettings::default()
    })
    .expect("is configured")
}

impl Shop {
    pub(crate) async fn new() -> Self {
        let clock = ManualClock::at(START_MS);
        let engine = Engine::start(any_store(&clock), clock.clone(), Options::default()).expect("starts");
        let fake = FakeGateway::start().await.expect("starts");
        let folder = tempfile::tempdir().expect("a folder");
        let shop = Self::around(engine, clock, fake, folder);
        shop.furnish().await;
        shop
    }

    fn around(engine: Engine, clock: ManualClock, fake: FakeGateway, folder: tempfile::TempDir) -> Self {
        let app = App::new(engine);
        let vault = FileVault::new(folder.path().join("secrets"));
        app.open_till(Till::new(vault, PUBLIC_URL).with(BAC_CREDOMATIC, connector(&fake)));
        Self { server: Server::of(app.clone(), clock), app, fake, folder }
    }

    /// The process that served is gone; another one begins, on the same data and secrets.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, fake, folder, .. } = self;
        let shop = Self::around(server.engine.clone(), server.clock.clone(), fake, folder);
        shop.app.payments().recover(true).await.expect("recovers");
        shop.app.payments().settle_due().await;
        shop
    }

    async fn furnish(&self) {
        let root = actor("root", &[Permission::RaffleManage]);
        let raffle = NewRaffle {
            id: Some("navidad".to_owned()),
            title: "Rifa de Navidad".to_owned(),
            numbers: 100,
            price_minor: 100_000,
            currency: "CRC".to_owned(),
            draw_at: None,
        };
        self.app.raffles().create(&root, raffle).await.expect("is made");
        let open = PatchRaffle { status: RaffleStatus::Active };
        self.app.raffles().patch(&root, "navidad", &open).await.expect("opens");
        let config = json!({"merchant_id": MERCHANT_ID, "api_key": API_KEY});
        self.patch(BAC_CREDOMATIC, json!({"is_enabled": true, "config": config})).await.status(200);
        let config = json!({"phone_number": "8888-0000", "account_holder": "Asociación Ejemplo"});
        self.patch(SINPE_MOVIL, json!({"config": config})).await.status(200);
    }

    pub(crate) async fn patch(&self, code: &str, body: Value) -> Reply {
        let path = format!("/admin/payment-providers/{code}");
        self.server.send(Call::new("root", Method::PATCH, &path).json(&body)).await
    }

    /// Somebody reserves numbers.
    pub(crate) async fn reserve(&self, who: &str, numbers: &[u32]) -> String {
        let new = NewReservation {
            raffle_id: "navidad".to_owned(),
            number_ids: numbers.to_vec(),
            session_id: format!("tab-{}", numbers[0]),
        };
        let buyer = actor(who, &[Permission::RaffleBuy]);
        self.app.raffles().reserve(&buyer, &new).await.expect("are free").value.reservation.id
    }

    /// Ana pays for 7 and 8: ₡2,000.00.
    pub(crate) async fn start(&self, provider: &str) -> Value {
        let reservation = self.reserve("ana", &[7, 8]).await;
        let body = json!({"reservation_id": reservation, "provider": provider});
        self.server.post("ana", "/payments", body).await.status(201).json()
    }

    /// Through the gateway's page with this card, up to where the browser is sent back: the path and the form.
    pub(crate) async fn browse(&self, payment: &Value, card: &str) -> (String, String) {
        let url = payment["payment_url"].as_str().expect("a page");
        let path = url.strip_prefix(PUBLIC_URL).expect("this server's");
        let page = self.server.get("", path).await.status(200);
        let hosted = post(&form(page.text()).action, "").await;
        let gateway = self.fake.base().trim_end_matches("/api").to_owned();
        let fields = [("CardNumber".to_owned(), card.to_owned())];
        let mut page = post(&format!("{gateway}{}", form(&hosted).action), &encode(&fields)).await;
        if page.contains("Password") {
            let fields = [("Password".to_owned(), "3ds2".to_owned())];
            page = post(&format!("{gateway}{}", form(&page).action), &encode(&fields)).await;
        }
        let back = form(&page);
        let path = back.action.strip_prefix(PUBLIC_URL).unwrap_or_else(|| panic!("{back:?}")).to_owned();
        (path, encode(&back.fields))
    }

    /// The browser comes back.
    pub(crate) async fn back(&self, path: &str, body: &str) -> Reply {
        let call = Call::new("", Method::POST, path);
        self.server.send(call.raw("application/x-www-form-urlencoded", body.to_owned())).await
    }

    /// Pays with this card, all the way; the state after it.
    pub(crate) async fn pay(&self, payment: &Value, card: &str) -> String {
        let (path, body) = self.browse(payment, card).await;
        let page = self.back(&path, &body).await.status(200);
        assert!(page.text().contains(&format!("data-state=\"{}\"", self.state(payment).await)));
        self.state(payment).await
    }

    pub(crate) async fn get(&self, payment: &Value) -> Value {
        let id = payment["id"].as_str().expect("an id");
        self.server.get("root", &format!("/payments/{id}")).await.status(200).json()
    }

    pub(crate) async fn state(&self, payment: &Value) -> String {
        self.get(payment).await["state"].as_str().expect("a state").to_owned()
    }

    /// Time passes, and the settler looks.
    pub(crate) async fn wait(&self, by_ms: i64) {
        self.server.pass(by_ms);
        self.app.payments().settle_due().await;
    }

    /// How the raffle's numbers look to nobody in particular.
    pub(crate) async fn grid(&self) -> String {
        let nobody = actor("nobody", &[]);
        self.app.raffles().numbers(&nobody, "navidad").await.expect("reads").numbers
    }
}

pub(crate) fn actor(id: &str, permissions: &[Permission]) -> Actor {
    Actor::new(Principal::new(id, id).expect("a person"), permissions)
}
