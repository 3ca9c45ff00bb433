//! The search index finds what the logs say, of one tenant, until the thread is deleted.

use queue::clock;
use serde_json::json;
use shared::{
    Answered, Asked, Attempted, Event, Message, Rated, Rating, Reply, Request, Response, TakenOver,
    ThreadStatus, ToolCall, ToolOutput, TurnStatus, Usage,
};
use store::{
    Conditions, DryRun, Error, Found, Head, NewTurn, Opening, Prune, QueryWords, ReadModelUpdate, Store,
    ThreadFilter, ThreadId, Turn, TurnFilter, TurnUpdate, testing::tamper,
};

use super::{of_tenant, turn_started};

/// Indexes everything that was appended.
pub(super) async fn fill(store: &Store) -> Result<u64, Error> {
    // A log rests for a second before it is indexed.
    tokio::time::sleep(std::time::Duration::from_millis(1_050)).await;
    let mut events = 0;
    loop {
        match store.index_round().await?.events {
            0 => return Ok(events),
            more => events += more,
        }
    }
}

async fn search(store: &Store, tenant: Option<&str>, text: &str) -> Result<Vec<Found>, Error> {
    let words = QueryWords::parse(text).unwrap_or_else(|refused| panic!("{text}: {refused:?}"));
    store.search(&words, tenant, 100).await
}

async fn threads(store: &Store, tenant: &str, text: &str) -> Result<Vec<ThreadId>, Error> {
    Ok(search(store, Some(tenant), text).await?.iter().map(|found| found.thread).collect())
}

fn update(turn: &Turn, status: TurnStatus) -> ReadModelUpdate {
    let thread = if status == TurnStatus::Running { ThreadStatus::Busy } else { ThreadStatus::Idle };
    let turn = TurnUpdate { turn: turn.id, status, error: None, outcome: None };
    ReadModelUpdate { status: thread, turn: Some(turn) }
}

fn answered(response: Response, usage: Option<Usage>) -> Event {
    Answered { slot: 0, response, usage, extras: None }.into()
}

fn chat(model: &str, prompt: Option<&str>) -> Event {
    let request = json!({
        "request": "chat", "model": model, "system": "secret instructions", "context": {"start": 0, "end": 1}, "prompt": prompt,
    });
    let request = serde_json::from_value::<Request>(request).unwrap();
    Asked { node: "plan".to_owned(), requests: vec![request] }.into()
}

fn call(server: &str, name: &str, arguments: serde_json::Value) -> Event {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments };
    let request = Request::CallTool { server: server.to_owned(), call };
    Asked { node: "call".to_owned(), requests: vec![request] }.into()
}

fn rated(turn: &Turn, rating: Rating) -> Event {
    let (note, actor) = (String::new(), "a person".to_owned());
    Rated { turn: turn.id, rating, note, actor, caller: None }.into()
}

/// Runs a turn that asks a model and a tool, and ends.
async fn runs(store: &Store, new: NewTurn, said: &str, order: &str) -> Result<Turn, Error> {
    let turn = store.submit(new).await?.into_turn();
    let head = store.head(turn.thread).await?;
    let head = store.append(&head, &[turn_started(&turn)], Some(&update(&turn, TurnStatus::Running))).await?;
    let usage = Usage { input_tokens: 90, output_tokens: 10, micro_usd: Some(2_500), ..Usage::default() };
    let reply = Reply { content: said.to_owned(), ..Reply::default() };
    let (worker, from) = ("w-2".to_owned(), "w-1".to_owned());
    let events = [
        chat("openai/gpt-4o", Some("0123456789abcdef")),
        answered(Response::Reply(reply), Some(usage)),
        call("shop", "find_order", json!({"order": order, "deep": {"list": ["über alles", 7]}})),
        Attempted { slot: 0, worker: "w-1".to_owned() }.into(),
        TakenOver { worker, from, silent_ms: None }.into(),
        answered(Response::Output(ToolOutput::Ok("It was shipped. 東京都".to_owned())), None),
    ];
    let head = store.append(&head, &events, None).await?;
    let messages = vec![Message::assistant("Finally dispatched")];
    let Event::Decided(decided) = super::decided("done") else { unreachable!("it is a decision") };
    let end = Event::Decided(shared::Decided { messages, ..decided });
    store.append(&head, &[end], Some(&update(&turn, TurnStatus::Completed))).await?;
    Ok(turn)
}

