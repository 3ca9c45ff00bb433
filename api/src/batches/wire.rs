//! Batches as they go over the wire: OpenAI's object, with what is ours under `turnfold`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::usd;
use store::{
    bulk::{Batch, BatchId, BatchStatus, Cause, ItemState, Pace, Stopped, UnderWay},
    time,
};
use utoipa::ToSchema;

use super::{line::field_of, resumed::Resumable};
use crate::{
    files,
    house::House,
    page::Page,
    problem::{Kind, Problem},
    schema::Priority,
};

/// How many bad lines a batch tells of, and how many causes.
const ERRORS: u64 = 100;
const CAUSES: u64 = 5;

/// From when on it is counted for how long a file is kept: there is nothing else.
const ANCHOR: &str = "created_at";

/// For how many seconds a file may be kept, at least and at most.
const KEPT: (u64, u64) = (3600, 30 * 24 * 60 * 60);

/// Of how many results the rate is taken.
const RATED: u64 = 1000;

/// A batch that somebody makes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"input_file_id": "file-019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "endpoint": "/v1/turns", "completion_window": "24h"})))]
pub(crate) struct NewBatch {
    /// The file of lines.
    pub(crate) input_file_id: String,
    /// What every line is sent to: `/v1/turns`.
    pub(crate) endpoint: String,
    /// For how long it may run: a number with `s`, `m`, `h`, `d` or `w`, 30 days at most. What has not ended then expires.
    pub(crate) completion_window: String,
    /// What the client wants to find again: up to 16 pairs.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Option<Map<String, Value>>,
    /// When the files of its results are thrown away; never, if nobody says.
    #[serde(default)]
    pub(crate) output_expires_after: Option<ExpiresAfter>,
    /// Whether an earlier result of the same line is taken.
    #[serde(default)]
    pub(crate) reuse: Reuse,
    /// What it may cost, in US dollars; as much as it needs, if nobody says.
    #[serde(default)]
    pub(crate) max_usd: Option<f64>,
    /// How many lines are under way at once, within what the operator allows.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) window: Option<u64>,
    /// For how many seconds a line may be under way, its waits for a person included.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(crate) expires_after: Option<u64>,
    /// How urgent its turns are among those of its tenant; `low`, if nobody says.
    #[serde(default)]
    pub(crate) priority: Option<Priority>,
}

/// When a file is thrown away.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpiresAfter {
    /// `created_at`: that of the file.
    pub(crate) anchor: String,
    /// So many seconds after.
    #[schema(minimum = 3600, maximum = 2592000)]
    pub(crate) seconds: u64,
}

impl ExpiresAfter {
    /// For how many seconds a file is kept; `called` says what a part of this is called where it was said.
    pub(crate) fn checked(&self, called: impl Fn(&str) -> String) -> Result<u64, Problem> {
        let (least, most) = KEPT;
        if self.anchor != ANCHOR {
            let words = format!("{}: {:?} is not known here", called("anchor"), self.anchor);
            return Err(Kind::Invalid.because(words).mend(format!("send {ANCHOR:?}")));
        }
        if !(least..=most).contains(&self.seconds) {
            let words = format!("{}: {} is not from {least} to {most}", called("seconds"), self.seconds);
            return Err(Kind::Invalid
                .because(words)
                .mend("send a number of seconds from an hour to 30 days"));
        }
        Ok(self.seconds)
    }
}

/// Whether earlier results are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reuse {
    /// Those of lines that were called the same, asked for the same and ended well.
    #[default]
    Succeeded,
    /// None.
    None,
}

/// How a batch goes on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resume {
    /// Of a batch that is over: those of its lines that ended so are run again.
    #[serde(default)]
    pub(crate) only: Option<Only>,
    /// What it may cost from now on, in US dollars, all that it has cost included.
    #[serde(default)]
    pub(crate) max_usd: Option<f64>,
}

/// Which lines are run again.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Only {
    /// Those whose turns failed.
    Failed,
    /// Those whose time was over.
    Expired,
}

/// A batch, as OpenAI has it. Times are seconds since the Unix epoch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchView {
    #[schema(examples("batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    id: String,
    object: &'static str,
    endpoint: String,
    errors: Option<Errors>,
    input_file_id: String,
    completion_window: String,
    #[schema(examples("in_progress"))]
    status: &'static str,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
    created_at: i64,
    in_progress_at: Option<i64>,
    expires_at: i64,
    finalizing_at: Option<i64>,
    completed_at: Option<i64>,
    failed_at: Option<i64>,
    expired_at: Option<i64>,
    cancelling_at: Option<i64>,
    cancelled_at: Option<i64>,
    request_counts: RequestCounts,
    #[schema(value_type = Object)]
    metadata: Value,
    turnfold: Ours,
}

