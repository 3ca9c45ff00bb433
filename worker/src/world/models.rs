//! The models: which provider a name means, and what a model is given to hear.

mod door;
mod embeddings;
mod endpoint;
mod form;
mod offer;
mod price;
mod refusal;
mod reply;
mod tolerant;
mod wire;

use std::{collections::BTreeMap, time::Duration};

use secrecy::SecretString;
use serde_json::Value;
use shared::{Due, Fault, Message, Meter, Replay, Request, Response, Role, Searching, Tool};

use self::endpoint::Endpoint;
pub use self::{
    form::Structured,
    price::{Price, Prices},
};
use super::{Ask, Outcome, Script};

/// Whoever answers for models, by the name that stands before the slash.
pub type Providers = BTreeMap<String, Provider>;

/// Whoever answers for models.
pub enum Provider {
    /// An endpoint that speaks OpenAI's chat completions.
    OpenAi {
        /// Where, up to and including the version: `https://host/v1`.
        base_url: String,
        /// What opens it, if it is locked.
        api_key: Option<SecretString>,
        /// How long a whole reply may take.
        timeout: Duration,
        /// How its models are made to answer in a shape.
        structured: Structured,
        /// What its models cost.
        prices: Prices,
    },
    /// A file of answers. The log says `scripted` of whatever it says.
    Scripted(Script),
    /// Nobody, and why: told when a turn needs it, as turns may do without.
    Locked {
        /// What is missing, in words for an operator.
        why: String,
    },
}

/// No HTTP client can be built.
#[derive(Debug, thiserror::Error)]
#[error("cannot build an HTTP client: {0}; check the certificates and the proxy settings of this machine")]
pub struct NoClient(#[from] reqwest::Error);

/// The models at hand.
pub struct Models {
    answerers: BTreeMap<String, Answerer>,
}

enum Answerer {
    Endpoint(Endpoint),
    Script(Script),
    Locked(String),
}

/// How long a connection to an endpoint may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many bytes of a request are taken for a token before the endpoint has counted them.
const TOKEN_BYTES: usize = 4;

/// How many tokens a reply is taken to have before it is there.
const REPLY_TOKENS: u64 = 1_000;

impl Models {
    /// The models of these providers.
    ///
    /// # Errors
    ///
    /// [`NoClient`] if no HTTP client can be built.
    pub fn new(providers: Providers) -> Result<Self, NoClient> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirected POST would become a GET, or carry the key elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let answerer = |(name, provider): (String, Provider)| {
            let answerer = match provider {
                Provider::OpenAi { base_url, api_key, timeout, structured, prices } => {
                    let endpoint = Endpoint::new(&name, &base_url, api_key, timeout, http.clone());
                    Answerer::Endpoint(endpoint.asks(structured).costs(prices))
                }
                Provider::Scripted(script) => Answerer::Script(script),
                Provider::Locked { why } => Answerer::Locked(why),
            };
            (name, answerer)
        };
        Ok(Self { answerers: providers.into_iter().map(answerer).collect() })
    }

    /// A model's next message; of the servers' tools it hears of those that `offers` lets through.
    pub(super) async fn chat(&self, thread: &dyn Replay, ask: &Ask<'_>, offers: &Offers<'_>) -> Outcome {
        let prompt = Prompt::of(thread, ask.due, offers)?;
        let (answerer, provider, model) = self.answerer(prompt.model)?;
        let (reply, meter) = match answerer {
            Answerer::Endpoint(endpoint) => endpoint.chat(model, &prompt, ask.deltas).await?,
            Answerer::Script(script) => script.chat(&prompt, ask.deltas).await?,
            Answerer::Locked(why) => return Err(locked(provider, why)),
        };
        Ok((Response::Reply(reply), Some(meter)))
    }

    /// How many tokens a request will take, and how many millionths of a US dollar: an estimate by the bytes that are sent
    /// and a reply of [`REPLY_TOKENS`]. What is not asked of a model takes none, and what has no price costs nothing.
    pub(super) fn forecast(&self, thread: &dyn Replay, due: &Due, offers: &Offers<'_>) -> (u64, u64) {
        let Ok(prompt) = Prompt::of(thread, due, offers) else { return (0, 0) };
        let bytes = wire::body(prompt.model, &prompt, None).to_string().len();
        let input_tokens = u64::try_from(bytes.div_ceil(TOKEN_BYTES)).unwrap_or(u64::MAX);
        let meter = Meter { input_tokens, output_tokens: REPLY_TOKENS, ..Meter::default() };
        let cost = match self.answerer(prompt.model) {
            Ok((Answerer::Endpoint(endpoint), _, model)) => endpoint.cost(model, &meter),
            Ok((Answerer::Script(_) | Answerer::Locked(_), ..)) | Err(_) => None,
        };
        (input_tokens.saturating_add(REPLY_TOKENS), cost.unwrap_or_default())
    }

    /// Texts as vectors, by the embedding model `provider/model`; all of one length.
    pub(super) async fn embed(&self, name: &str, texts: &[String]) -> Result<Vec<Vec<f32>>, Fault> {
        let (answerer, provider, model) = self.answerer(name)?;
        match answerer {
            Answerer::Endpoint(endpoint) => endpoint.embed(model, texts).await,
            Answerer::Script(_) => Err(Fault::operator(format!(
                "provider {provider:?} is a script, which makes no vectors: take index.embedding_model out, or name a \
                 model of another provider there"
            ))),
            Answerer::Locked(why) => Err(locked(provider, why)),
        }
    }

    /// Who answers for a model, and the two parts of its name.
    fn answerer<'a>(&self, name: &'a str) -> Result<(&Answerer, &'a str, &'a str), Fault> {
        let Some((provider, model)) = name.split_once('/') else {
            return Err(Fault::operator(format!(
                "model {name:?} names no provider: write it as provider/model"
            )));
        };
        match self.answerers.get(provider) {
            Some(answerer) => Ok((answerer, provider, model)),
            None => Err(self.unknown(provider)),
        }
    }

    fn unknown(&self, provider: &str) -> Fault {
        let known: Vec<&str> = self.answerers.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Fault::operator(format!(
            "provider {provider:?} is unknown (known: {known}): add [providers.{provider}] to turnfold.toml"
        ))
    }
}

