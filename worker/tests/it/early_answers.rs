//! Messages that were submitted before a question was asked: none of them answers it.

use std::sync::Arc;

use shared::{Event, Policy, TurnKind, TurnStatus};
use store::{NewTurn, Opening, Turn};
use threads::Backends;
use worker::{
    Shutdown, Worker,
    testing::{CONFIG, EchoWorld, backends, opened, start_turn, steps, until},
};
use world::World;

/// A strategy that asks twice, and the messages that wait behind its first turn.
#[tokio::test]
async fn a_message_answers_only_a_question_that_was_open_when_it_was_submitted() {
    let backends = backends().await;
    let asks = start_turn(&backends, Opening::New(opened("probe")), "ask One? | yes; ask Two? | yes").await;
    let early = start_turn(&backends, Opening::Existing(asks.thread), "echo early").await;
    run_until(&backends, &early, TurnStatus::Completed).await;
    assert_eq!(kinds(&backends, &asks).await, [TurnKind::New, TurnKind::New]);

    let asks = start_turn(&backends, Opening::Existing(asks.thread), "ask One? | yes; ask Two? | yes").await;
    run_until(&backends, &asks, TurnStatus::Interrupted).await;
    // Both see the first question. The first of them answers it, and no person has seen the second question.
    let answer = start_turn(&backends, Opening::Existing(asks.thread), "yes").await;
    let late = start_turn(&backends, Opening::Existing(asks.thread), "echo late").await;
    run_until(&backends, &late, TurnStatus::Completed).await;
    let kinds = kinds(&backends, &asks).await;
    assert_eq!(kinds[2..], [TurnKind::New, TurnKind::Answer, TurnKind::New]);
    let answer = backends.store.turn(answer.id).await.unwrap().unwrap();
    assert_eq!(answer.status, TurnStatus::Interrupted, "it led to the second question");
}

#[tokio::test]
async fn an_answer_that_was_submitted_before_the_question_is_refused() {
    let backends = backends().await;
    let asks = start_turn(&backends, Opening::New(opened("probe")), "ask One? | yes").await;
    let answer =
        NewTurn::of(Opening::Existing(asks.thread), vec![shared::Message::user("yes")], "test".to_owned());
    let answer = NewTurn { policy: Policy::Answer, ..answer };
    let answer = backends.store.submit(answer).await.unwrap().into_turn();
    run_until(&backends, &answer, TurnStatus::Failed).await;
    let refused = backends.store.turn(answer.id).await.unwrap().unwrap();
    assert!(refused.error.unwrap().contains("no question was open when this answer was sent"));
    assert_eq!(kinds(&backends, &asks).await, [TurnKind::New]);
}

async fn run_until(backends: &Backends, turn: &Turn, status: TurnStatus) {
    let world: Arc<dyn World> = Arc::new(EchoWorld::default());
    let stop = Shutdown::default();
    let worker = tokio::spawn(Worker::new(steps(backends, world, "w"), CONFIG).run(stop.clone()));
    until("the turn gets there", async || {
        backends.store.turn(turn.id).await.is_ok_and(|row| row.is_some_and(|row| row.status == status))
    })
    .await;
    stop.drain();
    worker.await.unwrap();
}

async fn kinds(backends: &Backends, turn: &Turn) -> Vec<TurnKind> {
    let (_, log) = backends.store.load(turn.thread).await.unwrap();
    let kind = |event: &Event| match event {
        Event::TurnStarted(started) => Some(started.kind),
        _ => None,
    };
    log.iter().filter_map(|row| kind(&row.event)).collect()
}
