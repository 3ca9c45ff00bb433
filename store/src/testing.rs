//! What every engine must pass: suites that are run against each, and that panic where one does not conform.

mod append;
mod bulk;
mod bytes;
mod clocks;
mod conditions;
mod files;
mod fork;
mod index;
pub mod intruder;
mod marks;
mod pauses;
mod pins;
mod prune;
mod reader;
mod rows;
mod submit;
mod tables;
mod verify;
mod webhooks;
mod wreck;

use shared::{DEFAULT_TENANT, Decided, Event, Goto, Heard, Message, Opened};

use crate::{Error, Head, Idempotency, NewTurn, Opening, Store, Submitted, ThreadId, Turn, VectorIndex};

pub use wreck::wreck;

/// The suite of the log. The store must be connected to a database of its own that is still empty: the first
/// thing the suite tries is to do without tables.
///
/// # Panics
///
/// Where the engine does not conform.
pub async fn log_conformance(store: &Store) {
    if let Err(error) = log(store).await {
        panic!("the log does not conform: {error}");
    }
}

/// The suite of the index. It must be empty.
///
/// # Panics
///
/// Where the engine does not conform.
pub async fn index_conformance(index: &dyn VectorIndex) {
    let outcome = async {
        index::keeps_one_entry_a_server(index).await?;
        index::takes_many_at_once(index).await?;
        index::finds_what_is_nearest(index).await
    };
    if let Err(error) = outcome.await {
        panic!("the index does not conform: {error}");
    }
}

/// The suite of files and batches. There must be none.
///
/// # Panics
///
/// Where the engine does not conform.
pub async fn bulk_conformance(store: &Store) {
    let outcome = async {
        files::come_back_as_they_were_sent(store).await?;
        files::stay_while_a_batch_reads_them(store).await?;
        files::go_or_their_batch_is_made(store).await?;
        bulk::batches_are_kept_by_one_at_a_time(store).await?;
        bulk::a_request_that_was_sent_before_makes_no_other(store).await?;
        files::of_results_are_begun_by_whoever_keeps_the_batch(store).await?;
        files::go_piece_by_piece(store).await?;
        bulk::items_end_once(store).await?;
        bulk::again::what_was_tried_again_is_under_way(store).await?;
        bulk::again::items_are_named_by_what_they_ask_for_now(store).await?;
        bulk::items_end_while_lines_are_looked_at(store).await?;
        bulk::earlier_results_are_found(store).await?;
        bulk::pages_of_long_lines_are_short(store).await?;
        bulk::prune::goes_with_all_that_is_its_own(store).await?;
        bulk::prune::goes_on_where_it_was_broken_off(store).await?;
        bulk::prune::goes_or_is_wanted(store).await?;
        bulk::prune::goes_with_what_was_told(store).await?;
        bulk::prune::keeps_what_is_being_written(store).await
    };
    if let Err(error) = outcome.await {
        panic!("bulk does not conform: {error}");
    }
}

/// The suite of the pins. There must be none.
///
/// # Panics
///
/// Where the engine does not conform.
pub async fn pins_conformance(store: &Store) {
    let outcome = async {
        pins::stand_until_approved_over(store).await?;
        pins::race_with_each_other(store).await
    };
    if let Err(error) = outcome.await {
        panic!("the pins do not conform: {error}");
    }
}

/// The suite of the pauses. There must be none, and no thread.
///
/// # Panics
///
/// Where the engine does not conform.
pub async fn pauses_conformance(store: &Store) {
    let outcome = async {
        pauses::stand_until_resumed(store).await?;
        pauses::of_the_future_are_refused(store).await?;
        pauses::keep_threads_from_being_rung(store).await
    };
    if let Err(error) = outcome.await {
        panic!("the pauses do not conform: {error}");
    }
}

/// The suite of webhooks. There must be none.
///
/// # Panics
///
/// Where the engine does not conform.
pub async fn webhooks_conformance(store: &Store) {
    let outcome = async {
        webhooks::are_told_in_turn(store).await?;
        webhooks::are_never_too_many(store).await
    };
    if let Err(error) = outcome.await {
        panic!("the webhooks do not conform: {error}");
    }
}

