//! Rate limits: what all workers together may use of a model, a provider or an MCP server, and for a tenant, at once, per minute and
//! per day.
//!
//! A request states its [demand](Demand) on each of them. It receives one [`Permit`] for everything, or a delay after which to
//! ask again. While the request runs, its permit is [renewed](RateLimiter::renew); when it ends, the permit is
//! [settled](RateLimiter::settle): the place becomes free, and the reserved estimate is replaced by the actual usage.
//!
//! | limit | counts | guarantee |
//! |---|---|---|
//! | concurrency | permits in use | never exceeded; a holder that stops renewing loses its place after [`Timing::permit_ttl`] |
//! | requests per minute | permits granted in the last minute, regardless of their results | never exceeded in any minute |
//! | tokens per minute | tokens that permits of the last minute reserved, or used once settled | reservations never exceed it in any minute; actual usage exceeds it by as much as an estimate was too low |
//! | money per day | the same, by the UTC day of the permit | exceeded at most by the error of the last estimate |
//!
//! The money per day of a subject can be divided: an owner's [part](MoneyPart) is used by its tenants alone, so no tenant can spend what
//! is kept for another.
//!
//! A demand larger than the whole limit counts as the limit: it is granted when nothing else is in use.
//!
//! A subject may also refuse requests itself: by 429 or 503, or because it cannot be reached. All workers learn of it and wait
//! together; the rules are in [`Refusal`]'s module. A subject that refuses nothing costs nothing.
//!
//! [`MemoryRateLimiter`] serves one process, [`RedisRateLimiter`] many.
//!
//! ## Why requests do not wait in a line
//!
//! A rejected request asks again after a pause. The more requests wait, the longer the pause, so a crowd of any size asks about
//! 200 times per second in total, and free capacity is still found quickly. Tenants share these 200 equally: the pause grows
//! with the number of waiting requests of the same tenant and with the number of waiting tenants, so a tenant with one request
//! does not wait behind another tenant's crowd. A real line would have to know which of the waiting requests are still alive,
//! and a waiting thread holds neither a job nor a slot.
//!
//! The exception is tokens per minute. Freed tokens are kept for the request that has waited longest for tokens, as long as it
//! keeps asking. Otherwise a large request would never find enough where many small ones ask.

mod answers;
mod availability;
mod availability_scripts;
mod limiter;
mod memory;
mod redis;
mod scripts;
mod window;

pub use self::{
    availability::{Refusal, Standing},
    limiter::{
        ActualUsage, Demand, MAX_PAUSE, MoneyPart, Permit, RateLimit, RateLimiter, Reservation, Subject,
        Timing,
    },
    memory::MemoryRateLimiter,
    redis::RedisRateLimiter,
};
