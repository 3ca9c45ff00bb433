//! The world of the configuration: models, MCP servers, plain commands, the index, and how much may be taken of them.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use secrecy::{ExposeSecret as _, SecretString};
use store::{Store, VectorIndex, limits::Cap};
use worker::world::{
    COMMANDS, Caps, Command, Commands, Index, Live, Method, Models, Price, Provider, Providers, Script,
    Server, Servers, Session, Sight, Structured, ToolRule, Transport, about,
};

use crate::{
    config::{
        CommandMethod, CommandSettings, LimitSettings, McpSettings, McpTransport, ModelLimits, PriceSettings,
        ProviderSettings, ServerLimits, SessionSettings, Settings, SightSettings, StructuredForm,
        ToolSettings,
    },
    exit::{Exit, Stop},
};

/// The world of the configuration, whose pins are in the store.
pub(crate) fn world(settings: &Settings, store: &Store) -> anyhow::Result<Live> {
    let models = models(settings)?;
    let index = index(settings, entries(settings, store)?, models.clone());
    let servers = servers(settings)?.pinned(store.clone());
    Ok(Live::new(models, servers, commands(settings)?, index).limited(caps(&settings.limits)))
}

/// Whoever a strategy can turn to, each with what it is good for: the MCP servers, and the plain commands as one more.
pub(crate) fn experts(settings: &Settings) -> BTreeMap<String, String> {
    let servers = settings.mcp.iter().map(|(name, it)| (name.clone(), it.description.clone()));
    let told = || about(settings.commands.iter().map(|(name, it)| (name.as_str(), it.description.as_str())));
    let commands = (!settings.commands.is_empty()).then(|| (COMMANDS.to_owned(), told()));
    servers.chain(commands).collect()
}

/// The models of the configuration.
pub(crate) fn models(settings: &Settings) -> anyhow::Result<Arc<Models>> {
    let providers: anyhow::Result<Providers> =
        settings.providers.iter().map(|(name, it)| Ok((name.clone(), provider(it)?))).collect();
    Ok(Arc::new(Models::new(providers?)?))
}

fn provider(settings: &ProviderSettings) -> anyhow::Result<Provider> {
    Ok(match settings {
        ProviderSettings::Script { script } => Provider::Scripted(scripted(script)?),
        ProviderSettings::Http { base_url, api_key, timeout_seconds, structured, prices } => {
            match api_key.as_ref().map(|it| it.resolve()).transpose() {
                Ok(api_key) => {
                    let timeout = Duration::from_secs(*timeout_seconds);
                    let structured = match structured {
                        StructuredForm::Auto => Structured::Auto,
                        StructuredForm::JsonSchema => Structured::JsonSchema,
                        StructuredForm::Tool => Structured::Tool,
                        StructuredForm::Json => Structured::Json,
                    };
                    let prices = prices.iter().map(|(model, it)| (model.clone(), price(it))).collect();
                    Provider::OpenAi { base_url: base_url.clone(), api_key, timeout, structured, prices }
                }
                Err(err) => Provider::Locked { why: err.to_string() },
            }
        }
    })
}

fn scripted(script: &Path) -> anyhow::Result<Script> {
    Script::read(script).map_err(|err| Stop::because(Exit::Usage, err.to_string()))
}

pub(crate) fn price(it: &PriceSettings) -> Price {
    Price { input: it.input, output: it.output }
}

/// The index of the configuration, over its entries.
pub(crate) fn index(settings: &Settings, entries: Arc<dyn VectorIndex>, models: Arc<Models>) -> Index {
    match &settings.index.embedding_model {
        Some(model) => Index::embedded(entries, models, model.clone()),
        None => Index::lexical(entries),
    }
}

/// Where the index keeps its entries.
pub(crate) fn entries(settings: &Settings, store: &Store) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let url = settings.index.url.resolve()?;
    match url.expose_secret().split_once(':') {
        Some(("store", "")) => Ok(Arc::new(store.clone())),
        Some(("milvus", url)) => milvus(settings, url),
        Some(_) | None => Err(Stop::because(
            Exit::Usage,
            "index.url must be store: or begin with milvus:http:// or milvus:https://",
        )),
    }
}

#[cfg(feature = "milvus")]
fn milvus(settings: &Settings, url: &str) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let token = settings.index.token.as_ref().map(|it| it.resolve()).transpose()?;
    let index = store::MilvusIndex::new(url, token.as_ref().map(|it| it.expose_secret()));
    Ok(Arc::new(index.map_err(|err| Stop::because(Exit::Usage, format!("index.url: {err}")))?))
}

