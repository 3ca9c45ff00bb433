//! Counts of turns and of model responses of all processes are added up by interval, and deleted in time.

use queue::clock;
use shared::TurnStatus;
use shared::{Outcome, OutcomeKind, Usage};
use store::{
    AskedModel, CauseCount, Counted, CountedEnd, EndedCount, Error, Intervals, LowCounts, ModelResponse,
    OpenTurns, Ratings, Resolution, Store, Tally, TurnUpdate, UsageCount, UsageShare,
    testing::tamper::execute_with,
};
use uuid::Uuid;

use super::{of_tenant, opened};

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;

fn ended(status: TurnStatus, error: Option<&str>, outcome: Option<OutcomeKind>) -> TurnUpdate {
    let outcome = outcome.map(|kind| Outcome { kind, causes: ["no server".into()].into() });
    TurnUpdate { turn: Uuid::now_v7(), status, error: error.map(str::to_owned), outcome }
}

fn response(model: &str, tokens: u64, micro_usd: Option<u64>) -> ModelResponse {
    let usage = Usage { input_tokens: tokens, output_tokens: tokens / 2, micro_usd, ..Usage::default() };
    let asked = AskedModel {
        node: "reply".to_owned(),
        prompt: "0123456789abcdef".to_owned(),
        model: model.to_owned(),
    };
    ModelResponse { asked, usage }
}

fn count(store: &Store, at: i64, tenant: &str, ended: Option<&TurnUpdate>, responses: Vec<ModelResponse>) {
    store.count_recorded(&counted(at, tenant, ended, responses));
}

fn counted<'a>(
    at: i64,
    tenant: &'a str,
    ended: Option<&'a TurnUpdate>,
    responses: Vec<ModelResponse>,
) -> Counted<'a> {
    let (asked, ratings) = (Vec::new(), Vec::new());
    let (thread, strategy, in_doubt) = (Uuid::from_u128(7), "probe", false);
    Counted { at, thread, tenant, strategy, ended, in_doubt, responses, asked, ratings }
}

/// Turns by end since a time, by the resolution.
async fn turns(store: &Store, resolution: Resolution, since: i64) -> Result<Vec<(CountedEnd, u64)>, Error> {
    let stats = store.stats(resolution, since, None, 50).await?;
    Ok(stats.ended.into_iter().map(|row| (row.ended, row.turns)).collect())
}

pub(super) async fn add_up_by_interval(store: &Store) -> Result<(), Error> {
    let start = Resolution::Minute.start(clock::now());
    let answered = ended(TurnStatus::Completed, None, Some(OutcomeKind::Answered));
    let partial = ended(TurnStatus::Completed, None, Some(OutcomeKind::Partial));
    let failed = |error| ended(TurnStatus::Failed, Some(error), None);
    count(
        store,
        start,
        "a",
        Some(&answered),
        vec![response("p/one", 100, Some(7)), response("p/two", 8, None)],
    );
    count(store, start + 1, "a", Some(&failed("timed out after 31 s")), Vec::new());
    store.write_counts().await?;
    count(store, start + 2, "a", Some(&failed("timed out after 4 s")), vec![response("p/one", 50, Some(3))]);
    count(store, start + 3, "b", Some(&partial), vec![response("p/one", 1, Some(1))]);
    count(store, start + 4, "b", Some(&ended(TurnStatus::Running, None, None)), Vec::new());
    store.write_counts().await?;
    store.write_counts().await?;

    let stats = store.stats(Resolution::Minute, start, Some("a"), 50).await?;
    let counted = |ended, turns| EndedCount { start, ended, turns };
    assert_eq!(stats.ended, [counted(CountedEnd::Answered, 1), counted(CountedEnd::Failed, 2)]);
    let cause = "timed out after # s".to_owned();
    assert_eq!(stats.causes, [CauseCount { ended: CountedEnd::Failed, cause, turns: 2 }]);
    assert_eq!(stats.usage, [UsageCount { start, tokens: 237, micro_usd: 10 }]);
    let one = UsageShare {
        strategy: "probe".to_owned(),
        model: "p/one".to_owned(),
        responses: 2,
        input_tokens: 150,
        output_tokens: 75,
        micro_usd: 10,
        without_usage: 0,
        without_price: 0,
    };
    let two = UsageShare {
        model: "p/two".to_owned(),
        responses: 1,
        input_tokens: 8,
        output_tokens: 4,
        micro_usd: 0,
        without_price: 1,
        ..one.clone()
    };
    assert_eq!(stats.shares, [one.clone(), two]);
    assert_eq!(store.stats(Resolution::Minute, start, Some("a"), 1).await?.shares, [one]);

    for resolution in [Resolution::Minute, Resolution::Quarter, Resolution::Hour] {
        let all = turns(store, resolution, resolution.start(start)).await?;
        let expected = [(CountedEnd::Answered, 1), (CountedEnd::Failed, 2), (CountedEnd::Partial, 1)];
        assert_eq!(all, expected, "{resolution:?}");
        assert_eq!(turns(store, resolution, resolution.start(start) + 1).await?, []);
    }
    Ok(())
}

