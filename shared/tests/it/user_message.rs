//! Messages that count as the person's own in a turn.

use std::collections::BTreeMap;

use shared::{Budget, Message, Role, Thread, TurnSoFar, UsageTotal};
use strategies::probe::Probe;

#[test]
fn only_messages_of_the_turn_count() {
    let mut thread: Thread<Probe> = Thread {
        config: Default::default(),
        servers: BTreeMap::new(),
        messages: vec![Message::user("yes"), Message::assistant("Shall I?")],
        server_tools: BTreeMap::new(),
        turn: TurnSoFar { from: 2, ..TurnSoFar::default() },
        budget: Budget::default(),
        usage: UsageTotal::default(),
        state: Default::default(),
    };
    assert_eq!((thread.user_message(), thread.last_user_message()), ("", "yes"), "nobody has answered yet");
    thread.messages.push(Message { role: Role::System, ..Message::user("yes") });
    thread.messages.push(Message::assistant("yes"));
    assert_eq!(thread.user_message(), "", "nobody has answered yet");
    thread.messages.extend([Message::user("no"), Message::assistant("As you like.")]);
    assert_eq!((thread.user_message(), thread.last_user_message()), ("no", "no"));
}
