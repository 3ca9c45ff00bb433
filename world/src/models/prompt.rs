//! Input of a model: what a request shows to it, and what its reply must be.

use std::borrow::Cow;

use serde_json::Value;
use shared::{
    ClientTool, DynThread, Fault, Message, ModelParameters, PendingRequest, Request, ResponseFormat, Role,
    Tool, ToolUse, WebSearch,
};

use super::{stream, tool_selection};
use crate::attachments::DataUrls;

/// The input of a model.
pub(crate) struct Prompt<'a> {
    /// Model, as `provider/model`.
    pub(crate) model: &'a str,
    /// System prompt of the request.
    pub(crate) system: &'a str,
    /// Messages of the conversation.
    pub(crate) messages: Cow<'a, [Message]>,
    /// Position of the reply in the conversation.
    pub(crate) position: usize,
    /// Tools the model may call.
    pub(crate) tools: Vec<Tool>,
    /// Number of tools left out of `tools`.
    pub(crate) omitted_tools: usize,
    /// Required schema of the reply.
    pub(crate) shape: Option<ResponseSchema<'a>>,
    /// Setting of the provider's own web search.
    pub(crate) searching: WebSearch,
    /// Configured parameters of the reply.
    pub(crate) parameters: Option<&'a ModelParameters>,
    /// Use of tools that the client demands.
    pub(crate) tool_use: Option<&'a ToolUse>,
    /// Tools of the client, some of them among `tools`.
    pub(crate) client_tools: &'a [ClientTool],
    /// Reason why the previous reply was rejected.
    pub(crate) complaint: Option<&'a str>,
    /// Number of attempts so far, if the previous reply was not in the form that was asked for.
    pub(crate) misfits: u32,
    /// Contents of the messages' attachments. Empty in estimates.
    pub(crate) contents: DataUrls,
}

/// Required schema of a reply.
pub(crate) struct ResponseSchema<'a> {
    pub(crate) name: &'a str,
    pub(crate) schema: Value,
    /// Format that the client asked for, if the schema is not the strategy's. It is sent as the client wrote it.
    pub(crate) format: Option<&'a ResponseFormat>,
}

/// Decides whether a model may be offered a server's tool.
pub(super) type IsOffered<'a> = dyn Fn(&str, &str) -> bool + Send + Sync + 'a;

impl<'a> Prompt<'a> {
    /// Leaves out the images of tool results, for a model that takes none. The text of a result names them.
    pub(super) fn leave_out_tool_images(&mut self) {
        let has_images = |message: &Message| message.role == Role::Tool && !message.attachments.is_empty();
        if self.messages.iter().any(has_images) {
            self.messages
                .to_mut()
                .iter_mut()
                .filter(|message| has_images(message))
                .for_each(|message| message.attachments.clear());
        }
    }

    pub(super) fn of(
        thread: &'a dyn DynThread,
        due: &'a PendingRequest,
        is_offered: &IsOffered<'_>,
    ) -> Result<Self, Fault> {
        let Request::Chat {
            model,
            system,
            context: hears,
            summarised: _,
            tool_result_tokens: _,
            attachments_max: _,
            tool_servers,
            tools: named,
            response_schema: shape,
            web_search: searching,
            prompt: _,
            parameters,
            offered: _,
            tool_use,
        } = &due.request
        else {
            return Err(Fault::permanent(format!("{} is not a request to a model", due.request)));
        };
        let position = hears.end.min(thread.messages().len());
        let own_tools = thread.tools();
        let mut tools: Vec<Tool> = named
            .iter()
            .filter_map(|name| own_tools.iter().find(|tool| tool.name == *name))
            .cloned()
            .collect();
        let own_count = tools.len();
        let servers: Vec<&str> = tool_servers.iter().map(String::as_str).collect();
        if !servers.is_empty() {
            let offered = thread.offered_tools(&servers);
            let offered = offered.into_iter().filter(|tool| is_offered(tool.server, &tool.tool.name));
            tools.extend(offered.map(|tool| Tool { name: tool.name, ..tool.tool.clone() }));
        }
        let messages = thread.messages_of(&due.request);
        let person = messages
            .iter()
            .rfind(|message| message.role == Role::User)
            .map_or("", |message| message.content.as_str());
        let omitted_tools = tool_selection::fit(&mut tools, own_count, [person, system]);
        let format = thread.has_client_schema().then(|| &thread.reply_options().response_format);
        let shape = shape.as_deref().zip(thread.schema()).map(|(name, schema)| ResponseSchema {
            name,
            schema,
            format,
        });
        Ok(Self {
            model,
            system,
            messages,
            position,
            tools,
            omitted_tools,
            shape,
            searching: *searching,
            parameters: parameters.as_deref(),
            tool_use: tool_use.as_deref(),
            client_tools: &thread.reply_options().tools,
            complaint: due.previous_error.as_deref().filter(|error| stream::is_fixable_by_model(error)),
            misfits: due
                .previous_error
                .as_deref()
                .map_or(0, |error| if stream::is_misfit(error) { due.attempts } else { 0 }),
            contents: DataUrls::new(),
        })
    }
}
