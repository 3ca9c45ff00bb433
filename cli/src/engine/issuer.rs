//! The issuer of tokens, and the sign-in with its pages, checked.

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    config::{OidcSettings, SecretRef, SignInSettings},
    exit::{CliError, Exit},
};

/// Maximum length of a client's name or secret in bytes.
const CLIENT_MAX: usize = 1_000;

/// Maximum number of scopes that are requested.
const SCOPES_MAX: usize = 50;

/// Maximum length of a scope in bytes.
const SCOPE_MAX: usize = 200;

/// The issuer of tokens. Its keys are fetched over TLS, except from this machine.
pub(super) fn oidc(settings: &OidcSettings) -> anyhow::Result<api::OidcConfig> {
    optional_url("api.oidc.jwks_url", settings.jwks_url.as_deref())?;
    check_issuer(settings)?;
    Ok(api::OidcConfig {
        issuer: settings.issuer.clone(),
        audience: settings.audience.clone(),
        jwks_url: settings.jwks_url.clone(),
        tenant_claim: settings.tenant_claim.clone(),
        scope_claim: settings.scope_claim.clone(),
    })
}

/// The sign-in with the pages of the issuer, if it is configured.
pub(super) fn sign_in(issuer: &OidcSettings) -> anyhow::Result<Option<api::SignInConfig>> {
    let Some(settings) = &issuer.sign_in else { return Ok(None) };
    let token = token(issuer, settings)?;
    check_client_id(&settings.client_id)?;
    check_scopes(settings)?;
    Ok(Some(api::SignInConfig {
        client_id: settings.client_id.clone(),
        client_secret: settings.client_secret.as_ref().map(client_secret).transpose()?,
        authorize_url: optional_url("api.oidc.sign_in.authorize_url", settings.authorize_url.as_deref())?,
        token_url: optional_url("api.oidc.sign_in.token_url", settings.token_url.as_deref())?,
        sign_out_url: optional_url("api.oidc.sign_in.sign_out_url", settings.sign_out_url.as_deref())?,
        public_url: origin(&settings.public_url)?,
        scopes: settings.scopes.clone(),
        token,
    }))
}

/// The token that a session is made of.
fn token(issuer: &OidcSettings, settings: &SignInSettings) -> anyhow::Result<api::SessionToken> {
    let is_for_client = issuer.audience == settings.client_id;
    match settings.token.as_deref() {
        None if is_for_client => Ok(api::SessionToken::Id),
        None | Some("access_token") => Ok(api::SessionToken::Access),
        Some("id_token") if is_for_client => Ok(api::SessionToken::Id),
        Some("id_token") => {
            let why = "an ID token is for the client: set api.oidc.audience to the client_id, or choose \"access_token\"";
            Err(wrong("token", why))
        }
        Some(_) => Err(wrong("token", "it must be \"id_token\" or \"access_token\"")),
    }
}

/// Parses a URL over which nothing is sent in the clear: https, or http on this machine.
fn private_url(setting: &str, text: &str) -> anyhow::Result<Url> {
    api::private_url(text).ok_or_else(|| {
        let message = format!(
            "{setting}: it is not an https URL\nhint: http is for this machine only; a user, a password or a fragment is not allowed"
        );
        CliError::with_exit(Exit::Usage, message)
    })
}

/// Parses a URL that may be left out.
fn optional_url(setting: &str, text: Option<&str>) -> anyhow::Result<Option<Url>> {
    text.map(|text| private_url(setting, text)).transpose()
}

/// Checks that the document of the issuer has a URL, if an address is left out and has to be read from it.
fn check_issuer(settings: &OidcSettings) -> anyhow::Result<()> {
    let is_whole = |pages: &SignInSettings| pages.authorize_url.is_some() && pages.token_url.is_some();
    let is_read = settings.jwks_url.is_none() || !settings.sign_in.as_ref().is_none_or(is_whole);
    let url = api::private_url(&settings.issuer).filter(|url| url.query().is_none());
    if url.is_some() || !is_read {
        return Ok(());
    }
    let message = "api.oidc.issuer: addresses of the issuer are left out, so it must be an https URL without a query, below which \
                   /.well-known/openid-configuration is\nhint: set jwks_url, and authorize_url and token_url of \
                   [api.oidc.sign_in], or correct the issuer; http is for this machine only";
    Err(CliError::with_exit(Exit::Usage, message))
}

