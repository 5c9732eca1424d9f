//! No secret is in a log, an event, a kept answer or anything's `Debug`.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::world::{ADMIN, World};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn secrets_are_in_no_log_and_no_event() {
    let captured = Captured::default();
    let writer = captured.clone();
    let logs =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone());
    // For all tests of this program: what a thread alone hears depends on which test came first.
    tracing::subscriber::set_global_default(logs.json().finish()).unwrap();

    let world = World::new().await;
    let (key, id) = world.key("editor").await;
    let cookie = world.sign_in(&key).await;
    let ticket =
        world.browse(&cookie, "POST", "/v1/tickets").await.json()["ticket"].as_str().unwrap().to_owned();
    let caller =
        world.app.identity().redeem(&tenure_server::identity::Secret::new(ticket.as_str())).await.unwrap();
    let wrong = "tnr_0000000000000000000000000000000000000000000abcdef";
    world.ask(wrong, "GET", "/v1/keys", "").await;
    world.ask("eyJ.a.token", "GET", "/v1/keys", "").await;
    world.send("POST", "/v1/session", &[], &format!(r#"{{"key":"{wrong}","more":1}}"#)).await;
    world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await;
    world.browse(&cookie, "DELETE", "/v1/session").await;
    let debug = format!("{:?} {caller:?}", world.app);

    let logs = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(logs.contains("answered"), "the logs are captured: {logs}");
    let events: String =
        ["tenure/keys", "tenure/sessions", "tenure/tickets"].iter().map(|key| world.events(key)).collect();
    assert!(events.contains(&id), "the events are read");
    let session = cookie.trim_start_matches("tenure=");
    for secret in [ADMIN, &key, session, &ticket, wrong, "eyJ.a.token"] {
        for (place, text) in [("logs", &logs), ("events", &events), ("debug", &debug)] {
            assert!(!text.contains(secret), "{secret} is in the {place}");
            assert!(!text.contains(&secret[4..]), "part of {secret} is in the {place}");
        }
    }
}

#[tokio::test]
async fn a_refusal_does_not_repeat_what_was_sent() {
    let world = World::new().await;
    let (key, _) = world.key("viewer").await;
    let cut = &key[..40];
    let replies = [
        world.ask(cut, "GET", "/v1/keys", "").await,
        world.send("POST", "/v1/session", &[], &format!(r#"{{"key":"{cut}"}}"#)).await,
        world.send("POST", "/v1/session", &[], &format!(r#"{{"key":"{cut}""#)).await,
        world.send("POST", "/v1/session", &[], &format!(r#"{{"key":["{cut}"]}}"#)).await,
        world.send("POST", "/v1/session", &[], &format!(r#"{{"demo":"{cut}"}}"#)).await,
    ];
    for reply in replies {
        assert!(reply.status.is_client_error() && !reply.text.contains(cut), "{}", reply.text);
    }
}
