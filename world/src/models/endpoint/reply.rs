//! One request for a reply, read as it arrives.

use reqwest::{Response, header::HeaderMap};
use serde_json::Value;
use shared::{Fault, Reply, Usage};

use super::{Endpoint, transport::FailedRequest};
use crate::{
    models::{
        Prompt,
        http_error::HttpError,
        request::{self, RequestForm},
        sse::{Chunk, ChunkReader},
        stream::ReplyStream,
        structured_output::OutputMode,
        tool_schemas::ToolForms,
    },
    world::DeltaSink,
};

/// Path of chat completions.
const CHAT: &str = "/chat/completions";

impl Endpoint {
    /// Sends one request and reads its reply.
    pub(super) async fn request_once(
        &self,
        model: &str,
        prompt: &Prompt<'_>,
        tools: &ToolForms,
        form: RequestForm,
        deltas: &dyn DeltaSink,
    ) -> Result<(Reply, Usage), FailedRequest> {
        let response = self.send(CHAT, &request::body(model, prompt, tools, form)).await?;
        let mut reply = ReplyStream::new(self.learned.of(model).unopened_reasoning, prompt);
        let read = self.read(response, &mut reply, deltas).await;
        if read.is_ok() && reply.take_unopened_reasoning() {
            self.learned.begins_reasoning(model);
        }
        let meter = self.meter(model, &reply, form.mode);
        if let Err(failed) = read {
            // What a broken reply reported is billed anyway, so it is an attempt.
            let is_reported = 0 < meter.tokens();
            let fault = if is_reported { failed.fault.as_attempt() } else { failed.fault };
            let usage = is_reported.then(|| Box::new(meter));
            return Err(FailedRequest { fault: Fault { usage, ..fault }, ..failed });
        }
        match reply.whole(&self.name, prompt, form.mode) {
            Ok(reply) => Ok((reply, meter)),
            // The reply is unusable but still costs.
            Err(fault) => {
                let error = self.redact(&fault.error);
                Err(Fault { error, usage: Some(Box::new(meter)), ..fault }.into())
            }
        }
    }

    /// Reads the chunks of a reply, and passes its text on as it arrives.
    async fn read(
        &self,
        response: Response,
        reply: &mut ReplyStream,
        deltas: &dyn DeltaSink,
    ) -> Result<(), FailedRequest> {
        let headers = response.headers().clone();
        let mut chunks = ChunkReader::new(response);
        let mut nothing_streamed = true;
        // An endpoint that has begun to answer takes requests.
        let began =
            |fault: Fault, nothing_streamed| if nothing_streamed { fault } else { fault.as_attempt() };
        while let Some(chunk) =
            chunks.next().await.map_err(|error| began(self.unreadable(error), nothing_streamed))?
        {
            let chunk = match chunk {
                Chunk::Json(chunk) => chunk,
                Chunk::Done => {
                    reply.done();
                    break;
                }
            };
            let text = reply.add(&chunk)?;
            if let Some(refusal) = error_in(&chunk, &headers) {
                let fault = began(refusal.fault(&self.name, |text| self.redact(text)), nothing_streamed);
                // Text already streamed cannot be taken back, so no other form may follow it.
                return Err(FailedRequest { fault, refusal: Some(refusal).filter(|_| nothing_streamed) });
            }
            if !text.is_empty() {
                nothing_streamed = false;
                deltas.delta(&text).await;
            }
        }
        let rest = reply.end();
        if !rest.is_empty() {
            deltas.delta(&rest).await;
        }
        Ok(())
    }

    /// Usage of a reply; the world adds the duration.
    fn meter(&self, model: &str, reply: &ReplyStream, mode: Option<OutputMode>) -> Usage {
        let mut meter = Usage {
            model: reply.by.clone().unwrap_or_else(|| model.to_owned()),
            response_format: mode.map_or("", OutputMode::name).to_owned(),
            response_id: reply.id.clone(),
            ..Usage::default()
        };
        reply.tokens.fill(&mut meter);
        meter.micro_usd = self.cost(model, &meter);
        meter
    }
}

/// Returns the error in a chunk. A router reports that of its own provider in the choice.
fn error_in(chunk: &Value, headers: &HeaderMap) -> Option<HttpError> {
    let choices = chunk["choices"].as_array().into_iter().flatten();
    let pieces = choices.flat_map(|choice| [choice, &choice["delta"], &choice["message"]]);
    std::iter::once(chunk).chain(pieces).find_map(|value| HttpError::of_chunk(value, headers))
}
