//! Builds the world from the configuration: models, MCP servers, plain commands, the index, and their limits.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use queue::rate_limits::RateLimit;
use secrecy::{ExposeSecret as _, SecretString};
use shared::{Accepts, COMMANDS, micro_usd};
use store::{Store, VectorIndex};
use worker::{Backoff, RetryPolicies, RetryPolicy};
use world::{
    Command, Commands, Confinement, Index, LiveWorld, Models, OpenAi, Price, Provider, Providers,
    RateLimitConfig, Redactor, Sandbox, Script, Server, Servers, Session, TenantLimit, TenantLimits,
    ToolFilter, ToolRule, Transport, describe_commands,
};

use crate::{
    config::{
        CommandSettings, HttpProviderSettings, MaybeSecret, McpSettings, McpTransport, ModelLimits,
        PriceSettings, ProviderSettings, RetrySettings, SecretError, ServerLimits, SessionSettings, Settings,
        SightSettings, TenantSettings, ToolSettings, VerifySettings,
    },
    exit::{CliError, Exit},
};

/// The configured world. Pins of MCP servers are kept in the store.
pub(crate) fn world(settings: &Settings, store: &Store, models: Arc<Models>) -> anyhow::Result<LiveWorld> {
    world_with_index(settings, store, store, models)
}

/// The configured world, with the index of another store.
pub(crate) fn world_with_index(
    settings: &Settings,
    store: &Store,
    of_index: &Store,
    models: Arc<Models>,
) -> anyhow::Result<LiveWorld> {
    let index = index(settings, entries(settings, of_index)?, models.clone());
    let servers = servers(settings)?.with_pins(store.clone());
    let world = LiveWorld::new(models, servers, commands(settings)?, index);
    Ok(world
        .with_rate_limits(caps(settings))
        .with_attachments(Arc::new(store.clone()))
        .with_redactor(Redactor::new(secrets(settings))))
}

/// Every secret that the configuration refers to, of all sections, with the name of its setting: a server may repeat a key
/// that is not its own.
pub(crate) fn secrets(settings: &Settings) -> Vec<(String, SecretString)> {
    let resolved =
        settings.references.iter().filter_map(|it| Some((it.setting().to_owned(), it.resolve().ok()?)));
    let with_password = |(setting, secret): (String, SecretString)| {
        let password = password(&secret).map(|password| (setting.clone(), password));
        std::iter::once((setting, secret)).chain(password)
    };
    resolved.flat_map(with_password).collect()
}

/// Returns the password in a URL.
fn password(url: &SecretString) -> Option<SecretString> {
    Some(reqwest::Url::parse(url.expose_secret()).ok()?.password()?.into())
}

/// The experts that strategies choose from, with their descriptions: the MCP servers, and the plain commands as one more.
pub(crate) fn experts(settings: &Settings) -> BTreeMap<String, String> {
    let servers = settings.mcp.iter().map(|(name, server)| (name.clone(), server.description.clone()));
    let told = || {
        describe_commands(
            settings.commands.iter().map(|(name, command)| (name.as_str(), command.description.as_str())),
        )
    };
    let commands = (!settings.commands.is_empty()).then(|| (COMMANDS.to_owned(), told()));
    servers.chain(commands).collect()
}

/// The configured models.
pub(crate) fn models(settings: &Settings) -> anyhow::Result<Arc<Models>> {
    let providers: anyhow::Result<Providers> =
        settings.providers.iter().map(|(name, settings)| Ok((name.clone(), provider(settings)?))).collect();
    Ok(Arc::new(Models::new(providers?)?.with_accepts(accepts(settings))))
}

/// The attachments that models take, by provider. A script reads none, so it takes all.
pub(crate) fn accepts(settings: &Settings) -> Accepts {
    let of_provider = |(name, settings): (&String, &ProviderSettings)| match settings {
        ProviderSettings::Http(http) => Some((name.clone(), http.accepts.clone())),
        ProviderSettings::Script { .. } => None,
    };
    Accepts(settings.providers.iter().filter_map(of_provider).collect())
}