fn locked(provider: &str, why: &str) -> Fault {
    Fault::operator(format!("provider {provider:?} has no key: {why}"))
}

/// What a model is given to hear.
pub(super) struct Prompt<'a> {
    /// Which model, as `provider/model`.
    pub(super) model: &'a str,
    /// What it is told first.
    pub(super) system: &'a str,
    /// What it hears of the conversation.
    pub(super) heard: &'a [Message],
    /// Where in the conversation its reply stands.
    pub(super) at: usize,
    /// What it may call.
    pub(super) tools: Vec<Tool>,
    /// How many tools it could call as well, had it been told of them.
    pub(super) untold: usize,
    /// What its words must be.
    pub(super) shape: Option<Shape<'a>>,
    /// Whether it shall search by itself.
    pub(super) searching: Searching,
    /// Why its last reply was of no use.
    pub(super) complaint: Option<&'a str>,
}

/// What a model's words must be.
pub(super) struct Shape<'a> {
    pub(super) name: &'a str,
    pub(super) schema: Value,
}

/// Whether a model may be offered a server's tool.
type Offers<'a> = dyn Fn(&str, &str) -> bool + Send + Sync + 'a;

impl<'a> Prompt<'a> {
    fn of(thread: &'a dyn Replay, due: &'a Due, offers: &Offers<'_>) -> Result<Self, Fault> {
        let Request::Chat { model, system, hears, toolboxes, tools: named, shape, searching } = &due.request
        else {
            return Err(Fault::operator(format!("{} is nothing to ask a model", due.request)));
        };
        let messages = thread.messages();
        let at = hears.end.min(messages.len());
        let own = thread.tools();
        let mut tools: Vec<Tool> =
            named.iter().filter_map(|name| own.iter().find(|it| it.name == *name)).cloned().collect();
        let own_count = tools.len();
        let taken = |tools: &[Tool], it: &Tool| {
            tools.iter().any(|other| wire::tool_name(&other.name) == wire::tool_name(&it.name))
        };
        for server in toolboxes {
            let toolbox = thread.toolbox(server).unwrap_or_default();
            for tool in toolbox.iter().filter(|it| offers(server, &it.name)) {
                let mut tool = tool.clone();
                if toolboxes.len() > 1 {
                    tool.name = format!("{server}__{}", tool.name);
                }
                if !taken(&tools, &tool) {
                    tools.push(tool);
                }
            }
        }
        let heard = &messages[hears.start.min(at)..at];
        let person = heard.iter().rfind(|it| it.role == Role::User).map_or("", |it| it.content.as_str());
        let untold = offer::fit(&mut tools, own_count, [person, system]);
        let shape = shape.as_deref().zip(thread.schema()).map(|(name, schema)| Shape { name, schema });
        Ok(Self {
            model,
            system,
            heard,
            at,
            tools,
            untold,
            shape,
            searching: *searching,
            complaint: due.complaint.as_deref().filter(|it| reply::is_the_models_to_mend(it)),
        })
    }
}