/// The bad lines of a batch, the first hundred of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Errors {
    object: &'static str,
    data: Vec<LineError>,
}

/// What is wrong with a line.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineError {
    /// For programs.
    #[schema(examples("duplicate_custom_id"))]
    code: String,
    /// For people.
    message: String,
    /// The field.
    param: Option<&'static str>,
    /// Its number, from 1.
    line: Option<u64>,
}

/// How many lines there are, and how many have ended how.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestCounts {
    /// Those that were looked at so far: all of them, once the batch is no longer `validating`.
    total: u64,
    /// Those that ended well, the reused included.
    completed: u64,
    /// Those that did not: failed, bad or expired, or called off one by one.
    failed: u64,
}

/// What OpenAI has no words for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ours {
    /// Lines whose turns wait for a person.
    waiting_for_a_person: u64,
    /// Lines that were begun and are not over, but for those that wait for a person: once there are none, nothing more of a
    /// stopped batch happens by itself.
    under_way: u64,
    /// Lines whose turns are being run.
    running: u64,
    /// Lines that nobody is at yet.
    queued: u64,
    /// Lines for which an earlier result was taken.
    reused: u64,
    /// Lines whose time was over.
    expired: u64,
    /// Lines that were called off.
    cancelled: u64,
    /// Lines that could not be run.
    bad: u64,
    /// The number of the last result.
    results: u64,
    /// Results a second, of late; null while all that is left of it waits for people or for it to be resumed.
    rate_per_s: Option<f64>,
    /// How many seconds its lines take at that rate, but for those that wait for a person; null while that is all there are,
    /// and while it is `validating`.
    eta_s: Option<f64>,
    /// Tokens that its turns took, as far as is known.
    tokens: u64,
    /// What they cost, in US dollars, by the operator's prices.
    usd: f64,
    /// What it may cost.
    max_usd: Option<f64>,
    /// Why nothing more is begun: `paused` or `max_usd`; null once the batch is over.
    stopped: Option<&'static str>,
    /// How many of its lines `resume` runs again, by what `only` names.
    resumable: Resumable,
    /// Why lines ended badly, the most frequent cause first; null in a list of batches.
    top_causes: Option<Vec<TopCause>>,
}

/// Why lines ended badly.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopCause {
    code: String,
    message: String,
    count: u64,
    example_custom_id: Option<String>,
}

impl From<Cause> for TopCause {
    fn from(Cause { code, message, count, example }: Cause) -> Self {
        Self { code, message, count, example_custom_id: example }
    }
}

/// A page of a list, as OpenAI has it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Listing<T> {
    /// `list`.
    object: &'static str,
    /// The items.
    data: Vec<T>,
    /// The name of the first of them.
    first_id: Option<String>,
    /// The name of the last: `after` of the next page.
    last_id: Option<String>,
    /// Whether there are more.
    has_more: bool,
}

impl<T> Listing<T> {
    /// A page of `limit` items, of a list that was read one item further.
    pub(crate) fn cut(rows: Vec<T>, limit: u64, name: impl Fn(&T) -> String) -> Self {
        let Page { data, has_more } = Page::cut(rows, limit);
        let (first_id, last_id) = (data.first().map(&name), data.last().map(&name));
        Self { object: "list", data, first_id, last_id, has_more }
    }

    /// The same page of something else.
    pub(crate) fn map<U>(self, what: impl FnMut(T) -> U) -> Listing<U> {
        let Self { object, data, first_id, last_id, has_more } = self;
        Listing { object, data: data.into_iter().map(what).collect(), first_id, last_id, has_more }
    }

    /// The same page of something else that takes time.
    pub(crate) async fn try_map<U, F>(self, what: impl Fn(T) -> F) -> Result<Listing<U>, Problem>
    where
        F: Future<Output = Result<U, Problem>>,
    {
        let Self { object, data: items, first_id, last_id, has_more } = self;
        let mut data = Vec::with_capacity(items.len());
        for item in items {
            data.push(what(item).await?);
        }
        Ok(Listing { object, data, first_id, last_id, has_more })
    }
}

/// A batch's name in this dialect.
pub(crate) fn name(id: BatchId) -> String {
    format!("batch_{}", id.simple())
}

/// A time in seconds since the Unix epoch.
pub(crate) fn seconds(micros: i64) -> i64 {
    micros.div_euclid(1_000_000)
}

