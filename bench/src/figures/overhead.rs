//! Time that turnfold adds to a client's request to a model: each request beside the same request to the model alone.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::Client;
use serde_json::{Value, json};

use super::{Bench, Figure, instant_model::InstantModel};
use crate::{
    install::Installation,
    report::{Bound, Line, Of, Target},
    stats::percentile,
};

/// Number of requests that are sent at once, after those one by one.
const AT_ONCE: usize = 16;

/// Number of requests before the measurement.
const WARM_UP: usize = 50;

/// Requests of a client for one answer of the strategy `chat`.
const REQUESTS: [(&str, &str); 3] =
    [("responses", "/v1/responses"), ("chat", "/v1/chat/completions"), ("turns", "/v1/turns?wait=60")];

/// Time added by an installation with or without servers.
pub(super) struct Overhead {
    /// True for PostgreSQL and Redis with an API and two workers, false for one process with SQLite.
    pub(super) on_servers: bool,
}

/// Times of one kind of request: by round, the p50 and the p99 in milliseconds.
#[derive(Default)]
struct Times {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Times {
    fn add(&mut self, took: &[f64]) {
        self.p50.push(percentile(took, 50));
        self.p99.push(percentile(took, 99));
    }
}

#[async_trait]
impl Figure for Overhead {
    fn name(&self) -> String {
        format!("overhead.{}", if self.on_servers { "servers" } else { "embedded" })
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let model = InstantModel::start().await?;
        let installation = if self.on_servers {
            Installation::with_model(Some(&bench.database().await?), bench.folder(), &model.url).await?
        } else {
            Installation::with_model(None, bench.folder(), &model.url).await?
        };
        let mut lines = Vec::new();
        for (name, path) in REQUESTS {
            let url = installation.url(path);
            let floor_url = format!("{}/chat/completions", model.url);
            let (body, floor_body) = (body(path), body("/v1/chat/completions"));
            for at_once in [1, AT_ONCE] {
                // A client of its own for each, so that one by one means one connection.
                let (http, floor_http) = (client()?, client()?);
                send(&http, &url, &body, WARM_UP, at_once).await?;
                send(&floor_http, &floor_url, &floor_body, WARM_UP, at_once).await?;
                let (mut times, mut floor) = (Times::default(), Times::default());
                for _ in 0..bench.effort.rounds() {
                    bench.round()?;
                    let count = bench.effort.pick(100, 300) * if at_once == 1 { 1 } else { 4 };
                    times.add(&send(&http, &url, &body, count, at_once).await?);
                    floor.add(&send(&floor_http, &floor_url, &floor_body, count, at_once).await?);
                }
                let name = format!("{}.{name}.{at_once}", self.name());
                lines.extend(self.lines(&name, at_once, &times, &floor));
            }
        }
        Ok(lines)
    }
}

impl Overhead {
    /// Lines of one kind of request. Requests one by one have a target.
    fn lines(&self, name: &str, at_once: usize, times: &Times, floor: &Times) -> [Line; 2] {
        [("p50", &times.p50, &floor.p50), ("p99", &times.p99, &floor.p99)].map(|(percent, took, alone)| {
            let more: Vec<f64> = took.iter().zip(alone).map(|(took, alone)| took - alone).collect();
            let most = if self.on_servers { 8.0 } else { 4.0 };
            let target = Target { id: "C3", of: Of::Value, bound: Bound::AtMost(most) };
            let median = |rounds: &[f64]| percentile(rounds, 50);
            let line = Line::new(format!("{name}.{percent}"), "ms more", &more).note(format!(
                "{:.2} ms, and {:.2} ms from the model alone; {at_once} at once",
                median(took),
                median(alone)
            ));
            if at_once == 1 { line.target(target) } else { line }
        })
    }
}

/// Returns the body of a request for one answer.
fn body(path: &str) -> Value {
    match path {
        "/v1/responses" => json!({"model": "instant/model", "input": "Hello"}),
        "/v1/chat/completions" => {
            json!({"model": "instant/model", "messages": [{"role": "user", "content": "Hello"}]})
        }
        _ => json!({"strategy": "chat", "input": "Hello"}),
    }
}

fn client() -> Result<Client> {
    Client::builder().no_proxy().build().context("failed to make a client")
}

/// Sends a request many times, some at once. Returns the time of each in milliseconds.
async fn send(http: &Client, url: &str, body: &Value, count: usize, at_once: usize) -> Result<Vec<f64>> {
    let one = async |_: usize| {
        let began = Instant::now();
        let answer = http.post(url).json(body).send().await?.error_for_status()?.text().await?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        ensure!(answer.contains(super::instant_model::ANSWER), "the answer is another: {answer}");
        Ok(took)
    };
    futures::stream::iter(0..count).map(one).buffer_unordered(at_once).try_collect().await
}