#[cfg(not(feature = "milvus"))]
fn milvus(_: &Settings, _: &str) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let words = "index.url names Milvus, and this turnfold was built without it: build one that knows it with \
        `cargo install --path cli --features milvus`, or set index.url = \"store:\"";
    Err(Stop::because(Exit::Usage, words))
}

/// The plain commands of the configuration.
fn commands(settings: &Settings) -> anyhow::Result<Commands> {
    let commands: anyhow::Result<BTreeMap<String, Command>> =
        settings.commands.iter().map(|(name, it)| Ok((name.clone(), command(it)?))).collect();
    Ok(Commands::new(commands?)?)
}

fn command(settings: &CommandSettings) -> anyhow::Result<Command> {
    let headers = settings.headers.iter();
    let headers = headers.map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
    Ok(Command {
        description: settings.description.clone(),
        parameters: settings.parameters.clone(),
        url: settings.url.resolve()?.expose_secret().to_owned(),
        method: match settings.method {
            CommandMethod::Post => Method::Post,
            CommandMethod::Put => Method::Put,
            CommandMethod::Patch => Method::Patch,
            CommandMethod::Delete => Method::Delete,
        },
        headers,
        safety: settings.safety,
        timeout: Duration::from_secs(settings.timeout_seconds),
    })
}

/// The MCP servers of the configuration, not held against their pins.
pub(crate) fn servers(settings: &Settings) -> anyhow::Result<Servers> {
    let servers: anyhow::Result<BTreeMap<String, Server>> =
        settings.mcp.iter().map(|(name, it)| Ok((name.clone(), server(it)?))).collect();
    Ok(Servers::new(servers?))
}

/// How many threads may have a session with one server at once, and how long one lasts without a call.
const SESSIONS_MAX: usize = 64;
const SESSION_IDLE: Duration = Duration::from_secs(600);

fn server(settings: &McpSettings) -> anyhow::Result<Server> {
    let transport = match &settings.transport {
        McpTransport::Child { command, args, env, cwd } => {
            let env: BTreeMap<String, SecretString> =
                env.iter().map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
            let env = env.into_iter().map(|(k, v)| (k, v.expose_secret().to_owned())).collect();
            Transport::Stdio { command: command.clone(), args: args.clone(), env, cwd: cwd.clone() }
        }
        McpTransport::Http { url, headers } => {
            let headers =
                headers.iter().map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
            Transport::Http { url: url.resolve()?.expose_secret().to_owned(), headers }
        }
    };
    Ok(Server {
        description: settings.description.clone(),
        transport,
        call_timeout: Duration::from_secs(settings.call_timeout_seconds),
        connect_timeout: Duration::from_secs(settings.connect_timeout_seconds),
        session: match settings.session {
            SessionSettings::Shared => Session::Shared,
            SessionSettings::Thread => Session::Thread { most: SESSIONS_MAX, idle: SESSION_IDLE },
        },
        concurrency: settings.concurrency,
        tools: settings.tools.iter().map(|(name, it)| (name.clone(), rule(it))).collect(),
        sight: sight(&settings.sight),
        nodes: settings.nodes.iter().map(|(strategy, it)| (strategy.clone(), of_nodes(it))).collect(),
    })
}

fn of_nodes(nodes: &BTreeMap<String, SightSettings>) -> BTreeMap<String, Sight> {
    nodes.iter().map(|(node, it)| (node.clone(), sight(it))).collect()
}

fn sight(settings: &SightSettings) -> Sight {
    Sight { allow: settings.allow.clone(), deny: settings.deny.clone() }
}

fn rule(settings: &ToolSettings) -> ToolRule {
    ToolRule {
        safety: settings.safety,
        timeout: settings.timeout_seconds.map(Duration::from_secs),
        concurrency: settings.concurrency,
    }
}

pub(super) fn caps(settings: &LimitSettings) -> Caps {
    let of_models = |limits: &BTreeMap<String, ModelLimits>| {
        limits.iter().map(|(name, it)| (name.clone(), cap(it))).collect::<BTreeMap<_, _>>()
    };
    let of_server = |it: &ServerLimits| Cap {
        concurrency: it.concurrency,
        requests_per_minute: it.requests_per_minute,
        ..Cap::default()
    };
    Caps {
        models: of_models(&settings.models),
        providers: of_models(&settings.providers),
        servers: settings.servers.iter().map(|(name, it)| (name.clone(), of_server(it))).collect(),
    }
}

fn cap(limits: &ModelLimits) -> Cap {
    let ModelLimits { concurrency, requests_per_minute, tokens_per_minute, usd_per_day } = *limits;
    Cap { concurrency, requests_per_minute, tokens_per_minute, micro_usd_per_day: usd_per_day.map(micro_usd) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is below zero or beyond all money is cut off"
)]
fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}
