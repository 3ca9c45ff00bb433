//! Asks a model for one tiny reply per capability, and tells what works and what is worked around.

mod capabilities;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use shared::{Fault, Message, Reply, WebSearch};

use super::{DialectRow, Models, Prompt, Source, dialect::Features, endpoint::Endpoint, unavailable};
use crate::{attachments::DataUrls, world::DeltaSink};

/// Result of checking one capability of a model.
#[derive(Debug)]
pub struct CapabilityCheck {
    /// Capability, in a few words.
    pub capability: &'static str,
    /// Verdict on the capability.
    pub verdict: CapabilityVerdict,
    /// Explanation for people.
    pub detail: String,
}

/// Verdict on a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityVerdict {
    /// The endpoint does it as OpenAI's does.
    Works,
    /// The endpoint does not do it, and turnfold does without.
    WorkedAround,
    /// The model was able to and did not. Another model, or another try, may.
    Missing,
    /// The request failed.
    Failed,
}

/// Capabilities of a model, as its endpoint showed them.
#[derive(Debug)]
pub struct ModelCheck {
    /// Name of the dialect.
    pub dialect: &'static str,
    /// Result of each capability.
    pub capabilities: Vec<CapabilityCheck>,
}

impl Models {
    /// Checks the model `provider/model` with about eight requests of a few words.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the provider is unknown or is no endpoint.
    pub async fn check(&self, name: &str) -> Result<ModelCheck, Fault> {
        Ok(self.checked(name)?.run().await)
    }

    /// Asks the model `provider/model` for one short reply.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the provider is unknown or is no endpoint.
    pub async fn check_reply(&self, name: &str) -> Result<Vec<CapabilityCheck>, Fault> {
        let check = self.checked(name)?;
        Ok(check.check_reply(check.endpoint.dialect().features).await)
    }

    fn checked<'a>(&self, name: &'a str) -> Result<Check<'a>, Fault> {
        let (source, provider, model) = self.source(name)?;
        match source {
            Source::Endpoint(endpoint) => Ok(Check { endpoint, name, model }),
            Source::Script(_) => Err(Fault::permanent(format!(
                "provider {provider:?} is a script, which has no endpoint to check"
            ))),
            Source::Unavailable(why) => Err(unavailable(provider, &why)),
        }
    }
}

/// A model under check.
struct Check<'a> {
    endpoint: Arc<Endpoint>,
    name: &'a str,
    model: &'a str,
}

/// Counts the pieces of a streamed reply.
#[derive(Default)]
struct Pieces(AtomicUsize);

#[async_trait]
impl DeltaSink for Pieces {
    async fn delta(&self, _: &str) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Check<'_> {
    async fn run(&self) -> ModelCheck {
        let dialect: &DialectRow = self.endpoint.dialect();
        let mut capabilities = self.check_reply(dialect.features).await;
        // Without any reply, every other request would fail in the same way.
        if capabilities.iter().all(|capability| capability.verdict != CapabilityVerdict::Failed) {
            capabilities.push(self.check_system().await);
            capabilities.push(self.check_order(dialect.features).await);
            capabilities.push(self.check_tools().await);
            capabilities.push(self.check_parallel_tools().await);
            capabilities.push(self.check_tool_results(dialect.features).await);
            capabilities.push(self.check_structured(dialect.mode).await);
            capabilities.push(self.check_limit(dialect.features).await);
        }
        ModelCheck { dialect: dialect.dialect.as_str(), capabilities }
    }

    /// Sends a request and judges its reply.
    async fn judged(
        &self,
        capability: &'static str,
        prompt: &Prompt<'_>,
        judge: impl FnOnce(&Reply, Features) -> (CapabilityVerdict, String) + Send,
    ) -> CapabilityCheck {
        match self.endpoint.chat(self.model, prompt, &Pieces::default()).await {
            Ok((reply, _)) => result(capability, judge(&reply, self.endpoint.known(self.model).features)),
            Err(fault) => failed(capability, &fault),
        }
    }

    fn prompt<'a>(&'a self, messages: &'a [Message]) -> Prompt<'a> {
        Prompt {
            model: self.name,
            system: "You are being checked. Reply as briefly as you can.",
            messages: Cow::Borrowed(messages),
            position: messages.len(),
            tools: Vec::new(),
            omitted_tools: 0,
            shape: None,
            searching: WebSearch::Off,
            parameters: None,
            tool_use: None,
            client_tools: &[],
            complaint: None,
            misfits: 0,
            contents: DataUrls::new(),
        }
    }
}

fn result(capability: &'static str, (verdict, detail): (CapabilityVerdict, String)) -> CapabilityCheck {
    CapabilityCheck { capability, verdict, detail }
}

fn failed(capability: &'static str, fault: &Fault) -> CapabilityCheck {
    result(capability, (CapabilityVerdict::Failed, fault.error.clone()))
}
