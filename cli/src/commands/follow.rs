//! What goes on while somebody waits for it: a turn until its end, a thread until it rests. The api may be away meanwhile.

use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use sse_stream::SseStream;
use store::time;
use tokio::time::{Instant, sleep};

use super::Given;
use crate::{
    client::{AWAY, Client, is_away, name, path},
    exit::{Exit, Stop},
    output::{self, Format},
};

/// How often is looked whether a turn that is not due yet has begun (its thread rests, so nothing tells of it), and whether
/// an api is there again.
const LOOK: Duration = Duration::from_secs(1);

/// Whoever waits although the api may be away.
struct Patience {
    heard: Instant,
}

impl Patience {
    fn new() -> Self {
        Self { heard: Instant::now() }
    }

    /// Its answer; none, if it is away and worth being asked again, after some time.
    async fn bear<T>(&mut self, answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match answer {
            Ok(it) => {
                self.heard = Instant::now();
                Ok(Some(it))
            }
            Err(err) if is_away(&err) && self.heard.elapsed() < AWAY => {
                sleep(LOOK).await;
                Ok(None)
            }
            Err(err) => Err(err),
        }
    }
}

/// What somebody who waited in vain is told: what goes on without them, and the command that picks it up.
fn goes_on(err: anyhow::Error, what: &str, mend: &str) -> anyhow::Error {
    if !is_away(&err) {
        return err;
    }
    let words = format!("{err:#}\n{what} goes on without you; once the api is back: turnfold {mend}");
    Stop::because(Exit::Unreachable, words)
}

/// Says which turn is waited for, and until when nothing happens if it is not due yet.
pub(super) fn say_which(turn: &Value) {
    let due = not_due(turn)
        .map(|due| format!(" is not heard before {due}: waiting (it does not need to be waited for)"));
    let (id, thread) = (name(turn, "id"), name(turn, "thread_id"));
    output::remark(&format!("turn {id} of thread {thread}{}", due.unwrap_or_default()));
}

/// When a turn is due that is not due yet.
pub(super) fn not_due(turn: &Value) -> Option<&str> {
    let due = name(turn, "not_before");
    (is_open(turn) && time::micros(due).is_some_and(|it| time::now() < it)).then_some(due)
}

fn is_open(turn: &Value) -> bool {
    ["queued", "running"].contains(&name(turn, "status"))
}

/// Waits for a turn's end, with a sign of life for whoever watches.
pub(super) async fn until_ended(client: &Client, turn: &Value) -> anyhow::Result<Value> {
    let spinner = ProgressBar::new_spinner();
    spinner.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}")?);
    spinner.enable_steady_tick(Duration::from_millis(120));
    let id = name(turn, "id");
    let path = format!("{}?wait=30", path(&["turns", id])?);
    let (mut turn, mut patience) = (turn.clone(), Patience::new());
    while is_open(&turn) {
        spinner.set_message(format!("{} …", name(&turn, "status")));
        let asked = patience.bear(client.get(&path).await).await;
        let asked = asked.map_err(|err| goes_on(err, "the turn", &format!("turn get {id} --wait")))?;
        turn = asked.unwrap_or(turn);
    }
    spinner.finish_and_clear();
    Ok(turn)
}

/// Prints the events of a turn's thread from number `next` on, until the turn has ended and the thread rests; the turn then.
pub(super) async fn turn(given: &Given, client: &Client, turn: &Value, next: u64) -> anyhow::Result<Value> {
    let events = Events::new(given, client, name(turn, "thread_id"), next)?;
    events.until(&path(&["turns", name(turn, "id")])?, |turn| !is_open(turn)).await
}

/// Prints the events of a thread from number `next` on, until it rests; the thread then.
pub(super) async fn thread(given: &Given, client: &Client, id: &str, next: u64) -> anyhow::Result<Value> {
    let events = Events::new(given, client, id, next)?;
    // An api that was told to stop ends its streams well.
    events.until(&path(&["threads", id])?, |thread| name(thread, "standing") != "busy").await
}

/// The events of a thread, printed as they come.
struct Events<'a> {
    given: &'a Given,
    client: &'a Client,
    thread: &'a str,
    path: String,
    next: u64,
    patience: Patience,
    /// One document, of which nothing can be printed before its end.
    all: Vec<Value>,
}

impl<'a> Events<'a> {
    fn new(given: &'a Given, client: &'a Client, thread: &'a str, next: u64) -> anyhow::Result<Self> {
        let path = path(&["threads", thread, "events"])?;
        Ok(Self { given, client, thread, path, next, patience: Patience::new(), all: Vec::new() })
    }

    /// Until the thread rests and what is at `path` is over; that.
    async fn until(mut self, path: &str, over: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let waited_for = loop {
            self.until_rest().await?;
            let asked = self.patience.bear(self.client.get(path).await).await;
            match asked.map_err(|err| self.goes_on(err))? {
                Some(it) if over(&it) => break it,
                Some(_) => sleep(LOOK).await,
                None => {}
            }
        };
        if self.given.format == Format::Json {
            output::one(Format::Json, &self.all, String::new)?;
        }
        Ok(waited_for)
    }

    /// Until the thread rests. Where a stream broke off, the next one goes on.
    async fn until_rest(&mut self) -> anyhow::Result<()> {
        loop {
            let told = self.stream().await;
            if self.patience.bear(told).await.map_err(|err| self.goes_on(err))?.is_some() {
                return Ok(());
            }
        }
    }

    async fn stream(&mut self) -> anyhow::Result<()> {
        let after = self.next.checked_sub(1).map(|it| format!("&after={it}")).unwrap_or_default();
        let stream = self.client.stream(&format!("{}?until=rest{after}", self.path)).await?;
        let mut events = SseStream::from_bytes_stream(stream.bytes_stream());
        while let Some(event) = events.next().await {
            let event = event
                .map_err(|err| Stop::because(Exit::Unreachable, format!("the stream broke off: {err}")))?;
            self.patience = Patience::new();
            let Some(data) = event.data.filter(|_| event.id.is_some()) else { continue };
            let event: Value =
                serde_json::from_str(&data).context("the api told of an event that is no JSON")?;
            let seq = event["seq"].as_u64().unwrap_or_default();
            self.next = seq + 1;
            match self.given.format {
                Format::Json => self.all.push(event),
                Format::Text | Format::Jsonl => {
                    output::one(self.given.format, &event, || format!("{seq:>4} {}", name(&event, "text")))?;
                }
            }
        }
        Ok(())
    }

    fn goes_on(&self, err: anyhow::Error) -> anyhow::Error {
        let mend = format!("thread events {} --from {} --follow", self.thread, self.next);
        goes_on(err, "the thread", &mend)
    }
}
