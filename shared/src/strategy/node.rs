//! Nodes of a graph, with the type of their request and without it.

use std::borrow::Cow;

use serde_json::Value;

use super::{Strategy, Thread, Transition};
use crate::{
    effect::{Effect, UnexpectedResponse},
    message::Tool,
    node_config::NodeConfig,
    request::{Request, Response},
};

/// A node: one request to the outside world, and the interpretation of its answer.
pub trait Node<S: Strategy>: Send + Sync {
    /// Type of the request.
    type Effect: Effect;
    /// Returns the request, given the thread so far.
    fn ask(&self, thread: &Thread<S>) -> Self::Effect;
    /// Turns the answer into conclusions and the next step.
    fn learn(&self, thread: &Thread<S>, answer: <Self::Effect as Effect>::Answer) -> Transition<S>;
    /// Returns the node's own tools, by which a model steers it.
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }
    /// Returns the template of the node's system prompt. A configured prompt may use its placeholders.
    fn prompt(&self) -> Option<&'static str> {
        None
    }
    /// Returns the key of the strategy's configuration that names the node's model.
    fn model_key(&self) -> &'static str {
        "model"
    }
    /// Returns the part of an incomplete reply that the person may read while the model writes it. `None`, the default,
    /// if nothing may be read before [`Self::learn`].
    ///
    /// **Invariant:** each preview is the beginning of the message with which `learn` ends the turn. A client that
    /// received another beginning has to discard it.
    ///
    /// ## Why a node whose model may call tools needs a mark
    ///
    /// The calls follow the text. Until the reply is complete, the text may be the answer or a remark before a call. A text
    /// that begins with a mark is the answer unless calls follow, as in `orchestrate` of the retriever. Then it is discarded.
    fn preview<'a>(&self, _thread: &Thread<S>, _partial: &'a str) -> Option<Cow<'a, str>> {
        None
    }
}

/// Preview of a reply whose text is the answer as it is, unless the model writes nothing but white space.
pub fn verbatim(partial: &str) -> Option<Cow<'_, str>> {
    Some(if partial.trim().is_empty() { "" } else { partial }.into())
}

/// A [`Node`] with its effect type erased, so that a graph can hold nodes of different types.
pub trait Step<S: Strategy>: Send + Sync {
    #[doc(hidden)]
    fn requests(&self, thread: &Thread<S>, node: &NodeConfig) -> Vec<Request>;
    #[doc(hidden)]
    fn check(&self, response: &Response) -> Result<(), UnexpectedResponse>;
    #[doc(hidden)]
    fn transition(
        &self,
        thread: &Thread<S>,
        responses: &[Response],
    ) -> Result<Transition<S>, UnexpectedResponse>;
    #[doc(hidden)]
    fn schema(&self) -> Option<Value>;
    #[doc(hidden)]
    fn tools(&self) -> Vec<Tool>;
    #[doc(hidden)]
    fn preview<'a>(&self, thread: &Thread<S>, partial: &'a str) -> Option<Cow<'a, str>>;
    #[doc(hidden)]
    fn asks_model(&self) -> bool;
    #[doc(hidden)]
    fn prompt(&self) -> Option<&'static str>;
    #[doc(hidden)]
    fn model_key(&self) -> &'static str;
}

impl<S: Strategy, N: Node<S>> Step<S> for N {
    fn requests(&self, thread: &Thread<S>, node: &NodeConfig) -> Vec<Request> {
        self.ask(thread).requests(node)
    }

    fn check(&self, response: &Response) -> Result<(), UnexpectedResponse> {
        N::Effect::answer(std::slice::from_ref(response)).map(drop)
    }

    fn transition(
        &self,
        thread: &Thread<S>,
        responses: &[Response],
    ) -> Result<Transition<S>, UnexpectedResponse> {
        Ok(self.learn(thread, N::Effect::answer(responses)?))
    }

    fn schema(&self) -> Option<Value> {
        N::Effect::schema()
    }

    fn tools(&self) -> Vec<Tool> {
        Node::tools(self)
    }

    fn preview<'a>(&self, thread: &Thread<S>, partial: &'a str) -> Option<Cow<'a, str>> {
        Node::preview(self, thread, partial)
    }

    fn asks_model(&self) -> bool {
        N::Effect::ASKS_MODEL
    }

    fn prompt(&self) -> Option<&'static str> {
        Node::prompt(self)
    }

    fn model_key(&self) -> &'static str {
        Node::model_key(self)
    }
}
