//! Makes the requests of a node fit into the context windows of their models.
//!
//! In this order, each only if the one before is not enough:
//!
//! 1. All messages of the request, with tool results of at most `tool_result_tokens` shown whole and larger ones as head
//!    and tail.
//! 2. The latest summary, the person's own messages of the turn, and the messages after the summary.
//! 3. No images and files of earlier turns.
//! 4. A new summary. The engine asks a model for it before the node's own request, as its own node
//!    [`SUMMARISE_NODE`]. It continues the summary before it, so no message is summarised twice. It ends between turns
//!    if it can, and never between a tool call and its result.
//! 5. Tool results shortened further, down to [`MIN_SHOWN_TOKENS`], and fewer images and files of the turn.
//!
//! If the request is still too large, the node fails. Nothing is counted for a model with an unknown context window; its
//! first refusal makes it known.
//!
//! ## Why a summary leaves room
//!
//! It ends where the messages after it fill at most half of the room. The room then lasts for many requests, and the
//! tokens of a turn stay the same however long the thread is.

use std::ops::Range;

use super::{
    Progress,
    limits::RequestSize,
    phase::{Place, SUMMARISE_NODE, name},
    slot::ATTEMPTS_MAX,
};
use crate::{
    context::{
        MIN_SHOWN_TOKENS, READ_MORE, estimated_tokens, omitted_attachment_tokens, summary_tokens, usable,
    },
    event::{Asked, Event, Failed},
    message::Role,
    prompt_name::{kept_template_hash, prompt_hash},
    request::{Request, WebSearch},
    strategy::Strategy,
};

/// System prompt of [`SUMMARISE_NODE`].
pub const SUMMARISE_PROMPT: &str = include_str!("summarise.md");

/// Tokens of a request beyond its messages, prompt, tools and schema.
const REQUEST_TOKENS: u64 = 40;

/// Upper bound of the tokens of a node's schema and of one of its own tools, used before they are counted.
const SCHEMA_TOKENS: u64 = 2_000;
const OWN_TOOL_TOKENS: u64 = 300;

/// Result of fitting a request.
enum Fitted {
    /// The request fits, possibly changed.
    Fits,
    /// This request, for a summary, comes first.
    Summarise(Box<Request>),
    /// The request cannot be made to fit, for this reason.
    TooLarge(String),
}

/// Part of the conversation that a request shows to its model.
#[derive(Clone)]
struct View {
    range: Range<usize>,
    summarised: bool,
    result_tokens: u64,
    /// Maximum number of images and files.
    attachments: u64,
    /// Context window of the model.
    window: Option<u64>,
}

/// Sizes that do not depend on the view: what the model takes, and what is left of it for messages.
struct Room {
    window: u64,
    system: u64,
    tools: u64,
    messages: u64,
}

impl<S: Strategy> Progress<S> {
    /// Returns the next event for the requests of a node: they are issued, or a summary is requested first, or the turn fails
    /// because they are too large.
    pub(super) fn issue(&self, place: S::NodeName, mut requests: Vec<Request>) -> Event {
        let failed = |reason| Failed { node: name(&place), reason, worker: None }.into();
        if let Some(error) = self.window.refused_too_often() {
            return failed(format!(
                "{error} (refused {ATTEMPTS_MAX} times, each time as a smaller request); hint: {}",
                self.hint()
            ));
        }
        for (slot, request) in requests.iter_mut().enumerate() {
            if self.window.kept(slot).is_some() {
                continue;
            }
            let window = self.window.of(model_of(request));
            match self.fit(place, request, window) {
                Fitted::Fits => (),
                Fitted::Summarise(request) => {
                    return Asked { node: SUMMARISE_NODE.to_owned(), requests: vec![*request] }.into();
                }
                Fitted::TooLarge(reason) => {
                    let refused = self.window.limits.trial_error();
                    let refused = refused.map(|error| format!("{error}; hint: {}", self.hint()));
                    return failed(refused.unwrap_or(reason));
                }
            }
        }
        for request in &mut requests {
            let hash = self.offer_hash(place, request);
            if let Request::Chat { offered, .. } = request {
                *offered = hash;
            }
        }
        Asked { node: name(&place), requests }.into()
    }

    /// Returns true if the request can be made to fit into this window.
    pub(super) fn can_fit(&self, place: Place<S::NodeName>, request: &Request, window: u64) -> bool {
        match place {
            Place::Node(node) => {
                !matches!(self.fit(node, &mut request.clone(), Some(window)), Fitted::TooLarge(_))
            }
            Place::Summarise(_) => true,
        }
    }

