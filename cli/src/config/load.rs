//! Loads [`Settings`]: merges the layers and validates the result.

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
};

use ::config::{Config, Source, Value, ValueKind};
use serde::Deserialize as _;
use serde_json::Value as Json;
use shared::{COMMANDS, Graph};

use super::{
    MANUAL,
    check_budget::check_budget,
    check_limits::check_limits,
    check_verify::check_verify,
    error::ConfigError,
    key::join,
    layer, mcp_file, mistyped,
    models::check_models,
    named, node_prompts,
    origins::{DEFAULT, Origins},
    schema::Schema,
    settings::Settings,
    tenants::check_tenants,
};
use crate::output::note;

const FILE: &str = "turnfold.toml";
const ENV: &str = "TURNFOLD_ENV";

/// The sources of the settings.
#[derive(Clone, Default)]
pub struct Sources {
    /// The folder of `turnfold.toml` and of relative paths. Default: the current folder.
    pub folder: PathBuf,
    /// A file to read instead of `turnfold.toml`. It must exist.
    pub config: Option<PathBuf>,
    /// Selects `turnfold.<env>.toml`, which must exist. Default: `TURNFOLD_ENV`.
    pub env: Option<String>,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
    /// The strategies that can be configured.
    pub strategies: Vec<&'static dyn Graph>,
    /// The flags that set a key, weakest first.
    pub flags: Vec<Flag>,
}

/// A flag that sets a key.
#[derive(Clone)]
pub struct Flag {
    /// Name of the flag, such as `--listen`.
    pub name: String,
    /// The key and its value. `None` if the flag had neither.
    pub sets: Option<(String, Json)>,
}

impl Sources {
    /// The current folder, the environment of this process, and the included strategies.
    pub fn of_process() -> Self {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let environment = env::vars_os().map(|(name, value)| (text(name), text(value)));
        Self {
            environment: environment.filter(|(name, _)| name.starts_with("TURNFOLD")).collect(),
            strategies: strategies::all(),
            ..Self::default()
        }
    }

    /// Adds a `--set section.key=value`, stronger than everything added before.
    #[must_use]
    pub fn set(mut self, text: &str) -> Self {
        let sets = text.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.into()));
        self.flags.push(Flag { name: "--set".to_owned(), sets });
        self
    }

    /// Adds a flag that sets `key`, stronger than everything added before.
    #[must_use]
    pub fn flag(mut self, name: &str, key: &str, value: impl Into<Json>) -> Self {
        self.flags.push(Flag { name: name.to_owned(), sets: Some((key.to_owned(), value.into())) });
        self
    }
}

impl Settings {
    /// Loads the settings, and the origin of each.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first invalid key or value, weakest layer first.
    pub fn load(sources: Sources) -> Result<(Self, Origins), ConfigError> {
        let schema = Settings::schema(&sources.strategies);
        let mut layers = layers(&schema, &sources)?;
        if let Some(servers) = mcp_servers(&schema, &sources, &layers)? {
            layers.insert(DEFAULTS, servers);
        }
        layer::remove_excluded(&mut layers);
        node_prompts::remove_excluded(&mut layers);
        let mut merged = merged(layers)?;
        for warning in mistyped::mistyped(&schema, &sources.environment, &merged) {
            note(&format!("warning: {warning}"));
        }
        let origins = Origins::of(&merged, schema.root());
        node_prompts::read_files(&mut merged, &sources.folder)?;
        let mut references = Vec::new();
        let settings = Settings::deserialize(named::named(merged, schema.root(), "", &mut references))
            .map_err(|err| refused(&err, &origins))?;
        let settings = Settings { references, ..settings };
        check_strategies(&sources.strategies, &settings, &origins)?;
        check_names(&settings, &origins)?;
        check_tenants(&sources.strategies, &settings, &origins)?;
        check_nodes(&sources.strategies, &settings, &origins)?;
        check_servers(&settings, &origins)?;
        check_verify(&settings, &origins)?;
        check_models(&settings, &origins)?;
        check_limits(&settings, &origins)?;
        check_budget(&settings, &origins)?;
        Ok((settings, origins))
    }
}

/// Number of layers that hold defaults.
const DEFAULTS: usize = 2;

