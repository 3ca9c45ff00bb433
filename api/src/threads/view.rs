//! Response of a single thread.

use std::ops::Range;

use api_types::{ForkOrigin, LogStatus, Message, Thread};
use serde::Deserialize;
use shared::RunStatus;
use utoipa::IntoParams;

use crate::{
    logs::folded::{Folded, interrupt},
    server::{
        problem::{ApiError, Kind},
        state::AppState,
    },
    views,
};

/// Maximum number of messages in a response, and the default.
const MESSAGES_MAX: u64 = 1_000;

/// Query parameters of a request that shows a part of a conversation.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Shown {
    /// Maximum number of messages: the last ones. Default: 1000.
    #[param(minimum = 0, maximum = 1000)]
    pub(crate) messages: Option<u64>,
    /// Only messages before this one: `first_message` of the later part.
    #[param(example = 1000)]
    pub(crate) before: Option<u64>,
}

impl Shown {
    /// Returns the part of a conversation of `all` messages that is shown.
    pub(crate) fn of(self, all: usize) -> Result<Range<usize>, ApiError> {
        let most = self.messages.unwrap_or(MESSAGES_MAX);
        if MESSAGES_MAX < most {
            return Err(Kind::Malformed
                .because(format!("messages must be between 0 and {MESSAGES_MAX}, but is {most}")));
        }
        let index = |seq: u64| usize::try_from(seq).unwrap_or(usize::MAX);
        let end = self.before.map_or(all, index).min(all);
        Ok(end.saturating_sub(index(most))..end)
    }
}

/// Converts the row of a thread and the fold of its log to a response.
pub(crate) async fn view(app: &AppState, row: store::Thread, shown: Shown) -> Result<Thread, ApiError> {
    let folded = Folded::load(app, row.id, None).await?;
    let thread = &*folded.thread;
    let standing = thread.status();
    let error = match &standing {
        RunStatus::Failed { node, reason } => Some(format!("{node}: {reason}")),
        RunStatus::Idle | RunStatus::Busy | RunStatus::Waiting(_) => None,
    };
    let completed = standing == RunStatus::Idle && thread.turn().is_some() && !folded.ends_cancelled();
    let outcome = completed.then(|| thread.outcome());
    let shown = shown.of(thread.messages().len())?;
    Ok(Thread {
        summary: views::thread_summary(row),
        log_status: LogStatus::from(&standing),
        interrupt: interrupt(thread, &folded.in_doubt),
        error,
        node: thread.node(),
        turn_id: thread.turn(),
        outcome: outcome.map(|outcome| outcome.kind),
        cause: outcome.filter(|outcome| !outcome.is_answered()).map(|outcome| outcome.cause()),
        first_message: shown.start as u64,
        messages: thread.messages()[shown].iter().map(Message::from).collect(),
        usage: thread.usage().into(),
        events: folded.seq() + 1,
        forked: folded.forked.as_ref().map(ForkOrigin::from),
    })
}

#[test]
fn a_part_of_a_conversation_is_within_it() {
    let part = |messages, before, all| Shown { messages, before }.of(all).map_err(|error| error.message());
    assert_eq!(part(None, None, 3), Ok(0..3));
    assert_eq!(part(None, None, 2_500), Ok(1_500..2_500));
    assert_eq!(part(Some(10), Some(1_500), 2_500), Ok(1_490..1_500));
    assert_eq!(part(Some(10), Some(4), 2_500), Ok(0..4));
    assert_eq!(part(Some(0), None, 7), Ok(7..7));
    assert_eq!(part(Some(5), Some(u64::MAX), 7), Ok(2..7));
    assert!(part(Some(1_001), None, 7).is_err());
}
