//! Real servers for tests: a private PostgreSQL, Redis or Milvus on a free port, gone when the test is.
//!
//! ```no_run
//! let mut postgres = testing::Postgres::start();
//! let elsewhere = postgres.database("elsewhere");
//! assert!(elsewhere.starts_with("postgres://postgres@127.0.0.1:"));
//! postgres.kill(); // as a crash would
//! postgres.restart(); // the same port, the same data
//! ```
//!
//! And a wire to it that can be cut, or go silent:
//!
//! ```no_run
//! let redis = testing::Redis::durable();
//! let wire = testing::Proxy::before(&redis.url());
//! assert_ne!(wire.url(), redis.url());
//! wire.cut(); // nobody is let in any more
//! wire.mend();
//! ```
//!
//! And real programs that others wrote, from the package registries, each in the version that is asked for:
//!
//! ```no_run
//! let node = testing::npm(&[("@modelcontextprotocol/server-memory", "2026.8.31")]);
//! assert!(node.join("node_modules/@modelcontextprotocol/server-memory").is_dir());
//! ```
//!
//! And models, so small that a test can ask them and so weak that they do whatever a model can do wrong:
//!
//! ```no_run
//! let model = testing::Llama::chat(256);
//! assert!(model.base_url().starts_with("http://127.0.0.1:"));
//! ```
//!
//! Everything here is synchronous and panics with words: it runs in tests, where a server that cannot be had
//! is a failure and never a reason to skip. A server that is not installed is installed with `apt-get`, and Milvus with `pip`.
//!
//! **Invariant:** whatever ends the test, its servers end too and their folders are removed; `process` and
//! `folder` say how.

mod account;
mod clock;
mod folder;
mod install;
mod llama;
mod milvus;
mod parts;
mod port;
mod postgres;
mod postgres_wire;
mod process;
mod proxy;
mod redis;
mod redis_cluster;
mod server;
mod weights;

pub use clock::set_clock;
pub use llama::Llama;
pub use milvus::Milvus;
pub use parts::{npm, pip};
pub use port::free_port;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use redis::Redis;
pub use redis_cluster::RedisCluster;