/// Patterns of the models whose cost is known: those with a price, and scripts, for which nothing is billed.
pub(crate) fn priced_models(settings: &Settings) -> Vec<String> {
    let of_provider = |(name, settings): (&String, &ProviderSettings)| -> Vec<String> {
        match settings {
            ProviderSettings::Http(http) => {
                // A price is that of one model, so its name is no pattern.
                let names = http.prices.keys().filter(|model| !model.contains('*'));
                names.map(|model| format!("{name}/{model}")).collect()
            }
            ProviderSettings::Script { .. } => vec![format!("{name}/*")],
        }
    };
    settings.providers.iter().flat_map(of_provider).collect()
}

fn provider(settings: &ProviderSettings) -> anyhow::Result<Provider> {
    Ok(match settings {
        ProviderSettings::Script { script } => Provider::Scripted(scripted(script)?),
        ProviderSettings::Http(http) => http_provider(http),
    })
}

/// The configured providers that are endpoints.
pub(crate) fn http_providers(settings: &Settings) -> Providers {
    let of_endpoint = |(name, settings): (&String, &ProviderSettings)| match settings {
        ProviderSettings::Http(http) => Some((name.clone(), http_provider(http))),
        ProviderSettings::Script { .. } => None,
    };
    settings.providers.iter().filter_map(of_endpoint).collect()
}

fn http_provider(settings: &HttpProviderSettings) -> Provider {
    match endpoint(settings) {
        Ok(endpoint) => Provider::OpenAi(endpoint),
        Err(err) => Provider::Unavailable { reason: err.to_string() },
    }
}

fn endpoint(settings: &HttpProviderSettings) -> Result<OpenAi, SecretError> {
    let HttpProviderSettings {
        base_url,
        api_key,
        headers,
        query,
        stream,
        timeout_seconds,
        structured,
        dialect,
        prices,
        accepts: _,
        retry: _,
    } = settings;
    let resolved = |named: &BTreeMap<String, MaybeSecret>| -> Result<BTreeMap<_, _>, SecretError> {
        named.iter().map(|(name, secret)| Ok((name.clone(), secret.resolve()?))).collect()
    };
    Ok(OpenAi {
        api_key: api_key.as_ref().map(|key| key.resolve()).transpose()?,
        headers: resolved(headers)?,
        query: resolved(query)?,
        stream: *stream,
        structured: *structured,
        dialect: *dialect,
        prices: prices.iter().map(|(model, it)| (model.clone(), price(it))).collect(),
        ..OpenAi::new(base_url, Duration::from_secs(*timeout_seconds))
    })
}

fn scripted(script: &Path) -> anyhow::Result<Script> {
    Script::read(script).map_err(|err| CliError::with_exit(Exit::Usage, err.to_string()))
}

fn price(settings: &PriceSettings) -> Price {
    let PriceSettings { input, output, cached_input, cache_write } = *settings;
    Price { input, output, cached_input, cache_write }
}

/// Returns the configured prices by `provider/model`.
pub(crate) fn prices(settings: &Settings) -> BTreeMap<String, Price> {
    let of = |(provider, settings): (&String, &ProviderSettings)| match settings {
        ProviderSettings::Http(http) => http
            .prices
            .iter()
            .map(|(name, model_price)| (format!("{provider}/{name}"), price(model_price)))
            .collect(),
        ProviderSettings::Script { .. } => Vec::new(),
    };
    settings.providers.iter().flat_map(of).collect()
}

/// The embedding model of the API: that of the index.
pub(crate) fn embeddings(
    settings: &Settings,
    models: impl FnOnce() -> anyhow::Result<Arc<Models>>,
) -> anyhow::Result<Option<api::EmbeddingModel>> {
    let Some(name) = settings.index.embedding_model.clone() else { return Ok(None) };
    let (models, model) = (models()?, name.clone());
    let request: api::RequestEmbeddings = Arc::new(move |body| {
        let (models, model) = (Arc::clone(&models), model.clone());
        Box::pin(async move { models.request_embeddings(&model, body).await })
    });
    Ok(Some(api::EmbeddingModel { name, request }))
}

/// The configured index over its entries.
pub(crate) fn index(settings: &Settings, entries: Arc<dyn VectorIndex>, models: Arc<Models>) -> Index {
    match &settings.index.embedding_model {
        Some(model) => Index::embedded(entries, models, model.clone()),
        None => Index::lexical(entries),
    }
}