/// Parses the origin at which browsers reach the API.
fn origin(text: &str) -> anyhow::Result<Url> {
    let url = private_url("api.oidc.sign_in.public_url", text)?;
    let is_origin = url.path() == "/" && url.query().is_none();
    let why = "name the origin without a path, such as https://turnfold.example.org";
    if is_origin { Ok(url) } else { Err(wrong("public_url", why)) }
}

/// Checks the name of the client: printable ASCII (RFC 6749, appendix A.1).
fn check_client_id(id: &str) -> anyhow::Result<()> {
    let is_valid = (1..=CLIENT_MAX).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let why = format!("it must have 1 to {CLIENT_MAX} printable ASCII characters");
    if is_valid { Ok(()) } else { Err(wrong("client_id", &why)) }
}

/// Reads the secret of a client.
fn client_secret(reference: &SecretRef) -> anyhow::Result<SecretString> {
    let secret = reference.resolve()?;
    let is_valid = (1..=CLIENT_MAX).contains(&secret.expose_secret().len());
    let why = format!("the secret must have 1 to {CLIENT_MAX} bytes");
    if is_valid { Ok(secret) } else { Err(wrong("client_secret", &why)) }
}

/// Checks the scopes (RFC 6749, appendix A.4). Without `openid`, an issuer returns no ID token.
fn check_scopes(settings: &SignInSettings) -> anyhow::Result<()> {
    let is_char = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
    let is_valid = |scope: &String| (1..=SCOPE_MAX).contains(&scope.len()) && scope.bytes().all(is_char);
    let scopes = &settings.scopes;
    if SCOPES_MAX < scopes.len() || !scopes.iter().all(is_valid) {
        let why = format!(
            "it must list at most {SCOPES_MAX} scopes of 1 to {SCOPE_MAX} characters, without spaces and quotes"
        );
        return Err(wrong("scopes", &why));
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        return Err(wrong("scopes", "it must contain \"openid\", or the issuer returns no ID token"));
    }
    Ok(())
}