    fn fit(&self, place: S::NodeName, request: &mut Request, window: Option<u64>) -> Fitted {
        let Request::Chat { model, context, .. } = &*request else { return Fitted::Fits };
        let end = context.end.min(self.thread.messages.len());
        let range = context.start.min(end)..end;
        let result_tokens = self.window.result_tokens(window);
        let attachments = self.window.limits.attachments(model).unwrap_or(u64::MAX);
        let whole = View { range, summarised: false, result_tokens, attachments, window };
        let Some(window) = window else {
            self.show(request, &whole);
            return Fitted::Fits;
        };
        if self.size(&whole) + self.upper_bound(request) <= usable(window, reply_tokens(request)) {
            self.show(request, &whole);
            return Fitted::Fits;
        }
        let room = self.room(Some(place), request, window);
        let mut view = whole;
        loop {
            if let Some(fitting) = self.fitting(&view, room.messages) {
                self.show(request, &fitting);
                return Fitted::Fits;
            }
            let shown = self.attachments(&view).min(view.attachments);
            let own = self.window.sizes().attachments(&(self.window.own_messages_from()..view.range.end));
            if own < shown {
                view.attachments = own;
                continue;
            }
            let summary = self.summary_end(&view, &room).and_then(|upto| self.summary_request(request, upto));
            if let Some(summary) = summary {
                return Fitted::Summarise(Box::new(summary));
            }
            if view.result_tokens <= MIN_SHOWN_TOKENS && shown == 0 {
                return Fitted::TooLarge(self.too_large(request, &view, &room));
            }
            view.result_tokens = (view.result_tokens / 2).max(MIN_SHOWN_TOKENS);
            view.attachments = shown / 2;
        }
    }

    /// Returns the whole view, or the one after the latest summary, if it fits.
    fn fitting(&self, whole: &View, room: u64) -> Option<View> {
        let after_summary = self.window.summary().and_then(|summary| {
            let covers_some = whole.range.start < summary.upto && summary.upto < whole.range.end;
            covers_some.then(|| View {
                range: summary.upto..whole.range.end,
                summarised: true,
                ..whole.clone()
            })
        });
        [Some(whole.clone()), after_summary].into_iter().flatten().find(|view| self.size(view) <= room)
    }

    /// Returns the number of messages to summarise, so that the rest fits: between turns if it can be.
    fn summary_end(&self, view: &View, room: &Room) -> Option<usize> {
        let from = self.window.summary().map_or(0, |summary| summary.upto).max(view.range.start);
        let own = self.window.own_messages_from();
        let summary = summary_tokens(view.window) + REQUEST_TOKENS;
        let left = |end: usize| {
            let pinned = self.pinned(0..end).map(|index| self.window.sizes().of_message(index)).sum::<u64>();
            self.window.sizes().of(&(end..view.range.end), view.result_tokens) + summary + pinned
        };
        let between_turns = (from + 1..view.range.end.min(own + 1)).filter(|index| self.starts_turn(*index));
        let within_turn = (from.max(own) + 1..view.range.end).filter(|index| self.may_end_before(*index));
        let best = |ends: &mut dyn Iterator<Item = usize>| {
            let mut last = None;
            for end in ends {
                if left(end) <= room.messages / 2 {
                    return Some(end);
                }
                last = Some(end);
            }
            last.filter(|end| left(*end) <= room.messages)
        };
        best(&mut { between_turns }).or_else(|| best(&mut { within_turn }))
    }

    /// Returns true if the messages before `index` can be summarised without those from it on: no tool call is separated
    /// from its result.
    fn may_end_before(&self, index: usize) -> bool {
        let messages = &self.thread.messages;
        let called = |index: usize| messages.get(index).is_some_and(|message| !message.tool_calls.is_empty());
        messages.get(index).is_some_and(|message| message.role != Role::Tool)
            && index.checked_sub(1).is_none_or(|before| !called(before))
    }

    /// Returns true if a message from outside follows one from the thread.
    fn starts_turn(&self, index: usize) -> bool {
        let from_outside = |index: usize| {
            self.thread
                .messages
                .get(index)
                .is_some_and(|message| matches!(message.role, Role::User | Role::System))
        };
        self.may_end_before(index)
            && from_outside(index)
            && (index == self.window.own_messages_from()
                || index.checked_sub(1).is_some_and(|before| !from_outside(before)))
    }

