//! Decides whether the findings are sufficient, and plans the next queries if they are not.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, Node, Thread, Transition};

use crate::{
    prompt::fill,
    research::{Ending, Fact, NodeName, Research, queries::distinct, question, state::Searched},
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/reflect.md");

pub(in crate::research) struct Reflect;

/// What the model makes of the findings.
#[derive(Deserialize, JsonSchema)]
pub(in crate::research) struct Reflection {
    /// Whether the findings answer the question.
    is_sufficient: bool,
    /// What is missing, in a sentence; empty if nothing is.
    #[serde(default)]
    knowledge_gap: String,
    /// Queries that would find it, each complete in itself; none if nothing is missing.
    #[serde(default)]
    follow_up_queries: Vec<String>,
}

impl Node<Research> for Reflect {
    type Effect = Extract<Reflection>;

    fn ask(&self, thread: &Thread<Research>) -> Self::Effect {
        let told = |search: &Searched| match &search.problem {
            Some(_) => format!("- {} (failed)", search.query),
            None => format!("- {}", search.query),
        };
        let searched: Vec<String> = thread.state.searched.iter().map(told).collect();
        let blanks = [
            ("earlier", &*question::earlier(thread)),
            ("searched", &searched.join("\n")),
            ("queries", &thread.config.queries().to_string()),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.model, system, question::since(thread))
    }

    fn learn(&self, thread: &Thread<Research>, answer: Reflection) -> Transition<Research> {
        let over = |ending| {
            let reflected = Fact::Reflected { follow_ups: Vec::new() };
            Transition::to(NodeName::FinalizeAnswer).learn(reflected).learn(Fact::Ended(ending))
        };
        if answer.is_sufficient {
            return over(Ending::Done);
        }
        let partial = |cause: &str, why: String| {
            let gap = answer.knowledge_gap.trim().trim_end_matches('.');
            let missing = if gap.is_empty() { String::new() } else { format!("; what is missing: {gap}") };
            over(Ending::Partial { reason: format!("{why}{missing}") }).because(why).partial(cause)
        };
        let searched: Vec<&str> = thread.state.searched.iter().map(|search| &*search.query).collect();
        let mut follow_ups = distinct(answer.follow_up_queries, &searched);
        follow_ups.truncate(thread.config.queries());
        if follow_ups.is_empty() {
            return partial("nothing new to search", "nothing new is left to search for".to_owned());
        }
        let loops = thread.config.loops();
        if loops <= thread.state.loops + 1 {
            return partial("loops", format!("the limit of {loops} loops is reached"));
        }
        if let Some(limit) = question::spent(thread) {
            return partial("model_calls", limit);
        }
        Transition::to(NodeName::WebResearch).learn(Fact::Reflected { follow_ups })
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}
