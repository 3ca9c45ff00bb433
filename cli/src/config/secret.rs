//! Secrets: settings name the place of one and never hold it.

use std::{env, fmt, fs, io, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use thiserror::Error;

use super::{named::Named, schema::Format};

/// Where a secret is: `env:NAME` or `file:PATH`.
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
}

/// A plain text, or the place of a secret. Plain or not, it is never shown.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Named")]
pub enum MaybeSecret {
    /// The text itself.
    Plain(SecretString),
    /// Where it is.
    Reference(SecretRef),
}

/// A URL, or the place of one. It is shown without whatever in it may be a secret.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Address(MaybeSecret);

/// Why there is no secret where the setting says.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The environment variable is not there.
    #[error("{setting}: the environment variable {name} is not set, or empty")]
    Unset {
        /// The setting that names it.
        setting: String,
        /// The variable.
        name: String,
    },
    /// The file holds nothing.
    #[error("{setting}: the file {} is empty", path.display())]
    Empty {
        /// The setting that names it.
        setting: String,
        /// The file.
        path: PathBuf,
    },
    /// The file is not there, or may not be read.
    #[error("{setting}: failed to read the file {}: {why}", path.display())]
    Unreadable {
        /// The setting that names it.
        setting: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

impl SecretRef {
    /// The reference that `text` is, for the setting called `setting`.
    ///
    /// # Errors
    ///
    /// What a reference looks like, in words that do not repeat `text`.
    pub fn parse(setting: &str, text: &str) -> Result<Self, &'static str> {
        let place = match text.split_once(':') {
            Some(("env", name)) if is_variable(name) => Place::Env(name.to_owned()),
            Some(("env", _)) => return Err("wants the name of an environment variable after env:"),
            Some(("file", "")) => return Err("wants the path of a file after file:"),
            Some(("file", path)) => Place::File(path.into()),
            Some(_) | None => return Err(PLAIN),
        };
        Ok(Self { setting: setting.to_owned(), place })
    }

    /// The secret, read from this process's environment or from the file, without the line's end.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if there is none; it names the setting.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        self.resolve_in(|name| env::var(name).ok())
    }

    /// The secret, where `variable` knows the environment.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if there is none; it names the setting.
    pub fn resolve_in(&self, variable: impl Fn(&str) -> Option<String>) -> Result<SecretString, SecretError> {
        let setting = || self.setting.clone();
        match &self.place {
            Place::Env(name) => variable(name)
                .filter(|it| !it.is_empty())
                .map(SecretString::from)
                .ok_or_else(|| SecretError::Unset { setting: setting(), name: name.clone() }),
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

    /// The text, wherever it is.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if it is a reference to nothing.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Reference(reference) => reference.resolve(),
        }
    }
}

impl Address {
    /// The URL, wherever it is.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if it is a reference to nothing.
    pub fn resolve(&self) -> Result<SecretString, SecretError> {
        self.0.resolve()
    }
}

const PLAIN: &str = "must be env:NAME or file:PATH: a secret itself has no place here";

/// Whether `text` claims to be the place of a secret.
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// Whether `text` does for a value of this format; says why not.
pub(super) fn check(format: Format, text: &str) -> Result<(), &'static str> {
    match format {
        Format::Secret => SecretRef::parse("", text).map(drop),
        Format::MaybeSecret | Format::Address => MaybeSecret::parse("", text).map(drop),
    }
}

fn is_variable(name: &str) -> bool {
    let word = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    word && name.starts_with(|it: char| !it.is_ascii_digit())
}

impl TryFrom<Named> for SecretRef {
    type Error = &'static str;

    fn try_from(it: Named) -> Result<Self, Self::Error> {
        Self::parse(&it.setting, &it.text)
    }
}

impl TryFrom<Named> for MaybeSecret {
    type Error = &'static str;

    fn try_from(it: Named) -> Result<Self, Self::Error> {
        Self::parse(&it.setting, &it.text)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Env(name) => write!(f, "env:{name}"),
            Place::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// A text with a format of our own, by which the loader knows it.
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