pub(super) async fn finds_words_of_people_models_and_tools(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "words";
    store.begin_indexing().await?;
    let one = runs(
        store,
        of_tenant(TENANT, "Where is my parcel AND the NEAR(invoice)?"),
        "I look it up.",
        "A-10/77",
    )
    .await?
    .thread;
    let two = runs(store, of_tenant(TENANT, "Where is O'Hara's parcel?"), "Nothing found*", "B-10/77")
        .await?
        .thread;
    runs(store, of_tenant("other", "Where is my parcel A-10/77?"), "-", "A-10/77").await?;
    assert!(threads(store, TENANT, "parcel").await?.is_empty(), "nothing is indexed yet");
    assert!(fill(store).await? > 0);
    for (text, found) in [
        ("parcel", vec![two, one]),
        ("PARCEL where", vec![two, one]),
        ("my parcel", vec![one]),
        ("parcel missing", vec![]),
        ("A-10/77", vec![one]),
        ("B-10/77", vec![two]),
        ("10/77", vec![two, one]),
        ("77-10", vec![]),
        ("10-77", vec![]),
        ("shipped", vec![two, one]),
        ("look it up", vec![one]),
        ("alles über", vec![two, one]),
        ("ÜBER", vec![two, one]),
        ("東京", vec![two, one]),
        ("京東", vec![]),
        ("dispatched", vec![two, one]),
        // What a person types is never syntax.
        ("parcel AND invoice", vec![one]),
        ("parcel OR where", vec![]),
        ("NEAR(parcel invoice)", vec![one]),
        ("NOT parcel", vec![]),
        ("parc*", vec![]),
        ("found*", vec![two]),
        ("\"where parcel\"", vec![two, one]),
        ("words:parcel", vec![]),
        ("o'hara's", vec![two]),
        ("'; DROP TABLE search_entries; --", vec![]),
        ("parcel & !where | (x <-> y):*", vec![]),
        ("^parcel -my \\", vec![one]),
        ("secret", vec![]),
        ("find_order", vec![]),
        ("=1 =words", vec![]),
    ] {
        assert_eq!(threads(store, TENANT, text).await?, found, "{text}");
    }
    assert_eq!(search(store, None, "a-10/77").await?.len(), 2, "an operator sees all tenants");
    assert!(search(store, Some("nobody"), "parcel").await?.is_empty());

    let found = search(store, Some(TENANT), "order a-10/77").await?;
    let [hit] = found.as_slice() else { panic!("{found:?}") };
    let chars: Vec<char> = hit.snippet.chars().collect();
    let marked: Vec<String> = hit.marks.iter().map(|(from, to)| chars[*from..*to].iter().collect()).collect();
    assert_eq!(
        (hit.seq, hit.by.name(), marked.join(" ").as_str()),
        (4, "arguments", "order A 10 77"),
        "{hit:?}"
    );
    let found = search(store, Some(TENANT), "my parcel").await?;
    assert_eq!((found[0].seq, found[0].by.name(), found[0].author.as_str()), (1, "user", "conformance"));
    Ok(())
}

