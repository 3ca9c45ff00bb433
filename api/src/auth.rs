//! Who may come in, for whom, and who they say they are.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{
        HeaderMap,
        header::{AUTHORIZATION, HOST},
        request::Parts,
    },
    middleware::Next,
    response::Response,
};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use shared::DEFAULT_TENANT;
use store::{TENANT_MAX, is_tenant};
use subtle::ConstantTimeEq;

use crate::{
    house::House,
    problem::{Kind, Problem},
};

/// Names who submits a turn, asks for a retry, gives a verdict.
pub(crate) const USER_HEADER: &str = "x-turnfold-user";

/// The longest name that a user may have, in characters.
pub(crate) const USER_MAX: usize = 200;

/// Names the tenant that a request is made for.
pub(crate) const TENANT_HEADER: &str = "x-turnfold-tenant";

/// The keys that open the door, hashed, each with the tenant whose it is; an operator's is nobody's.
///
/// ## Why hashes
///
/// They are all of one length, so a comparison in constant time tells nothing about the length of a key either.
pub(crate) struct Keys(Vec<([u8; 32], Option<Arc<str>>)>);

/// Who shows a key.
enum Holder<'a> {
    /// Who may see and do everything: an operator, or anybody at a door without keys.
    Operator,
    /// One who acts for this tenant.
    Of(&'a Arc<str>),
}

impl Keys {
    pub(crate) fn new(operators: &[SecretString], tenants: &BTreeMap<String, Vec<SecretString>>) -> Self {
        let hashed = |key: &SecretString| digest(key.expose_secret());
        let mut keys: Vec<_> = operators.iter().map(|key| (hashed(key), None)).collect();
        for (tenant, own) in tenants {
            let tenant: Arc<str> = tenant.as_str().into();
            keys.extend(own.iter().map(|key| (hashed(key), Some(Arc::clone(&tenant)))));
        }
        Self(keys)
    }

    /// Whether nobody is asked for one: such a door stands on loopback only.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Who sends these headers, if they may come in. Every key is compared, whether or not one fits before.
    ///
    /// ## Why a door without keys looks at the host
    ///
    /// It stands on loopback only, but a browser there runs the scripts of strangers: a page whose name is pointed at
    /// 127.0.0.1 once it has loaded could read and submit as its own origin. It cannot change the name it asks for.
    fn admit(&self, headers: &HeaderMap) -> Option<Holder<'_>> {
        if self.0.is_empty() {
            let here = headers.get(HOST).is_none_or(|it| it.to_str().is_ok_and(is_loopback));
            return here.then_some(Holder::Operator);
        }
        let shown = digest(bearer(headers)?);
        let fits = |(key, _): &&([u8; 32], _)| bool::from(key.ct_eq(&shown));
        let fitting: Vec<_> = self.0.iter().filter(fits).collect();
        let (_, tenant) = fitting.first()?;
        Some(tenant.as_ref().map_or(Holder::Operator, Holder::Of))
    }
}

/// For whom a request is made: it sees the threads and turns of this tenant, and opens threads for it. An operator who
/// names nobody sees everything, and opens threads for the default tenant.
///
/// ## Why an operator who names a tenant sees no other
///
/// One header then means one thing in every request. What is somebody else's is not there, as it is not for that tenant.
#[derive(Clone, Debug)]
pub(crate) struct Acting(Option<Arc<str>>);

impl Acting {
    fn new(holder: &Holder<'_>, headers: &HeaderMap) -> Result<Self, Problem> {
        let named = match headers.get(TENANT_HEADER) {
            Some(name) => Some(name.to_str().ok().filter(|it| is_tenant(it)).ok_or_else(|| {
                let words =
                    format!("X-Turnfold-Tenant is a name of 1 to {TENANT_MAX} characters of a-z 0-9 . _ -");
                Kind::Invalid.because(words)
            })?),
            None => None,
        };
        match (holder, named) {
            (Holder::Of(own), Some(named)) if own.as_ref() != named => {
                let words = "X-Turnfold-Tenant: the key belongs to another tenant";
                Err(Kind::Invalid.because(words).mend("leave the header out, or show a key of that tenant"))
            }
            (Holder::Of(own), _) => Ok(Self(Some(Arc::clone(own)))),
            (Holder::Operator, named) => Ok(Self(named.map(Arc::from))),
        }
    }

    /// As that tenant does.
    pub(crate) fn of(tenant: &str) -> Self {
        Self(Some(tenant.into()))
    }

    /// The only tenant that it sees, if it does not see all.
    pub(crate) fn only(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether it sees what belongs to this tenant.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.only().is_none_or(|it| it == tenant)
    }

    /// Whose the threads are that it opens.
    pub(crate) fn tenant(&self) -> &str {
        self.only().unwrap_or(DEFAULT_TENANT)
    }
}

impl<S: Sync> FromRequestParts<S> for Acting {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // **Invariant:** nobody sees anything behind the guard for whom it has not said whose that is.
        let acting = parts.extensions.get::<Self>().cloned();
        acting.ok_or_else(|| Kind::Internal.because("a route was reached past the guard"))
    }
}

/// An operator, who sees everything and decides for everybody.
pub(crate) struct Operator;

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let acting = Acting::from_request_parts(parts, state).await?;
        if acting.only().is_none() {
            return Ok(Self);
        }
        Err(Kind::Forbidden
            .because("only an operator may do this, and this request acts for one tenant")
            .mend("show a key of `[api] keys`, and leave X-Turnfold-Tenant out"))
    }
}

/// Whether a `Host` header, with or without a port, names this machine to itself.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// The key in the headers; never an empty one, even if such a key was configured.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

/// Lets a request through that shows a key, if there are any, and notes for whom it is made.
pub(crate) async fn guard(
    State(house): State<Arc<House>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(holder) = house.keys.admit(request.headers()) {
        let acting = Acting::new(&holder, request.headers())?;
        request.extensions_mut().insert(acting);
        return Ok(next.run(request).await);
    }
    if house.keys.are_none() {
        return Err(Kind::Unauthorized
            .because("without keys, this api answers only under 127.0.0.1, [::1] and localhost")
            .mend("ask under one of these names, or set `[api] keys`"));
    }
    // Not a word on whether a key was missing or wrong.
    Err(Kind::Unauthorized
        .because("a key is asked for here")
        .mend("send `Authorization: Bearer …` with one of the keys under `[api]` or `[tenants.NAME]`"))
}

/// Who asks, as they say: the header `X-Turnfold-User`, else `api`. The log keeps it.
pub(crate) struct By(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(name) = parts.headers.get(USER_HEADER) else { return Ok(By("api".to_owned())) };
        let wrong =
            || Kind::Malformed.because(format!("X-Turnfold-User is text of 1 to {USER_MAX} characters"));
        let name = std::str::from_utf8(name.as_bytes()).map_err(|_| wrong())?.trim();
        if (1..=USER_MAX).contains(&name.chars().count()) { Ok(By(name.to_owned())) } else { Err(wrong()) }
    }
}