/// All layers except that of `mcp_file`, weakest first.
fn layers(schema: &Schema, sources: &Sources) -> Result<Vec<Value>, ConfigError> {
    let mut layers =
        vec![layer::of_toml(schema, DEFAULT, MANUAL)?, layer::of_strategies(schema, &sources.strategies)?];
    let asked = sources.config.as_ref().map(|_| "--config");
    let file = sources.config.clone().unwrap_or_else(|| FILE.into());
    if let Some(text) = read(&sources.folder, &file, asked)? {
        layers.push(layer::of_toml(schema, &file.display().to_string(), &text)?);
    }
    if let Some((file, asked)) = beside(&file, sources)? {
        let text = read(&sources.folder, &file, Some(asked))?.unwrap_or_default();
        layers.push(layer::of_toml(schema, &file.display().to_string(), &text)?);
    }
    layers.extend(layer::of_environment(schema, &sources.environment)?);
    for Flag { name, sets } in &sources.flags {
        let Some((key, value)) = sets else {
            return Err(ConfigError::Shapeless { origin: name.clone() });
        };
        layers.push(layer::of_flag(schema, name, key, value.clone())?);
    }
    Ok(layers)
}

/// The path of `turnfold.<env>.toml` next to `file`, and the flag or variable that selects it.
fn beside(file: &Path, sources: &Sources) -> Result<Option<(PathBuf, &'static str)>, ConfigError> {
    let by_flag = sources.env.as_ref().map(|name| (name, "--env"));
    let by_variable = || sources.environment.get(ENV).map(|name| (name, ENV));
    let Some((env, asked)) = by_flag.or_else(by_variable).filter(|(name, _)| !name.is_empty()) else {
        return Ok(None);
    };
    if !env.chars().all(|char| char.is_ascii_alphanumeric() || char == '-' || char == '_') {
        let why = "may contain only letters, digits, - and _".to_owned();
        return Err(ConfigError::Refused {
            key: "the environment's name".to_owned(),
            origin: asked.to_owned(),
            why,
        });
    }
    Ok(Some((file.with_file_name(format!("turnfold.{env}.toml")), asked)))
}

/// Reads a file. `None` if it does not exist and no flag or variable named it.
fn read(folder: &Path, file: &Path, asked: Option<&str>) -> Result<Option<String>, ConfigError> {
    match (fs::read_to_string(folder.join(file)), asked) {
        (Ok(text), _) => Ok(Some(text)),
        (Err(err), None) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        (Err(err), _) => Err(unreadable(&file.display().to_string(), asked.unwrap_or("turnfold"), err)),
    }
}

fn unreadable(file: &str, asked: &str, why: io::Error) -> ConfigError {
    ConfigError::Unreadable { file: file.to_owned(), asked: asked.to_owned(), why }
}

/// The layer of the file that `mcp_file` names; the strongest layer decides.
fn mcp_servers(schema: &Schema, sources: &Sources, layers: &[Value]) -> Result<Option<Value>, ConfigError> {
    let named = layers.iter().rev().find_map(|layer| {
        let ValueKind::Table(table) = &layer.kind else { return None };
        let value = table.get("mcp_file")?;
        let ValueKind::String(file) = &value.kind else { return None };
        Some((file, value.origin().unwrap_or(DEFAULT)))
    });
    let Some((file, origin)) = named else {
        return Ok(None);
    };
    let asked = format!("mcp_file in {origin}");
    let text = fs::read_to_string(sources.folder.join(file)).map_err(|why| unreadable(file, &asked, why))?;
    mcp_file::of_mcp_file(schema, file, &text).map(Some)
}

/// Adapter that gives a layer to the `config` crate.
#[derive(Clone, Debug)]
struct Layer(Value);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<::config::Map<String, Value>, ::config::ConfigError> {
        self.0.clone().into_table()
    }
}

fn merged(layers: Vec<Value>) -> Result<Value, ConfigError> {
    let builder =
        layers.into_iter().fold(Config::builder(), |builder, layer| builder.add_source(Layer(layer)));
    Ok(builder.build().map_err(|err| refused(&err, &Origins::default()))?.cache)
}

