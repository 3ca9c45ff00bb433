//! Compares two logs: aligned events, and the first divergence.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use shared::{DynThread, Event, Graph, InvalidLog, UsageTotal, ValueDifference, diff_values};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Maximum differences listed for one event or for two states.
const TOLD: usize = 50;

/// Maximum time for the search of the best alignment.
const PATIENCE: Duration = Duration::from_secs(3);

/// Two logs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadDiff {
    /// Number of events that are equal in both logs.
    pub same: usize,
    /// Events that are not equal in both, in order.
    pub rows: Vec<Row>,
    /// The first divergence. The events `forked` and `taken_over` do not count as one.
    pub split: Option<Divergence>,
}

/// An event that is not equal in both logs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum Row {
    /// A step of both logs with different content.
    Changed {
        /// Sequence number in the left log.
        left: usize,
        /// Sequence number in the right log.
        right: usize,
        /// Description of the step.
        step: String,
        /// Values that differ.
        differs: Vec<ValueDifference>,
    },
    /// A step of the left log only.
    Left {
        /// Sequence number of the event.
        left: usize,
        /// Text of the event.
        text: String,
    },
    /// A step of the right log only.
    Right {
        /// Sequence number of the event.
        right: usize,
        /// Text of the event.
        text: String,
    },
}

/// The point at which two logs diverge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// Number of events of the left log before it.
    pub left: usize,
    /// Number of events of the right log before it.
    pub right: usize,
    /// Differences between the states right after it.
    pub state: Vec<ValueDifference>,
    /// Usage up to that point.
    pub before: Sides,
    /// Total usage of both.
    pub all: Sides,
}

/// Usage of both threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sides {
    /// Usage of the left thread.
    pub left: UsageTotal,
    /// Usage of the right thread.
    pub right: UsageTotal,
}

/// A log and its strategy.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Strategy that wrote the log.
    pub graph: &'static dyn Graph,
    /// Events of the log.
    pub log: &'a [Event],
}

/// Compares two logs: aligns events by step, then compares the events of equal steps.
///
/// ## Why the common beginning is compared event by event
///
/// Up to the first differing decision both logs have the same steps. An alignment of the whole logs could match that decision
/// with a later one of the same node, and would then show the divergence as a missing step.
///
/// ## Why there may be more rows than necessary
///
/// The best alignment takes time in proportion to the lengths of the logs and to their differences: minutes for long threads
/// with little in common. Steps that were not matched within three seconds are listed as steps of one log only. Every event is
/// still listed once, and the first divergence does not depend on it.
///
/// # Errors
///
/// [`InvalidLog`] if no thread of its strategy could have written one of them.
pub fn diff(left: Side<'_>, right: Side<'_>) -> Result<ThreadDiff, InvalidLog> {
    let mut laid = Laid { left, right, steps: steps(left.log), same: 0, rows: Vec::new(), split: None };
    let steps_right = steps(right.log);
    let (mut l, mut r, mut parted) = (0, 0, false);
    while !parted && l < left.log.len() && r < right.log.len() {
        match (&left.log[l], &right.log[r]) {
            (Event::Forked(_), Event::Forked(_)) => (),
            (left, _) if is_no_step(left) => {
                laid.left_alone(l, r);
                l += 1;
                continue;
            }
            (_, right) if is_no_step(right) => {
                laid.right_alone(l, r);
                r += 1;
                continue;
            }
            _ if laid.steps[l] != steps_right[r] => break,
            _ => (),
        }
        parted = !laid.both(l, r)? && matches!(left.log[l], Event::Decided(_));
        (l, r) = (l + 1, r + 1);
    }
    let (from_l, from_r) = (l, r);
    for op in aligned(&laid.steps[l..], &steps_right[r..], PATIENCE) {
        let (olds, news) = (op.old_range(), op.new_range());
        if let DiffOp::Equal { .. } = op {
            for (l, r) in olds.zip(news) {
                laid.both(from_l + l, from_r + r)?;
            }
        } else {
            olds.clone().for_each(|l| laid.left_alone(from_l + l, from_r + news.start));
            news.clone().for_each(|r| laid.right_alone(from_l + olds.end, from_r + r));
        }
    }
    let split = laid.split.map(|at| split(left, right, at)).transpose()?;
    Ok(ThreadDiff { same: laid.same, rows: laid.rows, split })
}

/// Matches equal steps: as many as possible, or as many as were found before the timeout.
fn aligned(left: &[String], right: &[String], patience: Duration) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, left, right, Instant::now().checked_add(patience))
}

/// Rows of the comparison so far.
struct Laid<'a> {
    left: Side<'a>,
    right: Side<'a>,
    /// Step of each event of the left log.
    steps: Vec<String>,
    same: usize,
    rows: Vec<Row>,
    split: Option<(usize, usize)>,
}

