//! The person whom the agents ask: answers questions as the batch file says, and looks into the servers' books where
//! a call is in doubt.
//!
//! A line's `metadata.answers` are given to the questions of its thread, in order: what is asked after an answer is asked
//! in a turn of its own, and gets the next one.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use experts::Ledger;
use serde_json::{Value, json};
use shared::{Event, Request};
use store::{Store, ThreadId, TurnId};

use super::waiting;
use crate::client::Client;

pub(super) struct Person<'a> {
    client: &'a Client,
    folder: &'a Path,
    /// What is left to say, by thread.
    left: BTreeMap<ThreadId, VecDeque<String>>,
    /// The turns whose answers were taken from their metadata.
    read: BTreeSet<TurnId>,
    /// The turns whose question was seen to.
    heard: BTreeSet<TurnId>,
    answers: usize,
    unanswered: BTreeMap<ThreadId, String>,
    reconciled: usize,
}

impl<'a> Person<'a> {
    pub(super) fn new(client: &'a Client, folder: &'a Path) -> Self {
        Self {
            client,
            folder,
            left: BTreeMap::new(),
            read: BTreeSet::new(),
            heard: BTreeSet::new(),
            answers: 0,
            unanswered: BTreeMap::new(),
            reconciled: 0,
        }
    }

    /// How many questions were answered.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// The questions that the file has no answer to, by thread.
    pub(super) fn into_unanswered(self) -> BTreeMap<ThreadId, String> {
        self.unanswered
    }

    /// How many calls in doubt were told.
    pub(super) fn reconciled(&self) -> usize {
        self.reconciled
    }

    /// Answers what is asked; how many questions there were.
    pub(super) async fn look(&mut self, store: &Store) -> anyhow::Result<usize> {
        let mut asked = 0;
        // The oldest first: the answers of a thread stand in its first turn.
        for turn in waiting(store).await?.into_iter().rev() {
            if self.heard.contains(&turn.id) {
                continue;
            }
            self.read(&turn);
            let thread = self.client.get(&format!("/v1/threads/{}", turn.thread)).await?;
            if thread["interrupt"]["kind"] == "in_doubt" {
                self.reconcile(store, &turn, &thread).await?;
                asked += 1;
            } else if thread["interrupt"].is_object() {
                self.answer(&turn, &thread["interrupt"]).await?;
                asked += 1;
            }
        }
        Ok(asked)
    }

    fn read(&mut self, turn: &store::Turn) {
        if self.read.insert(turn.id) {
            let answers = turn.metadata["answers"].as_array().into_iter().flatten();
            let answers = answers.filter_map(Value::as_str).map(str::to_owned);
            self.left.entry(turn.thread).or_default().extend(answers);
        }
    }

    /// Gives the thread's next answer. Where there is none, the question stays open.
    async fn answer(&mut self, turn: &store::Turn, interrupt: &Value) -> anyhow::Result<()> {
        match self.left.entry(turn.thread).or_default().pop_front() {
            Some(text) => {
                let url = format!("/v1/threads/{}/answer", turn.thread);
                self.client.post(&url, &json!({ "text": text })).await?;
                self.answers += 1;
            }
            None => {
                let question = interrupt["question"].as_str().unwrap_or_default();
                self.unanswered.insert(turn.thread, question.to_owned());
            }
        }
        self.heard.insert(turn.id);
        Ok(())
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
