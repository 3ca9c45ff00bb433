//! The person of the demo: answers questions as the batch file says, and settles writes in doubt by reading the servers'
//! own data.
//!
//! The answers of a line (`metadata.answers`) are given to the questions of its thread, in order. A question that follows an
//! answer starts a turn of its own and gets the next answer.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use demo_servers::Ledger;
use serde_json::{Value, json};
use shared::{Event, Request};
use store::{Store, ThreadId, TurnId};

use super::interrupted_turns;
use crate::client::Client;

pub(super) struct Person<'a> {
    client: &'a Client,
    folder: &'a Path,
    /// The answers not given yet, by thread.
    remaining: BTreeMap<ThreadId, VecDeque<String>>,
    /// The turns whose answers were read from their metadata.
    loaded: BTreeSet<TurnId>,
    /// The turns whose question was handled.
    handled: BTreeSet<TurnId>,
    answers: usize,
    unanswered: BTreeMap<ThreadId, String>,
    reconciled: usize,
}

impl<'a> Person<'a> {
    pub(super) fn new(client: &'a Client, folder: &'a Path) -> Self {
        Self {
            client,
            folder,
            remaining: BTreeMap::new(),
            loaded: BTreeSet::new(),
            handled: BTreeSet::new(),
            answers: 0,
            unanswered: BTreeMap::new(),
            reconciled: 0,
        }
    }

    /// Number of questions answered.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// The questions for which the file has no answer, by thread.
    pub(super) fn into_unanswered(self) -> BTreeMap<ThreadId, String> {
        self.unanswered
    }

    /// Number of writes in doubt that were settled.
    pub(super) fn reconciled(&self) -> usize {
        self.reconciled
    }

    /// Answers the open questions and returns how many there were.
    pub(super) async fn answer_open_questions(&mut self, store: &Store) -> anyhow::Result<usize> {
        let mut open = 0;
        // Oldest first: the answers of a thread are in the metadata of its first turn.
        for turn in interrupted_turns(store).await?.into_iter().rev() {
            if self.handled.contains(&turn.id) {
                continue;
            }
            self.load_answers(&turn);
            let thread: Value = self.client.get(&format!("/v1/threads/{}", turn.thread)).await?;
            if thread["interrupt"]["kind"] == "in_doubt" {
                self.reconcile(store, &turn, &thread).await?;
                open += 1;
            } else if thread["interrupt"].is_object() {
                self.answer(&turn, &thread["interrupt"]).await?;
                open += 1;
            }
        }
        Ok(open)
    }

    fn load_answers(&mut self, turn: &store::Turn) {
        if self.loaded.insert(turn.id) {
            let answers = turn.metadata["answers"].as_array().into_iter().flatten();
            let answers = answers.filter_map(Value::as_str).map(str::to_owned);
            self.remaining.entry(turn.thread).or_default().extend(answers);
        }
    }

    /// Gives the thread's next answer. Without one, the question stays open.
    async fn answer(&mut self, turn: &store::Turn, interrupt: &Value) -> anyhow::Result<()> {
        match self.remaining.entry(turn.thread).or_default().pop_front() {
            Some(text) => {
                let url = format!("/v1/threads/{}/answer", turn.thread);
                self.client.post::<Value>(&url, &json!({ "text": text })).await?;
                self.answers += 1;
            }
            None => {
                let question = interrupt["question"].as_str().unwrap_or_default();
                self.unanswered.insert(turn.thread, question.to_owned());
            }
        }
        self.handled.insert(turn.id);
        Ok(())
    }

    /// Settles a write in doubt by reading the server's own data.
    async fn reconcile(&mut self, store: &Store, turn: &store::Turn, thread: &Value) -> anyhow::Result<()> {
        let (_, log) = store.load(turn.thread).await?;
        let mut asked = None;
        let mut doubted = None;
        for recorded in log {
            if let Event::Asked(event) = recorded.event {
                asked = Some((recorded.seq, event.requests));
            } else if let Event::InDoubt(event) = recorded.event {
                doubted = Some(event.slot);
            }
        }
        let (Some((seq, requests)), Some(slot)) = (asked, doubted) else { return Ok(()) };
        let Some(Request::CallTool { server, .. }) = requests.get(slot) else { return Ok(()) };
        let key = format!("{}:{seq}:{slot}", turn.thread);
        let applied = Ledger::read(&self.folder.join(format!("{server}.json")))?.applied;
        let verdict = match applied.get(&key) {
            Some(_) => json!({"happened": {"result": "it is in the server's data"}}),
            None => json!("did_not_happen"),
        };
        let thread = &thread["id"].as_str().unwrap_or_default();
        self.client
            .post::<Value>(
                &format!("/v1/threads/{thread}/reconcile"),
                &json!({"slot": slot, "verdict": verdict}),
            )
            .await?;
        self.reconciled += 1;
        Ok(())
    }
}
