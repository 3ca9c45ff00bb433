//! Finds the batch of an earlier submission of the same file and options.
//!
//! A submission has a name, the hash of the file and the options. The batch keeps it in its metadata.
//!
//! ## Why the name changes after an abandoned batch
//!
//! A file is submitted again after its batch failed or was cancelled. The name is also the idempotency key of the batch, so
//! the next submission needs a new one: the hash of the name and the abandoned batch.

use std::collections::HashMap;

use api_types::{Batch, BatchStatus, OpenAiList};
use reqwest::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::DEFAULT_TENANT;

use crate::client::{Client, path, refusal};

/// Metadata key with the name of the submission.
pub(super) const SUBMISSION: &str = "turnfold_submission";

/// Number of batches listed at a time.
const PAGE: u32 = 100;

/// The batch of a submission.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) id: String,
    /// Reason why the batch is not continued, if it is not.
    pub(super) abandoned: Option<Abandoned>,
}

/// Reason why a batch is not continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// No line could be run.
    Failed,
    /// It was cancelled, or is being cancelled.
    Cancelled,
}

/// Batches by the name of their submission.
#[derive(Debug, Default)]
pub(super) struct Batches(HashMap<String, Known>);

impl Batches {
    pub(super) fn note(&mut self, metadata: &Value, known: impl FnOnce() -> Known) {
        if let Some(name) = metadata[SUBMISSION].as_str() {
            self.0.entry(name.to_owned()).or_insert_with(known);
        }
    }

    /// Follows the names from the first to the one that has a batch to continue, or none yet.
    pub(super) fn latest(&self, first: &str) -> Submission {
        let mut so_far = Submission { name: first.to_owned(), batch: None, abandoned: None };
        while let Some(known) = self.0.get(&so_far.name) {
            if known.abandoned.is_none() {
                so_far.batch = Some(known.clone());
                break;
            }
            so_far.name =
                hex::encode(Sha256::new().chain_update(&so_far.name).chain_update(&known.id).finalize());
            so_far.abandoned = Some(known.clone());
        }
        so_far
    }
}

/// State of a submission.
pub(super) struct Submission {
    /// Name for the next batch of the submission.
    pub(super) name: String,
    /// The batch to continue, if there is one.
    pub(super) batch: Option<Known>,
    /// The last abandoned batch.
    pub(super) abandoned: Option<Known>,
}

/// Looks up the submission with this name among the tenant's batches.
pub(super) async fn find(client: &Client, first: &str) -> anyhow::Result<Submission> {
    let mut list = List::of(client);
    let mut made = Batches::default();
    while let Some(batches) = list.next().await? {
        for batch in &batches {
            let abandoned = if batch.status == BatchStatus::Failed {
                Some(Abandoned::Failed)
            } else {
                batch.cancelling_at.map(|_| Abandoned::Cancelled)
            };
            made.note(&batch.metadata, || Known { id: batch.id.clone(), abandoned });
        }
        // The batches that follow an abandoned one are newer, so they are already listed.
        if made.0.contains_key(first) {
            break;
        }
    }
    Ok(made.latest(first))
}

/// Loads a batch with all fields; a list omits the causes of failures.
pub(super) async fn load(client: &Client, known: &Known) -> anyhow::Result<Batch> {
    client.get(&path(&["batches", &known.id])?).await
}

/// The batches of one tenant, newest first, page by page.
struct List<'a> {
    client: &'a Client,
    /// True if requests name the default tenant.
    ///
    /// ## Why
    ///
    /// An operator without `--tenant` creates batches of the default tenant but lists those of all tenants. The key of
    /// another tenant is refused under this name; the list then continues without it.
    names_default: bool,
    /// Last batch that was read, empty at the start; `None` after the last page.
    after: Option<String>,
}

impl<'a> List<'a> {
    fn of(client: &'a Client) -> Self {
        Self { client, names_default: !client.names_tenant(), after: Some(String::new()) }
    }

    async fn next(&mut self) -> anyhow::Result<Option<Vec<Batch>>> {
        let Some(after) = self.after.take() else { return Ok(None) };
        let page = match self.page(&after).await {
            Err(err) if after.is_empty() && self.names_default && refusal(&err).is_some() => {
                self.names_default = false;
                self.page(&after).await?
            }
            page => page?,
        };
        if page.has_more {
            self.after = page.data.last().map(|batch| batch.id.clone());
        }
        Ok(Some(page.data))
    }

    async fn page(&self, after: &str) -> anyhow::Result<OpenAiList<Batch>> {
        let after = if after.is_empty() { String::new() } else { format!("&after={after}") };
        let request = self.client.request(Method::GET, &format!("/v1/batches?limit={PAGE}{after}"));
        let request = match self.names_default {
            true => request.header("x-turnfold-tenant", DEFAULT_TENANT),
            false => request,
        };
        self.client.fetch(request).await
    }
}

#[test]
fn the_name_changes_after_an_abandoned_batch() {
    use serde_json::json;
    let mut made = Batches::default();
    let note = |made: &mut Batches, name: &str, id: &str, abandoned: Option<Abandoned>| {
        made.note(&json!({SUBMISSION: name}), || Known { id: id.to_owned(), abandoned });
    };
    let none = made.latest("first");
    assert!(none.name == "first" && none.batch.is_none() && none.abandoned.is_none());
    note(&mut made, "first", "batch_1", Some(Abandoned::Cancelled));
    let second = made.latest("first");
    assert!(second.name != "first" && second.batch.is_none());
    assert_eq!(second.abandoned.unwrap().id, "batch_1");
    note(&mut made, &second.name, "batch_2", Some(Abandoned::Failed));
    let third = made.latest("first");
    assert!(third.name != second.name && third.abandoned.unwrap().id == "batch_2");
    note(&mut made, &third.name, "batch_3", None);
    let last = made.latest("first");
    assert!(last.name == third.name && last.batch.unwrap().id == "batch_3");
}
