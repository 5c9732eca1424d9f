//! API keys, from their making to their end.

use serde_json::json;

use crate::world::{ADMIN, World};

const NEW: &str =
    r#"{"name":"import","subject":{"id":"imp","name":"Import"},"role":"editor","kinds":["task"]}"#;

#[tokio::test]
async fn e8_a_key_is_made_shown_once_listed_without_itself_and_revoked() {
    let world = World::new().await;
    let made = world.ask(ADMIN, "POST", "/v1/keys", NEW).await;
    assert_eq!(made.short(), "201", "{}", made.text);
    assert_eq!(made.header("cache-control"), "no-store");
    let json = made.json();
    let (key, id) = (json["key"].as_str().unwrap(), json["id"].as_str().unwrap());
    assert!(key.starts_with("tnr_") && key.len() == 53);
    assert_eq!(json["subject"]["id"], "imp");
    assert_eq!(json["kinds"][0], "task");

    let list = world.ask(ADMIN, "GET", "/v1/keys", "").await;
    assert!(!list.text.contains(key) && list.text.contains(id));
    assert_eq!(list.json()["keys"].as_array().unwrap().len(), 2);

    let who = world.ask(key, "GET", "/v1/session", "").await;
    assert_eq!(
        (who.json()["subject"]["name"].as_str(), who.json()["role"].as_str()),
        (Some("Import"), Some("editor"))
    );

    assert_eq!(world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await.short(), "204");
    let after = world.ask(key, "POST", "/v1/tickets", "").await;
    assert_eq!(after.short(), "401 unauthenticated");
    assert!(after.text.contains("revoked"), "{}", after.text);
    assert_eq!(world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await.short(), "404 not_found");
}

