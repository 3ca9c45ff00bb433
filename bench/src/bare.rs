//! Lower bounds of a step: a commit, and a round trip of a job through Redis.

use std::time::Instant;

use anyhow::{Result, ensure};
use redis::{
    AsyncCommands as _, AsyncConnectionConfig,
    aio::MultiplexedConnection,
    streams::{StreamReadOptions, StreamReadReply},
};
use sea_orm::sqlx::PgPool;
use shared::Event;
use uuid::Uuid;

use crate::rows::{Rows, Table};

/// A stream of the benchmark, separate from the engine's.
const STREAM: &str = "bench:bare";
const GROUP: &str = "bench";

/// Durations of this many commits of one step, in microseconds.
pub(crate) async fn commits(pool: &PgPool, step: &[Event], times: usize) -> Result<Vec<f64>> {
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let mut rows = Rows::default();
        rows.add_log(Uuid::now_v7(), step)?;
        let began = Instant::now();
        rows.insert_postgres(pool, Table::Floor).await?;
        took.push(micros(began));
    }
    Ok(took)
}

/// Jobs that pass through Redis together.
pub(crate) struct Cycle {
    connection: MultiplexedConnection,
    tokens: usize,
}

impl Cycle {
    /// Adds this many jobs to a stream.
    pub(crate) async fn connect(url: &str, tokens: usize) -> Result<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let _: () = connection.del(STREAM).await?;
        let _: () = connection.xgroup_create_mkstream(STREAM, GROUP, "0").await?;
        let () = add(&mut redis::pipe(), tokens).query_async(&mut connection).await?;
        Ok(Self { connection, tokens })
    }

    /// Passes all jobs through once: one read, then acknowledgements and successors in one transaction.
    pub(crate) async fn once(&mut self) -> Result<()> {
        let options = StreamReadOptions::default().group(GROUP, "one").count(self.tokens).block(1000);
        let read: Option<StreamReadReply> =
            self.connection.xread_options(&[STREAM], &[">"], &options).await?;
        let entries = read.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids);
        let ids: Vec<String> = entries.map(|entry| entry.id).collect();
        ensure!(ids.len() == self.tokens, "expected {} jobs in the stream, read {}", self.tokens, ids.len());
        let mut turn = redis::pipe();
        add(turn.atomic(), self.tokens);
        turn.xack(STREAM, GROUP, &ids).ignore().xdel(STREAM, &ids).ignore();
        Ok(turn.query_async(&mut self.connection).await?)
    }

    /// Durations of this many cycles, in microseconds.
    pub(crate) async fn cycles(&mut self, times: usize) -> Result<Vec<f64>> {
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let began = Instant::now();
            self.once().await?;
            took.push(micros(began));
        }
        Ok(took)
    }
}

fn add(pipe: &mut redis::Pipeline, tokens: usize) -> &mut redis::Pipeline {
    for _ in 0..tokens {
        pipe.xadd(STREAM, "*", &[("thread", "0")]).ignore();
    }
    pipe
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}