/// The storage of the index: the database or Milvus.
pub(crate) fn entries(settings: &Settings, store: &Store) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let url = settings.index.url.resolve()?;
    match url.expose_secret().split_once(':') {
        Some(("store", "")) => Ok(Arc::new(store.clone())),
        Some(("milvus", url)) => milvus(settings, url),
        Some(_) | None => Err(CliError::with_exit(
            Exit::Usage,
            "index.url must be store: or begin with milvus:http:// or milvus:https://",
        )),
    }
}

#[cfg(feature = "milvus")]
fn milvus(settings: &Settings, url: &str) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let token = settings.index.token.as_ref().map(|token| token.resolve()).transpose()?;
    let index = store::MilvusIndex::new(url, token.as_ref().map(|token| token.expose_secret()));
    Ok(Arc::new(index.map_err(|err| CliError::with_exit(Exit::Usage, format!("index.url: {err}")))?))
}

#[cfg(not(feature = "milvus"))]
fn milvus(_: &Settings, _: &str) -> anyhow::Result<Arc<dyn VectorIndex>> {
    let message = "index.url names Milvus, but this turnfold was built without Milvus; hint: build it with \
        `cargo install --path cli --features milvus`, or set index.url = \"store:\"";
    Err(CliError::with_exit(Exit::Usage, message))
}

/// The configured plain commands.
fn commands(settings: &Settings) -> anyhow::Result<Commands> {
    let commands: anyhow::Result<BTreeMap<String, Command>> =
        settings.commands.iter().map(|(name, settings)| Ok((name.clone(), command(settings)?))).collect();
    Ok(Commands::new(commands?)?)
}

fn command(settings: &CommandSettings) -> anyhow::Result<Command> {
    let headers = settings.headers.iter();
    let headers = headers.map(|(k, v)| Ok((k.clone(), v.resolve()?))).collect::<anyhow::Result<_>>()?;
    Ok(Command {
        description: settings.description.clone(),
        parameters: settings.parameters.clone(),
        url: settings.url.resolve()?.expose_secret().to_owned(),
        method: settings.method,
        headers,
        safety: settings.safety,
        max_repeats: settings.max_repeats,
        read_back: settings.verify.as_ref().map(VerifySettings::read_back),
        timeout: Duration::from_secs(settings.timeout_seconds),
    })
}

/// The configured MCP servers, without a check of their pins.
pub(crate) fn servers(settings: &Settings) -> anyhow::Result<Servers> {
    let servers: anyhow::Result<BTreeMap<String, Server>> =
        settings.mcp.iter().map(|(name, settings)| Ok((name.clone(), server(settings)?))).collect();
    let servers = servers?;
    for (name, server) in &servers {
        if let Err(error) = server.confinement.check() {
            tracing::warn!(
                server = name,
                error,
                "MCP server cannot be confined as configured, so it is not started"
            );
        }
    }
    Ok(Servers::starting_at_once(servers, settings.worker.mcp_starts_at_once))
}

/// Maximum number of threads that have a session with one server at the same time.
const SESSIONS_MAX: usize = 64;

fn server(settings: &McpSettings) -> anyhow::Result<Server> {
    let idle_timeout = Duration::from_secs(settings.idle_timeout_seconds);
    let transport = match &settings.transport {
        McpTransport::Child { command, args, env, cwd, .. } => {
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
        confinement: confinement(settings),
        call_timeout: Duration::from_secs(settings.call_timeout_seconds),
        connect_timeout: Duration::from_secs(settings.connect_timeout_seconds),
        idle_timeout,
        protocol: settings.protocol,
        session: match settings.session {
            SessionSettings::Shared => Session::Shared,
            SessionSettings::Thread => Session::Thread { max_sessions: SESSIONS_MAX, idle_timeout },
        },
        concurrency: settings.concurrency,
        tools: settings.tools.iter().map(|(name, settings)| (name.clone(), rule(settings))).collect(),
        tool_filter: sight(&settings.sight),
        node_tool_filters: settings
            .nodes
            .iter()
            .map(|(strategy, nodes)| (strategy.clone(), of_nodes(nodes)))
            .collect(),
    })
}

fn confinement(settings: &McpSettings) -> Confinement {
    let McpTransport::Child { sandbox, user, .. } = &settings.transport else {
        return Confinement::default();
    };
    let sandbox = sandbox.as_ref().map(|sandbox| Sandbox {
        network: sandbox.network,
        read: sandbox.read.clone(),
        write: sandbox.write.clone(),
    });
    Confinement { sandbox, user: user.clone() }
}

