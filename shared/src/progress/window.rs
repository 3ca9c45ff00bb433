//! Fitting state of a thread: limits, sizes and the latest summary. Derived from the log like everything else.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write, ops::Range};

use super::{
    Progress,
    limits::LearnedLimits,
    phase::{Phase, Place},
    slot::ATTEMPTS_MAX,
};
use crate::{
    context::{
        ContextSettings, READ_MORE, Sizes, TOOL_RESULT_TOKENS, estimated_tokens, shortened, summary_tokens,
        tool_tokens,
    },
    message::{Message, Role, Tool},
    request::{Request, Response},
    strategy::Strategy,
};

/// Maximum number of tools that a model is offered. A request with more counts the average of this many.
const TOOLS_MAX: u64 = 128;

/// Tokens around the text of a summary.
const SUMMARY_FRAME_TOKENS: u64 = 40;

/// Tokens around a message in the text that is summarised.
const TEXT_TOKENS: u64 = 8;

/// Limits, sizes and the latest summary of a thread.
#[derive(Clone, Default)]
pub(super) struct Window {
    settings: ContextSettings,
    /// Limits learned from refusals.
    pub(super) limits: LearnedLimits,
    sizes: Sizes,
    /// Tokens of the tools of each server.
    tools: BTreeMap<String, u64>,
    summary: Option<Summary>,
    /// Index of the first of the person's own messages in the current turn.
    own_messages_from: usize,
    /// Size to which the results of the last shortened request were cut, in tokens.
    pub(super) shown_tokens: Option<u64>,
    /// Answers of the node's requests, kept while the refused ones are issued anew.
    kept: Vec<Option<Response>>,
    /// Number of refusals since the node began, and the last error.
    refusals: Option<(u32, String)>,
}

/// Summary of the first messages of the conversation.
#[derive(Clone)]
pub(super) struct Summary {
    /// Number of messages that it covers.
    pub(super) upto: usize,
    text: String,
    /// Tokens of the text.
    tokens: u64,
}

impl Summary {
    /// Returns the tokens of the summary as a model with this context window receives it.
    pub(super) fn tokens(&self, window: Option<u64>) -> u64 {
        self.tokens.min(summary_tokens(window)) + SUMMARY_FRAME_TOKENS
    }

    /// Returns the text for a model with this context window.
    fn text(&self, window: Option<u64>) -> Cow<'_, str> {
        shortened(&self.text, summary_tokens(window), None).map_or(Cow::Borrowed(&self.text), Cow::Owned)
    }

    /// Returns the message that stands for the summarised ones.
    ///
    /// It is a user message: a summary can contain text of tools, which must not gain the weight of a system prompt.
    fn message(&self, window: Option<u64>) -> Message {
        let upto = self.upto;
        Message::user(match &*self.text(window) {
            "" => format!("[The {upto} messages before this one are not shown.]"),
            text => format!("[Summary of the {upto} messages before this one]\n{text}\n[End of the summary]"),
        })
    }
}

impl Window {
    pub(super) fn open(&mut self, settings: &ContextSettings) {
        self.settings.clone_from(settings);
    }

    pub(super) fn settings(&self) -> &ContextSettings {
        &self.settings
    }

    /// Returns the context window of a model in tokens, if it is known. A refusal never makes it larger than configured.
    pub(super) fn of(&self, model: &str) -> Option<u64> {
        let known = [self.limits.context_tokens(model), self.settings.window(model)];
        known.into_iter().flatten().min()
    }

    /// Returns the maximum size of a tool result for a model with this window: as set, and at most a quarter of it.
    pub(super) fn result_tokens(&self, window: Option<u64>) -> u64 {
        let set = self.settings.tool_result_tokens.unwrap_or(TOOL_RESULT_TOKENS);
        window.map_or(set, |size| set.min(size / 4)).max(crate::context::MIN_SHOWN_TOKENS)
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    pub(super) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref()
    }

    /// Returns to the first `count` messages and this summary. Limits that were learned since remain.
    pub(super) fn rewind(&mut self, count: usize, summary: Option<Summary>) {
        self.sizes.truncate(count);
        self.summary = summary;
        self.shown_tokens = None;
        self.kept.clear();
    }

