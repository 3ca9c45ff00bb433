//! Conversations: threads that clients create before their first turn.

use serde_json::{Map, json};
use shared::Message;
use store::{
    AttachmentContent, Conversation, DryRun, Error, Idempotency, NewTurn, Opening, Prune, Store, Submitted,
};

use super::{new_turn, of_tenant};

fn conversation(tenant: &str, items: &[&str]) -> Conversation {
    let metadata = Map::from_iter([("topic".to_owned(), json!("demo"))]);
    Conversation::new(tenant, metadata, items.iter().map(|text| Message::user(*text)).collect())
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.content.as_str()).collect()
}

pub(super) async fn a_first_turn_begins_the_thread_with_the_items(store: &Store) -> Result<(), Error> {
    let kept = conversation("default", &["one"]);
    assert!(store.keep_conversation(&kept, Vec::new(), 1_000).await?);
    assert_eq!(store.conversation(kept.id).await?.as_ref(), Some(&kept));
    assert!(store.add_conversation_items(kept.id, vec![Message::user("two")], Vec::new(), 1_000).await?);
    assert!(
        !store
            .add_conversation_items(kept.id, vec![Message::user("x".repeat(1_000))], Vec::new(), 1_000)
            .await?
    );

    let idempotency = Some(Idempotency { key: kept.id.to_string(), request_hash: "a".to_owned() });
    let first = NewTurn { conversation: Some(kept.id), idempotency, ..new_turn("three") };
    let Submitted::New(turn) = store.submit(first.clone()).await? else { panic!("it is new") };
    assert_eq!((turn.thread, texts(&turn.messages)), (kept.id, vec!["one", "two", "three"]));
    assert_eq!(store.conversation(kept.id).await?.map(|it| it.items), Some(vec![]));
    let again = store.submit(first.clone()).await?;
    assert!(matches!(&again, Submitted::Known(known) if known.id == turn.id), "{again:?}");
    let other = store.submit(NewTurn { idempotency: None, ..first }).await;
    assert!(matches!(&other, Err(Error::ThreadExists(id)) if *id == kept.id), "{other:?}");

    store.add_conversation_items(kept.id, vec![Message::user("four")], Vec::new(), 1_000).await?;
    let existing = Opening::Existing(kept.id);
    let next = NewTurn { thread: existing, conversation: Some(kept.id), ..new_turn("five") };
    assert_eq!(texts(&store.submit(next).await?.into_turn().messages), ["four", "five"]);
    let unknown = NewTurn { conversation: Some(uuid::Uuid::nil()), ..new_turn("six") };
    assert!(matches!(store.submit(unknown).await, Err(Error::UnknownThread(_))));
    Ok(())
}

pub(super) async fn one_of_many_first_turns_begins_the_thread(store: &Store) -> Result<(), Error> {
    let kept = conversation("default", &["one"]);
    store.keep_conversation(&kept, Vec::new(), 1_000).await?;
    let submit = || store.submit(NewTurn { conversation: Some(kept.id), ..new_turn("two") });
    let outcomes = futures::future::join_all((0..8).map(|_| submit())).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    for outcome in outcomes {
        assert!(matches!(outcome, Ok(Submitted::New(_)) | Err(Error::ThreadExists(_))), "{outcome:?}");
    }
    Ok(())
}

pub(super) async fn items_keep_their_images(store: &Store) -> Result<(), Error> {
    let tenant = uuid::Uuid::now_v7().to_string();
    let (image, other) = (AttachmentContent::new(vec![1, 2, 3]), AttachmentContent::new(vec![4, 5]));
    let [kept, deleted, pruned] = [(); 3].map(|()| conversation(&tenant, &["one"]));
    for one in [&kept, &deleted, &pruned] {
        store.keep_conversation(one, vec![image.clone()], 10).await?;
    }
    store.add_conversation_items(kept.id, vec![Message::user("two")], vec![other.clone()], 1_000).await?;
    assert_eq!(store.stored_bytes(&tenant).await?, 3 * 3 + 2);
    store.submit(NewTurn { conversation: Some(kept.id), ..of_tenant(&tenant, "three") }).await?;
    store.delete_conversation(deleted.id).await?;
    let which = Prune { before: pruned.created_at + 1, strategy: None, by: "test".into() };
    store.prune(&which, DryRun::No, |_| ()).await?;
    for (id, image_of, other_of) in
        [(kept.id, Some(vec![1, 2, 3]), Some(vec![4, 5])), (deleted.id, None, None), (pruned.id, None, None)]
    {
        assert_eq!(store.attachment(id, &image.sha256).await?, image_of);
        assert_eq!(store.attachment(id, &other.sha256).await?, other_of);
    }
    Ok(())
}

pub(super) async fn unused_ones_are_bounded_and_pruned(store: &Store) -> Result<(), Error> {
    let tenant = uuid::Uuid::now_v7().to_string();
    let all = [conversation(&tenant, &[]), conversation(&tenant, &[]), conversation(&tenant, &[])];
    for (nth, one) in all.iter().enumerate() {
        assert_eq!(store.keep_conversation(one, Vec::new(), 2).await?, nth < 2);
    }
    let begun = NewTurn { conversation: Some(all[0].id), ..of_tenant(&tenant, "hello") };
    store.submit(begun).await?;
    assert!(store.keep_conversation(&all[2], Vec::new(), 2).await?, "one that was begun does not count");
    let metadata = Map::from_iter([("topic".to_owned(), json!("other"))]);
    assert!(store.set_conversation_metadata(all[2].id, &metadata).await?);
    assert_eq!(store.conversation(all[2].id).await?.map(|it| it.metadata), Some(metadata));
    assert!(store.delete_conversation(all[2].id).await?);
    assert!(!store.delete_conversation(all[2].id).await?);

    let which = Prune { before: all[1].created_at + 1, strategy: None, by: "test".into() };
    store.prune(&which, DryRun::Yes, |_| ()).await?;
    assert!(store.conversation(all[1].id).await?.is_some());
    store.prune(&which, DryRun::No, |_| ()).await?;
    assert_eq!(store.conversation(all[1].id).await?, None);
    assert!(store.conversation(all[0].id).await?.is_some(), "its thread has a queued turn");
    Ok(())
}

on_databases! {
    distributed:
    a_first_turn_begins_the_thread_with_the_items,
    one_of_many_first_turns_begins_the_thread,
    items_keep_their_images,
    unused_ones_are_bounded_and_pruned,
}
