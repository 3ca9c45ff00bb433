//! The strategies that come with turnfold. A new one takes one folder and one line here.

pub mod action_plan;
mod answer_mark;
pub mod chat;
mod choice;
mod control_tool;
mod endings;
pub mod index_builder;
mod loop_guard;
pub mod planner;
pub mod planner_with_prompts;
pub mod probe;
mod prompt;
pub mod research;
pub mod retriever;

use shared::Graph;

/// Returns all strategies.
pub fn all() -> Vec<&'static dyn Graph> {
    vec![
        &action_plan::ActionPlan,
        &chat::Chat,
        &planner::Planner,
        &planner_with_prompts::PlannerWithPrompts,
        &research::Research,
        &retriever::Retriever,
        &index_builder::IndexBuilder,
        &probe::Probe,
    ]
}

/// Returns the strategy named `name`.
pub fn find(name: &str) -> Option<&'static dyn Graph> {
    all().into_iter().find(|strategy| strategy.name() == name)
}