pub(super) async fn are_forgotten_in_time(store: &Store) -> Result<(), Error> {
    let now = clock::now();
    let cancelled = ended(TurnStatus::Cancelled, None, None);
    for hours in [0, 3, 49, 200] {
        count(store, now - hours * HOUR, "a", Some(&cancelled), Vec::new());
    }
    store.write_counts().await?;
    let kept = async |resolution| {
        Ok::<_, Error>(turns(store, resolution, 0).await?.into_iter().map(|(_, turns)| turns).sum::<u64>())
    };
    assert_eq!(kept(Resolution::Minute).await?, 1, "minutes are kept for two hours");
    assert_eq!(kept(Resolution::Quarter).await?, 2, "quarters are kept for two days");
    assert_eq!(kept(Resolution::Hour).await?, 3, "hours are kept for eight days");
    Ok(())
}

pub(super) async fn include_turns_that_never_started(store: &Store) -> Result<(), Error> {
    let (_, first) = opened(store).await?;
    opened(store).await?;
    store.submit(of_tenant("acme", "hello")).await?;
    let open = async |tenant| Ok::<_, Error>(store.stats(Resolution::Hour, 0, tenant, 1).await?.open);
    assert_eq!(open(None).await?, OpenTurns { queued: 3, running: 0, interrupted: 0 });
    assert_eq!(open(Some("acme")).await?.queued, 1);

    store.cancel_queued(first.id).await?;
    store.cancel_queued(first.id).await?;
    store.write_counts().await?;
    assert_eq!(turns(store, Resolution::Hour, 0).await?, [(CountedEnd::Cancelled, 1)]);
    assert_eq!(open(None).await?.queued, 2);
    Ok(())
}

/// Adds a writer of counts that was killed after this write.
async fn killed(store: &Store, written_at: i64) -> Result<(), Error> {
    let sql = "INSERT INTO count_writers (id, written_at) VALUES ($1, $2)";
    execute_with(store, sql, [Uuid::now_v7().into(), written_at.into()]).await.map(drop)
}

/// Lets the process of this test have written its counts at this time.
async fn written(store: &Store, at: i64) -> Result<(), Error> {
    let sql = "UPDATE count_writers SET written_at = $1, claimed_until = 0";
    execute_with(store, sql, [at.into()]).await.map(drop)
}

