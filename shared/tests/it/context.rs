//! Threads that are longer than the context window of their model.
//!
//! A simulated endpoint counts what it receives, one token per four bytes, and refuses a request that has more than its
//! window, as a real one does. `TURNFOLD_CONTEXT_TURNS=2000` sets the length of the long threads.

mod refusals;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    ContextSettings, DynThread, Event, Fault, FaultKind, Graph, Message, Next, PendingRequest, Policy, Reply,
    Request, Response, Role, RunStatus, SUMMARISE_NODE, Tool, ToolCall, ToolOutput, Usage, replay, rerun,
};

/// Endpoint and tools, simulated.
struct Simulated {
    /// Tokens that the model takes.
    window: u64,
    /// Images and files that the model takes.
    attachments: usize,
    /// A refusal of a request that is too large.
    refusal: FaultKind,
    /// Node whose requests are all refused.
    refuses_node: Option<&'static str>,
    /// Arguments of the tool calls that the model makes in each turn, one round each.
    rounds: Vec<Value>,
    /// Characters of a tool result.
    result: usize,
    /// Number of refusals.
    refusals: usize,
    /// Messages and tokens of each request that was answered, with its node.
    received: Vec<(String, Vec<Message>, u64)>,
}

impl Default for Simulated {
    fn default() -> Self {
        Self {
            window: 8_000,
            attachments: usize::MAX,
            refusal: FaultKind::ContextExceeded { context_tokens: Some(8_000) },
            refuses_node: None,
            rounds: vec![json!({"path": "notes.txt"})],
            result: 600,
            refusals: 0,
            received: Vec::new(),
        }
    }
}

fn tools() -> Vec<Tool> {
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    vec![serde_json::from_value(json!({"name": "read", "description": "Reads a file.", "parameters": parameters, "safety": "read"})).unwrap()]
}

impl Simulated {
    fn answer(
        &mut self,
        thread: &dyn DynThread,
        due: &PendingRequest,
    ) -> Result<(Response, Option<Usage>), Fault> {
        match &due.request {
            Request::Chat { system, .. } => {
                let messages = thread.messages_of(&due.request).into_owned();
                let node = thread.node().unwrap();
                let schema = thread.schema().map_or(0, |schema| schema.to_string().len());
                let bytes: usize =
                    messages.iter().map(|message| serde_json::to_string(message).unwrap().len()).sum();
                let tokens = ((bytes + system.len() + schema) / 4) as u64;
                let attachments: usize = messages.iter().map(|message| message.attachments.len()).sum();
                let is_refused = self.refuses_node == Some(node.as_str());
                if self.window < tokens || self.attachments < attachments || is_refused {
                    self.refusals += 1;
                    return Err(Fault::new("too long", self.refusal));
                }
                let reply = self.reply(&node, thread, &messages);
                let usage = Usage {
                    model: "model".to_owned(),
                    input_tokens: tokens,
                    output_tokens: (reply.content.len() / 4 + 1) as u64,
                    micro_usd: Some(tokens),
                    ..Usage::default()
                };
                self.received.push((node, messages, tokens));
                Ok((Response::Reply(reply), Some(usage)))
            }
            Request::ListTools { .. } => Ok((Response::Tools { tools: tools() }, None)),
            Request::CallTool { .. } => {
                let text: String =
                    (0..).map(|nth| format!("line {nth} of the file\n")).take(self.result / 12).collect();
                let text = text.chars().take(self.result).collect();
                Ok((Response::Output(ToolOutput::Ok(text)), None))
            }
            other => panic!("{other}"),
        }
    }

