//! Today's code with one route broken on purpose: whoever looks for where logs part from the code must name the node.

use serde_json::Value;
use shared::{
    Corrupt, Event, Fault, Goto, Graph, Message, Meter, Next, Policy, Replay, Response, Standing, Tally,
    Tool, Topology, Unheard,
};
use uuid::Uuid;

/// A strategy, and the node at which it is broken: whatever is decided there, the turn ends.
pub struct Broken(pub &'static dyn Graph, pub &'static str);

struct Thread(Box<dyn Replay>, &'static str);

impl Graph for Broken {
    fn begin(&self) -> Box<dyn Replay> {
        Box::new(Thread(self.0.begin(), self.1))
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn version(&self) -> u32 {
        self.0.version()
    }
    fn about(&self) -> &'static str {
        self.0.about()
    }
    fn defaults(&self) -> Value {
        self.0.defaults()
    }
    fn config_schema(&self) -> Value {
        self.0.config_schema()
    }
    fn check_config(&self, config: &Value) -> Result<(), String> {
        self.0.check_config(config)
    }
    fn prompts(&self) -> &'static [&'static str] {
        self.0.prompts()
    }
    fn topology(&self) -> Topology {
        self.0.topology()
    }
}

impl Replay for Thread {
    fn next(&self) -> Result<Next, Corrupt> {
        Ok(match self.0.next()? {
            Next::Append(Event::Decided(mut it)) if it.node == self.1 => {
                it.to = Goto::End;
                Next::Append(it.into())
            }
            next @ (Next::Append(_) | Next::Perform(_) | Next::Rest) => next,
        })
    }
    fn apply(&mut self, event: &Event) -> Result<(), Corrupt> {
        self.0.apply(event)
    }
    fn strategy(&self) -> &'static str {
        self.0.strategy()
    }
    fn tenant(&self) -> &str {
        self.0.tenant()
    }
    fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Meter>), Fault>,
        backoff_ms: u64,
    ) -> Event {
        self.0.receive(slot, outcome, backoff_ms)
    }
    fn hear(
        &self,
        turn: Uuid,
        by: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, Unheard> {
        self.0.hear(turn, by, time, policy, messages)
    }
    fn standing(&self) -> Standing {
        self.0.standing()
    }
    fn node(&self) -> Option<String> {
        self.0.node()
    }
    fn turn(&self) -> Option<Uuid> {
        self.0.turn()
    }
    fn seq(&self) -> usize {
        self.0.seq()
    }
    fn state(&self) -> Result<Value, serde_json::Error> {
        self.0.state()
    }
    fn state_after(&self, facts: &[Value]) -> Result<Value, serde_json::Error> {
        self.0.state_after(facts)
    }
    fn config(&self) -> Result<Value, serde_json::Error> {
        self.0.config()
    }
    fn messages(&self) -> &[Message] {
        self.0.messages()
    }
    fn reply(&self) -> Option<&str> {
        self.0.reply()
    }
    fn turn_took(&self) -> &Tally {
        self.0.turn_took()
    }
    fn took(&self) -> &Tally {
        self.0.took()
    }
    fn toolbox(&self, server: &str) -> Option<&[Tool]> {
        self.0.toolbox(server)
    }
    fn at_stake(&self) -> Vec<usize> {
        self.0.at_stake()
    }
    fn tools(&self) -> Vec<Tool> {
        self.0.tools()
    }
    fn schema(&self) -> Option<Value> {
        self.0.schema()
    }
}