pub(super) async fn filters_turns_by_what_is_indexed(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "indexed";
    store.begin_indexing().await?;
    let shop = runs(store, of_tenant(TENANT, "first"), "yes", "A-1").await?;
    let again = NewTurn { thread: Opening::Existing(shop.thread), ..of_tenant(TENANT, "second") };
    let again = store.submit(again).await?.into_turn();
    let head = store.head(again.thread).await?;
    let ended = update(&again, TurnStatus::Completed);
    store.append(&head, &[turn_started(&again), super::decided("end")], Some(&ended)).await?;
    // The first turn is rated after the second one, and again.
    for (turn, rating) in [(&shop, Rating::Bad), (&again, Rating::Bad), (&shop, Rating::Good)] {
        let head = store.head(shop.thread).await?;
        store.append(&head, &[rated(turn, rating)], None).await?;
        if rating == Rating::Bad {
            fill(store).await?;
        }
    }
    let queued = store.submit(of_tenant(TENANT, "third")).await?.into_turn();
    fill(store).await?;
    for (nth, tenant) in [TENANT, "another"].into_iter().enumerate() {
        let line = format!(
            "INSERT INTO batch_items (batch_id, nth, tenant, custom_id, chunk, start, length, state, attempt, input_tokens, \
             output_tokens, micro_usd, turn_id) VALUES ($1, {nth}, '{tenant}', 'of-{tenant}', 0, 0, 0, 'submitted', 1, 0, 0, 0, $2)"
        );
        tamper::execute_with(store, &line, [shop.thread.into(), shop.id.into()]).await?;
    }
    for (text, found) in [
        ("custom_id = of-indexed", vec![shop.id]),
        ("custom_id = of-another", vec![]),
        ("custom_id != of-indexed", vec![again.id, queued.id]),
        ("text = first", vec![shop.id]),
        ("text = second", vec![again.id]),
        ("text = 'A-1'", vec![shop.id]),
        ("text = third", vec![]),
        ("tool = find_order", vec![shop.id]),
        ("tool = shop.find_order", vec![shop.id]),
        ("tool = order", vec![]),
        ("tool != find_order", vec![again.id, queued.id]),
        ("model = gpt-4o", vec![shop.id]),
        ("model = openai/gpt-4o", vec![shop.id]),
        ("prompt = 012345", vec![shop.id]),
        ("prompt = 0123456789ABCDEF", vec![shop.id]),
        ("prompt = 012346", vec![]),
        ("worker = w-1 and worker = w-2", vec![shop.id]),
        ("rating = good", vec![shop.id]),
        ("rating = bad", vec![again.id]),
        ("rating != bad", vec![shop.id, queued.id]),
        ("usd > 0.0024", vec![shop.id]),
        ("usd > 0.0025", vec![]),
        ("usd < 0.0025", vec![again.id, queued.id]),
        ("tokens > 99 and text = first", vec![shop.id]),
        ("tokens < 100", vec![again.id, queued.id]),
        ("took < 1h", vec![shop.id, again.id]),
        ("took > 1h", vec![]),
        ("custom_id = nothing", vec![]),
        ("custom_id != nothing and text = first", vec![shop.id]),
        ("batch = 019f0000", vec![]),
    ] {
        let conditions =
            Conditions::parse(text, clock::now()).unwrap_or_else(|error| panic!("{text}: {error}"));
        store.check_searchable(&conditions).await?;
        let filter = TurnFilter {
            tenant: Some(TENANT),
            conditions: Some(&conditions),
            order: store::Order::OldestFirst,
            ..TurnFilter::default()
        };
        let ids: Vec<_> = store.turns(filter, None, 9).await?.iter().map(|turn| turn.id).collect();
        assert_eq!(ids, found, "{text}");
        let of_threads =
            ThreadFilter { tenant: Some(TENANT), turns: Some(&conditions), ..ThreadFilter::default() };
        let is_of_first =
            store.threads(of_threads, None, 9).await?.iter().any(|thread| thread.id == shop.thread);
        assert_eq!(is_of_first, found.contains(&shop.id) || found.contains(&again.id), "{text}");
    }
    Ok(())
}