    fn reply(&self, node: &str, thread: &dyn DynThread, messages: &[Message]) -> Reply {
        let text = |content: String| Reply { content, ..Reply::default() };
        match node {
            SUMMARISE_NODE => {
                text(format!("The person asks about files. {}", "It was answered. ".repeat(40)))
            }
            "plan" => text(
                json!({"decision": "replace", "plan": [{"expert": "files", "task": "read"}], "next_task": 0})
                    .to_string(),
            ),
            "orchestrate" => {
                let own = thread.messages().iter().rposition(|message| message.role == Role::User).unwrap();
                let round =
                    thread.messages()[own..].iter().filter(|message| !message.tool_calls.is_empty()).count();
                let Some(arguments) = self.rounds.get(round) else { return text("It is read.".to_owned()) };
                let name = if arguments.get("from").is_some() { "read_more" } else { "read" };
                let id = format!("call_{}_{round}", thread.messages().len());
                let tool_calls = vec![ToolCall { id, name: name.to_owned(), arguments: arguments.clone() }];
                Reply { tool_calls, ..Reply::default() }
            }
            "assess" => {
                let done = messages.last().is_some_and(|message| message.role == Role::Assistant)
                    || self.rounds.len() == 1;
                text(json!({"is_completed": done, "explanation": "", "confidence": 0.9}).to_string())
            }
            "respond" => text("The file has lines, and this is what they say. ".repeat(8)),
            other => panic!("{other}"),
        }
    }
}

fn planner() -> &'static dyn Graph {
    strategies::find("planner").unwrap()
}

fn opened(context: ContextSettings, config: Value) -> Event {
    let context = serde_json::to_value(context).unwrap();
    let opened = json!({
        "event": "opened", "strategy": "planner", "version": 1, "config": config, "context": context,
        "servers": {"files": "reads files"},
    });
    serde_json::from_value(opened).unwrap()
}

fn window_of(tokens: u64) -> ContextSettings {
    let context_tokens = BTreeMap::from([("local/small".to_owned(), tokens)]);
    ContextSettings { context_tokens, ..ContextSettings::default() }
}

fn small() -> Value {
    json!({"model": "local/small", "rounds": 60, "model_calls": 500})
}

/// A thread, and its log.
struct RunningThread {
    thread: Box<dyn DynThread>,
    log: Vec<Event>,
}

impl RunningThread {
    fn open(opened: Event) -> Self {
        let mut running = Self { thread: planner().begin(), log: Vec::new() };
        running.push(opened);
        running
    }

    fn push(&mut self, event: Event) {
        self.thread.apply(&event).unwrap();
        self.log.push(event);
    }

