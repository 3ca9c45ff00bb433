//! Whether a file was submitted before: by the name of its submission, which the batch made of it keeps.
//!
//! ## Why a batch that was given up is followed by another name
//!
//! Whoever submits a file whose batch was called off or has failed wants it run. The name is also the key of the batch's
//! creation, and a key has one batch: so the next name is made of the first and of the batch that was given up.

use std::collections::HashMap;

use reqwest::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::DEFAULT_TENANT;

use crate::client::{Client, listed, name, path, refusal};

/// Where a batch keeps the name of its submission.
pub(super) const SUBMISSION: &str = "turnfold_submission";

/// How many batches are asked for at once.
const PAGE: u32 = 100;

/// A batch that was made of a submission.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) id: String,
    /// Why nobody goes on with it, if nobody does.
    pub(super) given_up: Option<GivenUp>,
}

/// Why nobody goes on with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// No line of it could be run.
    Failed,
    /// Somebody called it off; it may still be on its way to that end.
    CalledOff,
}

/// Batches by the names of their submissions.
#[derive(Debug, Default)]
pub(super) struct Made(HashMap<String, Known>);

impl Made {
    pub(super) fn note(&mut self, metadata: &Value, known: impl FnOnce() -> Known) {
        if let Some(name) = metadata[SUBMISSION].as_str() {
            self.0.entry(name.to_owned()).or_insert_with(known);
        }
    }

    /// What has become of the submission of this name.
    pub(super) fn of(&self, first: &str) -> Submitted {
        let mut so_far = Submitted { name: first.to_owned(), batch: None, given_up: None };
        while let Some(known) = self.0.get(&so_far.name) {
            if known.given_up.is_none() {
                so_far.batch = Some(known.clone());
                break;
            }
            so_far.name =
                hex::encode(Sha256::new().chain_update(&so_far.name).chain_update(&known.id).finalize());
            so_far.given_up = Some(known.clone());
        }
        so_far
    }
}

/// What has become of a submission.
pub(super) struct Submitted {
    /// What it is called now.
    pub(super) name: String,
    /// The batch to go on with, if there is one.
    pub(super) batch: Option<Known>,
    /// The last one that was given up.
    pub(super) given_up: Option<Known>,
}

/// What has become of the submission of this name, by all batches of whoever asks.
pub(super) async fn submitted(client: &Client, first: &str) -> anyhow::Result<Submitted> {
    let mut list = List::of(client);
    let mut made = Made::default();
    while let Some(batches) = list.next().await? {
        for it in &batches {
            let given_up = match name(it, "status") {
                "failed" => Some(GivenUp::Failed),
                _ if it["cancelling_at"].is_number() => Some(GivenUp::CalledOff),
                _ => None,
            };
            made.note(&it["metadata"], || Known { id: name(it, "id").to_owned(), given_up });
        }
        // What follows one that was given up is newer, and comes first.
        if made.0.contains_key(first) {
            break;
        }
    }
    Ok(made.of(first))
}

/// The batch of this id, with all that is told of it: a list does not tell why lines failed.
pub(super) async fn whole(client: &Client, known: &Known) -> anyhow::Result<Value> {
    client.get(&path(&["batches", &known.id])?).await
}

/// The batches of one tenant, page by page, the newest first.
struct List<'a> {
    client: &'a Client,
    /// Whether the default tenant is named.
    ///
    /// ## Why it is
    ///
    /// An operator who names nobody makes batches for that tenant, and sees those of all; the key of another tenant, which
    /// sees its own alone, is refused under this name and goes on without.
    by_default: bool,
    /// The last batch that was read, once there is one; none, after the last page.
    after: Option<String>,
}

impl<'a> List<'a> {
    fn of(client: &'a Client) -> Self {
        Self { client, by_default: !client.names_tenant(), after: Some(String::new()) }
    }

    async fn next(&mut self) -> anyhow::Result<Option<Vec<Value>>> {
        let Some(after) = self.after.take() else { return Ok(None) };
        let page = match self.page(&after).await {
            Err(err) if after.is_empty() && self.by_default && refusal(&err).is_some() => {
                self.by_default = false;
                self.page(&after).await?
            }
            page => page?,
        };
        let batches = listed(&page).to_vec();
        if page["has_more"] == true {
            self.after = batches.last().map(|it| name(it, "id").to_owned());
        }
        Ok(Some(batches))
    }

    async fn page(&self, after: &str) -> anyhow::Result<Value> {
        let after = if after.is_empty() { String::new() } else { format!("&after={after}") };
        let request = self.client.request(Method::GET, &format!("/v1/batches?limit={PAGE}{after}"));
        let request = match self.by_default {
            true => request.header("x-turnfold-tenant", DEFAULT_TENANT),
            false => request,
        };
        Ok(self.client.send(request).await?.json().await?)
    }
}

#[test]
fn a_batch_that_was_given_up_is_followed_by_another_name() {
    use serde_json::json;
    let mut made = Made::default();
    let note = |made: &mut Made, name: &str, id: &str, given_up: Option<GivenUp>| {
        made.note(&json!({SUBMISSION: name}), || Known { id: id.to_owned(), given_up });
    };
    let none = made.of("first");
    assert!(none.name == "first" && none.batch.is_none() && none.given_up.is_none());
    note(&mut made, "first", "batch_1", Some(GivenUp::CalledOff));
    let second = made.of("first");
    assert!(second.name != "first" && second.batch.is_none());
    assert_eq!(second.given_up.unwrap().id, "batch_1");
    note(&mut made, &second.name, "batch_2", Some(GivenUp::Failed));
    let third = made.of("first");
    assert!(third.name != second.name && third.given_up.unwrap().id == "batch_2");
    note(&mut made, &third.name, "batch_3", None);
    let last = made.of("first");
    assert!(last.name == third.name && last.batch.unwrap().id == "batch_3");
}
