//! Events about turns: written once, with the append that ends the turn, for the webhooks that want them.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::json;
use shared::{
    BudgetExceeded, Decided, Event, Goto, Interrupt, InterruptKind, Measure, Scope, ThreadStatus, TurnStatus,
};

use super::{new_turn, of_tenant, opened, queued, turn_started};
use store::{
    Error, Head, McpOffer, Pin, ReadModelUpdate, Store, Turn, TurnUpdate,
    webhooks::{Delivery, DeliveryFilter, EventType, Webhook, WebhookFilter, WebhookId},
};

fn filtered(strategy: &str, line: &str) -> WebhookFilter {
    let metadata = BTreeMap::from([("line".to_owned(), line.to_owned())]);
    WebhookFilter { strategy: Some(strategy.to_owned()), metadata }
}

async fn added(store: &Store, tenant: Option<&str>, filter: WebhookFilter) -> Result<WebhookId, Error> {
    let all = EventType::ALL.to_vec();
    let new = Webhook { filter, ..Webhook::new(tenant, "https://example.org", all, "whsec_none".into()) };
    assert!(store.add_webhook(&new, "ada").await?);
    Ok(new.id)
}

/// Returns the deliveries to a webhook, oldest first.
async fn sent(store: &Store, to: WebhookId) -> Result<Vec<Delivery>, Error> {
    let filter = DeliveryFilter { webhook: Some(to), ..DeliveryFilter::default() };
    let mut all = store.deliveries(filter, None, 1_000).await?;
    all.reverse();
    Ok(all)
}

async fn kinds(store: &Store, to: WebhookId) -> Result<Vec<String>, Error> {
    Ok(sent(store, to).await?.into_iter().map(|delivery| delivery.kind).collect())
}

fn ended(turn: &Turn, status: TurnStatus) -> ReadModelUpdate {
    let turn = TurnUpdate { turn: turn.id, status, error: None, outcome: None };
    ReadModelUpdate { status: ThreadStatus::Idle, turn: Some(turn) }
}

fn decided(to: Goto, budget_exceeded: Option<BudgetExceeded>) -> Event {
    let (messages, facts) = (vec![], vec![]);
    let node = "probe".to_owned();
    Decided { node, messages, facts, reason: None, to, budget_exceeded, outcome: None }.into()
}

fn asked() -> Goto {
    Goto::Interrupt(Interrupt {
        kind: InterruptKind::Approval,
        question: "Send it?".to_owned(),
        options: vec!["yes".to_owned()],
        open_ended: false,
        elicitation: None,
        resume: "probe".to_owned(),
    })
}

async fn started(store: &Store, head: Head, turn: &Turn) -> Result<Head, Error> {
    let mut running = ended(turn, TurnStatus::Running);
    running.status = ThreadStatus::Busy;
    store.append(&head, &[turn_started(turn)], Some(&running)).await
}

pub(super) async fn are_told_once_of_the_end_of_a_turn(store: &Store) -> Result<(), Error> {
    let own = added(store, Some("default"), filtered("probe", "7")).await?;
    let operator = added(store, None, WebhookFilter::default()).await?;
    let mut others = Vec::new();
    for (tenant, strategy, line) in
        [("default", "planner", "7"), ("default", "probe", "8"), ("other", "probe", "7")]
    {
        others.push(added(store, Some(tenant), filtered(strategy, line)).await?);
    }
    let (head, turn) = opened(store).await?;
    let running = started(store, head, &turn).await?;
    assert!(kinds(store, operator).await?.is_empty(), "a turn that starts is no event");
    let end = [decided(Goto::End, None)];
    store.append(&running, &end, Some(&ended(&turn, TurnStatus::Completed))).await?;
    let again = store.append(&running, &end, Some(&ended(&turn, TurnStatus::Completed))).await;
    assert!(matches!(again, Err(Error::Stale { .. })), "{again:?}");
    for webhook in [own, operator] {
        assert_eq!(kinds(store, webhook).await?, ["turn.completed"]);
    }
    for other in others {
        assert!(sent(store, other).await?.is_empty());
    }
    let payload: serde_json::Value = serde_json::from_str(&sent(store, own).await?[0].payload).expect("JSON");
    let data = &payload["data"];
    assert_eq!(data["id"], json!(turn.id));
    assert_eq!(data["thread_id"], json!(turn.thread));
    assert_eq!((&data["strategy"], &data["status"]), (&json!("probe"), &json!("completed")));
    assert_eq!(data["metadata"], json!({"line": 7}));
    Ok(())
}