    fn send(&mut self, endpoint: &mut Simulated, messages: Vec<Message>) -> RunStatus {
        let event = self.thread.accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, messages).unwrap();
        self.push(event);
        self.run(endpoint)
    }

    /// Runs until the thread waits for a person.
    fn run(&mut self, endpoint: &mut Simulated) -> RunStatus {
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

    fn ask(&mut self, endpoint: &mut Simulated, text: &str) {
        let status = self.send(endpoint, vec![Message::user(text)]);
        assert_eq!(status, RunStatus::Idle, "{text}");
        assert!(self.thread.reply().is_some_and(|reply| reply.starts_with("The file has lines")), "{text}");
    }

    fn summaries(&self) -> Vec<usize> {
        let upto =
            |event: &Event| if let Event::Summarised(summary) = event { Some(summary.upto) } else { None };
        self.log.iter().filter_map(upto).collect()
    }

    /// Checks the laws that hold however long the thread is.
    fn check(&self) {
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

fn turns(default: usize) -> usize {
    std::env::var("TURNFOLD_CONTEXT_TURNS").ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Every tool result in a request follows its call.
fn assert_paired(messages: &[Message]) {
    let mut open = Vec::new();
    for message in messages {
        match &message.tool_call_id {
            Some(id) => assert!(open.iter().any(|call| call == id), "a result without its call"),
            None => open = message.tool_calls.iter().map(|call| call.id.clone()).collect(),
        }
    }
}

/// Runs a long thread and returns the tokens that each turn sent to models.
fn long_thread(endpoint: &mut Simulated, running: &mut RunningThread, turns: usize) -> Vec<u64> {
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

fn mean(tokens: &[u64]) -> u64 {
    tokens.iter().sum::<u64>() / tokens.len() as u64
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is the result of the test")]
fn a_long_thread_stays_within_a_small_window_and_its_turns_cost_the_same() {
    let turns = turns(120);
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let tokens = long_thread(&mut endpoint, &mut running, turns);
    assert_eq!(endpoint.refusals, 0, "the endpoint refuses no request that was counted before");
    running.check();
    let tenth = turns / 10;
    let (early, late) = (mean(&tokens[2 * tenth..4 * tenth]), mean(&tokens[turns - 2 * tenth..]));
    println!(
        "{turns} turns, {} summaries, {} messages",
        running.summaries().len(),
        running.thread.messages().len()
    );
    println!("tokens of a turn: {early} early, {late} late, {} at most", tokens.iter().max().unwrap());
    assert!(late <= early * 11 / 10 && early <= late * 11 / 10, "{early} early and {late} late");
    assert!(
        turns / 40 < running.summaries().len() && running.summaries().len() < turns / 3,
        "{:?}",
        running.summaries()
    );
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is the result of the test")]
fn a_result_of_900_000_characters_is_shown_shortened_and_can_be_read_on() {
    let turns = turns(30);
    let mut endpoint = Simulated {
        rounds: vec![json!({"path": "all.txt"}), json!({"result": 2, "from": 400_000})],
        result: 900_000,
        ..Simulated::default()
    };
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    running.ask(&mut endpoint, "Read it all");
    let results: Vec<&Message> =
        running.thread.messages().iter().filter(|message| message.role == Role::Tool).collect();
    assert_eq!(results[0].content.chars().count(), 900_000, "the log keeps all of it");
    assert!(results[1].content.starts_with("[Characters 400000 to "), "{:.80}", results[1].content);
    let seen = |node: &str, text: &str| {
        endpoint.received.iter().any(|(of, messages, _)| {
            of == node && messages.iter().any(|message| message.content.contains(text))
        })
    };
    assert!(seen(
        "orchestrate",
        "of 900000 characters are left out here. To read on, call read_more with result 2 and from"
    ));
    assert!(seen("orchestrate", "[Characters 400000 to "));
    assert!(
        seen("respond", "characters are left out here.]") && !seen("respond", "To read on"),
        "it has no tools"
    );
    assert!(!running.log.iter().any(|event| matches!(event, Event::Answered(answered) if matches!(&answered.response, Response::Output(output) if output.model_text().starts_with("[Characters")))), "no copy in the log");
    endpoint.rounds = vec![json!({"path": "notes.txt"})];
    endpoint.received.clear();
    let tokens = long_thread(&mut endpoint, &mut running, turns);
    assert_eq!(endpoint.refusals, 0);
    running.check();
    println!("tokens of a turn with a result of 900,000 characters: {} on average", mean(&tokens));
}

/// A model of unknown size works until it refuses, and from then on within its window.
#[test]
fn a_refusal_makes_the_window_known() {
    for names_window in [true, false] {
        let context_tokens = names_window.then_some(8_000);
        let refusal = FaultKind::ContextExceeded { context_tokens };
        let mut endpoint = Simulated { refusal, ..Simulated::default() };
        let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
        long_thread(&mut endpoint, &mut running, 60);
        running.check();
        assert!((1..=3).contains(&endpoint.refusals), "{} refusals, named {names_window}", endpoint.refusals);
        let learned: Vec<u64> = running
            .log
            .iter()
            .filter_map(
                |event| if let Event::AttemptFailed(failed) = event { failed.context_tokens } else { None },
            )
            .collect();
        assert!(!names_window || learned == [8_000], "{learned:?}");
        assert!(learned.is_sorted_by(|one, next| next < one), "{learned:?}");
    }
}

/// An endpoint that counts twice as many tokens as estimated teaches it too.
#[test]
fn an_estimate_that_is_too_low_is_corrected() {
    let refusal = FaultKind::ContextExceeded { context_tokens: Some(2_500) };
    let mut endpoint = Simulated { window: 2_500, refusal, ..Simulated::default() };
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    long_thread(&mut endpoint, &mut running, 40);
    running.check();
    assert!((1..=4).contains(&endpoint.refusals), "{}", endpoint.refusals);
}

#[test]
fn a_message_that_cannot_fit_fails_with_a_way_out_and_the_next_turn_goes_on() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    running.ask(&mut endpoint, "Read the notes");
    let from = running.log.len();
    let huge = "many words of a person who pastes a whole book ".repeat(2_000);
    let status = running.send(&mut endpoint, vec![Message::user(huge.clone())]);
    let RunStatus::Failed { node, reason } = status else { panic!("{status:?}") };
    assert_eq!(node, "plan");
    assert!(
        reason.contains("takes 8000 tokens") && reason.contains("hint: send a shorter message"),
        "{reason}"
    );
    assert!(!reason.contains("say something new"), "{reason}");
    assert_eq!(running.log.len(), from + 2, "nothing is asked: {:#?}", &running.log[from..].len());
    assert_eq!(endpoint.refusals, 0);

    running.push(serde_json::from_value(json!({"event": "retried"})).unwrap());
    assert!(
        matches!(running.thread.next().unwrap(), Next::Append(Event::Failed(_))),
        "a retry comes to the same"
    );
    let Next::Append(failed) = running.thread.next().unwrap() else { panic!() };
    running.push(failed);

    running.ask(&mut endpoint, "Read the notes again");
    assert!(
        !endpoint
            .received
            .iter()
            .any(|(_, messages, _)| messages.iter().any(|message| message.content == huge))
    );
    running.check();
}

/// A client may send a whole conversation as one turn. The last message is the person's own, and the rest is summarised.
#[test]
fn a_conversation_that_arrives_in_one_turn_is_summarised_too() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let mut messages = vec![Message::new(Role::System, "Answer in verse.")];
    for nth in 0..100 {
        messages.push(Message::user(format!("Question {nth} {}", "with more words ".repeat(20))));
        messages.push(Message::assistant("An answer of some length. ".repeat(10)));
    }
    messages.push(Message::user("The last question"));
    assert_eq!(running.send(&mut endpoint, messages), RunStatus::Idle);
    running.check();
    assert!(!running.summaries().is_empty());
    let (_, respond, _) = endpoint.received.last().unwrap();
    let all: Vec<&str> = respond.iter().map(|message| message.content.as_str()).collect();
    assert!(all[0].starts_with("[Summary of the "), "{all:?}");
    assert!(all.contains(&"Answer in verse.") && all.contains(&"The last question"), "{all:?}");
    assert!(!all.iter().any(|text| text.starts_with("Question 0 ")), "{all:?}");
}

/// A turn of many calls is summarised between them, and keeps the person's own message.
#[test]
fn a_turn_that_is_longer_than_the_window_is_summarised_between_its_calls() {
    let rounds = (0..50).map(|nth| json!({"path": format!("{nth}.txt")})).collect();
    let mut endpoint = Simulated { rounds, result: 2_000, ..Simulated::default() };
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    running.ask(&mut endpoint, "Read fifty files");
    running.check();
    assert!(1 < running.summaries().len());
    for (node, messages, _) in &endpoint.received {
        assert_paired(messages);
        let own = messages.iter().any(|message| message.content == "Read fifty files");
        assert!(own || node == "assess" || node == SUMMARISE_NODE, "{node}");
    }
}

/// Many results of one message cannot be summarised before they are read, so each is shown shorter.
#[test]
fn results_of_one_message_are_shortened_until_all_fit() {
    struct Many(Simulated);
    let mut endpoint = Many(Simulated { result: 20_000, ..Simulated::default() });
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let event = running
        .thread
        .accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, vec![Message::user("All")])
        .unwrap();
    running.push(event);
    let status = loop {
        match running.thread.next().unwrap() {
            Next::Append(event) => running.push(event),
            Next::Wait => break running.thread.status(),
            Next::Perform(due) => {
                for attempt in due {
                    let mut outcome = endpoint.0.answer(&*running.thread, &attempt);
                    if let Ok((Response::Reply(reply), _)) = &mut outcome
                        && let Some(call) = reply.tool_calls.first().cloned()
                    {
                        let one = |nth| ToolCall {
                            id: format!("{}_{nth}", call.id),
                            arguments: json!({"path": nth}),
                            ..call.clone()
                        };
                        reply.tool_calls = (0..16).map(one).collect();
                    }
                    let event = running.thread.receive(attempt.slot, outcome, 0);
                    running.push(event);
                }
            }
        }
    };
    assert_eq!(status, RunStatus::Idle);
    running.check();
    let shown = |event: &Event| match event {
        Event::Asked(asked) => asked.requests.iter().find_map(|request| {
            if let Request::Chat { tool_result_tokens, .. } = request { *tool_result_tokens } else { None }
        }),
        _ => None,
    };
    let shown: Vec<u64> = running.log.iter().filter_map(shown).collect();
    assert!(!shown.is_empty() && shown.iter().all(|bytes| *bytes < 1_000), "{shown:?}");
    assert_eq!(endpoint.0.refusals, 0);
}

/// An empty summary is asked for again, and accepted in the end.
#[test]
fn a_model_that_writes_no_summary_does_not_block_the_thread() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let mut empty = 0;
    for turn in 0..30 {
        let text = format!("Turn {turn} {}", "and more words for it ".repeat(20));
        let event = running
            .thread
            .accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, vec![Message::user(text)])
            .unwrap();
        running.push(event);
        loop {
            match running.thread.next().unwrap() {
                Next::Append(event) => running.push(event),
                Next::Wait => break,
                Next::Perform(due) => {
                    for attempt in due {
                        let mut outcome = endpoint.answer(&*running.thread, &attempt);
                        if running.thread.node().as_deref() == Some(SUMMARISE_NODE)
                            && let Ok((Response::Reply(reply), _)) = &mut outcome
                        {
                            empty += 1;
                            reply.content = " \n".to_owned();
                        }
                        let event = running.thread.receive(attempt.slot, outcome, 0);
                        running.push(event);
                    }
                }
            }
        }
        assert_eq!(running.thread.status(), RunStatus::Idle);
    }
    running.check();
    assert_eq!(empty, running.summaries().len() * 4);
    assert!(
        endpoint
            .received
            .iter()
            .any(|(_, messages, _)| messages[0].content.ends_with("before this one are not shown.]"))
    );
}

/// A thread whose requests fit is asked for exactly what it was before.
/// The engine's own node is configured like any other.
#[test]
fn the_summary_has_a_model_and_a_prompt_of_its_own() {
    let node =
        json!({"model": "local/terse", "prompt": "{prompt}\nIn German, {words} words.", "max_tokens": 300});
    let mut config = small();
    config["nodes"] = json!({ SUMMARISE_NODE: node });
    planner().check_config(&config).unwrap();
    let unknown = json!({"nodes": {SUMMARISE_NODE: {"prompt": "{plan}"}}});
    let refused = planner().check_config(&unknown).unwrap_err().to_string();
    assert!(refused.contains("nodes.engine.summarise.prompt") && refused.contains("plan"), "{refused}");

    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), config));
    long_thread(&mut endpoint, &mut running, 30);
    running.check();
    let asked = running
        .log
        .iter()
        .filter_map(|event| if let Event::Asked(asked) = event { Some(asked) } else { None });
    let summaries: Vec<&Request> =
        asked.filter(|asked| asked.node == SUMMARISE_NODE).map(|asked| &asked.requests[0]).collect();
    assert!(!summaries.is_empty());
    for request in summaries {
        let Request::Chat { model, system, prompt, parameters, .. } = request else { panic!("{request:?}") };
        let own = node["prompt"].as_str().unwrap();
        assert_eq!((model.as_str(), *prompt == Some(shared::prompt_hash(own))), ("local/terse", true));
        assert!(system.contains("In German, ") && !system.contains('{'), "{system}");
        assert_eq!(parameters.as_ref().unwrap().max_tokens, Some(300));
    }
}

#[test]
fn a_conversation_that_fits_is_not_changed() {
    for context in [ContextSettings::default(), window_of(200_000)] {
        let mut endpoint = Simulated { window: 200_000, ..Simulated::default() };
        let mut running = RunningThread::open(opened(context, small()));
        long_thread(&mut endpoint, &mut running, 5);
        for event in &running.log {
            let Event::Asked(asked) = event else { continue };
            for request in &asked.requests {
                let payload = serde_json::to_value(request).unwrap();
                assert!(payload.get("summarised").is_none() && payload.get("tool_result_tokens").is_none());
            }
        }
        assert!(running.summaries().is_empty());
    }
}
