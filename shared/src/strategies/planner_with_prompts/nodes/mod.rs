//! One file a node, in the order a thread meets them. The planner's nodes are the planner's.

mod ask_user_for_prompt;
mod discover_prompts;
mod fetch_prompt;
mod fill_prompt;
mod hear_choice;
mod rate_prompts;
mod select_prompt;

pub(super) use self::{
    ask_user_for_prompt::AskUserForPrompt, discover_prompts::DiscoverPrompts, fetch_prompt::FetchPrompt,
    fill_prompt::FillPrompt, hear_choice::HearChoice, rate_prompts::RatePrompts, select_prompt::SelectPrompt,
};

/// What a person answers who wants no prompt.
const NONE: &str = "none";