/// The error of a setting of `[api.oidc.sign_in]`.
fn wrong(setting: &str, why: &str) -> anyhow::Error {
    CliError::with_exit(Exit::Usage, format!("api.oidc.sign_in.{setting}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut OidcSettings, &mut SignInSettings)) -> OidcSettings {
        let mut sign_in = SignInSettings {
            client_id: "turnfold".to_owned(),
            client_secret: None,
            authorize_url: Some("https://login.example.org/authorize?realm=a".to_owned()),
            token_url: Some("https://login.example.org/token".to_owned()),
            sign_out_url: None,
            public_url: "https://turnfold.example.org".to_owned(),
            scopes: vec!["openid".to_owned(), "profile".to_owned()],
            token: None,
        };
        let mut issuer = OidcSettings {
            issuer: "https://login.example.org".to_owned(),
            audience: "turnfold".to_owned(),
            jwks_url: Some("https://login.example.org/jwks".to_owned()),
            tenant_claim: "tenant".to_owned(),
            scope_claim: "scope".to_owned(),
            sign_in: None,
        };
        change(&mut issuer, &mut sign_in);
        issuer.sign_in = Some(sign_in);
        issuer
    }

    fn refused(change: impl FnOnce(&mut OidcSettings, &mut SignInSettings)) -> String {
        sign_in(&settings(change)).unwrap_err().to_string()
    }

    #[test]
    fn the_audience_decides_which_token_becomes_the_session() {
        let token = |issuer: &OidcSettings| sign_in(issuer).unwrap().unwrap().token;
        assert_eq!(token(&settings(|_, _| ())), api::SessionToken::Id);
        assert_eq!(
            token(&settings(|issuer, _| issuer.audience = "api".to_owned())),
            api::SessionToken::Access
        );
        let named = settings(|_, sign_in| sign_in.token = Some("access_token".to_owned()));
        assert_eq!(token(&named), api::SessionToken::Access);
        let message = refused(|issuer, sign_in| {
            issuer.audience = "api".to_owned();
            sign_in.token = Some("id_token".to_owned());
        });
        assert!(message.starts_with("api.oidc.sign_in.token: ") && message.contains("audience"), "{message}");
        let message = refused(|_, sign_in| sign_in.token = Some("refresh_token".to_owned()));
        assert!(message.starts_with("api.oidc.sign_in.token: it must be"), "{message}");
    }

    #[test]
    fn addresses_are_left_out_only_if_the_document_of_the_issuer_has_a_url() {
        let left_out: [fn(&mut OidcSettings, &mut SignInSettings); 3] = [
            |issuer, _| issuer.jwks_url = None,
            |_, sign_in| sign_in.authorize_url = None,
            |_, sign_in| sign_in.token_url = None,
        ];
        for leave_out in left_out {
            for issuer in ["https://login.example.org/realms/main/", "http://localhost:8080"] {
                let settings = settings(|oidc, sign_in| {
                    leave_out(oidc, sign_in);
                    oidc.issuer = issuer.to_owned();
                });
                assert!(oidc(&settings).is_ok() && sign_in(&settings).is_ok(), "{issuer}");
            }
            for issuer in ["login", "http://login.example.org", "https://login.example.org/?a=b"] {
                let settings = settings(|oidc, sign_in| {
                    leave_out(oidc, sign_in);
                    oidc.issuer = issuer.to_owned();
                });
                let message = oidc(&settings).unwrap_err().to_string();
                assert!(message.starts_with("api.oidc.issuer: ") && message.contains("hint: "), "{message}");
            }
        }
        let named = settings(|oidc, _| oidc.issuer = "login".to_owned());
        assert!(oidc(&named).is_ok(), "no document is read");
        let wrong = settings(|oidc, _| oidc.jwks_url = Some("http://login.example.org/jwks".to_owned()));
        assert!(oidc(&wrong).unwrap_err().to_string().starts_with("api.oidc.jwks_url: "));
    }

    #[test]
    fn each_setting_is_checked() {
        for url in [
            "login.example.org",
            "http://login.example.org",
            "ftp://localhost",
            "https://a@b.example",
            "https://b.example/#x",
        ] {
            let message = refused(|_, sign_in| sign_in.token_url = Some(url.to_owned()));
            assert!(message.starts_with("api.oidc.sign_in.token_url: "), "{message}");
            let message = refused(|_, sign_in| sign_in.sign_out_url = Some(url.to_owned()));
            assert!(message.starts_with("api.oidc.sign_in.sign_out_url: "), "{message}");
            let message = refused(|_, sign_in| sign_in.authorize_url = Some(url.to_owned()));
            assert!(message.starts_with("api.oidc.sign_in.authorize_url: "), "{message}");
        }
        for url in [
            "http://turnfold.example.org",
            "https://turnfold.example.org/console",
            "https://turnfold.example.org/?a=b",
        ] {
            let message = refused(|_, sign_in| sign_in.public_url = url.to_owned());
            assert!(message.starts_with("api.oidc.sign_in.public_url: "), "{message}");
        }
        for id in ["", "a\nb", "ä", &"x".repeat(1_001)] {
            assert!(refused(|_, sign_in| sign_in.client_id = id.to_owned()).contains("client_id"));
        }
        for scopes in [vec![], vec!["profile"], vec!["openid", "a b"], vec!["openid", ""], vec!["openid"; 51]]
        {
            let scopes: Vec<String> = scopes.into_iter().map(str::to_owned).collect();
            let message = refused(|_, sign_in| sign_in.scopes = scopes);
            assert!(message.starts_with("api.oidc.sign_in.scopes: "), "{message}");
        }
        let local = settings(|_, sign_in| sign_in.public_url = "http://127.0.0.1:2026/".to_owned());
        assert_eq!(sign_in(&local).unwrap().unwrap().public_url.as_str(), "http://127.0.0.1:2026/");
        assert!(sign_in(&OidcSettings { sign_in: None, ..local }).unwrap().is_none());
    }
}