pub(super) async fn forgets_deleted_threads_and_is_built_again(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "forgets";
    store.begin_indexing().await?;
    let [one, two] = [
        runs(store, of_tenant(TENANT, "secretword"), "-", "A-1").await?.thread,
        runs(store, of_tenant(TENANT, "secretword"), "-", "A-2").await?.thread,
    ];
    let turn =
        store.turns(TurnFilter { thread: Some(one), ..TurnFilter::default() }, None, 1).await?.remove(0);
    let head = store.head(one).await?;
    store.append(&head, &[rated(&turn, Rating::Good)], None).await?;
    fill(store).await?;
    assert_eq!(threads(store, TENANT, "secretword").await?, [two, one]);
    store.delete_thread(one, "test").await?.expect("an idle thread is deleted");
    assert_eq!(threads(store, TENANT, "secretword").await?, [two]);
    for table in ["search_threads", "search_entries", "search_terms", "search_usage", "search_ratings"] {
        let sql = format!("SELECT 1 FROM {table} WHERE thread_id = $1");
        assert_eq!(tamper::count(store, &sql, [one.into()]).await?, 0, "{table}");
    }

    store.rebuild_search().await?;
    assert!(threads(store, TENANT, "secretword").await?.is_empty());
    let conditions = Conditions::parse("text = secretword", clock::now()).unwrap();
    let refused = store.check_searchable(&conditions).await.unwrap_err();
    assert!(matches!(refused, Error::SearchBehind { .. }), "{refused}");
    let old = Conditions::parse("text = secretword and updated < 1970-01-01", clock::now()).unwrap();
    store.check_searchable(&old).await?;
    let other = store.in_another_process();
    other.begin_indexing().await?;
    fill(&other).await?;
    store.check_searchable(&conditions).await?;
    assert_eq!(threads(store, TENANT, "secretword").await?, [two]);

    let prune = Prune { before: i64::MAX, strategy: Some("probe".to_owned()), by: "test".into() };
    store.prune(&prune, DryRun::No, |_| ()).await?;
    assert!(threads(store, TENANT, "secretword").await?.is_empty());
    Ok(())
}

pub(super) async fn goes_on_where_another_process_died(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "died";
    store.begin_indexing().await?;
    let turn = runs(store, of_tenant(TENANT, "before"), "-", "A-1").await?;
    fill(store).await?;
    let before = entries(store, turn.thread).await?;
    // Killed: it marked the thread and indexed nothing more.
    let again = NewTurn { thread: Opening::Existing(turn.thread), ..of_tenant(TENANT, "afterwards") };
    let again = store.submit(again).await?.into_turn();
    let head = store.head(turn.thread).await?;
    let running = update(&again, TurnStatus::Completed);
    store.append(&head, &[turn_started(&again), super::decided("x")], Some(&running)).await?;
    let unseen = "UPDATE search_writers SET seen_at = 0 WHERE id <> $1";
    tamper::execute_with(store, unseen, [uuid::Uuid::nil().into()]).await?;
    let other = store.in_another_process();
    other.begin_indexing().await?;
    fill(&other).await?;
    assert_eq!(threads(store, TENANT, "afterwards").await?, [turn.thread]);
    assert_eq!(entries(store, turn.thread).await?, before + 1, "nothing is indexed twice");
    let sql = "SELECT 1 FROM search_usage WHERE thread_id = $1 AND tokens = 100";
    assert_eq!(tamper::count(store, sql, [turn.thread.into()]).await?, 1);
    Ok(())
}

async fn entries(store: &Store, thread: ThreadId) -> Result<u64, Error> {
    tamper::count(store, "SELECT 1 FROM search_entries WHERE thread_id = $1", [thread.into()]).await
}

pub(super) async fn races_and_long_logs_index_each_event_once(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "races";
    store.begin_indexing().await?;
    let turn = runs(store, of_tenant(TENANT, "long"), "-", "A-1").await?;
    let mut head: Head = store.head(turn.thread).await?;
    for nth in 0..30 {
        let events: Vec<Event> = (0..20)
            .map(|n| {
                let output = ToolOutput::Ok(format!("result n{}", nth * 20 + n));
                answered(Response::Output(output), None)
            })
            .collect();
        head = store.append(&head, &events, None).await?;
    }
    fill(store).await?;
    assert_eq!(entries(store, turn.thread).await?, 600 + 4, "one entry for each event with words");
    assert_eq!(threads(store, TENANT, "result n599").await?, [turn.thread]);
    let found = search(store, Some(TENANT), "result").await?;
    assert_eq!((found.len(), found[0].seq), (1, head.seq - 1), "one row for a thread, its newest event");

    // Two processes read the same part, and one of them writes it.
    store.rebuild_search().await?;
    let processes = [store.in_another_process(), store.in_another_process()];
    for process in &processes {
        process.begin_indexing().await?;
        process.mark_grown(turn.thread);
    }
    let (one, two) = tokio::join!(fill(&processes[0]), fill(&processes[1]));
    assert!(one? + two? > 0);
    assert_eq!(entries(store, turn.thread).await?, 604);
    Ok(())
}

