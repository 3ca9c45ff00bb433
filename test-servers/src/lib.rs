//! Servers for tests: PostgreSQL, Redis or Milvus on a free port, removed when the test ends.
//!
//! ```no_run
//! let mut postgres = test_servers::Postgres::start();
//! let elsewhere = postgres.database("elsewhere");
//! assert!(elsewhere.starts_with("postgres://postgres@127.0.0.1:"));
//! postgres.kill(); // as in a crash
//! postgres.restart(); // the same port, the same data
//! ```
//!
//! Tests that neither kill nor reconfigure PostgreSQL share one server, each with its own database: an empty one, or a copy of
//! one that is prepared once per run.
//!
//! ```no_run
//! let postgres = test_servers::Postgres::shared();
//! assert_eq!(postgres.query("SELECT 1"), [["1"]]);
//! # let migrate = |_: &str| ();
//! let migrated = test_servers::Postgres::prepared("migrated", migrate);
//! assert_ne!(migrated.url(), postgres.url());
//! ```
//!
//! A connection that can be cut or go silent:
//!
//! ```no_run
//! let redis = test_servers::Redis::durable();
//! let wire = test_servers::Proxy::before(&redis.url());
//! assert_ne!(wire.url(), redis.url());
//! wire.cut(); // connections are refused
//! wire.mend();
//! ```
//!
//! Third-party programs from npm and PyPI, in pinned versions, and Prometheus' `promtool`:
//!
//! ```no_run
//! let node = test_servers::npm(&[("@modelcontextprotocol/server-memory", "2026.8.31")]);
//! assert!(node.join("node_modules/@modelcontextprotocol/server-memory").is_dir());
//! ```
//!
//! Language models, small enough to run in a test and weak enough to make every mistake that a model can make:
//!
//! ```no_run
//! let model = test_servers::Llama::chat(256);
//! assert!(model.base_url().starts_with("http://127.0.0.1:"));
//! ```
//!
//! All functions are synchronous and panic with a readable message: in a test, a server that cannot be started is a failure
//! and never a reason to skip. A missing server is installed with `apt-get`, Milvus with `pip`.
//!
//! **Invariant:** however the test ends, its servers end too and their folders are removed; see `process` and `folder`.

mod account;
mod clock;
mod folder;
mod install;
mod llama;
mod milvus;
mod parts;
mod pgbouncer;
mod port;
mod postgres;
mod postgres_wire;
mod process;
mod proxy;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod server;
mod shared;
mod weights;

pub use clock::set_clock;
pub use llama::Llama;
pub use milvus::Milvus;
pub use parts::{npm, pip, promtool};
pub use pgbouncer::PgBouncer;
pub use port::free_port;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use redis::Redis;
pub use redis_cluster::RedisCluster;
pub use redis_sentinel::RedisSentinel;