    pub(super) fn tools(&self, server: &str) -> u64 {
        self.tools.get(server).copied().unwrap_or_default()
    }

    pub(super) fn own_messages_from(&self) -> usize {
        self.own_messages_from
    }

    /// Counts the tools of a server.
    pub(super) fn list_tools(&mut self, server: &str, tools: &[Tool]) {
        let all: u64 = tools.iter().map(tool_tokens).sum();
        let count = tools.len() as u64;
        let tokens = if TOOLS_MAX < count { all * TOOLS_MAX / count } else { all };
        self.tools.insert(server.to_owned(), tokens);
    }

    /// Begins a turn with `messages`, at this index: the person's own are those after the last one of a model or a tool.
    pub(super) fn begin_turn(&mut self, from: usize, messages: &[Message]) {
        let earlier = messages.iter().rposition(|it| matches!(it.role, Role::Assistant | Role::Tool));
        self.own_messages_from = from + earlier.map_or(0, |at| at + 1);
        self.end_node();
    }

    /// Forgets what belongs to one node.
    pub(super) fn end_node(&mut self) {
        self.limits.end_trial();
        if self.refusals.is_some() {
            self.refusals = None;
            self.kept.clear();
        }
    }

    /// Counts a refusal for the size of a request.
    pub(super) fn refuse(&mut self, error: &str) {
        let count = self.refusals.as_ref().map_or(0, |(count, _)| *count);
        self.refusals = Some((count + 1, error.to_owned()));
    }

    /// Returns true if a smaller request of the node was refused for its size, too.
    pub(super) fn is_refused_again(&self) -> bool {
        self.refusals.as_ref().is_some_and(|(count, _)| 1 < *count)
    }

    pub(super) fn refused_too_often(&self) -> Option<&str> {
        self.refusals.as_ref().filter(|(count, _)| ATTEMPTS_MAX <= *count).map(|(_, error)| error.as_str())
    }

    /// Lets the node begin again after an operator retried it.
    pub(super) fn retry(&mut self) {
        self.limits.end_trial();
        if let Some((count, _)) = &mut self.refusals {
            *count = 0;
        }
    }

    pub(super) fn keep(&mut self, answers: Vec<Option<Response>>) {
        self.kept = answers;
    }

    pub(super) fn kept(&self, slot: usize) -> Option<&Response> {
        self.kept.get(slot).and_then(Option::as_ref)
    }

    pub(super) fn summarise(&mut self, upto: usize, text: &str) {
        let text = text.trim().to_owned();
        self.summary = Some(Summary { upto, tokens: estimated_tokens(&text), text });
    }
}

impl<S: Strategy> Progress<S> {
    /// Adds a message to the conversation.
    pub(super) fn say(&mut self, message: Message) {
        self.window.sizes.add(&message);
        self.thread.messages.push(message);
    }

    /// Converts a call of the engine's tool [`READ_MORE`] to a request that the log answers. A server's own tool of that
    /// name takes precedence.
    pub(super) fn answered_by_log(&self, request: Request) -> Request {
        match request {
            Request::CallTool { ref server, ref call }
                if call.name == READ_MORE && !self.has_tool(server, READ_MORE) =>
            {
                let tokens = self.window.shown_tokens.unwrap_or_else(|| self.window.result_tokens(None));
                Request::ReadMore { call: call.clone(), tokens }
            }
            Request::CallTool { .. }
            | Request::Chat { .. }
            | Request::ListTools { .. }
            | Request::ReadMore { .. }
            | Request::ListPrompts { .. }
            | Request::GetPrompt { .. }
            | Request::Describe { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => request,
        }
    }

    /// Returns true if a pending request offers [`READ_MORE`].
    pub(crate) fn reads_more(&self) -> bool {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return false };
        let offers = |request: &Request| matches!(request, Request::Chat { tools, .. } if tools.iter().any(|name| name == READ_MORE));
        slots.iter().any(|slot| offers(&slot.request))
    }

