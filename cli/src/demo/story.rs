//! One thread across the kill, summarized in a few lines: the request, each tool call with its result, and the reply.

use shared::{Decided, Event, Goto, Message, Request, Response, Role, ToolOutput, TurnStarted};
use store::Recorded;

/// Maximum number of lines of a story. The middle of a longer one is left out.
const MAX_LINES: usize = 12;
/// Maximum number of characters of a quoted text.
const MAX_QUOTE: usize = 66;
const KILL: &str = "  ════  SIGKILL: the engine died here; the next engine continued  ════";

/// Tells the story of a log, one line each, with a mark at the kill (microseconds since the Unix epoch).
pub(super) fn story(log: &[Recorded], killed_at: i64) -> Vec<String> {
    let mut teller = Teller::default();
    let mut killed = false;
    for recorded in log {
        if !killed && killed_at < recorded.at {
            killed = true;
            teller.lines.push(KILL.to_owned());
        }
        teller.event(recorded.seq, &recorded.event);
    }
    shortened(teller.lines)
}

#[derive(Default)]
struct Teller<'a> {
    lines: Vec<String>,
    node: &'a str,
    requests: &'a [Request],
    /// The slots whose call was attempted already: a second attempt is worth a line.
    attempted: Vec<usize>,
}

impl<'a> Teller<'a> {
    fn event(&mut self, seq: u64, event: &'a Event) {
        if let Event::TurnStarted(TurnStarted { messages, .. }) = event {
            self.messages(seq, messages);
        } else if let Event::Asked(asked) = event {
            (self.node, self.requests) = (&asked.node, &asked.requests);
            self.attempted.clear();
        } else if let Event::Attempted(attempt) = event {
            let again = self.attempted.contains(&attempt.slot);
            self.attempted.push(attempt.slot);
            if let Some(tool) = self.tool(attempt.slot) {
                let how = if again { "calls it again, same idempotency key:" } else { "calls" };
                self.line(seq, self.node, &format!("{how} {tool}"));
            }
        } else if let Event::Answered(answer) = event {
            if let (Some(_), Response::Output(output)) = (self.tool(answer.slot), &answer.response) {
                let (ToolOutput::Ok(text) | ToolOutput::Error(text) | ToolOutput::Refused(text)) = output;
                self.line(seq, "", &format!("→ {}", quote(text)));
            }
        } else if let Event::Decided(Decided { messages: said, to, .. }) = event {
            self.messages(seq, said);
            if let Goto::Interrupt(interrupt) = to {
                self.line(seq, "asks you", &quote(&interrupt.question));
            }
        }
    }

    /// The texts of people and of the agent; tool results have a line of their own.
    fn messages(&mut self, seq: u64, messages: &[Message]) {
        for message in messages.iter().filter(|it| it.role != Role::Tool && !it.content.is_empty()) {
            self.line(seq, message.role.name(), &quote(&message.content));
        }
    }

    /// The tool that a request calls, as `server.tool`.
    fn tool(&self, slot: usize) -> Option<String> {
        match self.requests.get(slot) {
            Some(Request::CallTool { server, call }) => Some(format!("{server}.{}", call.name)),
            Some(_) | None => None,
        }
    }

    fn line(&mut self, seq: u64, who: &str, text: &str) {
        self.lines.push(format!("{seq:>5}  {who:<12}  {text}"));
    }
}

fn quote(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => format!("“{} …”", &line[..end]),
        None => format!("“{line}”"),
    }
}

/// Keeps the beginning and the lines around the kill and the end.
fn shortened(lines: Vec<String>) -> Vec<String> {
    if lines.len() <= MAX_LINES {
        return lines;
    }
    let kill = lines.iter().position(|line| line == KILL).unwrap_or(lines.len() / 2);
    let last = lines.len() - 1;
    let wanted = |i: usize| i < 3 || (kill.saturating_sub(2)..=kill + 2).contains(&i) || i + 1 >= last;
    let mut kept: Vec<String> = Vec::new();
    for (i, line) in lines.into_iter().enumerate() {
        if wanted(i) {
            kept.push(line);
        } else if kept.last().is_none_or(|line| line.trim() != "…") {
            kept.push("      …".to_owned());
        }
    }
    kept
}

#[test]
fn a_long_story_keeps_its_beginning_the_kill_and_its_end() {
    let mut lines: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    lines[20] = KILL.to_owned();
    let kept = shortened(lines);
    let expected = ["0", "1", "2", "…", "18", "19", KILL.trim(), "21", "22", "…", "38", "39"];
    assert_eq!(kept.iter().map(|line| line.trim()).collect::<Vec<_>>(), expected);
    assert_eq!(quote(&"word ".repeat(40)).chars().count(), MAX_QUOTE + 4);
}
