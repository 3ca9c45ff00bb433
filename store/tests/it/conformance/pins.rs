//! Pins: the first pin of a server stays in effect until a person approves another.

use store::{Error, Pin, Store};

/// Number of concurrent callers that pin one server.
const RIVALS: usize = 8;

pub(super) async fn stand_until_approved_over(store: &Store) -> Result<(), Error> {
    assert_eq!((store.pins().await?, store.pin("mail").await?), (vec![], None));
    let first = Pin::new("mail", r#"[{"name":"send"}]"#, "first use");
    assert_eq!(first.hash, "d5ccccce39afbfdc4c90fb3b84b816f6507e00e571c9c74206a5a20a9dd132b9");
    assert_eq!(store.pin_if_absent(first.clone()).await?, first);
    let second = Pin::new("mail", "[]", "first use");
    assert_ne!(second.hash, first.hash);
    assert_eq!(store.pin_if_absent(second.clone()).await?, first, "the first one stands");
    assert_eq!(store.pin("mail").await?, Some(first));

    let approved = Pin { approved_by: "für Ada".to_owned(), updated_at: 7, ..second };
    store.approve(approved.clone(), &approved.approved_by).await?;
    assert_eq!(store.pin("mail").await?, Some(approved.clone()));
    let apples = Pin::new("Apples", "[]", "Ada");
    store.approve(apples.clone(), &apples.approved_by).await?;
    assert_eq!(store.pins().await?, [apples, approved], "by name");

    assert!(store.unpin("mail", "test").await?);
    assert!(!store.unpin("mail", "test").await?);
    assert_eq!(store.pin("mail").await?, None);
    assert!(store.unpin("Apples", "test").await?);
    Ok(())
}

pub(super) async fn race_with_each_other(store: &Store) -> Result<(), Error> {
    let racing = (0..RIVALS).map(|n| {
        let (store, new) = (store.clone(), Pin::new("mail", &format!("[{n}]"), "first use"));
        async move { store.pin_if_absent(new).await }
    });
    let stand = futures::future::try_join_all(racing).await?;
    let winner = store.pin("mail").await?;
    assert!(stand.iter().all(|pin| Some(pin) == winner.as_ref()), "all receive the winner: {stand:?}");
    store.unpin("mail", "test").await?;
    Ok(())
}

on_databases! {
    stand_until_approved_over,
    race_with_each_other,
}