impl Laid<'_> {
    /// Compares two events of the same step. Returns true if they are equal.
    fn both(&mut self, left: usize, right: usize) -> Result<bool, InvalidLog> {
        let (a, b) = (&self.left.log[left], &self.right.log[right]);
        let (a, b) = match (a, b) {
            (Event::Asked(a), Event::Asked(b)) => {
                (telling(&a.as_detailed_as(b).into())?, telling(&b.as_detailed_as(a).into())?)
            }
            (a, b) => (telling(a)?, telling(b)?),
        };
        let differs = diff_values("event", &a, &b, TOLD);
        if differs.is_empty() {
            self.same += 1;
            return Ok(true);
        }
        self.split.get_or_insert((left, right));
        self.rows.push(Row::Changed { left, right, step: self.steps[left].clone(), differs });
        Ok(false)
    }

    /// Adds an event that only the left log has, before event `r` of the right log.
    fn left_alone(&mut self, left: usize, r: usize) {
        let event = &self.left.log[left];
        if !is_no_step(event) {
            self.split.get_or_insert((left, r));
        }
        self.rows.push(Row::Left { left, text: event.to_string() });
    }

    /// Adds an event that only the right log has, before event `l` of the left log.
    fn right_alone(&mut self, l: usize, right: usize) {
        let event = &self.right.log[right];
        if !is_no_step(event) {
            self.split.get_or_insert((l, right));
        }
        self.rows.push(Row::Right { right, text: event.to_string() });
    }
}

/// Returns true for events that are no step of a strategy, so that one log alone may have them.
fn is_no_step(event: &Event) -> bool {
    matches!(event, Event::Forked(_) | Event::TakenOver(_) | Event::Rated(_))
}

/// Step of each event: its kind, its node and its slot.
fn steps(log: &[Event]) -> Vec<String> {
    let mut node = String::new();
    log.iter()
        .map(|event| {
            match event {
                Event::Asked(asked) => node.clone_from(&asked.node),
                Event::Decided(decided) => node.clone_from(&decided.node),
                Event::Failed(failed) => node.clone_from(&failed.node),
                Event::Opened(_) | Event::TurnStarted(_) | Event::Forked(_) => node.clear(),
                Event::Attempted(_)
                | Event::Answered(_)
                | Event::AttemptFailed(_)
                | Event::Abandoned(_)
                | Event::InDoubt(_)
                | Event::Reconciled(_)
                | Event::TaskStarted(_)
                | Event::InputRequired(_)
                | Event::InputProvided(_)
                | Event::Summarised(_)
                | Event::Retried(_)
                | Event::WriteEnded(_)
                | Event::TakenOver(_)
                | Event::Rated(_)
                | Event::Cancelled(_) => (),
            }
            let slot = event.slot().map(|slot| format!("[{slot}]"));
            let of =
                [Some(event.kind().to_owned()), slot, Some(node.clone()).filter(|node| !node.is_empty())];
            of.into_iter().flatten().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// The compared content of an event. Actors, times, turn ids, builds and usage may differ.
fn telling(event: &Event) -> Result<Value, InvalidLog> {
    let mut value = serde_json::to_value(event)?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| {
            !["turn", "actor", "caller", "time", "worker", "build", "usage"].contains(&name.as_str())
        });
        // The length of the pause is random. Its presence says that the request may be repeated.
        if let Some(pause) = fields.get_mut("retry_after_ms") {
            *pause = Value::Bool(true);
        }
    }
    Ok(value)
}

/// Describes the divergence after this number of events of each log.
fn split(left: Side<'_>, right: Side<'_>, (l, r): (usize, usize)) -> Result<Divergence, InvalidLog> {
    let fold = |side: Side<'_>, until: usize| side.graph.fold(&side.log[..until.min(side.log.len())]);
    let (before_left, before_right) = (fold(left, l)?, fold(right, r)?);
    let (after_left, after_right) = (fold(left, l + 1)?, fold(right, r + 1)?);
    let (end_left, end_right) = (fold(left, left.log.len())?, fold(right, right.log.len())?);
    let took =
        |left: &dyn DynThread, right: &dyn DynThread| Sides { left: *left.usage(), right: *right.usage() };
    Ok(Divergence {
        left: l,
        right: r,
        state: diff_values("state", &after_left.state()?, &after_right.state()?, TOLD),
        before: took(&*before_left, &*before_right),
        all: took(&*end_left, &*end_right),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best alignment of two long threads without common steps would take about 10^9 comparisons.
    #[test]
    fn unlike_logs_are_aligned_in_bounded_time() {
        let steps = |name: &str| (0..20_000).map(|n| format!("{name} {n}")).collect::<Vec<_>>();
        let (mut left, mut right) = (steps("left"), steps("right"));
        for n in (0..20_000).step_by(40) {
            left[n] = format!("both {n}");
            right[19_999 - n] = format!("both {n}");
        }
        let began = Instant::now();
        let ops = aligned(&left, &right, Duration::from_millis(100));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let (mut l, mut r) = (0, 0);
        for op in ops {
            let (olds, news) = (op.old_range(), op.new_range());
            assert_eq!((olds.start, news.start), (l, r), "no step is left out or listed twice");
            (l, r) = (olds.end, news.end);
            if let DiffOp::Equal { .. } = op {
                assert_eq!(left[olds], right[news]);
            }
        }
        assert_eq!((l, r), (left.len(), right.len()));
    }
}