/// A batch as clients see it.
pub(crate) async fn show(house: &House, batch: Batch) -> Result<BatchView, Problem> {
    let causes = match batch.failed() {
        0 => Vec::new(),
        1.. => house.parts.store.causes(batch.id, CAUSES).await?,
    };
    let mut shown = show_briefly(house, batch).await?;
    shown.turnfold.top_causes = Some(causes.into_iter().map(TopCause::from).collect());
    Ok(shown)
}

/// The same without why lines ended badly: thousands of lines are looked at for that, of each batch.
pub(crate) async fn show_briefly(house: &House, batch: Batch) -> Result<BatchView, Problem> {
    let store = &house.parts.store;
    let of = |state: ItemState| batch.counts.of(state);
    let under_way =
        if of(ItemState::Fed) > 0 { store.under_way(batch.id).await? } else { UnderWay::default() };
    let failed = batch.failed();
    // Nobody knows when people answer, or when what is stopped goes on.
    let moving = of(ItemState::Fed) + if batch.stopped.is_none() { of(ItemState::Waiting) } else { 0 };
    let pace = store.pace(batch.id, batch.done, RATED).await?;
    let rate_per_s = pace.and_then(|it| rate(it, &batch, moving));
    let errors = errors(house, &batch, of(ItemState::Bad)).await?;
    let over = !batch.status.is_open();
    let file = |it: Option<store::bulk::FileId>| it.filter(|_| over).map(files::name);
    let turnfold = Ours {
        waiting_for_a_person: of(ItemState::Asked),
        under_way: of(ItemState::Fed),
        running: under_way.running,
        queued: of(ItemState::Waiting) + under_way.queued,
        reused: of(ItemState::Reused),
        expired: of(ItemState::Expired),
        cancelled: of(ItemState::Cancelled),
        bad: of(ItemState::Bad),
        results: batch.done,
        rate_per_s,
        eta_s: rate_per_s
            .filter(|it| *it > 0.0 && moving > 0 && batch.status == BatchStatus::InProgress)
            .map(|it| float(moving) / it),
        tokens: batch.input_tokens.saturating_add(batch.output_tokens),
        usd: usd(batch.micro_usd),
        max_usd: batch.max_micro_usd.map(usd),
        stopped: batch.stopped.map(Stopped::as_str),
        resumable: Resumable::of(house, &batch).await?,
        top_causes: None,
    };
    Ok(BatchView {
        id: name(batch.id),
        object: "batch",
        endpoint: batch.endpoint,
        errors,
        input_file_id: files::name(batch.input_file),
        completion_window: batch.completion_window,
        status: batch.status.as_str(),
        output_file_id: file(batch.output_file),
        error_file_id: file(batch.error_file),
        created_at: seconds(batch.at.created),
        in_progress_at: batch.at.in_progress.map(seconds),
        expires_at: seconds(batch.at.expires),
        finalizing_at: batch.at.finalizing.map(seconds),
        completed_at: batch.at.completed.map(seconds),
        failed_at: batch.at.failed.map(seconds),
        expired_at: batch.at.expired.map(seconds),
        cancelling_at: batch.at.cancelling.map(seconds),
        cancelled_at: batch.at.cancelled.map(seconds),
        request_counts: RequestCounts { total: batch.total, completed: batch.counts.good(), failed },
        metadata: batch.metadata,
        turnfold,
    })
}

async fn errors(house: &House, batch: &Batch, bad: u64) -> Result<Option<Errors>, Problem> {
    let mut data = Vec::new();
    if let Some(fault) = &batch.fault {
        data.push(LineError {
            code: "invalid_file".to_owned(),
            message: fault.clone(),
            param: None,
            line: None,
        });
    }
    if bad > 0 {
        let lines = house.parts.store.bad_lines(batch.id, ERRORS).await?;
        data.extend(lines.into_iter().map(|it| LineError {
            param: field_of(&it.code),
            line: Some(it.nth),
            code: it.code,
            message: it.message,
        }));
    }
    Ok((!data.is_empty()).then_some(Errors { object: "list", data }))
}

/// Results a second: until now while lines of it move, until the last of them came once all have ended, and else unknown:
/// it would only fall.
fn rate(pace: Pace, batch: &Batch, moving: u64) -> Option<f64> {
    let until = match batch.counts.open() {
        _ if moving > 0 || batch.status == BatchStatus::Validating => time::now(),
        0 => pace.until,
        1.. => return None,
    };
    let micros = u64::try_from(until - pace.since).ok().filter(|it| *it > 0)?;
    Some(float(pace.results) / (float(micros) / 1e6))
}

#[expect(clippy::cast_precision_loss, reason = "no batch is so large that it would show")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}
