//! Response of a single thread.

use api_types::{ForkOrigin, LogStatus, Message, Thread};
use shared::RunStatus;

use crate::{
    logs::folded_log::{Log, interrupt},
    server::{problem::ApiError, state::AppState},
    views,
};

/// Converts the row of a thread and the fold of its log to a response.
pub(crate) async fn view(app: &AppState, row: store::Thread) -> Result<Thread, ApiError> {
    let log = Log::load(app, row.id).await?;
    let thread = log.thread()?;
    let standing = thread.status();
    let error = match &standing {
        RunStatus::Failed { node, reason } => Some(format!("{node}: {reason}")),
        RunStatus::Idle | RunStatus::Busy | RunStatus::Waiting(_) => None,
    };
    let completed = standing == RunStatus::Idle && thread.turn().is_some() && !log.ends_cancelled();
    let outcome = completed.then(|| thread.outcome());
    Ok(Thread {
        summary: views::thread_summary(row),
        log_status: LogStatus::from(&standing),
        interrupt: interrupt(&*thread, || log.in_doubt(None)),
        error,
        node: thread.node(),
        turn_id: thread.turn(),
        outcome: outcome.map(|it| it.kind.into()),
        cause: outcome.filter(|it| !it.is_answered()).map(|it| it.cause()),
        messages: thread.messages().iter().map(Message::from).collect(),
        usage: thread.usage().into(),
        events: log.events(),
        forked: log.forked().map(ForkOrigin::from),
    })
}
