//! Two logs side by side: where they part, and in what.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use shared::{Corrupt, Differing, Event, Graph, Replay, Tally, differences};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How many things that differ are told of one event, or of two states.
const TOLD: usize = 50;

/// How long it is tried to match as many steps as there can be.
const PATIENCE: Duration = Duration::from_secs(3);

/// Two logs side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diffed {
    /// How many events stand in both, and are the same.
    pub same: usize,
    /// The others, in order.
    pub rows: Vec<Row>,
    /// Where the two part, if they do; to have been forked is no difference yet.
    pub split: Option<Split>,
}

/// Events that are not the same in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "row", rename_all = "snake_case")]
pub enum Row {
    /// The same step, taken otherwise.
    Changed {
        /// Its number in the left log.
        left: usize,
        /// Its number in the right log.
        right: usize,
        /// What step it is.
        step: String,
        /// In what it differs.
        differs: Vec<Differing>,
    },
    /// A step that only the left log has.
    Left {
        /// Its number.
        left: usize,
        /// The event.
        text: String,
    },
    /// A step that only the right log has.
    Right {
        /// Its number.
        right: usize,
        /// The event.
        text: String,
    },
}

/// Where two logs part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// How many events of the left log come before.
    pub left: usize,
    /// How many events of the right log come before.
    pub right: usize,
    /// In what the states differ right after it.
    pub state: Vec<Differing>,
    /// What had been taken until then.
    pub before: Sides,
    /// What is taken in all.
    pub all: Sides,
}

/// What each took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sides {
    /// The left one.
    pub left: Tally,
    /// The right one.
    pub right: Tally,
}

/// A log, and the strategy that wrote it.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The strategy.
    pub graph: &'static dyn Graph,
    /// The log.
    pub log: &'a [Event],
}

