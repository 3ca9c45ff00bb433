//! Webhooks as of Standard Webhooks 1.0.0: who wants to be told of the ends of batches, and the courier who tells them.
//!
//! ```text
//!   POST /v1/webhooks ─▶ row      a batch ends ─▶ deliveries, in its transaction ─▶ Courier ─▶ a signed POST
//!                                                        ▲                            │
//!                                                        └─ again, later ◀─ no 2xx ───┘
//! ```
//!
//! **Invariant:** a secret is given to its owner once, when it is made, and is neither shown nor traced after.
//!
//! ## What a URL may reach
//!
//! A tenant names a URL, and it is this process that asks there: so it could be made to ask what only this machine or its
//! network can reach. A tenant's webhook must be https at a public address, which is looked at again with each connection
//! ([`reach`]), and what is answered is never told to anybody but for its status. An operator, who may configure
//! everything else too, may name any; so may whoever stands at a door without keys, which is this machine's alone.

pub(crate) mod courier;
pub(crate) mod routes;
pub(crate) mod wire;

mod reach;

use std::time::Duration;

use crate::house::House;

/// How webhooks are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhooks {
    /// Whether a tenant's webhook may be at an address that is not public, and without TLS.
    pub private_addresses: bool,
    /// After how long each further attempt comes.
    pub retries: Vec<Duration>,
    /// For how long an answer is waited for.
    pub timeout: Duration,
    /// How often is looked for what is due.
    pub look: Duration,
}

impl Default for Webhooks {
    /// The schedule that Standard Webhooks recommends.
    fn default() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        let retries =
            [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        Self {
            private_addresses: false,
            retries: retries.map(Duration::from_secs).to_vec(),
            timeout: Duration::from_secs(20),
            look: Duration::from_secs(1),
        }
    }
}

/// Whether the webhooks of this tenant, or of operators, may be anywhere.
fn may_be_anywhere(house: &House, tenant: Option<&str>) -> bool {
    tenant.is_none() || house.webhooks.private_addresses || house.keys.are_none()
}