    /// Returns the indexes in `range` of the messages of this turn that are shown beside a summary: the person's own, and
    /// the client's instructions.
    pub(super) fn pinned(&self, range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let (turn, own) = (self.thread.turn.from, self.window.own_messages_from);
        (range.start.max(turn)..range.end).filter(move |index| {
            match self.thread.messages.get(*index).map(|message| message.role) {
                Some(Role::System) => true,
                Some(Role::User) => own <= *index,
                Some(Role::Assistant | Role::Tool) | None => false,
            }
        })
    }

    /// Returns the messages of a request as its model receives them.
    pub(crate) fn messages_of(&self, request: &Request) -> Cow<'_, [Message]> {
        let Request::Chat { model, context, summarised, tool_result_tokens, attachments_max, tools, .. } =
            request
        else {
            return Cow::Borrowed(&[]);
        };
        let window = self.window.of(model);
        let end = context.end.min(self.thread.messages.len());
        let range = context.start.min(end)..end;
        if let Phase::AwaitingResponses(Place::Summarise(_), ..) = &self.at {
            let earlier = self.window.summary.as_ref().filter(|_| *summarised);
            let earlier = earlier.map(|summary| summary.text(window));
            return Cow::Owned(vec![self.as_text(range, earlier.as_deref(), *tool_result_tokens)]);
        }
        if !summarised && tool_result_tokens.is_none() && attachments_max.is_none() {
            return Cow::Borrowed(&self.thread.messages[range]);
        }
        let mut shown: Vec<Message> = Vec::new();
        if *summarised {
            shown.extend(self.window.summary.as_ref().map(|summary| summary.message(window)));
            shown.extend(self.pinned(0..range.start).map(|index| self.thread.messages[index].clone()));
        }
        let reads_on = tools.iter().any(|name| name == READ_MORE);
        shown.extend(range.map(|index| {
            let message = &self.thread.messages[index];
            let tokens = tool_result_tokens.filter(|_| message.role == Role::Tool);
            let short =
                tokens.and_then(|limit| shortened(&message.content, limit, reads_on.then_some(index)));
            match short {
                Some(content) => Message { content, ..message.clone() },
                None => message.clone(),
            }
        }));
        if let Some(max) = attachments_max {
            keep_newest_attachments(&mut shown, *max);
        }
        Cow::Owned(shown)
    }

    /// Returns messages as one text, which a model can summarise without taking it for its own conversation.
    fn as_text(&self, range: Range<usize>, earlier: Option<&str>, tokens: Option<u64>) -> Message {
        let mut text =
            earlier.map_or(String::new(), |summary| format!("The summary so far:\n\n{summary}\n\n"));
        text.push_str("The messages:\n");
        for index in range {
            let Message { role, content, tool_calls, .. } = &self.thread.messages[index];
            let short = tokens.and_then(|limit| shortened(content, limit, None));
            let who = if *role == Role::Tool { format!("result {index}") } else { role.name().to_owned() };
            let _ = write!(text, "\n{who}: {}\n", short.as_deref().unwrap_or(content));
            for call in tool_calls {
                let arguments = call.arguments.to_string();
                let short = tokens.and_then(|limit| shortened(&arguments, limit, None));
                let _ = writeln!(text, "calls {} with {}", call.name, short.unwrap_or(arguments));
            }
        }
        Message::user(text)
    }

    /// Returns the tokens of a message in [`Self::as_text`], with texts of at most `tokens`.
    pub(super) fn text_size(&self, index: usize, tokens: u64) -> u64 {
        let calls = self.thread.messages.get(index).map_or(0, |message| message.tool_calls.len()) as u64;
        let most = tokens.saturating_add(TEXT_TOKENS).saturating_mul(calls + 1);
        (self.window.sizes.of_message(index) + TEXT_TOKENS).min(most)
    }
}

/// Leaves out all images and files but the newest, and says so where they were.
fn keep_newest_attachments(messages: &mut [Message], max: u64) {
    let mut left = usize::try_from(max).unwrap_or(usize::MAX);
    for message in messages.iter_mut().rev() {
        let count = message.attachments.len();
        let omitted = count.saturating_sub(left);
        left = left.saturating_sub(count);
        if 0 < omitted {
            message.attachments.drain(..omitted);
            let gap = if message.content.is_empty() { "" } else { "\n" };
            let _ = write!(message.content, "{gap}[Images and files that are not shown here: {omitted}]");
        }
    }
}