    /// Returns the request for a summary of the messages after the latest summary, at most up to `upto` and at most as
    /// many as the model takes. `None` if it does not even take the first ones.
    fn summary_request(&self, request: &Request, upto: usize) -> Option<Request> {
        let Request::Chat { model, .. } = request else { return None };
        let for_window = self.window.of(model);
        let own = self.engine.nodes.get(SUMMARISE_NODE).cloned().unwrap_or_default();
        let model = own.model.as_ref().or(self.window.settings().summary_model.as_ref()).unwrap_or(model);
        let window = self.window.of(model);
        let from = self.window.summary().map_or(0, |summary| summary.upto);
        let words = summary_tokens(window).min(summary_tokens(for_window)) / 2;
        let built_in = SUMMARISE_PROMPT.replace("{words}", &words.to_string());
        let system = match &own.prompt {
            Some(text) => text.replace("{prompt}", &built_in).replace("{words}", &words.to_string()),
            None => built_in,
        };
        let prompt = own.prompt.as_deref().map_or_else(|| kept_template_hash(SUMMARISE_PROMPT), prompt_hash);
        let ends = || (from + 1..=upto).filter(|end| *end == upto || self.may_end_before(*end));
        let chat = |end, tool_result_tokens| Request::Chat {
            model: model.clone(),
            system: system.clone(),
            context: from..end,
            summarised: 0 < from,
            tool_result_tokens,
            attachments_max: None,
            tool_servers: Vec::new(),
            tools: Vec::new(),
            response_schema: None,
            web_search: WebSearch::Off,
            prompt: Some(prompt.clone()),
            offered: None,
            parameters: own.parameters(),
            tool_use: None,
        };
        let Some(window) = window else { return Some(chat(upto, None)) };
        let earlier = self.window.summary().map_or(0, |summary| summary.tokens(Some(window)));
        let room = usable(window, own.max_tokens.map(u64::from))
            .saturating_sub(estimated_tokens(&system) + earlier + 2 * REQUEST_TOKENS);
        let mut shown = self.window.result_tokens(Some(window)).min(room / 4);
        loop {
            let mut size = 0;
            let mut next = from;
            let fits = |end: &usize| {
                size += (next..*end).map(|index| self.text_size(index, shown)).sum::<u64>();
                next = *end;
                size <= room
            };
            if let Some(end) = ends().take_while(fits).last() {
                let longer = (from..end).any(|index| shown < self.window.sizes().of_message(index));
                return Some(chat(end, longer.then_some(shown)));
            }
            if shown <= MIN_SHOWN_TOKENS {
                return None;
            }
            shown = (shown / 2).max(MIN_SHOWN_TOKENS);
        }
    }

    /// Sets the parts of a request that depend on the view.
    fn show(&self, request: &mut Request, view: &View) {
        let Request::Chat {
            context,
            summarised,
            tool_result_tokens,
            attachments_max,
            tool_servers,
            tools,
            ..
        } = request
        else {
            return;
        };
        // An unchanged range keeps its form, even if it is empty or ends after the last message.
        if view.summarised {
            context.clone_from(&view.range);
        }
        *summarised = view.summarised;
        *attachments_max = Some(view.attachments).filter(|max| *max < self.attachments(view));
        if !self.window.sizes().has_longer_result(&view.range, view.result_tokens) {
            return;
        }
        *tool_result_tokens = Some(view.result_tokens);
        let taken = tool_servers.iter().any(|server| self.has_tool(server, READ_MORE))
            || tools.iter().any(|name| name == READ_MORE);
        if !tool_servers.is_empty() && !taken {
            tools.push(READ_MORE.to_owned());
        }
    }

    /// Returns true if the server lists a tool of this name.
    pub(super) fn has_tool(&self, server: &str, name: &str) -> bool {
        self.thread.server_tools.get(server).is_some_and(|tools| tools.iter().any(|tool| tool.name == name))
    }

    /// Returns the tokens of the messages of a view.
    fn size(&self, view: &View) -> u64 {
        let messages = self.window.sizes().of(&view.range, view.result_tokens);
        let omitted = self.attachments(view).saturating_sub(view.attachments);
        let messages = messages.saturating_sub(omitted_attachment_tokens(omitted));
        if !view.summarised {
            return messages;
        }
        let pinned =
            self.pinned(0..view.range.start).map(|index| self.window.sizes().of_message(index)).sum::<u64>();
        messages + pinned + self.window.summary().map_or(0, |summary| summary.tokens(view.window))
    }

    /// Returns the number of images and files of the messages of a view, with those that are not shown.
    fn attachments(&self, view: &View) -> u64 {
        let sizes = self.window.sizes();
        let pinned = self.pinned(0..view.range.start).filter(|_| view.summarised);
        sizes.attachments(&view.range)
            + pinned.map(|index| sizes.attachments(&(index..index + 1))).sum::<u64>()
    }

    /// Returns the size of the messages of a request that was issued, as its model received them.
    pub(super) fn shown(&self, request: &Request) -> RequestSize {
        let Request::Chat { model, context, summarised, tool_result_tokens, attachments_max, .. } = request
        else {
            return RequestSize::default();
        };
        let view = View {
            range: context.clone(),
            summarised: *summarised,
            result_tokens: tool_result_tokens.unwrap_or(u64::MAX),
            attachments: attachments_max.unwrap_or(u64::MAX),
            window: self.window.of(model),
        };
        RequestSize { tokens: self.size(&view), attachments: self.attachments(&view).min(view.attachments) }
    }