/// Lays two logs side by side: events are aligned by what step they are, and then held against each other.
///
/// ## Why they are walked hand in hand at first
///
/// What both did until one decided otherwise is the same story, step by step. An alignment of the whole would as soon match
/// that decision with a later one of the same node, and show the parting as something that was left out.
///
/// ## Why the rest may be told with more rows than it takes
///
/// To match as many steps as there can be takes time in proportion to how long the logs are and to how much they differ: of
/// long threads with little in common, minutes. After three seconds, what was not compared by then is told as steps of one side only:
/// every event is told once all the same, and where the logs part is not looked for here.
///
/// # Errors
///
/// [`Corrupt`] if no thread of its strategy could have written one of them.
pub fn diff(left: Side<'_>, right: Side<'_>) -> Result<Diffed, Corrupt> {
    let mut laid = Laid { left, right, steps: steps(left.log), same: 0, rows: Vec::new(), split: None };
    let steps_right = steps(right.log);
    let (mut l, mut r, mut parted) = (0, 0, false);
    while !parted && l < left.log.len() && r < right.log.len() {
        match (&left.log[l], &right.log[r]) {
            (Event::Forked(_), Event::Forked(_)) => (),
            (Event::Forked(_), _) => {
                laid.left_alone(l, r);
                l += 1;
                continue;
            }
            (_, Event::Forked(_)) => {
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
    let split = laid.split.map(|it| split(left, right, it)).transpose()?;
    Ok(Diffed { same: laid.same, rows: laid.rows, split })
}

/// Which of these steps stand in both: as many as there can be, or as were found by then.
fn aligned(left: &[String], right: &[String], patience: Duration) -> Vec<DiffOp> {
    capture_diff_slices_deadline(Algorithm::Myers, left, right, Instant::now().checked_add(patience))
}

/// What was laid side by side so far.
struct Laid<'a> {
    left: Side<'a>,
    right: Side<'a>,
    /// What step each event of the left log is.
    steps: Vec<String>,
    same: usize,
    rows: Vec<Row>,
    split: Option<(usize, usize)>,
}

impl Laid<'_> {
    /// Holds two events of the same step against each other; whether they are the same.
    fn both(&mut self, left: usize, right: usize) -> Result<bool, Corrupt> {
        let (a, b) = (telling(&self.left.log[left])?, telling(&self.right.log[right])?);
        let differs = differences("event", &a, &b, TOLD);
        if differs.is_empty() {
            self.same += 1;
            return Ok(true);
        }
        self.split.get_or_insert((left, right));
        self.rows.push(Row::Changed { left, right, step: self.steps[left].clone(), differs });
        Ok(false)
    }

    /// Before event `r` of the other, only the left one has this.
    fn left_alone(&mut self, left: usize, r: usize) {
        let event = &self.left.log[left];
        if !matches!(event, Event::Forked(_)) {
            self.split.get_or_insert((left, r));
        }
        self.rows.push(Row::Left { left, text: event.to_string() });
    }

    /// Before event `l` of the other, only the right one has this.
    fn right_alone(&mut self, l: usize, right: usize) {
        let event = &self.right.log[right];
        if !matches!(event, Event::Forked(_)) {
            self.split.get_or_insert((l, right));
        }
        self.rows.push(Row::Right { right, text: event.to_string() });
    }
}

/// What step each event is: its kind, the node that it belongs to, and the slot.
fn steps(log: &[Event]) -> Vec<String> {
    let mut node = String::new();
    log.iter()
        .map(|event| {
            match event {
                Event::Asked(it) => node.clone_from(&it.node),
                Event::Decided(it) => node.clone_from(&it.node),
                Event::Failed(it) => node.clone_from(&it.node),
                Event::Opened(_) | Event::Heard(_) | Event::Forked(_) => node.clear(),
                Event::Attempted(_)
                | Event::Answered(_)
                | Event::Faltered(_)
                | Event::GaveUp(_)
                | Event::Doubted(_)
                | Event::Reconciled(_)
                | Event::Wanted(_)
                | Event::Supplied(_)
                | Event::Retried(_)
                | Event::Cancelled(_) => (),
            }
            let slot = event.slot().map(|it| format!("[{it}]"));
            let of = [Some(event.kind().to_owned()), slot, Some(node.clone()).filter(|it| !it.is_empty())];
            of.into_iter().flatten().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// What an event tells of what happened. Who did it and when, the names of turns, and what it took may differ.
fn telling(event: &Event) -> Result<Value, Corrupt> {
    let mut value = serde_json::to_value(event)?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !["turn", "by", "time", "worker", "meter"].contains(&name.as_str()));
        // How long the pause is was drawn at random; that there is one says that it may be asked again.
        if let Some(pause) = fields.get_mut("again_after_ms") {
            *pause = Value::Bool(true);
        }
    }
    Ok(value)
}

/// Where they part: after so many events of each.
fn split(left: Side<'_>, right: Side<'_>, (l, r): (usize, usize)) -> Result<Split, Corrupt> {
    let fold = |side: Side<'_>, until: usize| side.graph.replay(&side.log[..until.min(side.log.len())]);
    let (before_left, before_right) = (fold(left, l)?, fold(right, r)?);
    let (after_left, after_right) = (fold(left, l + 1)?, fold(right, r + 1)?);
    let (end_left, end_right) = (fold(left, left.log.len())?, fold(right, right.log.len())?);
    let took = |left: &dyn Replay, right: &dyn Replay| Sides { left: *left.took(), right: *right.took() };
    Ok(Split {
        left: l,
        right: r,
        state: differences("state", &after_left.state()?, &after_right.state()?, TOLD),
        before: took(&*before_left, &*before_right),
        all: took(&*end_left, &*end_right),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fewest rows of two long threads that have nothing in common take some 10^9 compares.
    #[test]
    fn what_is_unlike_is_aligned_in_bounded_time() {
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
            assert_eq!((olds.start, news.start), (l, r), "nothing is left out or told twice");
            (l, r) = (olds.end, news.end);
            if let DiffOp::Equal { .. } = op {
                assert_eq!(left[olds], right[news]);
            }
        }
        assert_eq!((l, r), (left.len(), right.len()));
    }
}