pub(super) async fn of_killed_processes_come_from_the_logs(store: &Store) -> Result<(), Error> {
    let start = Resolution::Minute.start(clock::now()) - 20 * 60 * SECOND;
    let later = start + 5 * 60 * SECOND;
    let answered = ended(TurnStatus::Completed, None, Some(OutcomeKind::Answered));
    count(store, start, "a", Some(&answered), vec![response("p/one", 100, Some(7))]);
    store.write_counts().await?;
    written(store, later).await?;
    assert_eq!(store.lost_counts(later).await?, None, "nobody was killed");
    let missing_since =
        async || Ok::<_, Error>(store.stats(Resolution::Hour, 0, None, 1).await?.missing_since);
    written(store, clock::now()).await?;
    assert_eq!(missing_since().await?, None);

    killed(store, start + SECOND).await?;
    assert_eq!(missing_since().await?, Some(start + SECOND));
    killed(store, start + 2 * SECOND).await?;
    assert_eq!(store.lost_counts(start + 60 * SECOND).await?, None, "the minute is not complete");
    let lost = store.lost_counts(later).await?.expect("two processes were killed");
    assert!(lost.since <= start && start + 60 * SECOND < lost.until, "{lost:?}");
    assert_eq!(store.lost_counts(later).await?, None, "another process counts already");

    let mut logs = Tally::default();
    for nth in 0..3 {
        logs.add(&counted(start + nth, "a", Some(&answered), vec![response("p/one", 100, Some(7))]));
    }
    written(store, lost.until).await?;
    assert!(!store.add_lost_counts(lost.clone(), logs.clone(), later).await?, "a process was written since");
    execute_with(store, "DELETE FROM count_writers", []).await?;
    killed(store, start + SECOND).await?;
    let lost = store.lost_counts(later).await?.expect("a process was killed");
    killed(store, lost.until).await?;
    assert!(!store.add_lost_counts(lost, logs.clone(), later).await?, "one may count there still");
    written(store, start).await?;
    let lost = store.lost_counts(later).await?.expect("both were killed");
    assert!(store.add_lost_counts(lost.clone(), logs.clone(), later).await?);
    assert!(!store.add_lost_counts(lost, logs, later).await?, "it was added before");

    for resolution in [Resolution::Minute, Resolution::Quarter, Resolution::Hour] {
        assert_eq!(turns(store, resolution, 0).await?, [(CountedEnd::Answered, 3)], "{resolution:?}");
        let shares = store.stats(resolution, 0, None, 50).await?.shares;
        let [(responses, tokens, usd)] =
            shares.iter().map(|row| (row.responses, row.input_tokens, row.micro_usd)).collect::<Vec<_>>()[..]
        else {
            panic!("{shares:?}")
        };
        assert_eq!((responses, tokens, usd), (3, 300, 21), "{resolution:?}");
    }
    Ok(())
}

/// A process that was stopped for minutes and goes on leaves its counts to the logs.
pub(super) async fn of_a_process_taken_for_killed_are_left_to_the_logs(store: &Store) -> Result<(), Error> {
    let cancelled = ended(TurnStatus::Cancelled, None, None);
    let now = clock::now();
    count(store, now, "a", Some(&cancelled), Vec::new());
    store.write_counts().await?;
    execute_with(store, "DELETE FROM count_writers", []).await?;
    count(store, now, "a", Some(&cancelled), Vec::new());
    store.write_counts().await?;
    assert_eq!(turns(store, Resolution::Hour, 0).await?, [(CountedEnd::Cancelled, 1)]);
    let later = now + 10 * 60 * SECOND;
    assert!(store.lost_counts(later).await?.is_some(), "its row is as old as its last write");
    count(store, now, "a", Some(&cancelled), Vec::new());
    store.write_counts().await?;
    assert_eq!(turns(store, Resolution::Hour, 0).await?, [(CountedEnd::Cancelled, 2)]);
    Ok(())
}

pub(super) async fn tell_a_doubt_from_a_question(store: &Store) -> Result<(), Error> {
    let stopped = ended(TurnStatus::Interrupted, None, None);
    for in_doubt in [true, false] {
        let (at, ended, responses) = (clock::now(), Some(&stopped), Vec::new());
        store.count_recorded(&Counted { in_doubt, ..counted(at, "a", ended, responses) });
    }
    store.write_counts().await?;
    let expected = [(CountedEnd::InDoubt, 1), (CountedEnd::Interrupted, 1)];
    assert_eq!(turns(store, Resolution::Hour, 0).await?, expected);
    Ok(())
}

pub(super) async fn below_those_of_the_logs_are_found(store: &Store) -> Result<(), Error> {
    let (now, answered) = (clock::now(), ended(TurnStatus::Completed, None, Some(OutcomeKind::Answered)));
    let (mut tally, mut logs) = (Tally::default(), Intervals::default());
    for _ in 0..2 {
        let responses = vec![response("p/one", 10, Some(3))];
        let ended = Some(&answered);
        let counted = counted(now, "a", ended, responses);
        tally.add(&counted);
        store.count_recorded(&counted);
    }
    logs.add(&tally, now);
    store.write_counts().await?;
    // The intervals of the hour and of its parts are complete by then.
    let later = now + HOUR + 600 * SECOND;
    assert_eq!(store.low_counts(&logs, later).await?, LowCounts::default());
    for (sql, expected) in [
        ("UPDATE ended_turn_counts SET turns = 1", LowCounts { ended_turns: 3, model_responses: 0 }),
        ("UPDATE model_response_counts SET micro_usd = 5", LowCounts { ended_turns: 3, model_responses: 3 }),
    ] {
        execute_with(store, sql, []).await?;
        assert_eq!(store.low_counts(&logs, later).await?, expected, "{sql}");
    }
    assert_eq!(store.low_counts(&logs, now).await?, LowCounts::default(), "not yet complete");
    // Logs may be deleted, so counts may be higher.
    execute_with(store, "UPDATE ended_turn_counts SET turns = 9", []).await?;
    assert_eq!(store.low_counts(&logs, later).await?.ended_turns, 0);
    Ok(())
}

