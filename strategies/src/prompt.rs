//! Fills in the placeholders of a prompt.

use shared::SystemPrompt;

/// Returns the prompt `template` with every `{name}` of `blanks` filled in.
pub(super) fn fill(template: &'static str, blanks: &[(&'static str, &str)]) -> SystemPrompt {
    SystemPrompt::fill(template, blanks)
}