async fn log(store: &Store) -> Result<(), Error> {
    tables::missing_then_made_once(store).await?;
    tables::from_the_future(store).await?;

    bytes::come_back_exactly(store).await?;
    bytes::of_the_future_are_refused(store).await?;
    bytes::that_change_break_the_chain(store).await?;
    bytes::are_paged(store).await?;
    bytes::are_read_together(store).await?;

    append::a_gap_is_damage(store).await?;
    append::is_all_or_nothing(store).await?;
    append::is_all_or_nothing_however_long(store).await?;
    append::has_one_winner(store).await?;
    append::knows_what_it_does_not_know(store).await?;

    marks::follow_the_turn(store).await?;
    marks::hear_a_turn_once(store).await?;
    marks::race_with_a_withdrawal(store).await?;
    marks::mend_a_read_model(store).await?;

    submit::opens_a_thread_or_finds_one(store).await?;
    submit::knows_its_key(store).await?;
    submit::knows_keys_by_tenant(store).await?;
    submit::races_with_itself(store).await?;
    submit::takes_many_at_once(store).await?;

    fork::knows_its_key(store).await?;
    fork::races_with_itself(store).await?;
    fork::keeps_what_became_of_turns(store).await?;
    fork::puts_what_may_have_happened_to_a_person(store).await?;

    rows::queue_in_order(store).await?;
    rows::are_listed_by_page(store).await?;
    rows::tell_what_can_move(store).await?;
    rows::tell_in_which_lane_they_wait(store).await?;
    rows::pass_over_what_is_not_due(store).await?;
    rows::tell_what_they_wait_for(store).await?;
    rows::are_listed_by_tenant(store).await?;
    rows::tell_who_waits_for_a_person(store).await?;
    rows::are_counted(store).await?;

    conditions::find_the_same_rows(store).await?;
    conditions::count_failures_by_cause(store).await?;

    verify::finds_what_was_done(store).await?;
    verify::finds_what_it_cannot_read(store).await?;
    verify::counts_what_it_saw(store).await?;
    reader::reads_what_is_meant(store).await?;
    clocks::ahead_are_passed_over(store).await?;

    prune::deletes_what_rests(store).await?;
    prune::races_with_whoever_wants_it(store).await
}

/// A new thread with a queued turn.
async fn opened(store: &Store) -> Result<(Head, Turn), Error> {
    let turn = store.submit(new_turn("hello")).await?.into_turn();
    Ok((store.head(turn.thread).await?, turn))
}

/// A turn for a thread of its own.
fn new_turn(words: &str) -> NewTurn {
    let opened = Opened {
        format: shared::FORMAT,
        strategy: "probe".to_owned(),
        version: 1,
        config: serde_json::Value::Null,
        experts: std::collections::BTreeMap::new(),
        budget: shared::Budget::default(),
        by: "conformance".to_owned(),
        tenant: DEFAULT_TENANT.to_owned(),
    };
    let words = vec![Message::user(words)];
    let metadata = serde_json::json!({ "line": 7 });
    NewTurn { metadata, ..NewTurn::of(Opening::New(opened), words, "conformance".to_owned()) }
}

/// A turn for a thread of this tenant's own.
fn of_tenant(tenant: &str, words: &str) -> NewTurn {
    let mut new = new_turn(words);
    if let Opening::New(opened) = &mut new.thread {
        opened.tenant = tenant.to_owned();
    }
    new
}

/// One more turn for a thread that is there.
async fn queued(store: &Store, thread: ThreadId, words: &str) -> Result<Turn, Error> {
    let new = NewTurn { thread: Opening::Existing(thread), ..new_turn(words) };
    Ok(store.submit(new).await?.into_turn())
}

/// A turn that carries a key.
async fn keyed(store: &Store, key: &str, request_hash: &str) -> Result<Submitted, Error> {
    let idempotency = Some(Idempotency { key: key.to_owned(), request_hash: request_hash.to_owned() });
    store.submit(NewTurn { idempotency, ..new_turn("once") }).await
}

/// The event by which a thread hears that turn.
fn heard(turn: &Turn) -> Event {
    let messages = turn.messages.clone();
    let (by, time) = (turn.author.clone(), crate::time::rfc3339(turn.created_at));
    Heard { turn: turn.id, by, time, hearing: shared::Hearing::Input, messages }.into()
}

/// A decision that tells one event from another.
fn decided(why: impl ToString) -> Event {
    let to = Goto::Node("probe".to_owned());
    Decided {
        node: "probe".to_owned(),
        said: vec![],
        learned: vec![],
        why: Some(why.to_string()),
        to,
        spent: None,
    }
    .into()
}

/// The events of a log, without their places.
async fn log_of(store: &Store, thread: ThreadId) -> Result<Vec<Event>, Error> {
    Ok(store.load(thread).await?.1.into_iter().map(|it| it.event).collect())
}
