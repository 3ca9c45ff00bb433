//! Questions to people, as the log records them.

use serde::{Deserialize, Serialize};

use crate::elicitation::Elicitation;

/// Question to a person, as it is recorded. It ends the turn; the answer starts the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Kind of the question.
    pub kind: InterruptKind,
    /// Text of the question.
    pub question: String,
    /// Accepted answers. Empty if any text is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// True if any text is accepted in addition to the options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_ended: bool,
    /// Elicitation that the question is about. Only with the kind `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Box<Elicitation>>,
    /// Node that receives the answer.
    pub resume: String,
}

/// Kind of a question to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// Meaning of an ambiguous request.
    Clarification,
    /// Value of a missing field.
    SlotFill,
    /// Choice among options.
    Choice,
    /// Permission to act.
    Approval,
    /// Choice among readings of a request.
    Ambiguity,
    /// Outcome of a call in doubt. Answered by reconciling, not by a message.
    InDoubt,
    /// Input that a tool needs before it can run. The answer goes to the tool.
    Input,
}

impl InterruptKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Clarification,
        Self::SlotFill,
        Self::Choice,
        Self::Approval,
        Self::Ambiguity,
        Self::InDoubt,
        Self::Input,
    ];

    /// Returns true if the question proposes an action, so that "yes" alone answers it.
    pub fn proposes_an_action(self) -> bool {
        matches!(self, Self::Approval | Self::InDoubt | Self::Input)
    }

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            InterruptKind::Clarification => "clarification",
            InterruptKind::SlotFill => "slot_fill",
            InterruptKind::Choice => "choice",
            InterruptKind::Approval => "approval",
            InterruptKind::Ambiguity => "ambiguity",
            InterruptKind::InDoubt => "in_doubt",
            InterruptKind::Input => "input",
        }
    }
}

#[test]
fn all_kinds_of_interrupts_are_listed() {
    let unknown = serde_json::from_str::<InterruptKind>("\"unknown\"").unwrap_err().to_string();
    let names = InterruptKind::ALL.map(|kind| format!("`{}`", kind.name()));
    assert!(unknown.contains(&format!("expected one of {} at", names.join(", "))), "{unknown}");
}
