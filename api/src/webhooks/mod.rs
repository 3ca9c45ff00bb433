//! Webhooks as specified by Standard Webhooks 1.0.0, and the dispatcher that delivers events to them.
//!
//! ```text
//!   POST /v1/webhooks ─▶ row      a batch ends ─▶ deliveries, in its transaction ─▶ WebhookDispatcher ─▶ a signed POST
//!                                                        ▲                            │
//!                                                        └─ retry later ◀── no 2xx ───┘
//! ```
//!
//! **Invariant:** a secret is returned to its owner once, when the webhook is created. It is never shown or logged again.
//!
//! ## Allowed targets
//!
//! A tenant chooses the URL, but this process sends the request. Without a check, a tenant could reach services that only
//! this machine or its network can reach. A tenant's webhook must use https at a public address. The address is checked again
//! for each connection ([`ssrf_guard`]), and nothing of the response is exposed except its status. Operators may use any URL,
//! because they can configure everything else as well. The same holds for clients of an API without keys, which are on this
//! machine.

pub(crate) mod dispatcher;
pub(crate) mod routes;
mod ssrf_guard;
mod view;
