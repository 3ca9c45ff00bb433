//! Why a thread stands where it stands, and how two threads differ.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::Took;

/// Why a thread stands where it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WhyView {
    /// The last event that was looked at.
    pub(crate) seq: usize,
    /// The last decision of the turn up to there, if there is one.
    pub(crate) decision: Option<DecisionView>,
    /// Where that leaves the thread, in words.
    #[schema(examples("idle: a person speaks next"))]
    pub(crate) stands: String,
}

/// A decision and what it stood on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DecisionView {
    /// The number of its event.
    pub(crate) seq: usize,
    /// The node that decided.
    pub(crate) node: String,
    /// Where control went: a node, `end`, or `a person`.
    pub(crate) to: String,
    /// The reason that the node gave, where a threshold or a limit decided.
    pub(crate) because: Option<String>,
    /// What the node had asked of the world.
    pub(crate) asked: Vec<LineView>,
    /// What had come back.
    pub(crate) heard: Vec<LineView>,
    /// What it concluded.
    #[schema(value_type = Vec<Object>)]
    pub(crate) learned: Vec<Value>,
    /// Where else control may go from the node.
    pub(crate) instead: Vec<String>,
}

/// An event, as it reads.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LineView {
    /// Its number.
    pub(crate) seq: usize,
    /// The event.
    pub(crate) text: String,
}

impl From<audit::Why> for WhyView {
    fn from(it: audit::Why) -> Self {
        let audit::Why { seq, decision, stands } = it;
        Self { seq, decision: decision.map(DecisionView::from), stands }
    }
}

impl From<audit::Decision> for DecisionView {
    fn from(it: audit::Decision) -> Self {
        let audit::Decision { seq, node, to, because, asked, heard, learned, instead } = it;
        let lines = |all: Vec<audit::Line>| {
            all.into_iter().map(|audit::Line { seq, text }| LineView { seq, text }).collect()
        };
        Self { seq, node, to, because, asked: lines(asked), heard: lines(heard), learned, instead }
    }
}

/// Two threads side by side.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiffView {
    /// How many events stand in both, and are the same.
    pub(crate) same: usize,
    /// The others, in order.
    pub(crate) rows: Vec<DiffRow>,
    /// Where the two part, if they do; to have been forked is no difference yet.
    pub(crate) split: Option<SplitView>,
}

/// An event that is not the same in both.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiffRow {
    /// Its number in the left log, if it stands there.
    pub(crate) left: Option<usize>,
    /// Its number in the right log, if it stands there.
    pub(crate) right: Option<usize>,
    /// The event, if only one has it; else what step it is.
    pub(crate) text: String,
    /// In what it differs, if both have it.
    pub(crate) differs: Vec<DifferingView>,
}

/// One thing in which two values differ.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DifferingView {
    /// The path to it.
    #[schema(examples("state.plan.tasks.1.expert"))]
    pub(crate) path: String,
    /// What stands there on the left.
    pub(crate) left: String,
    /// What stands there on the right.
    pub(crate) right: String,
}

/// Where two threads part.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SplitView {
    /// How many events of the left log come before.
    pub(crate) left: usize,
    /// How many events of the right log come before.
    pub(crate) right: usize,
    /// In what the states differ right after it.
    pub(crate) state: Vec<DifferingView>,
    /// What had been taken until then.
    pub(crate) before: SidesView,
    /// What is taken in all.
    pub(crate) all: SidesView,
}

/// What each of two threads took.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SidesView {
    /// The left one.
    pub(crate) left: Took,
    /// The right one.
    pub(crate) right: Took,
}

impl From<audit::Diffed> for DiffView {
    fn from(it: audit::Diffed) -> Self {
        let audit::Diffed { same, rows, split } = it;
        Self { same, rows: rows.into_iter().map(DiffRow::from).collect(), split: split.map(SplitView::from) }
    }
}

impl From<audit::Row> for DiffRow {
    fn from(it: audit::Row) -> Self {
        match it {
            audit::Row::Changed { left, right, step, differs } => {
                Self { left: Some(left), right: Some(right), text: step, differs: differing(differs) }
            }
            audit::Row::Left { left, text } => {
                Self { left: Some(left), right: None, text, differs: Vec::new() }
            }
            audit::Row::Right { right, text } => {
                Self { left: None, right: Some(right), text, differs: Vec::new() }
            }
        }
    }
}

fn differing(all: Vec<shared::Differing>) -> Vec<DifferingView> {
    let view = |it: shared::Differing| DifferingView { path: it.path, left: it.left, right: it.right };
    all.into_iter().map(view).collect()
}

impl From<audit::Split> for SplitView {
    fn from(it: audit::Split) -> Self {
        let audit::Split { left, right, state, before, all } = it;
        let sides = |it: audit::Sides| SidesView { left: (&it.left).into(), right: (&it.right).into() };
        Self { left, right, state: differing(state), before: sides(before), all: sides(all) }
    }
}
