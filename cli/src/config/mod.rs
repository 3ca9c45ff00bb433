//! What may be set: five layers of it, each key with where its value came from.
//!
//! ```text
//! turnfold.default.toml < an mcp_file < turnfold.toml < turnfold.<env>.toml < TURNFOLD__SECTION__KEY < flags
//! ```
//!
//! ## Why every layer is held against the schema by itself
//!
//! Once the layers are merged, nobody can say which file holds the typo. So each one meets the schema alone, as the
//! tree it is, and only then are they laid over each other. The schema is made from [`Settings`] and from the
//! strategies, so what is known, what is suggested and what is read can never differ.

mod commands;
mod error;
mod fit;
mod layer;
mod limits;
mod load;
mod mcp_file;
mod mistyped;
mod models;
mod named;
mod origins;
mod schema;
mod secret;
mod servers;
mod settings;

pub use commands::{CommandMethod, CommandSettings};
pub use error::ConfigError;
pub use limits::{LimitSettings, ModelLimits, ServerLimits};
pub use load::{Flag, Sources};
pub use origins::{Origins, Shown};
pub use secret::{Address, MaybeSecret, SecretError, SecretRef};
pub use servers::{
    McpSettings, McpTransport, PriceSettings, ProviderSettings, SessionSettings, SightSettings,
    StructuredForm, ToolSettings,
};
pub use settings::{
    ApiSettings, IndexSettings, LogFormat, LogSettings, QueueSettings, RetentionSettings, Settings,
    StoreSettings, TenantSettings, WorkerSettings,
};

/// Every key with what it does, its unit and its default: the lowest layer, and the manual.
pub const MANUAL: &str = include_str!("../../../turnfold.default.toml");
