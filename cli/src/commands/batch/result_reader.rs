//! Reads the results of a batch, one at a time. A response that breaks off is continued after its last complete line.

use std::{io, pin::Pin};

use anyhow::Context as _;
use futures::TryStreamExt as _;
use reqwest::Method;
use serde_json::Value;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _},
    time::Instant,
};
use tokio_util::io::StreamReader;

use super::watch::POLL_INTERVAL;
use crate::{
    client::{Client, OUTAGE_MAX, is_outage, path},
    exit::{CliError, Exit},
};

/// Number of results requested at a time.
const PAGE: u64 = 1_000;

/// One result, with its number and its text.
pub(super) struct Line {
    pub(super) n: u64,
    pub(super) text: String,
    pub(super) value: Value,
}

/// Reader of a batch's results.
pub(super) struct Results<'a> {
    client: &'a Client,
    path: String,
    /// Number of the last result that was read. Results are numbered from 1, without gaps.
    last: u64,
    response: Option<PartialResponse>,
    /// Time of the first response, or of the last complete line.
    reached_at: Option<Instant>,
}

/// A response that is being read.
struct PartialResponse {
    bytes: Pin<Box<dyn AsyncBufRead + Send>>,
    /// Number of the result after which the response starts.
    after: u64,
}

impl<'a> Results<'a> {
    pub(super) fn of(client: &'a Client, batch: &str) -> anyhow::Result<Self> {
        let path = path(&["batches", batch, "results"])?;
        Ok(Self { client, path, last: 0, response: None, reached_at: None })
    }

    /// Returns the next result, or `None` if there are no more yet. Tolerates an outage of the API for [`OUTAGE_MAX`].
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Line>> {
        loop {
            match self.read().await {
                Ok(line) => {
                    self.reached_at = Some(Instant::now());
                    return Ok(line);
                }
                Err(err)
                    if is_outage(&err) && self.reached_at.is_some_and(|at| at.elapsed() < OUTAGE_MAX) =>
                {
                    self.response = None;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// Returns the next of the first `count` results, all of which must exist.
    pub(super) async fn next_of(&mut self, count: u64) -> anyhow::Result<Option<Line>> {
        if count <= self.last {
            return Ok(None);
        }
        let line = self.next().await?.ok_or_else(|| {
            let words =
                format!("the API returned {} of {count} results\nhint: repeat the command", self.last);
            CliError::with_exit(Exit::Unreachable, words)
        })?;
        Ok(Some(line))
    }

    async fn read(&mut self) -> anyhow::Result<Option<Line>> {
        loop {
            let response = match &mut self.response {
                Some(response) => response,
                None => {
                    let response = self.request().await?;
                    self.reached_at.get_or_insert_with(Instant::now);
                    self.response.insert(response)
                }
            };
            let broke_off = |why: String| {
                let words =
                    format!("the API broke off after result {}{why}\nhint: repeat the command", self.last);
                CliError::with_exit(Exit::Unreachable, words)
            };
            let mut line = Vec::new();
            response
                .bytes
                .read_until(b'\n', &mut line)
                .await
                .map_err(|err| broke_off(format!(" ({err})")))?;
            match line.pop() {
                Some(b'\n') => {}
                Some(_) => return Err(broke_off(String::new())),
                None if response.after < self.last => {
                    self.response = None;
                    continue;
                }
                None => {
                    self.response = None;
                    return Ok(None);
                }
            }
            let text = String::from_utf8(line).context("the API sent a result that is not text")?;
            let value: Value =
                serde_json::from_str(&text).context("the API sent a result that is not JSON")?;
            let n = value["n"].as_u64().context("the API sent a result without a number")?;
            self.last = n;
            return Ok(Some(Line { n, text, value }));
        }
    }

    async fn request(&self) -> anyhow::Result<PartialResponse> {
        let after = self.last;
        let page = format!("{}?limit={PAGE}&after={after}", self.path);
        let response = self.client.send(self.client.request(Method::GET, &page)).await?;
        let bytes = StreamReader::new(response.bytes_stream().map_err(io::Error::other));
        Ok(PartialResponse { bytes: Box::pin(bytes), after })
    }
}

/// The reader repeats the request, but not forever.
#[tokio::test(start_paused = true)]
async fn an_api_that_always_breaks_off_ends_the_reading() {
    use tokio::io::AsyncWriteExt as _;

    use crate::config::{Settings, Sources};

    // The request is read in full: closing earlier would reset the connection and lose the response.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = tokio::spawn(async move {
        let mut requests = 0;
        loop {
            let mut stream = tokio::io::BufReader::new(listener.accept().await.unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                stream.read_line(&mut head).await.unwrap();
            }
            requests += 1;
            if head.contains("after=9") {
                return requests;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"n\":1,").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sources = Sources { strategies: strategies::all(), ..Sources::default() };
    let client = Client::new(&Settings::load(sources).unwrap().0, Some(&url), None).unwrap();
    let mut results = Results::of(&client, "batch_1").unwrap();
    let Err(error) = results.next().await else { panic!("no line is complete") };
    assert!(is_outage(&error) && error.to_string().contains("broke off after result 0"), "{error}");
    results.last = 9;
    assert!(results.request().await.is_err(), "the server only counts");
    assert!(requests.await.unwrap() > 2, "the request was repeated");
}
