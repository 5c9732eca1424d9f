//! Plain calls and errors.

use tenure_client::{AuditFilter, ClaimsFilter, Client, Error};

use crate::support::{ADMIN, Server};

#[tokio::test]
async fn claims_items_and_the_audit_log_are_listed() {
    let server = Server::start().await;
    let client = Client::new(&server.url(), ADMIN).expect("a client");
    let claim = client.acquire("lock/jobs", ["a b/c", "d"]).await.expect("granted");
    let all = client.claims(&ClaimsFilter::default(), 10).await.expect("claims");
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].items, ["a b/c", "d"]);
    let items = client.items("lock/jobs", 10).await.expect("items");
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].claim.as_ref().map(|claim| claim.id.as_str()), Some(claim.id()));
    let explanation = client.explain("lock/jobs", "a b/c").await.expect("an explanation");
    assert_eq!(explanation.holder.map(|holder| holder.id).as_deref(), Some("admin"));
    client.force_release("lock/jobs", "d", "test").await.expect("freed");
    let filter = AuditFilter { action: Some("LOCK_FORCE_RELEASE".to_owned()), ..AuditFilter::default() };
    let rows = client.audit(&filter, 10).await.expect("rows");
    assert_eq!(rows[0].more["reason"], "test");
}

#[tokio::test]
async fn keys_and_policies_are_managed() {
    let server = Server::start().await;
    let client = Client::new(&server.url(), ADMIN).expect("a client");
    let made = client
        .create_key("night", ("ana", "Ana"), "worker", Some(&["lock".to_owned()]))
        .await
        .expect("a key");
    assert!(made.key.is_some());
    let listed = client.keys().await.expect("keys");
    assert!(listed.iter().any(|key| key.id == made.id && key.key.is_none()));
    client.revoke_key(&made.id).await.expect("revoked");
    let gone = Client::new(&server.url(), &made.key.expect("its text")).expect("a client");
    let refused = gone.claims(&ClaimsFilter::default(), 1).await.expect_err("revoked");
    assert_eq!(refused.code(), Some("unauthenticated"));
    let mut policy = client.policy("lock").await.expect("a policy").policy;
    policy.max_items = 7;
    assert_eq!(client.set_policy("lock", &policy).await.expect("set").policy.max_items, 7);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    drop(listener);
    let client = Client::new(&format!("http://{address}"), ADMIN).expect("a client");
    let error = client.claims(&ClaimsFilter::default(), 1).await.expect_err("nobody there");
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
}

#[test]
fn wrong_urls_and_keys_are_refused_before_anything_is_sent() {
    for (url, key) in
        [("localhost:8080", "k"), ("ftp://host", "k"), ("http://host?x=1", "k"), ("http://host", "a\nb")]
    {
        assert!(matches!(Client::new(url, key), Err(Error::Invalid(_))), "{url}");
    }
}