pub(super) async fn a_damaged_log_keeps_no_other_from_being_found(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "damaged";
    store.begin_indexing().await?;
    let [one, two] = [
        runs(store, of_tenant(TENANT, "unread"), "-", "A-1").await?.thread,
        runs(store, of_tenant(TENANT, "read"), "-", "A-2").await?.thread,
    ];
    let short = "UPDATE events SET hash = $2 WHERE thread_id = $1 AND seq = 1";
    tamper::execute_with(store, short, [one.into(), vec![1_u8].into()]).await?;
    fill(store).await?;
    assert_eq!(threads(store, TENANT, "shipped").await?, [two]);
    Ok(())
}

/// Imports by processes that index nothing share the scan that has not begun.
pub(super) async fn imports_share_a_scan(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "imports";
    store.begin_indexing().await?;
    fill(store).await?;
    let [imports, other] = [store.in_another_process(), store.in_another_process()];
    let source = runs(&imports, of_tenant(TENANT, "copied"), "-", "A-1").await?.thread;
    for _ in 0..3 {
        super::fork::fork(&imports, source, None).await?;
    }
    let waiting = "SELECT 1 FROM search_writers WHERE seen_at = 0";
    assert_eq!(tamper::count(store, waiting, []).await?, 1);
    other.begin_indexing().await?;
    fill(&other).await?;
    assert!(threads(store, TENANT, "copied").await?.contains(&source));
    assert_eq!(tamper::count(store, waiting, []).await?, 0);
    super::fork::fork(&imports, source, None).await?;
    assert_eq!(tamper::count(store, waiting, []).await?, 1, "a scan that has begun is not shared");
    Ok(())
}

/// A task that only waited ends nothing, and another one goes on where the first has ended.
pub(super) async fn tasks_of_a_process_take_turns(store: &Store) -> Result<(), Error> {
    const TENANT: &str = "tasks";
    let start = async || {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(threads::keep_indexing(store.clone(), async move { drop(stopped.await) }));
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        (task, stop)
    };
    let end = async |(task, stop): (tokio::task::JoinHandle<()>, tokio::sync::oneshot::Sender<()>)| {
        drop(stop);
        task.await.expect("it does not panic");
    };
    let [first, waits, next] = [start().await, start().await, start().await];
    end(waits).await;
    runs(store, of_tenant(TENANT, "anna"), "-", "A-1").await?;
    is_found(store, TENANT, "anna").await?;
    end(first).await;
    runs(store, of_tenant(TENANT, "berta"), "-", "A-1").await?;
    is_found(store, TENANT, "berta").await?;
    end(next).await;
    let alive = "SELECT 1 FROM search_writers WHERE seen_at > 0 AND id <> $1";
    assert_eq!(tamper::count(store, alive, [uuid::Uuid::nil().into()]).await?, 0);
    Ok(())
}

async fn is_found(store: &Store, tenant: &str, text: &str) -> Result<(), Error> {
    for _ in 0..200 {
        if !threads(store, tenant, text).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{text} is not indexed");
}

pub(super) async fn refuses_while_it_is_off(store: &Store) -> Result<(), Error> {
    let off = store.clone().with_search(false);
    let words = QueryWords::parse("word").unwrap();
    assert!(matches!(off.search(&words, None, 1).await, Err(Error::SearchOff)));
    let conditions = Conditions::parse("tool = x", clock::now()).unwrap();
    assert!(matches!(off.check_searchable(&conditions).await, Err(Error::SearchOff)));
    let others = Conditions::parse("took > 1h", clock::now()).unwrap();
    off.check_searchable(&others).await
}

on_databases!(
    finds_words_of_people_models_and_tools,
    filters_turns_by_what_is_indexed,
    forgets_deleted_threads_and_is_built_again,
    goes_on_where_another_process_died,
    races_and_long_logs_index_each_event_once,
    a_damaged_log_keeps_no_other_from_being_found,
    imports_share_a_scan,
    tasks_of_a_process_take_turns,
    refuses_while_it_is_off,
);
