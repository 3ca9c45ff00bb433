//! References to secrets. A setting names the place of a secret and never contains it.

use std::{env, fmt, fs, io, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use thiserror::Error;

use super::{format::Format, placeholders};

/// A string with the name of its setting. Secrets are deserialized from it.
///
/// ## Why the name is needed
///
/// A missing secret is noticed when it is first used, long after loading. Its error must still name the setting.
#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) setting: String,
    pub(super) text: String,
}

/// A reference to a secret: `env:NAME`, `file:PATH`, or `template:TEXT` with `${NAME}` and `${NAME:-default}` in the text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Named")]
pub struct SecretRef {
    setting: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Env(String),
    File(PathBuf),
    /// A text with placeholders of environment variables.
    Template(String),
}

/// A literal string or a reference to a secret. Neither is ever displayed.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Named")]
pub enum MaybeSecret {
    /// A literal string.
    Plain(SecretString),
    /// A reference to a secret.
    Reference(SecretRef),
}

/// A URL or a reference to one. It is displayed without credentials.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Address(MaybeSecret);

/// The reason why a secret could not be read.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The environment variable is not set.
    #[error("{setting}: the environment variable {name} is not set, or empty")]
    Unset {
        /// The setting that refers to it.
        setting: String,
        /// Name of the variable.
        name: String,
    },
    /// The file is empty.
    #[error("{setting}: the file {} is empty", path.display())]
    Empty {
        /// The setting that refers to it.
        setting: String,
        /// Path of the file.
        path: PathBuf,
    },
    /// The file does not exist or cannot be read.
    #[error("{setting}: cannot read the file {}: {why}", path.display())]
    Unreadable {
        /// The setting that refers to it.
        setting: String,
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
}

impl SecretRef {
    /// Parses a reference, for the setting named `setting`.
    ///
    /// # Errors
    ///
    /// The expected form of a reference. The message does not contain `text`.
    pub fn parse(setting: &str, text: &str) -> Result<Self, &'static str> {
        let place = match text.split_once(':') {
            Some(("env", name)) if is_variable(name) => Place::Env(name.to_owned()),
            Some(("env", _)) => return Err("needs the name of an environment variable after env:"),
            Some(("file", "")) => return Err("needs the path of a file after file:"),
            Some(("file", path)) => Place::File(path.into()),
            Some(("template", text)) => {
                placeholders::check(text)
                    .map_err(|_| "has a placeholder that is not ${NAME} or ${NAME:-default}")?;
                Place::Template(text.to_owned())
            }
            Some(_) | None => return Err(PLAIN),
        };
        Ok(Self { setting: setting.to_owned(), place })
    }

    /// Parses a text, and returns all secrets that it refers to: those in a text with placeholders count on their own, since a
    /// server may repeat one without the text around it.
    pub(super) fn all_in(setting: &str, text: &str) -> Vec<Self> {
        let Ok(whole) = Self::parse(setting, text) else { return Vec::new() };
        let Place::Template(template) = &whole.place else { return vec![whole] };
        let single = |name: &str| Self { setting: setting.to_owned(), place: Place::Env(name.to_owned()) };
        placeholders::required(template).into_iter().map(single).collect()
    }

    /// Name of the setting that refers to the secret.
    pub fn setting(&self) -> &str {
        &self.setting
    }

    /// Reads the secret from the environment of this process or from the file, without the trailing line break.
    ///
    /// # Errors
    ///
    /// [`SecretError`], which names the setting.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        self.resolve_in(|name| env::var(name).ok())
    }

    /// Reads the secret; `variable` looks up environment variables.
    ///
    /// # Errors
    ///
    /// [`SecretError`], which names the setting.
    pub fn resolve_in(&self, variable: impl Fn(&str) -> Option<String>) -> Result<SecretString, SecretError> {
        let setting = || self.setting.clone();
        match &self.place {
            Place::Env(name) => variable(name)
                .filter(|text| !text.is_empty())
                .map(SecretString::from)
                .ok_or_else(|| SecretError::Unset { setting: setting(), name: name.clone() }),
            Place::Template(text) => placeholders::fill(text, variable)
                .map(SecretString::from)
                .map_err(|name| SecretError::Unset { setting: setting(), name }),
            Place::File(path) => {
                let text = fs::read_to_string(path)
                    .map(SecretString::from)
                    .map_err(|why| SecretError::Unreadable { setting: setting(), path: path.clone(), why })?;
                match text.expose_secret().trim_end_matches(['\r', '\n']) {
                    "" => Err(SecretError::Empty { setting: setting(), path: path.clone() }),
                    secret => Ok(secret.into()),
                }
            }
        }
    }
}

impl MaybeSecret {
    fn parse(setting: &str, text: &str) -> Result<Self, &'static str> {
        if is_reference(text) {
            return SecretRef::parse(setting, text).map(Self::Reference);
        }
        Ok(Self::Plain(text.into()))
    }

    /// Returns the literal, or reads the secret.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if the referenced secret cannot be read.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Reference(reference) => reference.resolve(),
        }
    }
}

impl Address {
    /// Returns the URL, unless it is a secret.
    pub(crate) fn literal(&self) -> Option<&str> {
        match &self.0 {
            MaybeSecret::Plain(url) => Some(url.expose_secret()),
            MaybeSecret::Reference(_) => None,
        }
    }

    /// Returns the URL, or reads it.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if the referenced secret cannot be read.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        self.0.resolve()
    }
}

const PLAIN: &str = "must be env:NAME or file:PATH; a secret itself must not be in the configuration";

/// True if `text` has the form of a reference to a secret.
pub(super) fn is_reference(text: &str) -> bool {
    ["env:", "file:", "template:"].iter().any(|kind| text.starts_with(kind))
}

/// Checks that `text` is valid for this format.
pub(super) fn check(format: Format, text: &str) -> Result<(), &'static str> {
    match format {
        Format::Secret => SecretRef::parse("", text).map(drop),
        Format::MaybeSecret | Format::Address => MaybeSecret::parse("", text).map(drop),
    }
}

fn is_variable(name: &str) -> bool {
    let word = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    word && name.starts_with(|char: char| !char.is_ascii_digit())
}

impl TryFrom<Named> for SecretRef {
    type Error = &'static str;

    fn try_from(named: Named) -> Result<Self, Self::Error> {
        Self::parse(&named.setting, &named.text)
    }
}

impl TryFrom<Named> for MaybeSecret {
    type Error = &'static str;

    fn try_from(named: Named) -> Result<Self, Self::Error> {
        Self::parse(&named.setting, &named.text)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Env(name) => write!(f, "env:{name}"),
            Place::File(path) => write!(f, "file:{}", path.display()),
            Place::Template(text) => write!(f, "template:{text}"),
        }
    }
}

/// Gives a type a string schema with a format that the loader recognises.
macro_rules! text_schema {
    ($($type:ty: $format:expr),*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "format": $format.name()})
            }
        }
    )*};
}

text_schema!(SecretRef: Format::Secret, MaybeSecret: Format::MaybeSecret, Address: Format::Address);
