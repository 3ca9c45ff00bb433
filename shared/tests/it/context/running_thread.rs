//! A thread that runs until it waits for a person, and the laws that hold for its log.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    ContextSettings, DynThread, Event, Graph, Message, Next, Policy, Request, Role, RunStatus,
    SUMMARISE_NODE, replay, rerun,
};

use super::simulated::Simulated;

/// A thread, and its log.
pub(super) struct RunningThread {
    pub(super) thread: Box<dyn DynThread>,
    pub(super) log: Vec<Event>,
}

impl RunningThread {
    pub(super) fn open(opened: Event) -> Self {
        let mut running = Self { thread: planner().begin(), log: Vec::new() };
        running.push(opened);
        running
    }

    pub(super) fn push(&mut self, event: Event) {
        self.thread.apply(&event).unwrap();
        self.log.push(event);
    }

    pub(super) fn send(&mut self, endpoint: &mut Simulated, messages: Vec<Message>) -> RunStatus {
        let event = self.thread.accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, messages).unwrap();
        self.push(event);
        self.run(endpoint)
    }

    /// Runs until the thread waits for a person.
    pub(super) fn run(&mut self, endpoint: &mut Simulated) -> RunStatus {
        loop {
            match self.thread.next().unwrap() {
                Next::Append(event) => self.push(event),
                Next::Wait => return self.thread.status(),
                Next::Perform(due) => {
                    for attempt in due {
                        let outcome = endpoint.answer(&*self.thread, &attempt);
                        let event = self.thread.receive(attempt.slot, outcome, 0);
                        self.push(event);
                    }
                }
            }
        }
    }

    pub(super) fn ask(&mut self, endpoint: &mut Simulated, text: &str) {
        let status = self.send(endpoint, vec![Message::user(text)]);
        assert_eq!(status, RunStatus::Idle, "{text}");
        assert!(self.thread.reply().is_some_and(|reply| reply.starts_with("The file has lines")), "{text}");
    }

    pub(super) fn summaries(&self) -> Vec<usize> {
        let upto =
            |event: &Event| if let Event::Summarised(summary) = event { Some(summary.upto) } else { None };
        self.log.iter().filter_map(upto).collect()
    }

    /// Checks the laws that hold however long the thread is.
    pub(super) fn check(&self) {
        assert_eq!(replay(planner(), &self.log).unwrap(), []);
        assert_eq!(rerun(planner(), &self.log).unwrap().log, self.log);
        let folded = planner().fold(&self.log).unwrap();
        assert_eq!(folded.messages(), self.thread.messages());
        let used = self.log.iter().filter_map(|event| match event {
            Event::Answered(answered) => answered.usage.clone(),
            Event::AttemptFailed(failed) => failed.usage.clone(),
            _ => None,
        });
        assert_eq!(
            folded.usage().micro_usd,
            used.filter_map(|usage| usage.micro_usd).sum::<u64>(),
            "every call is paid for"
        );
        let summaries = self.summaries();
        assert!(summaries.is_sorted_by(|one, next| one < next), "{summaries:?}");
        let asked = self
            .log
            .iter()
            .filter_map(|event| if let Event::Asked(asked) = event { Some(asked) } else { None });
        let mut covered = 0;
        for summary in asked.filter(|asked| asked.node == SUMMARISE_NODE) {
            let Request::Chat { context, .. } = &summary.requests[0] else { panic!("{summary:?}") };
            assert!(context.start <= covered, "nothing is left out");
            covered = covered.max(context.end);
            assert_ne!(self.thread.messages().get(context.end).map(|message| message.role), Some(Role::Tool));
        }
    }
}

pub(super) fn planner() -> &'static dyn Graph {
    strategies::find("planner").unwrap()
}

pub(super) fn opened(context: ContextSettings, config: Value) -> Event {
    let context = serde_json::to_value(context).unwrap();
    let opened = json!({
        "event": "opened", "strategy": "planner", "version": 1, "config": config, "context": context,
        "servers": {"files": "reads files"},
    });
    serde_json::from_value(opened).unwrap()
}

pub(super) fn window_of(tokens: u64) -> ContextSettings {
    let context_tokens = BTreeMap::from([("local/small".to_owned(), tokens)]);
    ContextSettings { context_tokens, ..ContextSettings::default() }
}

pub(super) fn small() -> Value {
    json!({"model": "local/small", "rounds": 60, "model_calls": 500})
}

/// Runs a long thread and returns the tokens that each turn sent to models.
pub(super) fn long_thread(endpoint: &mut Simulated, running: &mut RunningThread, turns: usize) -> Vec<u64> {
    let text = "and please mind what was said about the margins of the second table before ".repeat(3);
    (0..turns)
        .map(|turn| {
            let from = endpoint.received.len();
            let own = format!("Turn {turn}: read the notes, {text}");
            running.ask(endpoint, &own);
            for (node, messages, _) in &endpoint.received[from..] {
                assert_paired(messages);
                let receives = messages.iter().any(|message| message.content == own);
                assert!(
                    receives || node == "assess" || node == SUMMARISE_NODE,
                    "{node} does not receive {own}"
                );
            }
            let tokens = endpoint.received[from..].iter().map(|(_, _, tokens)| tokens).sum();
            // What was received is checked, and would fill the memory.
            endpoint.received.clear();
            tokens
        })
        .collect()
}

/// Every tool result in a request follows its call.
pub(super) fn assert_paired(messages: &[Message]) {
    let mut open = Vec::new();
    for message in messages {
        match &message.tool_call_id {
            Some(id) => assert!(open.iter().any(|call| call == id), "a result without its call"),
            None => open = message.tool_calls.iter().map(|call| call.id.clone()).collect(),
        }
    }
}