/// E3: who made and who revoked a key, and which; never what opens anything.
#[tokio::test]
async fn e3_the_audit_log_tells_who_made_and_revoked_a_key() {
    let world = World::new().await;
    let made = world.ask(ADMIN, "POST", "/v1/keys", NEW).await.json();
    let (key, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    world.clock.advance(1_000);
    assert_eq!(world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await.short(), "204");
    let rows = async |query: &str| {
        let reply = world.ask(ADMIN, "GET", &format!("/v1/audit{query}"), "").await;
        assert_eq!(reply.short(), "200", "{}", reply.text);
        assert!(!reply.text.contains(key) && !reply.text.contains("\"after\""), "{}", reply.text);
        reply.json()["rows"].as_array().unwrap().clone()
    };
    let created = rows("?action=key_created").await;
    // The first is the operator's own.
    assert_eq!(created.len(), 2);
    let mut row = created[0].clone();
    assert_eq!(row["hash"].as_str().unwrap().len(), 64);
    row.as_object_mut().unwrap().remove("hash");
    let expected = json!({
        "seq": row["seq"], "at": "2023-11-14T22:13:20.000Z", "type": "key_created",
        "actor": {"id": "admin", "name": "Administrator"}, "collection": "tenure/keys", "key": id,
        "name": "import", "subject": {"id": "imp", "name": "Import"}, "role": "editor", "kinds": ["task"],
    });
    assert_eq!(row, expected);
    let revoked = rows("?action=key_revoked&actor=admin").await;
    assert_eq!(revoked.len(), 1);
    assert_eq!((&revoked[0]["key"], &revoked[0]["at"]), (&json!(id), &json!("2023-11-14T22:13:21.000Z")));
    assert_eq!(rows("").await.len(), 3);
    assert!(rows("?action=item_put").await.is_empty());
    assert!(rows("?action=key_created&collection=task/x").await.is_empty());
    let limited = r#"{"name":"","subject":{"id":"l","name":"L"},"role":"admin","kinds":["task"]}"#;
    let limited = world.ask(ADMIN, "POST", "/v1/keys", limited).await.json();
    let seen = world.ask(limited["key"].as_str().unwrap(), "GET", "/v1/audit", "").await;
    assert_eq!(seen.json()["rows"], json!([]));
}

#[tokio::test]
async fn a_typo_is_told_from_a_revoked_key() {
    let world = World::new().await;
    let (key, _) = world.key("viewer").await;
    let typo = format!("{}{}", &key[..52], if key.ends_with('a') { 'b' } else { 'a' });
    let reply = world.ask(&typo, "POST", "/v1/tickets", "").await;
    assert!(reply.text.contains("mistyped"), "{}", reply.text);
    assert_eq!(reply.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn e9_other_nodes_and_a_restart_know_the_keys() {
    let first = World::new().await;
    let (key, id) = first.key("viewer").await;
    let second = first.another().await;
    assert_eq!(second.ask(&key, "POST", "/v1/tickets", "").await.short(), "201");
    let (late, _) = second.key("worker").await;
    crate::world::eventually(async || first.ask(&late, "POST", "/v1/tickets", "").await.short() == "201")
        .await;
    assert_eq!(second.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await.short(), "204");
    assert_eq!(second.ask(&key, "POST", "/v1/tickets", "").await.short(), "401 unauthenticated");
    crate::world::eventually(async || first.ask(&key, "POST", "/v1/tickets", "").await.short() != "201")
        .await;
}

#[tokio::test]
async fn e4_a_retry_gets_the_same_key_also_after_a_restart() {
    let world = World::new().await;
    let bearer = format!("Bearer {ADMIN}");
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "once")];
    let first = world.send("POST", "/v1/keys", &headers, NEW).await;
    assert_eq!(first.short(), "201");
    for world in [&world, &world.another().await] {
        let again = world.send("POST", "/v1/keys", &headers, NEW).await;
        assert_eq!((again.short(), again.text), ("201".to_owned(), first.text.clone()));
    }
    let other = world.send("POST", "/v1/keys", &headers, &NEW.replace("import", "export")).await;
    assert_eq!(other.short(), "422 key_reused");
    assert_eq!(world.ask(ADMIN, "GET", "/v1/keys", "").await.json()["keys"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_wrong_with_a_new_key_is_named() {
    let world = World::new().await;
    let check = async |body: &str, field: &str| {
        let reply = world.ask(ADMIN, "POST", "/v1/keys", body).await;
        assert_eq!(
            (reply.short().as_str(), reply.json()["field"].as_str()),
            ("422 invalid", Some(field)),
            "{}",
            reply.text
        );
    };
    check(&NEW.replace("\"imp\"", "\"system\""), "subject.id").await;
    check(&NEW.replace("\"imp\"", "\"\""), "subject.id").await;
    check(&NEW.replace("editor", "owner"), "role").await;
    check(&NEW.replace("[\"task\"]", "[\"tenure\"]"), "kinds[0]").await;
    check(&NEW.replace("[\"task\"]", "[\"Task\"]"), "kinds[0]").await;
    check(&NEW.replace("[\"task\"]", "[]"), "kinds").await;
    check(&NEW.replace("\"name\":\"import\",", "\"name\":\"import\",\"key\":\"mine\","), "key").await;
}

#[tokio::test]
async fn i19_an_administrator_of_some_kinds_makes_no_keys() {
    let world = World::new().await;
    let made = world.ask(ADMIN, "POST", "/v1/keys", &NEW.replace("editor", "admin")).await;
    let key = made.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&key, "POST", "/v1/keys", NEW).await.short(), "403 forbidden");
    assert_eq!(world.ask(&key, "GET", "/v1/keys", "").await.short(), "403 forbidden");
}

#[tokio::test]
async fn the_first_start_makes_one_key_and_the_next_none() {
    use tenure_server::identity::{Identity, Secret};
    let engine = crate::world::any_engine();
    let open = || {
        let identity = Identity::new(engine.clone(), crate::world::settings()).unwrap();
        identity.start().unwrap();
        identity
    };
    let weak = open().bootstrap(Some(Secret::new("short"))).await.unwrap_err();
    assert!(weak.to_string().starts_with("admin_key: must be"), "{weak}");
    let made = open().bootstrap(None).await.unwrap().unwrap();
    assert!(made.secret.expose().starts_with("tnr_"));
    assert!(open().bootstrap(None).await.unwrap().is_none());
    assert!(open().bootstrap(Some(Secret::new(ADMIN))).await.unwrap().is_none());
}

/// Nobody locks themselves out: an administrator of some kinds cannot manage keys, so it does not count.
#[tokio::test]
async fn e8_the_last_administrator_of_all_kinds_cannot_be_revoked_and_is_made_anew() {
    let world = World::new().await;
    let limited = r#"{"name":"some","subject":{"id":"some","name":"Some"},"role":"admin","kinds":["task"]}"#;
    assert_eq!(world.ask(ADMIN, "POST", "/v1/keys", limited).await.short(), "201");
    let keys = world.ask(ADMIN, "GET", "/v1/keys", "").await.json();
    let of = |name: &str| {
        let mut keys = keys["keys"].as_array().unwrap().iter();
        keys.find(|key| key["name"] == name).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (own, some) = (of("first key"), of("some"));
    let last = world.ask(ADMIN, "DELETE", &format!("/v1/keys/{own}"), "").await;
    assert_eq!(last.short(), "409 conflict", "{}", last.text);
    let all = r#"{"name":"all","subject":{"id":"all","name":"All"},"role":"admin"}"#;
    let all = world.ask(ADMIN, "POST", "/v1/keys", all).await.json();
    let other = all["key"].as_str().unwrap();
    // Two who revoke each other at once: one of them stays.
    let (mine, theirs) = (format!("/v1/keys/{own}"), format!("/v1/keys/{}", all["id"].as_str().unwrap()));
    let (a, b) = tokio::join!(world.ask(other, "DELETE", &mine, ""), world.ask(ADMIN, "DELETE", &theirs, ""));
    let mut ends = [a.short(), b.short()];
    ends.sort();
    assert!(ends == ["204", "401 unauthenticated"] || ends == ["204", "409 conflict"], "{ends:?}");
    let left = if a.short() == "204" { other } else { ADMIN };
    assert_eq!(world.ask(left, "DELETE", &format!("/v1/keys/{some}"), "").await.short(), "204");
}

/// A data folder whose only administrator is limited to kinds gets a new one at its start.
#[tokio::test]
async fn e8_a_limited_administrator_is_no_administrator_at_the_start() {
    use tenure_core::Principal;
    use tenure_server::Role;
    use tenure_server::identity::{Identity, NewKey};
    let identity = Identity::new(crate::world::any_engine(), crate::world::settings()).unwrap();
    identity.start().unwrap();
    let subject = Principal::new("some", "Some").unwrap();
    let kinds = Some(vec!["task".into()]);
    let limited = NewKey { name: "some".into(), subject, role: Role::Admin, kinds };
    identity.create_key(&Principal::system(), limited, None).await.unwrap();
    assert!(identity.bootstrap(None).await.unwrap().is_some());
    assert!(identity.bootstrap(None).await.unwrap().is_none());
}