fn of_nodes(nodes: &BTreeMap<String, SightSettings>) -> BTreeMap<String, ToolFilter> {
    nodes.iter().map(|(node, settings)| (node.clone(), sight(settings))).collect()
}

fn sight(settings: &SightSettings) -> ToolFilter {
    ToolFilter { allow: settings.allow.clone(), deny: settings.deny.clone() }
}

fn rule(settings: &ToolSettings) -> ToolRule {
    ToolRule {
        safety: settings.safety,
        timeout: settings.timeout_seconds.map(Duration::from_secs),
        concurrency: settings.concurrency,
        max_repeats: settings.max_repeats,
        read_back: settings.verify.as_ref().map(VerifySettings::read_back),
    }
}

/// The retry policies of providers and MCP servers.
pub(super) fn retries(settings: &Settings) -> RetryPolicies {
    let of_provider = |(name, settings): (&String, &ProviderSettings)| match settings {
        ProviderSettings::Http(http) => Some((name.clone(), policy(&http.retry, RetryPolicy::MODEL))),
        ProviderSettings::Script { .. } => None,
    };
    let of_server = |(name, settings): (&String, &McpSettings)| {
        (name.clone(), policy(&settings.retry, RetryPolicy::SERVER))
    };
    RetryPolicies {
        providers: settings.providers.iter().filter_map(of_provider).collect(),
        servers: settings.mcp.iter().map(of_server).collect(),
    }
}

fn policy(settings: &RetrySettings, defaults: RetryPolicy) -> RetryPolicy {
    let RetrySettings {
        attempts,
        first_pause_seconds,
        max_pause_seconds,
        give_up_after_seconds,
        low_priority_give_up_after_seconds,
    } = *settings;
    let or = |seconds: Option<u64>, default| seconds.map_or(default, Duration::from_secs);
    let Backoff { base, max } = Backoff::default();
    RetryPolicy {
        attempts: attempts.unwrap_or(defaults.attempts),
        backoff: Some(Backoff { base: or(first_pause_seconds, base), max: or(max_pause_seconds, max) }),
        give_up_after: or(give_up_after_seconds, defaults.give_up_after),
        low_priority_give_up_after: or(
            low_priority_give_up_after_seconds,
            defaults.low_priority_give_up_after,
        ),
    }
}

pub(super) fn caps(settings: &Settings) -> RateLimitConfig {
    let limits = &settings.limits;
    let of_models = |limits: &BTreeMap<String, ModelLimits>| {
        limits.iter().map(|(name, limit)| (name.clone(), cap(limit))).collect::<BTreeMap<_, _>>()
    };
    let of_server = |limits: &ServerLimits| RateLimit {
        concurrency: limits.concurrency,
        requests_per_minute: limits.requests_per_minute,
        ..RateLimit::default()
    };
    RateLimitConfig {
        models: of_models(&limits.models),
        providers: of_models(&limits.providers),
        servers: limits.servers.iter().map(|(name, limits)| (name.clone(), of_server(limits))).collect(),
        tenants: tenant_limits(settings),
    }
}

fn tenant_limits(settings: &Settings) -> TenantLimits {
    let of_tenant = |tenant: &TenantSettings| TenantLimit {
        requests: RateLimit {
            concurrency: None,
            requests_per_minute: tenant.requests_per_minute,
            tokens_per_minute: tenant.tokens_per_minute,
            micro_usd_per_day: tenant.usd_per_day.map(micro_usd),
        },
        weight: tenant.weight.unwrap_or(1),
    };
    TenantLimits {
        named: settings
            .named_tenants()
            .iter()
            .map(|(name, tenant)| (name.clone(), of_tenant(tenant)))
            .collect(),
        others: of_tenant(&settings.other_tenants()),
    }
}

fn cap(limits: &ModelLimits) -> RateLimit {
    let ModelLimits { concurrency, requests_per_minute, tokens_per_minute, usd_per_day } = *limits;
    RateLimit {
        concurrency,
        requests_per_minute,
        tokens_per_minute,
        micro_usd_per_day: usd_per_day.map(micro_usd),
    }
}
