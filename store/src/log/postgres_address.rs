//! Addresses of PostgreSQL servers, in the forms that libpq accepts.
//!
//! | form | connects to |
//! |---|---|
//! | `postgres://USER:PASSWORD@HOST:PORT/DATABASE` | a host |
//! | `postgres:///DATABASE` | the socket in the usual folder, or `localhost` if there is none |
//! | `postgres://USER@/DATABASE?host=/var/run/postgresql&port=5433` | the socket in a folder |
//! | `postgres://USER@%2Fvar%2Frun%2Fpostgresql:5433/DATABASE` | the same |
//!
//! A parameter that would have no effect is refused: a connection that ignores `channel_binding=require` is not the one
//! that was asked for.

use std::str::FromStr as _;

use sea_orm::sqlx::{
    ConnectOptions as _,
    postgres::{PgConnectOptions, PgSslMode},
};

use crate::Error;

/// The parameters that have an effect. `options[NAME]` sets a server setting.
const PARAMETERS: [&str; 17] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
];

/// Parses an address.
///
/// # Errors
///
/// [`Error::Address`], without the address: it may contain a password.
pub(super) fn parse(url: &str) -> Result<PgConnectOptions, Error> {
    let malformed =
        |reason: &str| Error::Address(format!("the `postgres://` address is malformed: {reason}"));
    let Some((_, rest)) = url.split_once("://") else {
        return Err(malformed(
            "`//` is missing after the scheme; hint: use `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or \
             `postgres:///DATABASE?host=/FOLDER` for a socket",
        ));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let mut parameters: Vec<String> = query.split('&').filter_map(parameter).collect();
    for name in parameters.iter().filter_map(|parameter| parameter.split('=').next()) {
        if !PARAMETERS.contains(&name) && !name.starts_with("options%5B") && !name.starts_with("options[") {
            return Err(malformed(&format!(
                "turnfold does not know the parameter `{name}`; hint: remove it"
            )));
        }
    }
    let (user, server) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, port) = server.rsplit_once(':').unwrap_or((server, ""));
    let several = |text: &str| text.contains(',') || text.to_ascii_lowercase().contains("%2c");
    if several(server) || parameters.iter().any(|it| it.starts_with("host") && several(it)) {
        return Err(malformed(
            "it names several servers; hint: use one name that follows the primary, or a pooler",
        ));
    }
    // A URL with a user or a port needs a host. Without one, they become parameters, before those of the address.
    let authority = if host.is_empty() {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let of_authority = [("user", name), ("password", password), ("port", port)];
        let of_authority = of_authority.map(|(key, value)| format!("{key}={}", value.replace('+', "%2B")));
        parameters.splice(0..0, of_authority.iter().filter_map(|name| parameter(name)));
        ""
    } else {
        authority
    };
    let url = format!("postgres://{authority}/{database}?{}", parameters.join("&"));
    let mut options = PgConnectOptions::from_str(&url).map_err(|error| malformed(&error.to_string()))?;
    if is_socket(&options) {
        // As in libpq: a socket is not encrypted, whatever the mode.
        options = options.ssl_mode(PgSslMode::Disable);
    }
    if options.get_application_name().is_none() {
        options = options.application_name("turnfold");
    }
    Ok(options.disable_statement_logging())
}

/// Returns a parameter for a parser that reads `+` as a blank, as libpq does not. An empty value means the default.
fn parameter(text: &str) -> Option<String> {
    let (_, value) = text.split_once('=')?;
    (!value.is_empty()).then(|| text.replace('+', "%2B"))
}

fn is_socket(options: &PgConnectOptions) -> bool {
    options.get_socket().is_some() || options.get_host().starts_with('/')
}

/// Describes the server for messages, without user and password.
pub(super) fn place(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    match options.get_socket().map(|socket| socket.display().to_string()) {
        Some(folder) => format!("PostgreSQL at the socket {folder}/.s.PGSQL.{port}"),
        None if is_socket(options) => format!("PostgreSQL at the socket {host}/.s.PGSQL.{port}"),
        None => format!("PostgreSQL at {host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, place};

    #[test]
    fn the_forms_of_libpq_name_their_server() {
        for (url, wanted) in [
            ("postgres://ada@db.example:6543/turnfold", "PostgreSQL at db.example:6543"),
            ("postgresql://ada:pw@[::1]:6543/turnfold", "PostgreSQL at [::1]:6543"),
            ("postgresql:///turnfold?host=/run/pg", "PostgreSQL at the socket /run/pg/.s.PGSQL.5432"),
            (
                "postgresql:///turnfold?host=%2Frun%2Fpg&port=6543",
                "PostgreSQL at the socket /run/pg/.s.PGSQL.6543",
            ),
            ("postgresql://%2Frun%2Fpg/turnfold", "PostgreSQL at the socket /run/pg/.s.PGSQL.5432"),
            ("postgresql://ada@%2Frun%2Fpg:6543/turnfold", "PostgreSQL at the socket /run/pg/.s.PGSQL.6543"),
            ("postgresql://ada@/turnfold?host=/run/pg", "PostgreSQL at the socket /run/pg/.s.PGSQL.5432"),
            (
                "postgresql://ada:a+b@:6543/turnfold?host=/run/a+b",
                "PostgreSQL at the socket /run/a+b/.s.PGSQL.6543",
            ),
            (
                "postgresql://:6543?host=/run/pg&dbname=turnfold",
                "PostgreSQL at the socket /run/pg/.s.PGSQL.6543",
            ),
        ] {
            assert_eq!(place(&parse(url).unwrap()), wanted, "{url}");
        }
    }

    #[test]
    fn user_and_database_are_read_from_every_form() {
        for url in [
            "postgres://ada@db/turnfold",
            "postgresql://ada@/turnfold?host=/run/pg",
            "postgresql:///?host=/run/pg&user=ada&dbname=turnfold",
            "postgresql://ada:a+b%40c@:6543/turnfold?host=/run/pg",
        ] {
            let options = parse(url).unwrap();
            assert_eq!(options.get_username(), "ada", "{url}");
            assert_eq!(options.get_database(), Some("turnfold"), "{url}");
            assert_eq!(options.get_application_name(), Some("turnfold"), "{url}");
        }
    }

    #[test]
    fn what_would_have_no_effect_is_refused_without_showing_the_address() {
        for (url, wanted) in [
            ("postgres://ada:secret@db/x?channel_binding=require", "`channel_binding`"),
            ("postgres://ada:secret@db/x?sslpassword=secret", "`sslpassword`"),
            ("postgres://ada:secret@one,two/x", "several servers"),
            ("postgres://ada:secret@one:1,two:2/x", "several servers"),
            ("postgres:///x?host=one,two", "several servers"),
            ("postgres:ada:secret@db", "`//` is missing"),
        ] {
            let error = parse(url).expect_err(url).to_string();
            assert!(error.contains(wanted) && error.contains("hint: "), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
