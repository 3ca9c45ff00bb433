//! The results of a batch, one at a time: an answer that breaks off is gone on with after its last whole line.

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

use super::watch::LOOK;
use crate::{
    client::{AWAY, Client, is_away, path},
    exit::{Exit, Stop},
};

/// How many are asked for at once.
const PAGE: u64 = 1_000;

/// A result.
pub(super) struct Line {
    pub(super) n: u64,
    pub(super) text: String,
    pub(super) value: Value,
}

/// The results of a batch that are still to be read.
pub(super) struct Results<'a> {
    client: &'a Client,
    path: String,
    /// The number of the last one that was read. They are numbered from 1, without gaps.
    last: u64,
    answer: Option<Answer>,
    /// When the api first answered, or last sent a whole line.
    heard: Option<Instant>,
}

/// What the api is sending.
struct Answer {
    bytes: Pin<Box<dyn AsyncBufRead + Send>>,
    /// After which result was asked for it.
    after: u64,
}

impl<'a> Results<'a> {
    pub(super) fn of(client: &'a Client, batch: &str) -> anyhow::Result<Self> {
        let path = path(&["batches", batch, "results"])?;
        Ok(Self { client, path, last: 0, answer: None, heard: None })
    }

    /// The next one; none, if there are none yet. An api that goes away meanwhile is waited for.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Line>> {
        loop {
            match self.read().await {
                Ok(line) => {
                    self.heard = Some(Instant::now());
                    return Ok(line);
                }
                Err(err) if is_away(&err) && self.heard.is_some_and(|it| it.elapsed() < AWAY) => {
                    self.answer = None;
                    tokio::time::sleep(LOOK).await;
                }
                Err(err) => return Err(err),
            }
        }
    }

    /// The next one of the first `there`, which must be there.
    pub(super) async fn next_of(&mut self, there: u64) -> anyhow::Result<Option<Line>> {
        if there <= self.last {
            return Ok(None);
        }
        let line = self.next().await?.ok_or_else(|| {
            let words = format!("the api gave {} of {there} results: give the same command again", self.last);
            Stop::because(Exit::Unreachable, words)
        })?;
        Ok(Some(line))
    }

    async fn read(&mut self) -> anyhow::Result<Option<Line>> {
        loop {
            let answer = match &mut self.answer {
                Some(it) => it,
                None => {
                    let answer = self.ask().await?;
                    self.heard.get_or_insert_with(Instant::now);
                    self.answer.insert(answer)
                }
            };
            let broke_off = |why: String| {
                let words =
                    format!("the api broke off after result {}{why}: give the same command again", self.last);
                Stop::because(Exit::Unreachable, words)
            };
            let mut line = Vec::new();
            answer.bytes.read_until(b'\n', &mut line).await.map_err(|err| broke_off(format!(" ({err})")))?;
            match line.pop() {
                Some(b'\n') => {}
                Some(_) => return Err(broke_off(String::new())),
                None if answer.after < self.last => {
                    self.answer = None;
                    continue;
                }
                None => {
                    self.answer = None;
                    return Ok(None);
                }
            }
            let text = String::from_utf8(line).context("the api sent a result that is no text")?;
            let value: Value =
                serde_json::from_str(&text).context("the api sent a result that is no JSON")?;
            let n = value["n"].as_u64().context("the api sent a result without its number")?;
            self.last = n;
            return Ok(Some(Line { n, text, value }));
        }
    }

    async fn ask(&self) -> anyhow::Result<Answer> {
        let after = self.last;
        let page = format!("{}?limit={PAGE}&after={after}", self.path);
        let response = self.client.send(self.client.request(Method::GET, &page)).await?;
        let bytes = StreamReader::new(response.bytes_stream().map_err(io::Error::other));
        Ok(Answer { bytes: Box::pin(bytes), after })
    }
}

/// It is waited for, and not for ever.
#[tokio::test(start_paused = true)]
async fn an_api_that_breaks_off_every_time_is_given_up() {
    use tokio::io::AsyncWriteExt as _;

    use crate::config::{Settings, Sources};

    // What is asked is read, for whoever closes before takes the answer back.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let mut asked = 0;
        loop {
            let mut stream = tokio::io::BufReader::new(listener.accept().await.unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                stream.read_line(&mut head).await.unwrap();
            }
            asked += 1;
            if head.contains("after=9") {
                return asked;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"n\":1,").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let _ = rustls::crypto::ring::default_provider().install_default();
    let sources = Sources { strategies: shared::strategies::all(), ..Sources::default() };
    let client = Client::new(&Settings::load(sources).unwrap().0, Some(&url), None).unwrap();
    let mut results = Results::of(&client, "batch_1").unwrap();
    let Err(told) = results.next().await else { panic!("there is no whole line") };
    assert!(is_away(&told) && told.to_string().contains("broke off after result 0"), "{told}");
    results.last = 9;
    assert!(results.ask().await.is_err(), "it only counts");
    assert!(asked.await.unwrap() > 2, "it was asked again");
}
