//! The configuration: five layers, merged, with the origin of every value.
//!
//! ```text
//! turnfold.default.toml < an mcp_file < turnfold.toml < turnfold.<env>.toml < TURNFOLD__SECTION__KEY < flags
//! ```
//!
//! ## Why each layer is validated separately
//!
//! After merging, an error could not name the file that holds the typo. Each layer is therefore validated first and merged
//! afterwards. The schema is generated from [`Settings`] and from the strategies, so the keys that are accepted, suggested and
//! read are always the same.

mod check_budget;
mod check_limits;
mod check_verify;
mod commands;
mod error;
mod exclusive_keys;
mod fit;
mod format;
mod key;
mod layer;
mod limits;
mod load;
mod mcp_file;
mod mistyped;
mod models;
mod named;
mod node_prompts;
mod oidc;
mod origins;
mod placeholders;
mod providers;
mod retry;
mod sandbox;
mod schema;
mod secret;
mod servers;
mod settings;
mod tenants;
mod tools;
mod verify;

pub use commands::CommandSettings;
pub use error::ConfigError;
pub use limits::{LimitSettings, ModelLimits, ServerLimits};
pub use load::{Flag, Sources};
pub use oidc::{OidcSettings, SignInSettings};
pub use origins::{Origins, Shown};
pub use providers::{HttpProviderSettings, PriceSettings, ProviderSettings};
pub use retry::RetrySettings;
pub use secret::{Address, MaybeSecret, SecretError, SecretRef};
pub use servers::{McpSettings, McpTransport, SessionSettings, SightSettings};
pub use settings::{
    ApiSettings, FixtureSettings, IndexSettings, LogFormat, LogSettings, OtlpProtocol, QueueSettings,
    RetentionSettings, Settings, StoreSettings, TelemetrySettings, WorkerSettings,
};
pub use tenants::{EVERY_TENANT, TenantSettings};
pub use tools::ToolSettings;
pub use verify::VerifySettings;

/// The text of `turnfold.default.toml`: the lowest layer, and the reference of every key.
pub const MANUAL: &str = include_str!("../../../turnfold.default.toml");
