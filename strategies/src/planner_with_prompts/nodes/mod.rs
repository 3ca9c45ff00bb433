//! One file per node, in the order in which a thread visits them. The planner's own nodes are in its module.

mod ask_user_for_prompt;
mod discover_prompts;
mod fetch_prompt;
mod fill_prompt;
mod rate_prompts;
mod receive_argument;
mod receive_choice;
mod select_prompt;

pub(super) use self::{
    ask_user_for_prompt::AskUserForPrompt, discover_prompts::DiscoverPrompts, fetch_prompt::FetchPrompt,
    fill_prompt::FillPrompt, rate_prompts::RatePrompts, receive_argument::ReceiveArgument,
    receive_choice::ReceiveChoice, select_prompt::SelectPrompt,
};

/// Answer of a person who wants no prompt.
const NONE: &str = "none";
