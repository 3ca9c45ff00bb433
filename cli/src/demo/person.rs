//! The person whom the agents ask: answers questions as the batch file says, and looks into the servers' books where
//! a call is in doubt.

use std::{collections::BTreeSet, path::Path};

use experts::Ledger;
use serde_json::{Value, json};
use shared::{Event, Request};
use store::{Store, TurnId};

use super::waiting;
use crate::client::Client;

pub(super) struct Person<'a> {
    client: &'a Client,
    folder: &'a Path,
    answered: BTreeSet<TurnId>,
    reconciled: usize,
}

impl<'a> Person<'a> {
    pub(super) fn new(client: &'a Client, folder: &'a Path) -> Self {
        Self { client, folder, answered: BTreeSet::new(), reconciled: 0 }
    }

    /// How many questions were answered.
    pub(super) fn answers(&self) -> usize {
        self.answered.len()
    }

    /// How many calls in doubt were told.
    pub(super) fn reconciled(&self) -> usize {
        self.reconciled
    }

    /// Answers what is asked; how many questions there were.
    pub(super) async fn look(&mut self, store: &Store) -> anyhow::Result<usize> {
        let mut asked = 0;
        for turn in waiting(store).await? {
            if self.answered.contains(&turn.id) {
                continue;
            }
            let thread = self.client.get(&format!("/v1/threads/{}", turn.thread)).await?;
            if thread["interrupt"]["kind"] == "in_doubt" {
                self.reconcile(store, &turn, &thread).await?;
                asked += 1;
            } else if let (Some(answer), true) =
                (turn.metadata["answer"].as_str(), thread["interrupt"].is_object())
            {
                self.client
                    .post(&format!("/v1/threads/{}/answer", turn.thread), &json!({"text": answer}))
                    .await?;
                self.answered.insert(turn.id);
                asked += 1;
            }
        }
        Ok(asked)
    }

    /// Did it happen? The server's own books say so.
    async fn reconcile(&mut self, store: &Store, turn: &store::Turn, thread: &Value) -> anyhow::Result<()> {
        let (_, log) = store.load(turn.thread).await?;
        let mut asked = None;
        let mut doubted = None;
        for it in log {
            if let Event::Asked(event) = it.event {
                asked = Some((it.seq, event.requests));
            } else if let Event::Doubted(event) = it.event {
                doubted = Some(event.slot);
            }
        }
        let (Some((seq, requests)), Some(slot)) = (asked, doubted) else { return Ok(()) };
        let Some(Request::CallTool { server, .. }) = requests.get(slot) else { return Ok(()) };
        let key = format!("{}:{seq}:{slot}", turn.thread);
        let applied = Ledger::read(&self.folder.join(format!("{server}.json")))?.applied;
        let verdict = match applied.get(&key) {
            Some(_) => json!({"happened": {"result": "it stands in the server's books"}}),
            None => json!("did_not"),
        };
        let thread = &thread["id"].as_str().unwrap_or_default();
        self.client
            .post(&format!("/v1/threads/{thread}/reconcile"), &json!({"slot": slot, "verdict": verdict}))
            .await?;
        self.reconciled += 1;
        Ok(())
    }
}