pub(super) async fn are_told_of_questions_budgets_and_failures(store: &Store) -> Result<(), Error> {
    let webhook = added(store, Some("default"), WebhookFilter::default()).await?;
    let (head, turn) = opened(store).await?;
    let head = started(store, head, &turn).await?;
    let waiting = ended(&turn, TurnStatus::Interrupted);
    store.append(&head, &[decided(asked(), None)], Some(&waiting)).await?;
    let question = sent(store, webhook).await?.pop().expect("a delivery");
    assert!(question.payload.contains("Send it?"), "{}", question.payload);

    let (head, turn) = opened(store).await?;
    let head = started(store, head, &turn).await?;
    let exceeded = BudgetExceeded { scope: Scope::Turn, measure: Measure::Tokens };
    let end = [decided(Goto::End, Some(exceeded))];
    let head = store.append(&head, &end, Some(&ended(&turn, TurnStatus::Completed))).await?;

    let refused = queued(store, head.thread, "no").await?;
    store.refuse_queued(refused.id, "it cannot start").await?;
    store.refuse_queued(refused.id, "it cannot start").await?;
    let parked = queued(store, head.thread, "nor this").await?;
    store.update_read_model(&head, &ended(&parked, TurnStatus::Failed)).await?;
    let all = [
        "turn.waiting",
        "approval.requested",
        "turn.completed",
        "budget.exceeded",
        "turn.failed",
        "turn.failed",
    ];
    assert_eq!(kinds(store, webhook).await?, all);
    Ok(())
}

/// Steps of many threads are committed together; only some of them have a notice, and one of them is rejected.
pub(super) async fn are_told_of_each_of_many_turns(store: &Store) -> Result<(), Error> {
    let webhook = added(store, Some("told"), WebhookFilter::default()).await?;
    let mut turns = Vec::new();
    for nth in 0..20 {
        let tenant = if nth % 2 == 0 { "told" } else { "untold" };
        let turn = store.submit(of_tenant(tenant, "hello")).await?.into_turn();
        let head = started(store, store.head(turn.thread).await?, &turn).await?;
        turns.push((head, turn));
    }
    let stale = Head { seq: 1, ..turns[0].0 };
    let ends = turns.iter().map(|(head, turn)| async move {
        store.append(head, &[decided(Goto::End, None)], Some(&ended(turn, TurnStatus::Completed))).await
    });
    let rejected = ended(&turns[0].1, TurnStatus::Completed);
    let end = [decided(Goto::End, None)];
    let (ends, rejected) = tokio::join!(join_all(ends), store.append(&stale, &end, Some(&rejected)));
    assert!(rejected.is_err());
    for end in ends {
        end?;
    }
    let mut threads: Vec<_> = sent(store, webhook)
        .await?
        .into_iter()
        .map(|delivery| serde_json::from_str::<serde_json::Value>(&delivery.payload).expect("JSON"))
        .map(|payload| payload["data"]["thread_id"].as_str().expect("a thread").to_owned())
        .collect();
    threads.sort_unstable();
    let mut wanted: Vec<_> = turns
        .iter()
        .filter(|(_, turn)| turn.tenant == "told")
        .map(|(head, _)| head.thread.to_string())
        .collect();
    wanted.sort_unstable();
    assert_eq!(threads, wanted);
    Ok(())
}

pub(super) async fn a_turn_to_be_cancelled_is_not_told(store: &Store) -> Result<(), Error> {
    let webhook = added(store, Some("default"), WebhookFilter::default()).await?;
    let turn = store.submit(new_turn("hello")).await?.into_turn();
    let head = started(store, store.head(turn.thread).await?, &turn).await?;
    let request = store::CancelRequest {
        thread: turn.thread,
        turn: turn.id,
        actor: "me".to_owned(),
        caller: None,
        rolled_back: false,
    };
    store.request_cancel(&request).await?;
    let end = [decided(Goto::End, None)];
    let refused = store.append(&head, &end, Some(&ended(&turn, TurnStatus::Completed))).await;
    assert!(matches!(refused, Err(Error::CancelRequested { .. })), "{refused:?}");
    assert!(sent(store, webhook).await?.is_empty());
    Ok(())
}

pub(super) async fn operators_are_told_once_of_changed_tools(store: &Store) -> Result<(), Error> {
    let tenant = added(store, Some("default"), WebhookFilter::default()).await?;
    let operator = added(store, None, WebhookFilter::default()).await?;
    store.approve(Pin::new("desk", "[1]", "me"), "me").await?;
    let offer = McpOffer::default();
    for tools in ["[1]", "[2]", "[2]", "[1]", "[3]"] {
        store.record_mcp_offer("desk", "w", &offer, Some(tools)).await?;
    }
    store.record_mcp_offer("unpinned", "w", &offer, Some("[1]")).await?;
    assert_eq!(kinds(store, operator).await?, ["pin.changed", "pin.changed"]);
    assert!(sent(store, tenant).await?.is_empty());
    Ok(())
}

on_databases! {
    distributed:
    are_told_once_of_the_end_of_a_turn,
    are_told_of_questions_budgets_and_failures,
    are_told_of_each_of_many_turns,
    a_turn_to_be_cancelled_is_not_told,
    operators_are_told_once_of_changed_tools,
}
