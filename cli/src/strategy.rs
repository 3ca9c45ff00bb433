//! Everything that a strategy needs, by one import: `use turnfold::strategy::*;`.
//!
//! The derives of `serde` and `schemars` also need these two crates among the dependencies of your own crate, because the code
//! that they generate names them. `turnfold strategy new` makes a crate with all of it.

pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use shared::{
    Answer, Budget, CallTool, Chat, Citation, Describe, Description, Edge, Edges, Effect, Extract, GetPrompt,
    Graph, Hit, Index, Indexed, InterruptKind, ListPrompts, ListTools, Message, Metric, ModelParameters,
    ModelReading, Node, NodeConfig, PartialResult, Prompt, PromptArgument, Question, ReadAnswer, Reply,
    ReplyOption, Role, Safety, Search, SearchOptions, Step, Strategy, SystemPrompt, Thread, Tool, ToolCall,
    ToolOutput, Transition, TurnSoFar, WebSearch, verbatim,
};
pub use strategy_tests::tests;

/// Returns the strategies that turnfold bundles.
pub fn bundled() -> Vec<&'static dyn Graph> {
    strategies::all()
}
