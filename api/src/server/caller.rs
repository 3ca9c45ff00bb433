//! The authenticated sender of a request.

use std::{collections::BTreeSet, sync::Arc};

use api_types::Scope;
use shared::{CallerId, MultitaskStrategy};

/// Scopes of a key of `[tenants.NAME]`.
const OF_TENANT: [Scope; 4] = [Scope::Submit, Scope::Read, Scope::Answer, Scope::Operate];

/// The authenticated sender of a request: its key, and the permissions of that key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Id of the key; none if the API requires no key.
    pub(crate) key: Option<Arc<str>>,
    /// Name of the key; none if it has no name.
    pub(crate) subject: Option<Arc<str>>,
    /// Tenant for which the key acts; none for an operator.
    pub(crate) tenant: Option<Arc<str>>,
    pub(crate) scopes: BTreeSet<Scope>,
    /// End of validity of the key, in microseconds since the Unix epoch.
    pub(crate) expires_at: Option<i64>,
    /// Treatment of its turns on a busy thread, if they name none.
    pub(crate) multitask_strategy: Option<MultitaskStrategy>,
}

impl Caller {
    /// An operator with all scopes; without a key if the API requires none.
    pub(crate) fn operator(key: Option<Arc<str>>) -> Self {
        Self::of(key, None, BTreeSet::from(Scope::ALL))
    }

    /// The owner of a key of `[tenants.NAME]`.
    pub(crate) fn of_tenant(key: Arc<str>, tenant: Arc<str>) -> Self {
        Self::of(Some(key), Some(tenant), BTreeSet::from(OF_TENANT))
    }

    fn of(key: Option<Arc<str>>, tenant: Option<Arc<str>>, scopes: BTreeSet<Scope>) -> Self {
        Self { key, subject: None, tenant, scopes, expires_at: None, multitask_strategy: None }
    }

    /// Returns the identity of the caller, for the log; none if there was no key.
    pub(crate) fn id(&self) -> Option<CallerId> {
        let key = self.key.as_deref()?.to_owned();
        Some(CallerId { key: Some(key), subject: self.subject.as_deref().map(str::to_owned) })
    }
}
