//! The end of waiting: when a request to a model or server that takes none is given up.

use std::time::Duration;

use queue::rate_limits::Standing;
use shared::Fault;

/// Factor of the time to give up, after which a request is given up that is refused while others are answered.
const ALONE_FACTOR: u32 = 4;

/// Time without an answer after which the wait of a blocked request is recorded in its log. Shorter waits leave no trace, like
/// those for a limit.
pub(crate) const RECORD_AFTER: Duration = Duration::from_secs(10);

/// A request that waits for its model or server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Time since its first refusal, or since its wait was recorded.
    pub(crate) waited: Option<Duration>,
    /// Time after which it is given up.
    pub(crate) give_up_after: Duration,
    /// True if its node continues without it.
    pub(crate) is_optional: bool,
}

impl Waiting {
    /// Returns the fault with which a blocked request is given up, if it has waited long enough.
    ///
    /// An optional request does not wait for a server that was found dead before.
    pub(crate) fn over(&self, standing: &Standing) -> Option<Fault> {
        let out_for = standing.out_for.filter(|duration| self.give_up_after <= *duration)?;
        let waited = self.waited.unwrap_or_default();
        (self.is_optional || self.give_up_after <= waited).then(|| given_up(out_for, &standing.reason))
    }

    /// Time until the request is given up, if nothing is answered meanwhile.
    pub(crate) fn left(&self, standing: &Standing) -> Duration {
        let until = |since: Option<Duration>| self.give_up_after.saturating_sub(since.unwrap_or_default());
        let out = until(standing.out_for);
        if self.is_optional { out } else { out.max(until(self.waited)) }
    }

    /// Returns the fault with which a request is given up that was refused with this error. It is also given up if others are answered and it never is.
    pub(crate) fn over_after_refusal(&self, standing: &Standing, error: &str) -> Option<Fault> {
        let waited = self.waited.unwrap_or_default();
        let alone = self.give_up_after.saturating_mul(ALONE_FACTOR) <= waited;
        let over = alone || self.over(standing).is_some();
        over.then(|| given_up(waited.max(standing.out_for.unwrap_or_default()), error))
    }
}

/// Returns an error without the words of the endpoint and the output of the server.
///
/// **Invariant:** all tenants read the last error of a model or server, so it holds nothing that a request of one of them may have
/// caused. The log of the refused request has the whole error.
pub(crate) fn without_details(error: &str) -> &str {
    let error = error.split("; its last output: ").next().unwrap_or_default();
    match error.find("): ") {
        Some(status_end) => &error[..=status_end],
        None => error,
    }
}

fn given_up(after: Duration, error: &str) -> Fault {
    let after = match after.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    };
    Fault::permanent(format!("given up after {after} of waiting: {error}"))
}

#[test]
fn the_words_of_an_endpoint_are_not_shared() {
    for (error, shared) in [
        (
            "provider x is rate limited (http status 429): Ada asked too much",
            "provider x is rate limited (http status 429)",
        ),
        (
            "cannot reach MCP server x: it closed; its last output: Ada",
            "cannot reach MCP server x: it closed",
        ),
        (
            "cannot reach provider x: connection refused; hint: y",
            "cannot reach provider x: connection refused; hint: y",
        ),
    ] {
        assert_eq!(without_details(error), shared);
    }
}

#[test]
fn a_request_is_given_up_when_it_and_its_model_waited_long_enough() {
    let seconds = Duration::from_secs;
    let standing = |out_for: Option<u64>| Standing {
        after: seconds(1),
        out_for: out_for.map(seconds),
        reason: "model a/b has taken no request".to_owned(),
        answers_others: false,
    };
    let waiting = |waited: Option<u64>, is_optional| Waiting {
        waited: waited.map(seconds),
        give_up_after: seconds(900),
        is_optional,
    };
    let blocked = |waited, out_for, is_optional| {
        waiting(waited, is_optional).over(&standing(out_for)).map(|fault| fault.error)
    };
    let given_up = Some("given up after 15 min of waiting: model a/b has taken no request".to_owned());
    assert_eq!(blocked(Some(900), Some(900), false), given_up);
    assert_eq!(blocked(Some(899), Some(7_000), false), None, "each request waits its time");
    assert_eq!(blocked(Some(7_000), Some(899), false), None, "the model answered others meanwhile");
    assert_eq!(blocked(Some(7_000), None, false), None, "it is only slow");
    assert_eq!(blocked(None, Some(900), true), given_up, "a dead server is remembered");
    assert_eq!(blocked(None, Some(899), true), None);
    let left = |waited, out_for, is_optional| waiting(waited, is_optional).left(&standing(out_for)).as_secs();
    assert_eq!((left(Some(100), Some(890), false), left(Some(100), Some(890), true)), (800, 10));
    let refused = |waited, out_for| {
        waiting(Some(waited), false).over_after_refusal(&standing(out_for), "no").map(|fault| fault.error)
    };
    assert_eq!(refused(3_599, None), None);
    assert_eq!(refused(3_600, None), Some("given up after 60 min of waiting: no".to_owned()));
    assert_eq!(refused(900, Some(8_000)), Some("given up after 2 h of waiting: no".to_owned()));
}
