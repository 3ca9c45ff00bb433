//! Every strategy that comes with turnfold. One more is one folder and one line.

pub mod planner;
pub mod probe;
mod prompt;

use crate::Graph;

/// All of them.
pub fn all() -> Vec<&'static dyn Graph> {
    vec![&planner::Planner, &probe::Probe]
}

/// The one called `name`.
pub fn find(name: &str) -> Option<&'static dyn Graph> {
    all().into_iter().find(|it| it.name() == name)
}