pub(super) async fn follow_each_prompt(store: &Store) -> Result<(), Error> {
    let asked = |prompt: &str, model: &str| AskedModel {
        node: "plan".to_owned(),
        prompt: prompt.to_owned(),
        model: model.to_owned(),
    };
    let [old, new] = ["0123456789abcdef", "fedcba9876543210"];
    let respond = |prompt, micro_usd| {
        let ModelResponse { usage, .. } = response("", 100, micro_usd);
        ModelResponse { asked: asked(prompt, "p/one"), usage }
    };
    let partial = ended(TurnStatus::Completed, None, Some(OutcomeKind::Partial));
    let failed = ended(TurnStatus::Failed, Some("no model"), None);
    for (at, tenant, prompt, end) in
        [(1, "a", old, &partial), (2, "a", new, &failed), (3, "a", new, &failed), (4, "b", new, &partial)]
    {
        let counted = counted(at, tenant, Some(end), vec![respond(prompt, Some(5))]);
        store.count_recorded(&Counted { asked: vec![asked(prompt, "p/one")], ..counted });
        // Half of them are added to rows that exist.
        if at % 2 == 1 {
            store.write_counts().await?;
        }
    }
    let rate = |at, good, bad| {
        let ratings = vec![
            (asked(new, "p/one"), Ratings { good, bad }),
            (AskedModel::default(), Ratings { good, bad }),
        ];
        store.count_recorded(&Counted { ratings, ..counted(at, "a", None, Vec::new()) });
    };
    rate(5, 1, 0);
    rate(6, -1, 1);
    store.write_counts().await?;

    let uses = store.prompt_uses(Some("a"), "", 10).await?;
    let shown: Vec<_> = uses
        .iter()
        .map(|it| (it.asked.prompt.as_str(), it.used, it.responses, it.micro_usd, it.turns))
        .collect();
    let expected = [
        ("", (5, 6), 0, 0, [0, 0, 0, 0]),
        (new, (2, 6), 2, 10, [0, 0, 0, 2]),
        (old, (1, 1), 1, 5, [0, 1, 0, 0]),
    ];
    assert_eq!(shown.len(), 3, "{uses:?}");
    assert!(expected.iter().all(|row| shown.contains(row)), "{shown:?}");
    let ratings: Vec<_> = uses.iter().map(|it| (it.asked.prompt.as_str(), it.ratings)).collect();
    for prompt in ["", new] {
        assert!(ratings.contains(&(prompt, Ratings { good: 0, bad: 1 })), "{ratings:?}");
    }
    let all = store.prompt_uses(None, "fedcba98", 10).await?;
    assert_eq!((all.len(), all[0].responses, all[0].tokens), (1, 3, (300, 150)), "all tenants: {all:?}");
    assert_eq!(store.prompt_uses(Some("c"), "", 10).await?, []);
    assert_eq!(store.threads_of_prompt(Some("a"), old).await?, [Uuid::from_u128(7)]);
    assert_eq!(
        store.threads_of_prompt(Some("b"), old).await?,
        Vec::<store::ThreadId>::new(),
        "another tenant's prompt"
    );

    let kept = [(old.to_owned(), "Plan."), (new.to_owned(), "Plan {task}.")].into();
    store.keep_templates(&kept).await?;
    store.keep_templates(&[(old.to_owned(), "Another text")].into()).await?;
    assert_eq!(store.template(old).await?.as_deref(), Some("Plan."), "a text is never replaced");
    assert_eq!(store.template("unknown").await?, None);
    Ok(())
}

on_databases!(
    add_up_by_interval,
    are_forgotten_in_time,
    below_those_of_the_logs_are_found,
    follow_each_prompt,
    include_turns_that_never_started,
    of_killed_processes_come_from_the_logs,
    of_a_process_taken_for_killed_are_left_to_the_logs,
    tell_a_doubt_from_a_question,
);
