//! Requests to forget what was learned about models.

use store::{Error, ForgottenModel, Store};

pub(super) async fn are_kept_by_model(store: &Store) -> Result<(), Error> {
    assert_eq!(store.forgotten_models().await?, []);
    let first = ForgottenModel { at: 7, ..ForgottenModel::new("openai/gpt-4o", "A\0da") };
    assert_eq!(first.by, "A\u{fffd}da");
    let other = ForgottenModel::new("local/x", "Bob");
    store.forget_model(&first, None).await?;
    store.forget_model(&other, None).await?;
    assert_eq!(store.forgotten_models().await?, [other.clone(), first]);
    let again = ForgottenModel::new("openai/gpt-4o", "Bob");
    store.forget_model(&again, None).await?;
    assert_eq!(store.forgotten_models().await?, [other, again], "the last request counts");
    Ok(())
}

on_databases!(are_kept_by_model);
