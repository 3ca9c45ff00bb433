//! API keys are found by id until they end, and a turn keeps the caller who submitted it.

use queue::clock;
use shared::{CallerId, MultitaskStrategy};
use store::{Error, Key, MOST_KEYS, NewTurn, Store};

use super::{new_turn, tamper};

fn key(id: &str, tenant: Option<&str>, created_at: i64) -> Key {
    Key {
        id: id.to_owned(),
        hash: vec![0, 1, 255],
        tenant: tenant.map(str::to_owned),
        name: "web \0 shop".to_owned(),
        scopes: vec!["submit".to_owned(), "read".to_owned()],
        created_by: "ada".to_owned(),
        created_at,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
        multitask_strategy: Some(MultitaskStrategy::Rollback),
    }
}

pub(super) async fn keys_are_listed_rotated_and_revoked(store: &Store) -> Result<(), Error> {
    let now = clock::now();
    let [first, second, other] =
        [key("tf_b", Some("acme"), 1), key("tf_a", Some("acme"), 1), key("tf_c", None, 0)];
    for it in [&first, &second, &other] {
        assert!(store.add_key(it, "test").await?);
    }
    let stored = |key: &Key| Key { name: "web \u{fffd} shop".to_owned(), ..key.clone() };
    assert_eq!(store.key("tf_b").await?, Some(stored(&first)));
    assert_eq!(store.key("tf_\0").await?, None);
    let ids = async |tenant, after: Option<&Key>, limit| {
        let keys = store.keys(tenant, after, limit).await?;
        Ok::<_, Error>(keys.into_iter().map(|key| key.id).collect::<Vec<_>>())
    };
    assert_eq!(ids(None, None, 9).await?, ["tf_c", "tf_a", "tf_b"], "oldest first");
    assert_eq!(ids(Some("acme"), None, 1).await?, ["tf_a"]);
    assert_eq!(ids(Some("acme"), Some(&second), 9).await?, ["tf_b"]);

    store.key_used("tf_b", 7).await?;
    store.key_used("tf_b", 6).await?;
    assert_eq!(
        store.key("tf_b").await?.and_then(|key| key.last_used_at),
        Some(7),
        "an earlier use changes nothing"
    );
    let successor = key("tf_d", Some("acme"), now);
    assert!(store.rotate_key("tf_b", now + 1_000_000, &successor, "test").await?);
    assert!(store.rotate_key("tf_b", now + 9_000_000, &key("tf_e", Some("acme"), now), "test").await?);
    let old = store.key("tf_b").await?.unwrap_or(other);
    assert_eq!(old.expires_at, Some(now + 1_000_000), "a rotation makes no key live longer");
    assert!(old.is_valid(now) && !old.is_valid(now + 1_000_000));
    store.revoke_key("tf_a", "test").await?;
    let revoked = store.key("tf_a").await?.and_then(|key| key.revoked_at);
    store.revoke_key("tf_a", "test").await?;
    assert!(revoked.is_some() && store.key("tf_a").await?.and_then(|key| key.revoked_at) == revoked);
    Ok(())
}

pub(super) async fn keys_of_an_owner_are_bounded(store: &Store) -> Result<(), Error> {
    let add = |first: u64, last: u64, expires_at: &str| {
        format!(
            "INSERT INTO api_keys (id, hash, tenant, name, scopes, created_by, created_at, expires_at) \
             WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}) \
             SELECT 'k' || n, CAST('' AS BYTEA), 'acme', '', 'read', '', n, CAST({expires_at} AS BIGINT) FROM numbers"
        )
    };
    tamper::execute_with(store, &add(1, MOST_KEYS + 3, "1"), []).await?;
    assert!(store.add_key(&key("tf_a", Some("acme"), 5), "test").await?, "expired keys do not count");
    assert_eq!(store.key("k3").await?, None, "the oldest expired keys beyond the limit are deleted");
    tamper::execute_with(store, &add(9_000, 9_000 + MOST_KEYS - 2, "NULL"), []).await?;
    assert!(!store.add_key(&key("tf_b", Some("acme"), 5), "test").await?);
    assert!(store.add_key(&key("tf_b", Some("bell"), 5), "test").await?, "another tenant has room");
    Ok(())
}

pub(super) async fn a_turn_keeps_its_caller(store: &Store) -> Result<(), Error> {
    let caller = CallerId { key: Some("tf_a".to_owned()), subject: Some("web shop".to_owned()) };
    for caller in [Some(caller), None] {
        let new = NewTurn { caller: caller.clone(), ..new_turn("hello") };
        let turn = store.submit(new).await?.into_turn();
        assert_eq!(turn.caller, caller);
        assert_eq!(store.turn(turn.id).await?.and_then(|turn| turn.caller), caller);
        assert_eq!(store.next_queued(turn.thread).await?.and_then(|queued| queued.caller), caller);
    }
    Ok(())
}

/// Of rotations at the same time, the one that ends the key first counts.
pub(super) async fn rotations_at_the_same_time_make_no_key_live_longer(store: &Store) -> Result<(), Error> {
    let now = clock::now();
    for nth in 0..5 {
        let old = format!("tf_{nth}");
        store.add_key(&key(&old, Some("acme"), now), "test").await?;
        let rotate = async |seconds: i64| {
            let new = key(&format!("{old}_{seconds}"), Some("acme"), now);
            store.rotate_key(&old, now + seconds * 1_000_000, &new, "test").await
        };
        let (late, soon, later) = tokio::join!(rotate(800), rotate(100), rotate(900));
        assert!(late? && soon? && later?);
        let end = store.key(&old).await?.and_then(|key| key.expires_at);
        assert_eq!(end, Some(now + 100_000_000));
    }
    Ok(())
}

on_databases! {
    rotations_at_the_same_time_make_no_key_live_longer,
    keys_are_listed_rotated_and_revoked,
    keys_of_an_owner_are_bounded,
    a_turn_keeps_its_caller,
}
