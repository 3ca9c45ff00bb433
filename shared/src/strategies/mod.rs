//! Every strategy that comes with turnfold. One more is one folder and one line.

pub mod action_plan;
mod control;
pub mod index_builder;
pub mod planner;
pub mod planner_with_prompts;
pub mod probe;
mod prompt;
mod repeat;
pub mod research;
pub mod retriever;

use crate::Graph;

/// All of them.
pub fn all() -> Vec<&'static dyn Graph> {
    vec![
        &action_plan::ActionPlan,
        &planner::Planner,
        &planner_with_prompts::PlannerWithPrompts,
        &research::Research,
        &retriever::Retriever,
        &index_builder::IndexBuilder,
        &probe::Probe,
    ]
}

/// The one called `name`.
pub fn find(name: &str) -> Option<&'static dyn Graph> {
    all().into_iter().find(|it| it.name() == name)
}
