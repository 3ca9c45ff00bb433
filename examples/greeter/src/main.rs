//! The strategy `greeter`: it asks for a name once, remembers it, and lets a model greet.
//!
//! `cargo run -p greeter -- dev` is `turnfold dev` with this strategy, `cargo run -p greeter -- strategy map greeter` prints its map,
//! and `cargo test -p greeter` runs its tests. The page "Your own strategy" of turnfold's book explains the code.

#[cfg(test)]
mod tests;

use turnfold::strategy::*;

fn main() -> std::process::ExitCode {
    let mut strategies = bundled();
    strategies.push(&Greeter);
    turnfold::main(strategies)
}

struct Greeter;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NodeName {
    AskName,
    ReceiveName,
    Greet,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Model that greets, as `provider/model`.
    model: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { model: "openai/gpt-4o".to_owned() }
    }
}

#[derive(Clone, Default, Serialize)]
struct State {
    name: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fact {
    Named(String),
}

impl Strategy for Greeter {
    const NAME: &'static str = "greeter";
    const VERSION: u32 = 1;
    const ABOUT: &'static str = "asks for a name once, and greets";
    type Config = Config;
    type State = State;
    type Fact = Fact;
    type NodeName = NodeName;

    const EDGES: Edges<NodeName> = &[
        (NodeName::AskName, &[Edge::Ask(NodeName::ReceiveName)]),
        (NodeName::ReceiveName, &[Edge::To(NodeName::Greet)]),
        (NodeName::Greet, &[Edge::End]),
    ];
    const ENTRANCES: &'static [NodeName] = &[NodeName::AskName, NodeName::Greet];

    fn enter(thread: &Thread<Self>) -> NodeName {
        if thread.state.name.is_some() { NodeName::Greet } else { NodeName::AskName }
    }

    fn node(name: NodeName) -> &'static dyn Step<Self> {
        match name {
            NodeName::AskName => &AskName,
            NodeName::ReceiveName => &ReceiveName,
            NodeName::Greet => &Greet,
        }
    }

    fn evolve(state: &mut State, Fact::Named(name): &Fact) {
        state.name = Some(name.clone());
    }
}

struct AskName;
impl Node<Greeter> for AskName {
    type Effect = ();
    fn ask(&self, _: &Thread<Greeter>) {}
    fn learn(&self, _: &Thread<Greeter>, (): ()) -> Transition<Greeter> {
        Transition::ask(Question::open(InterruptKind::SlotFill, "Who are you?"), NodeName::ReceiveName)
    }
}

struct ReceiveName;
impl Node<Greeter> for ReceiveName {
    type Effect = ();
    fn ask(&self, _: &Thread<Greeter>) {}
    fn learn(&self, thread: &Thread<Greeter>, (): ()) -> Transition<Greeter> {
        Transition::to(NodeName::Greet).learn(Fact::Named(thread.user_message().trim().to_owned()))
    }
}

struct Greet;
impl Node<Greeter> for Greet {
    type Effect = Chat;
    fn ask(&self, thread: &Thread<Greeter>) -> Chat {
        let name = thread.state.name.as_deref().unwrap_or("a stranger");
        Chat::new(&thread.config.model, format!("Greet {name} in one warm sentence."), thread.all())
    }
    fn learn(&self, _: &Thread<Greeter>, reply: Reply) -> Transition<Greeter> {
        Transition::end().say(Message::assistant(reply.content))
    }
}