/// Converts the error of a value that has the right type but is invalid.
fn refused(err: &::config::ConfigError, origins: &Origins) -> ConfigError {
    use ::config::ConfigError as Inner;
    let (key, why) = if let Inner::At { error, key, .. } = err {
        (key.clone(), error.to_string())
    } else if let Inner::Type { expected, key, .. } = err {
        (key.clone(), format!("must be {expected}"))
    } else if let Inner::NotFound(key) = err {
        (Some(key.clone()), "is missing".to_owned())
    } else {
        (None, err.to_string())
    };
    let key = key.unwrap_or_default();
    ConfigError::Refused { origin: origins.of_key(&key), key, why }
}

/// Checks that no MCP server uses the name of the plain commands.
fn check_names(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    if !settings.commands.is_empty() && settings.mcp.contains_key(COMMANDS) {
        let why = "uses the name that is reserved for the commands of [commands.NAME]: rename the server";
        let key = format!("mcp.{COMMANDS}");
        return Err(ConfigError::Refused { origin: origins.of_key(&key), key, why: why.to_owned() });
    }
    Ok(())
}

/// Checks that every node named in `[mcp.NAME.nodes]` exists.
fn check_nodes(
    strategies: &[&'static dyn Graph],
    settings: &Settings,
    origins: &Origins,
) -> Result<(), ConfigError> {
    let known = |names: Vec<String>| format!("available: {}", names.join(", "));
    for (server, settings) in &settings.mcp {
        for (strategy, named) in &settings.nodes {
            let refused = |key: String, why: String| {
                Err(ConfigError::Refused { origin: origins.of_key(&key), key, why })
            };
            let key = join(&format!("mcp.{server}.nodes"), strategy);
            let Some(graph) = strategies.iter().find(|graph| graph.name() == strategy) else {
                let names = strategies.iter().map(|strategy| strategy.name().to_owned()).collect();
                return refused(key, format!("is not a strategy ({})", known(names)));
            };
            let nodes: Vec<String> = graph.topology().edges.into_iter().map(|(node, _)| node).collect();
            if let Some(node) = named.keys().find(|key| !nodes.contains(*key)) {
                return refused(join(&key, node), format!("is not a node of {strategy} ({})", known(nodes)));
            }
        }
    }
    Ok(())
}

/// Checks that the servers to which strategies and tenants are limited exist.
fn check_servers(settings: &Settings, origins: &Origins) -> Result<(), ConfigError> {
    let commands = (!settings.commands.is_empty()).then_some(COMMANDS);
    let known: Vec<&str> = settings.mcp.keys().map(String::as_str).chain(commands).collect();
    let of_strategies = settings.strategies.iter().map(|(name, config)| {
        let names = config["servers"].as_array().into_iter().flatten().filter_map(Json::as_str);
        (join("strategies", name), names.collect::<Vec<_>>())
    });
    let of_tenants = settings.tenants.iter().map(|(name, settings)| {
        (join("tenants", name), settings.servers.iter().flatten().map(String::as_str).collect())
    });
    for (section, names) in of_strategies.chain(of_tenants) {
        let Some(nth) = names.iter().position(|name| !known.contains(name)) else { continue };
        let hint = match (shared::closest(names[nth], known.iter().copied()), known.is_empty()) {
            (Some(near), _) => format!("did you mean {near:?}?"),
            (None, true) => "none is configured".to_owned(),
            (None, false) => format!("available: {}", known.join(", ")),
        };
        let key = format!("{section}.servers[{nth}]");
        let origin = origins.of_key(&format!("{section}.servers"));
        return Err(ConfigError::Refused { key, origin, why: format!("is not an MCP server ({hint})") });
    }
    Ok(())
}

/// Lets every strategy check its own configuration.
fn check_strategies(
    strategies: &[&'static dyn Graph],
    settings: &Settings,
    origins: &Origins,
) -> Result<(), ConfigError> {
    for graph in strategies {
        let key = format!("strategies.{}", graph.name());
        if let Some(config) = settings.strategies.get(graph.name()) {
            graph.check_config(config).map_err(|why| {
                let why = format!("is refused by the strategy: {why}");
                ConfigError::Refused { origin: origins.of_key(&key), key: key.clone(), why }
            })?;
        }
    }
    Ok(())
}