    /// Returns an upper bound of the tokens of everything but the messages, which costs nothing to compute.
    fn upper_bound(&self, request: &Request) -> u64 {
        let Request::Chat { system, tool_servers, tools, response_schema, .. } = request else { return 0 };
        let servers: u64 = tool_servers.iter().map(|server| self.window.tools(server)).sum();
        let own = tools.iter().map(|_| OWN_TOOL_TOKENS).sum::<u64>();
        let schema = response_schema.as_ref().map_or(0, |_| SCHEMA_TOKENS);
        system.len() as u64 + servers + own + schema + REQUEST_TOKENS + OWN_TOOL_TOKENS
    }

    /// Counts everything but the messages. `place` is the node of the request, or `None` for the engine's own.
    fn room(&self, place: Option<S::NodeName>, request: &Request, window: u64) -> Room {
        let Request::Chat { system, tool_servers, response_schema, tools, .. } = request else {
            return Room { window, system: 0, tools: 0, messages: usable(window, reply_tokens(request)) };
        };
        let node = place.map(S::node);
        let schema = response_schema.as_ref().and_then(|_| self.schema_of(node?));
        let own = node.filter(|_| !tools.is_empty()).map(|node| self.node_tools(node)).unwrap_or_default();
        let system = estimated_tokens(system);
        let tools = tool_servers.iter().map(|server| self.window.tools(server)).sum::<u64>()
            + own.iter().map(crate::context::tool_tokens).sum::<u64>()
            + crate::context::tool_tokens(&crate::context::read_more_tool())
            + schema.as_ref().map_or(0, crate::context::value_tokens);
        let messages = usable(window, reply_tokens(request)).saturating_sub(system + tools + REQUEST_TOKENS);
        Room { window, system, tools, messages }
    }

    /// Returns the tokens of a request that was issued, as its model received it.
    pub(super) fn issued_tokens(&self, place: Option<S::NodeName>, request: &Request) -> u64 {
        let Request::Chat { model, context, summarised, tool_result_tokens, .. } = request else { return 0 };
        let (result_tokens, window) = (tool_result_tokens.unwrap_or(u64::MAX), self.window.of(model));
        let summary =
            self.window.summary().filter(|_| *summarised).map_or(0, |summary| summary.tokens(window));
        let messages = match place {
            Some(_) => self.shown(request).tokens,
            None => context.clone().map(|index| self.text_size(index, result_tokens)).sum::<u64>() + summary,
        };
        self.fixed_tokens(place, request) + messages
    }

    /// Returns the tokens of a request beside its messages, which cannot be made fewer.
    pub(super) fn fixed_tokens(&self, place: Option<S::NodeName>, request: &Request) -> u64 {
        let Room { system, tools, .. } = self.room(place, request, u64::MAX);
        system + tools + REQUEST_TOKENS
    }

    /// Describes the parts of a request that cannot be shortened, for people.
    pub(super) fn fixed_sizes(&self, place: Place<S::NodeName>, request: &Request) -> String {
        let node = match place {
            Place::Node(node) => Some(node),
            Place::Summarise(_) => None,
        };
        let Room { system, tools, .. } = self.room(node, request, u64::MAX);
        format!(
            "it cannot be made smaller: there are about {system} tokens in the prompt and {tools} in the tools"
        )
    }

    fn too_large(&self, request: &Request, whole: &View, room: &Room) -> String {
        let Request::Chat { model, .. } = request else { return String::new() };
        let Room { window, system, tools, messages: _ } = room;
        let reply = window - usable(*window, reply_tokens(request));
        let own: u64 =
            self.pinned(0..whole.range.end).map(|index| self.window.sizes().of_message(index)).sum();
        let rest = self.size(whole).saturating_sub(own);
        format!(
            "the request does not fit into the context window of {model}: it takes {window} tokens, of which {reply} are for \
             the reply, and there are about {system} in the prompt, {tools} in the tools, {own} in the message of this turn and \
             {rest} in other messages that cannot be shortened further; hint: {}",
            self.hint()
        )
    }

    /// Returns the ways out of a request that is too large. Retrying is none of them.
    fn hint(&self) -> &'static str {
        "send a shorter message, offer fewer tools, or start a thread with a model that takes more (context_tokens of \
         its provider sets the size of one that is not known)"
    }
}

fn model_of(request: &Request) -> &str {
    if let Request::Chat { model, .. } = request { model } else { "" }
}

/// Returns the tokens that the request allows its reply, if it limits them.
pub(super) fn reply_tokens(request: &Request) -> Option<u64> {
    let Request::Chat { parameters, .. } = request else { return None };
    parameters.as_ref().and_then(|parameters| parameters.max_tokens).map(u64::from)
}
